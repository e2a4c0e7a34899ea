"""Waiting for a Redis that is away."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import redis
import structlog

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0

Result = TypeVar("Result")
log = structlog.get_logger(__name__)


def until_answered(call: Callable[[], Result]) -> Result:
    """Call Redis again and again while it is away, and return the first answer.

    ``call`` must be safe to repeat: Redis may have carried it out before the connection broke.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return call()
        except redis.RedisError as error:
            if pause_s == _FIRST_PAUSE_S:
                log.warning("redis is away", why=str(error))
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
