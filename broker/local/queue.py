"""The process of the queue: an embedded Redis server where SPOTFED_REDIS_URL names none.

It leaves the address of an embedded server in a file for the processes that start after it, and registers
the first API key.
"""

from __future__ import annotations

import signal
import threading
import time

import redis

from broker.identity.store import api_key_digest, generate_api_key, let_in_operator
from broker.local.state_files import address_file, find_redis_url, key_file
from broker.settings import Settings, require_state_dir
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.keys import RedisKeys
from broker.storage.private_files import write_private_file

WAIT_S = 60.0
_LOOK_S = 0.1


def serve(settings: Settings) -> None:
    """Run the queue until SIGTERM or SIGINT. A server that dies is started again on the same data."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    require_state_dir(settings)
    if settings.redis_url is not None:
        _register_key(settings.redis_url, settings)
        stopped.wait()
        return
    server, address = EmbeddedRedis(settings.state_dir / "redis"), address_file(settings.state_dir)
    try:
        while True:
            server.start()
            if not address.exists() or address.read_text(encoding="utf-8") != server.url:
                _register_key(server.url, settings)
                write_private_file(address, server.url)
            if stopped.wait(_LOOK_S):
                return
    finally:
        address.unlink(missing_ok=True)
        server.stop()


def wait_until_ready(settings: Settings, wait_s: float = WAIT_S) -> str | None:
    """Wait until the queue answers and has the first API key.

    Returns its address, or None after ``wait_s`` seconds.
    """
    limit_s = time.monotonic() + wait_s
    while time.monotonic() < limit_s:
        url = find_redis_url(settings)
        if url is not None and _is_ready(url, settings):
            return url
        time.sleep(_LOOK_S)
    return None


def _is_ready(url: str, settings: Settings) -> bool:
    try:
        key = key_file(settings.state_dir).read_text(encoding="utf-8").strip()
        with connect(url) as client:
            return bool(client.hexists(RedisKeys(settings.key_prefix).api_keys, api_key_digest(key)))
    except (OSError, redis.RedisError):
        return False


def first_key(settings: Settings) -> str:
    """Return the first API key; make it and keep it in its file if it is not there."""
    path = key_file(settings.state_dir)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private_file(path, f"{generate_api_key()[1]}\n")
    return path.read_text(encoding="utf-8").strip()


def _register_key(url: str, settings: Settings) -> None:
    """Register the first API key as an operator's."""
    key = first_key(settings)
    with connect(url) as client:
        let_in_operator(client, RedisKeys(settings.key_prefix), key)
