"""The exact binomial interval of Clopper and Pearson, without scipy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

_STEPS = 60  # bisections; the answer is then exact to the last digits of a float


@lru_cache(maxsize=1024)  # a report asks for the same counts per origin, per cloud and per SLA
def clopper_pearson(events: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the bounds of a probability after ``events`` in ``trials``; (0, 1) when nothing was tried."""
    assert 0 <= events <= trials, f"{events} of {trials}"
    if events > trials // 2:  # the tails are then sums of fewer terms
        low, high = clopper_pearson(trials - events, trials, confidence)
        return 1 - high, 1 - low
    if trials == 0:
        return 0.0, 1.0
    tail = (1 - confidence) / 2
    at_most = _tail(events, trials)
    low = 0.0
    if events > 0:
        fewer = _tail(events - 1, trials)
        low = _solve(lambda p: fewer(p) > 1 - tail)
    return low, _solve(lambda p: at_most(p) > tail)


def _tail(events: int, trials: int) -> Callable[[float], float]:
    """Return P(X <= events) of a binomial variable as a function of its probability in (0, 1)."""
    k = np.arange(events + 1, dtype=np.float64)
    steps = np.zeros(events + 1)  # logarithms of C(n, k) / C(n, k - 1)
    steps[1:] = np.log((trials - k[1:] + 1) / k[1:])
    log_choose = np.cumsum(steps)
    return lambda p: float(np.exp(log_choose + k * math.log(p) + (trials - k) * math.log1p(-p)).sum())


def _solve(above: Callable[[float], bool]) -> float:
    """Return the probability at which a falling condition turns false."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) else (low, middle)
    return (low + high) / 2
