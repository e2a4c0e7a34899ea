"""Remove the checkpoints of jobs that ended long ago, and what could not be removed before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import cast

import redis
import structlog

from broker.storage.keys import RedisKeys
from workers.node_agent.process.checkpoints import CheckpointStore

EVERY_S = 3600.0

log = structlog.get_logger(__name__)


def list_open_jobs(client: redis.Redis, keys: RedisKeys) -> frozenset[str]:
    """Return the jobs that have not ended.

    Raises
    ------
    redis.RedisError
        While Redis is away.
    """
    return frozenset(job.decode() for job in cast("list[bytes]", client.zrange(keys.open_jobs, 0, -1)))


def remove_old_states(
    client: redis.Redis,
    keys: RedisKeys,
    checkpoints: CheckpointStore,
    empty_trash: Callable[[], object],
    kept_s: float,
    stopping: threading.Event,
) -> None:
    """Remove old checkpoints now and every hour until ``stopping`` is set; failures are tried again.

    Agents of all clouds may do this in the same directories at once. ``empty_trash``: tries again to remove
    what could not be removed. ``kept_s``: seconds that a checkpoint is kept after its last change.
    """
    while not stopping.is_set():
        try:
            removed = checkpoints.drop_old(list_open_jobs(client, keys), time.time() - kept_s)
            if removed:
                log.info("removed what was kept of jobs that ended long ago", jobs=removed)
        except (redis.RedisError, OSError) as error:
            log.warning("old states of jobs are not removed", why=str(error))
        stopping.wait(EVERY_S)
        empty_trash()
