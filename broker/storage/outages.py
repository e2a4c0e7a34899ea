"""Repeats work while Redis is away: on an event loop, or in a thread."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import redis
from redis.exceptions import NoPermissionError

from broker.backoff import Backoff
from broker.storage.connections import is_refusal

log = logging.getLogger(__name__)

Result = TypeVar("Result")

#: Without jitter: a process asks little at a time, and a simulated outage must be reproducible.
OUTAGE_BACKOFF = Backoff(first_s=0.05, longest_s=1.0, jitter=(1.0, 1.0))


def until_answered(call: Callable[[], Result]) -> Result:
    """Return the result of ``call``, calling it again for as long as Redis is away; the thread waits.

    ``call`` must be safe to repeat: Redis may have done its work although no answer came.
    """
    is_logged = False
    for pause_s in OUTAGE_BACKOFF.pauses():
        try:
            return call()
        except redis.RedisError as error:
            if not is_logged:
                log.warning("redis %s: %s", "refuses" if is_refusal(error) else "is away", _explain(error))
                is_logged = True
            time.sleep(pause_s)
    raise AssertionError("pauses never end")


def _explain(error: redis.RedisError) -> str:
    if isinstance(error, NoPermissionError) and "script|load" in str(error):
        return "its scripts are not loaded: the API does that, or `spotfed acl load-scripts` as the operator"
    return str(error)


async def retry_through_outages(
    call: Callable[[], Awaitable[Result]],
    name: str | None,
    *,
    recover: Callable[[], None] | None = None,
    backoff: Backoff = OUTAGE_BACKOFF,
) -> Result:
    """Return the result of ``call``, calling it again for as long as Redis is away.

    A cancellation of the task always ends the wait. redis-py sends under `asyncio.wait_for`, which in Python
    3.11 may swallow a cancellation that comes as it completes; it is raised again here.

    Parameters
    ----------
    call
        Work to do. It must be safe to repeat: Redis may have done its part although no answer came.
    name
        Name of the caller for the log, which gets one warning an outage. None logs nothing.
    recover
        Called after each failure, before the pause.
    backoff
        Pauses between calls.
    """
    task = asyncio.current_task()
    assert task is not None, "called outside a task"
    cancellations = task.cancelling()
    is_logged = False
    for pause_s in backoff.pauses():
        failure: Exception | None = None
        try:
            result = await call()
        except (redis.RedisError, OSError) as error:
            failure = error
        if task.cancelling() > cancellations:
            raise asyncio.CancelledError
        if failure is None:
            return result
        if name is not None and not is_logged:
            log.warning("%s: %s; trying again", name, failure)
            is_logged = True
        if recover is not None:
            recover()
        await asyncio.sleep(pause_s)
    raise AssertionError("pauses never end")
