"""Lines of measurements beside what was asked for."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def line(what: str, value: float, unit: str, target: float, *, at_most: bool = True) -> str:
    """One measurement, with its target and whether it is met."""
    met = value <= target if at_most else value >= target
    sign = "≤" if at_most else "≥"
    return f"{what:64} {value:10,.2f} {unit:4} (target {sign} {target:,g}) {'met' if met else 'MISSED'}"


def percentile(values: Sequence[float], percent: int) -> float:
    """Of at least two values."""
    return statistics.quantiles(values, n=100)[percent - 1]
