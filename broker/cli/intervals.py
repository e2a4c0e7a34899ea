"""The exact binomial interval of Clopper and Pearson, without scipy."""

from __future__ import annotations

import math
from collections.abc import Callable

_STEPS = 60  # bisections; the answer is then exact to the last digits of a float


def clopper_pearson(events: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Bounds of a probability after ``events`` in ``trials``; (0, 1) when nothing was tried."""
    if trials == 0:
        return 0.0, 1.0
    tail = (1 - confidence) / 2
    low = 0.0 if events == 0 else _solve(lambda p: at_most(events - 1, trials, p) > 1 - tail)
    high = 1.0 if events == trials else _solve(lambda p: at_most(events, trials, p) > tail)
    return low, high


def at_most(events: int, trials: int, probability: float) -> float:
    """P(X <= events) of a binomial variable; summed from the side with fewer terms."""
    if not 0 < probability < 1:
        return 1.0 if probability <= 0 or events >= trials else 0.0
    if events > trials // 2:
        return 1 - at_most(trials - events - 1, trials, 1 - probability) if events < trials else 1.0
    log_p, log_q = math.log(probability), math.log1p(-probability)
    log_n = math.lgamma(trials + 1)
    return math.fsum(
        math.exp(log_n - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * log_p + (trials - k) * log_q)
        for k in range(events + 1)
    )


def _solve(above: Callable[[float], bool]) -> float:
    """The probability at which a falling condition turns false."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) else (low, middle)
    return (low + high) / 2
