"""Levels of disclosure of how long volatile resources live (P3 §3.2; docs/design/volatile-resources.md).

The study discloses the lengths on a trace, a live cloud the lifetimes that it estimates; both use
``disclose``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import BIN_S, LONGEST_BINS, Survival


class Disclosure(StrEnum):
    """Level of disclosure, from nothing to everything."""

    NOTHING = "nothing"
    MTTR = "mttr"  # the mean
    P10 = "p10"  # the median and the 10th percentile
    P90 = "p90"  # the median and the 90th percentile
    FULL = "full"  # the distribution


#: Lengths in seconds at which a full distribution is disclosed: 5, 10, … 2,880 minutes.
LATTICE_S = np.arange(1, LONGEST_BINS + 1, dtype=np.float64) * BIN_S
LATTICE_S.flags.writeable = False

#: The share of lifetimes below the percentile that is disclosed beside the median.
SHARES = {Disclosure.P10: 0.1, Disclosure.P90: 0.9}

_FIGURES = {
    Disclosure.NOTHING: set(),
    Disclosure.MTTR: {"mean_s"},
    Disclosure.P10: {"median_s", "quantile_s"},
    Disclosure.P90: {"median_s", "quantile_s"},
    Disclosure.FULL: {"survival"},
}


@dataclass(frozen=True)
class Disclosed:
    """Figures of one level, and none of another: plain numbers, fit for JSON.

    Attributes
    ----------
    level
        The level.
    mean_s
        Mean lifetime in seconds; level ``mttr``.
    median_s
        Median in seconds; levels ``p10`` and ``p90``.
    quantile_s
        Percentile ``SHARES[level]`` in seconds; levels ``p10`` and ``p90``.
    survival
        P(L >= length) at each length of ``LATTICE_S``, never rising; level ``full``.

    Raises
    ------
    SpecError
        When a figure is missing, superfluous or out of range; names the field.
    """

    level: Disclosure
    mean_s: float | None = None
    median_s: float | None = None
    quantile_s: float | None = None
    survival: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("mean_s", "median_s", "quantile_s", "survival"):
            given, needed = getattr(self, name) is not None, name in _FIGURES[self.level]
            if given != needed:
                verb = "needs" if needed else "has no"
                raise SpecError(f"the level {self.level} {verb} {name}", field=name)
            if given and name != "survival" and not 0 <= getattr(self, name) < np.inf:
                raise SpecError(f"{getattr(self, name)} is not a number of seconds", field=name)
        if self.survival is not None:
            curve = np.asarray(self.survival)
            if curve.shape != LATTICE_S.shape:
                raise SpecError(f"a curve has {len(LATTICE_S)} points, not {curve.shape}", field="survival")
            if not (np.all((curve >= 0) & (curve <= 1)) and np.all(np.diff(curve) <= 0)):
                raise SpecError("a curve of survival falls within 0 and 1", field="survival")


def disclose(survival: Survival, level: Disclosure) -> Disclosed:
    """Return the figures of a level about a distribution of lengths."""
    match level:
        case Disclosure.NOTHING:
            return Disclosed(level)
        case Disclosure.MTTR:
            return Disclosed(level, mean_s=survival.mean_s)
        case Disclosure.P10 | Disclosure.P90:
            return Disclosed(
                level, median_s=survival.quantile_s(0.5), quantile_s=survival.quantile_s(SHARES[level])
            )
        case Disclosure.FULL:
            return Disclosed(level, survival=tuple(survival.survival(LATTICE_S).tolist()))
