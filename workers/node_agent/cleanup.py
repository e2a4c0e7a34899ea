"""Removes what was kept of jobs that ended long ago."""

from __future__ import annotations

import threading
import time
from typing import cast

import redis
import structlog

from broker.storage.keys import RedisKeys
from workers.node_agent.process.checkpoints import CheckpointStore

EVERY_S = 3600.0

log = structlog.get_logger(__name__)


def list_open_jobs(client: redis.Redis, keys: RedisKeys) -> frozenset[str]:
    """Jobs that have not ended. Raises redis.RedisError."""
    return frozenset(one.decode() for one in cast("list[bytes]", client.zrange(keys.open_jobs, 0, -1)))


def remove_old_states(
    client: redis.Redis, keys: RedisKeys, kept: CheckpointStore, kept_s: float, stopping: threading.Event
) -> None:
    """Now and every hour, until told to stop. Agents of all clouds do the same with the same directories.

    kept_s: how long something stays after it was last changed. What cannot be done is tried again.
    """
    while not stopping.is_set():
        try:
            gone = kept.drop_old(list_open_jobs(client, keys), time.time() - kept_s)
            if gone:
                log.info("removed what was kept of jobs that ended long ago", jobs=gone)
        except (redis.RedisError, OSError) as error:
            log.warning("old states of jobs are not removed", why=str(error))
        stopping.wait(EVERY_S)
