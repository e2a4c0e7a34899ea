"""How long a client goes on asking, and how it waits in between."""

from __future__ import annotations

import random
from collections.abc import Iterator

import httpx

DEADLINE_S = 60.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


def retry_after_s(response: httpx.Response) -> float:
    """What the server asks for, within reason; 0 where it asks for nothing."""
    try:
        return min(max(float(response.headers.get("Retry-After", "0")), 0.0), DEADLINE_S)
    except ValueError:
        return 0.0


def pauses() -> Iterator[float]:
    """Growing, with jitter: those who were turned away together do not come back together."""
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s * random.uniform(0.5, 1.0)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
