"""Waiting for a Redis that is away."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import redis
import structlog

from broker.backoff import Backoff

# No jitter: one owner asks at a time, and a simulated one must be reproducible.
_AWAY_BACKOFF = Backoff(first_s=0.05, longest_s=1.0, jitter=(1.0, 1.0))

Result = TypeVar("Result")
log = structlog.get_logger(__name__)


def until_answered(call: Callable[[], Result]) -> Result:
    """Return the result of ``call``, calling it again for as long as Redis is away.

    ``call`` must be safe to repeat: Redis may have done its work although no answer came.
    """
    is_logged = False
    for pause_s in _AWAY_BACKOFF.pauses():
        try:
            return call()
        except redis.RedisError as error:
            if not is_logged:
                refuses = isinstance(error, (redis.ResponseError, redis.AuthenticationError))
                log.warning("redis refuses" if refuses else "redis is away", why=str(error))
                is_logged = True
            time.sleep(pause_s)
    raise AssertionError("pauses never end")
