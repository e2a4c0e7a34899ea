"""What a cloud tells of how long its volatile resources live (paper §3.2; VOLATILE.md "Information,
targeting, value").

One function for the study, which tells it of the lengths on a trace, and for a live cloud, which tells it of
the lifetimes that it estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import BIN_S, LONGEST_BINS, Survival


class Disclosure(StrEnum):
    """How much is told, from nothing to everything."""

    NOTHING = "nothing"
    MTTR = "mttr"  # the mean
    P10 = "p10"  # the median and the 10th percentile
    P90 = "p90"  # the median and the 90th percentile
    FULL = "full"  # the distribution


#: Lengths in seconds that a full distribution is told at: 5, 10, … 2,880 minutes.
LATTICE_S = np.arange(1, LONGEST_BINS + 1, dtype=np.float64) * BIN_S
LATTICE_S.flags.writeable = False

#: The percentile that is told beside the median.
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
    """The figures of one level, and none of another: plain numbers, fit for JSON.

    mean_s: of ``mttr``. median_s and quantile_s: of ``p10`` and ``p90``, the latter of ``SHARES[level]``.
    survival: of ``full``, P(L >= length) at each of ``LATTICE_S``, never rising. Raises SpecError naming the
    field when a figure is missing, too many or out of range.
    """

    level: Disclosure
    mean_s: float | None = None
    median_s: float | None = None
    quantile_s: float | None = None
    survival: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("mean_s", "median_s", "quantile_s", "survival"):
            told, wanted = getattr(self, name) is not None, name in _FIGURES[self.level]
            if told != wanted:
                verb = "tells" if wanted else "does not tell"
                raise SpecError(f"the level {self.level} {verb} {name}", field=name)
            if told and name != "survival" and not 0 <= getattr(self, name) < np.inf:
                raise SpecError(f"{getattr(self, name)} is not a number of seconds", field=name)
        if self.survival is not None:
            curve = np.asarray(self.survival)
            if curve.shape != LATTICE_S.shape:
                raise SpecError(f"a curve has {len(LATTICE_S)} points, not {curve.shape}", field="survival")
            if not (np.all((curve >= 0) & (curve <= 1)) and np.all(np.diff(curve) <= 0)):
                raise SpecError("a curve of survival falls within 0 and 1", field="survival")


def disclose(survival: Survival, level: Disclosure) -> Disclosed:
    """The figures of ``level`` about a distribution of lengths, and nothing else."""
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
