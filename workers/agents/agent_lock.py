"""Being the only agent of a cloud: a lock on this machine, and a token in Redis for all machines."""

from __future__ import annotations

import fcntl
import os
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import cast

import redis
import redis.client
import structlog

from broker.storage.keys import RedisKeys

log = structlog.get_logger(__name__)


class AgentFencedError(Exception):
    """Another agent of the cloud has taken over."""


def lock_path(state_dir: Path, cloud: str) -> Path:
    """Which only one agent of the cloud locks."""
    return state_dir / "agents" / f"{cloud}.lock"


def open_lock(path: Path) -> int:
    """The file that agents of a cloud lock, open."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(lock: int) -> bool:
    """Locks it; False: another process has."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class AgentLock:
    """One process's time as the agent of one cloud."""

    def __init__(self, client: redis.Redis, keys: RedisKeys, cloud: str, ttl_s: float, lock: Path):
        """``lock``: a file that only agents of this cloud lock."""
        self._client, self._key, self._cloud = client, keys.agent(cloud), cloud
        self._ttl_ms, self._lock_file = int(1000 * ttl_s), lock
        self._token = uuid.uuid4().hex.encode()
        self._over = threading.Event()

    def begin(self, stopping: threading.Event) -> bool:
        """Waits until no other process is the agent; False: told to stop before."""
        self._lock = open_lock(self._lock_file)
        waiting = False
        while not stopping.is_set():
            if self._take():
                return True
            if not waiting:
                waiting = True
                log.warning("another process is the agent of this cloud; waiting for it", cloud=self._cloud)
            stopping.wait(self._ttl_ms / 4000)
        return False

    def _take(self) -> bool:
        if not try_lock(self._lock):
            return False
        try:
            if self._client.set(self._key, self._token, nx=True, px=self._ttl_ms):
                return True
            return cast("bytes | None", self._client.get(self._key)) == self._token
        except redis.RedisError as error:
            log.info("the token cannot be taken", cloud=self._cloud, why=str(error))
            return False

    def keep(self, fenced: Callable[[], object]) -> None:
        """Renews the token until ``end``, on a thread of its own; tells ``fenced`` when another has it."""
        while not self._over.wait(self._ttl_ms / 3000):
            try:
                self._client.transaction(self._renew, self._key)
            except AgentFencedError:
                fenced()
                return
            except redis.RedisError as error:
                log.info("the token is not renewed", cloud=self._cloud, why=str(error))

    def _renew(self, pipeline: redis.client.Pipeline) -> None:
        self._ours(pipeline)
        pipeline.set(self._key, self._token, px=self._ttl_ms)

    def _ours(self, pipeline: redis.client.Pipeline) -> None:
        found = cast("bytes | None", pipeline.get(self._key))
        if found not in {None, self._token}:
            raise AgentFencedError
        pipeline.multi()

    def end(self) -> None:
        """Lets the next agent in."""
        self._over.set()

        def give_up(pipeline: redis.client.Pipeline) -> None:
            self._ours(pipeline)
            pipeline.delete(self._key)

        try:
            self._client.transaction(give_up, self._key)
        except (AgentFencedError, redis.RedisError) as error:
            log.info("the token is left to run out", cloud=self._cloud, why=str(error))
        os.close(self._lock)
