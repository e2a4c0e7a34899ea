"""The queue's own process: an embedded server where SPOTFED_REDIS_URL names none, and the first API key.

The address of an embedded server is left in a file beside its data, for the processes that start after it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import redis

from broker.identity.store import api_key_digest, generate_api_key, let_in_operator
from broker.settings import Settings
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.keys import RedisKeys

WAIT_S = 60.0
_LOOK_S = 0.1


def address_file(state_dir: Path) -> Path:
    """Where the address of the embedded server is, while it runs."""
    return state_dir / "redis-url"


def key_file(state_dir: Path) -> Path:
    """Where the first API key is; clients on this machine find it there."""
    return state_dir / "api-key"


def serve(told: Settings) -> None:
    """Runs the queue until SIGTERM or SIGINT. A server that dies is started again on the same data."""
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    told.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    if told.redis_url is not None:
        _register_key(told.redis_url, told)
        over.wait()
        return
    server, address = EmbeddedRedis(told.state_dir / "redis"), address_file(told.state_dir)
    try:
        while True:
            server.start()
            if not address.exists() or address.read_text(encoding="utf-8") != server.url:
                _register_key(server.url, told)
                _write(address, server.url)
            if over.wait(_LOOK_S):
                return
    finally:
        address.unlink(missing_ok=True)
        server.stop()


def find(told: Settings, wait_s: float = WAIT_S) -> str | None:
    """The address of the queue once it answers and has the first API key; None when it does not in time."""
    limit_s = time.monotonic() + wait_s
    while time.monotonic() < limit_s:
        url = told.redis_url
        if url is None:
            address = address_file(told.state_dir)
            url = address.read_text(encoding="utf-8") if address.exists() else None
        if url is not None and _ready(url, told):
            return url
        time.sleep(_LOOK_S)
    return None


def _ready(url: str, told: Settings) -> bool:
    try:
        key = key_file(told.state_dir).read_text(encoding="utf-8").strip()
        with connect(url) as client:
            return bool(client.hexists(RedisKeys(told.key_prefix).api_keys, api_key_digest(key)))
    except (OSError, redis.RedisError):
        return False


def first_key(told: Settings) -> str:
    """The first API key, which is made and kept if it is not there."""
    path = key_file(told.state_dir)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(path, f"{generate_api_key()[1]}\n")
    return path.read_text(encoding="utf-8").strip()


def _register_key(url: str, told: Settings) -> None:
    """Lets the first API key in."""
    key = first_key(told)
    with connect(url) as client:
        let_in_operator(client, RedisKeys(told.key_prefix), key)


def _write(path: Path, text: str) -> None:
    """Whole or not at all, and for this user alone."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)
