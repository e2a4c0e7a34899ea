"""Make a process the only agent of a cloud.

A file is locked against other processes of this machine, and a token in Redis against other machines.
"""

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
    """Return the path of the file that only one agent of the cloud can lock on a machine."""
    return state_dir / "agents" / f"{cloud}.lock"


def open_lock(path: Path) -> int:
    """Open the lock file, creating it if needed; return its descriptor."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o711)  # jobs of other users pass through it
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(lock: int) -> bool:
    """Lock the file; return False if another process has locked it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class AgentLock:
    """The right of one process to be the agent of a cloud."""

    def __init__(self, client: redis.Redis, keys: RedisKeys, cloud: str, ttl_s: float, lock_file: Path):
        """Prepare the lock; ``lock_file`` is one that only agents of this cloud lock."""
        self._client, self._key, self._cloud = client, keys.agent(cloud), cloud
        self._ttl_ms, self._lock_file = int(1000 * ttl_s), lock_file
        self._token = uuid.uuid4().hex.encode()
        self._over = threading.Event()

    def begin(self, stopping: threading.Event) -> bool:
        """Wait until no other process is the agent; return False if ``stopping`` was set before."""
        self._lock = open_lock(self._lock_file)
        has_warned = False
        while not stopping.is_set():
            if self._take():
                return True
            if not has_warned:
                has_warned = True
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
        """Renew the token until ``end`` is called; call ``fenced`` if another process has taken it.

        It runs on a thread of its own.
        """
        while not self._over.wait(self._ttl_ms / 3000):
            try:
                self._client.transaction(self._renew, self._key)
            except AgentFencedError:
                fenced()
                return
            except redis.RedisError as error:
                log.info("the token is not renewed", cloud=self._cloud, why=str(error))

    def _renew(self, pipeline: redis.client.Pipeline) -> None:
        self._check_ours(pipeline)
        pipeline.set(self._key, self._token, px=self._ttl_ms)

    def _check_ours(self, pipeline: redis.client.Pipeline) -> None:
        token = cast("bytes | None", pipeline.get(self._key))
        if token not in {None, self._token}:
            raise AgentFencedError
        pipeline.multi()

    def end(self) -> None:
        """Give up the lock and the token, so that the next agent can begin at once."""
        self._over.set()

        def give_up(pipeline: redis.client.Pipeline) -> None:
            self._check_ours(pipeline)
            pipeline.delete(self._key)

        try:
            self._client.transaction(give_up, self._key)
        except (AgentFencedError, redis.RedisError) as error:
            log.info("the token is left to run out", cloud=self._cloud, why=str(error))
        os.close(self._lock)
