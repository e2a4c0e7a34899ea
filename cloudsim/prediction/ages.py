"""Better information from ages: how likely room runs short, given how long on-demand instances have run.

How long those will go on running is estimated from the cloud's own history (Kaplan-Meier): of age a, one ends
within h with probability 1 - S(a + h) / S(a). With the requested ends of spot instances and the on-demand
requests to be expected, that forecasts the room for an instance of a uniform cloud that starts now, as if it
were normal. The forecast is no risk: it is a condition, by which what became of earlier births is looked up
(PREDICTION.md "Beyond the papers" 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cloudsim.prediction.lifetimes import LifetimeDistribution

#: Levels of a forecast: two for each factor of e by which room is less likely to run short; higher is safer.
LEVELS = 30
LEVELS_A_FACTOR = 2.0

#: Ages are looked up in bins, four to a doubling, from this one; they end after a thousand years.
FIRST_AGE_S = 10.0
BINS_A_DOUBLING = 4
AGE_BINS = 128

_STEPS = 200  # of an integral over a horizon


@dataclass(frozen=True)
class OnDemandRuns:
    """On-demand instances that were placed, in order of start.

    start_s: float64. left_s: float64, inf for those that still run.
    """

    start_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    left_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


class Forecast:
    """What a history of on-demand instances up to ``until_s`` says about the next ones.

    ending: float64[age bins, horizons], the probability that one of that age ends within the horizon.
    arriving: float64[horizons], how many of those that will have started in it are expected to run at its
    end.
    """

    def __init__(self, runs: OnDemandRuns, until_s: float, horizons_s: Sequence[float]):
        ended = np.isfinite(runs.left_s)
        duration_s = np.where(ended, runs.left_s, until_s) - runs.start_s
        lifetimes = LifetimeDistribution.from_samples(duration_s, ended)

        def running(after_s: NDArray[np.float64]) -> NDArray[np.float64]:
            """The share that runs for so long; nothing is known of later ends than were seen."""
            return 1.0 - lifetimes.risk(np.minimum(after_s, lifetimes.followed_up_s))

        horizons = np.array(horizons_s, np.float64)
        middle = (np.arange(AGE_BINS) + 0.5) / BINS_A_DOUBLING
        ages_s = (FIRST_AGE_S * (2.0**middle - 1.0))[:, np.newaxis]
        self.ending = 1.0 - running(ages_s + horizons) / running(ages_s)
        steps = (np.arange(_STEPS) + 0.5) / _STEPS
        a_second = len(runs.start_s) / until_s if until_s > 0 else 0.0
        self.arriving = a_second * horizons * running(steps[:, np.newaxis] * horizons).mean(axis=0)

    def levels(
        self, at_s: NDArray[np.float64], room: NDArray[np.int64], runs: OnDemandRuns
    ) -> NDArray[np.int32]:
        """How safe a birth is up to each horizon, int32[times, horizons], from 1 to ``LEVELS``.

        at_s: float64, ascending. room: int64[times, horizons], slots that are free once the spot instances
        have left that are to end within the horizon. Up to a horizon counts the mean, over it and those
        before it, of the probability that no slot is left at its end.
        """
        from cloudsim.prediction.kernels import ages as kernel

        first = np.searchsorted(at_s, runs.start_s, side="left")
        last = np.searchsorted(at_s, runs.left_s, side="left")
        return kernel.levels(at_s, room, runs.start_s, first, last, self.ending, self.arriving)

    def level(self, room: Sequence[int], ages_s: Sequence[float]) -> tuple[int, ...]:
        """The same for one time, at which on-demand instances of these ages run (in order of start)."""
        start_s = -np.array(ages_s, np.float64)
        runs = OnDemandRuns(start_s, np.full(len(start_s), np.inf))
        found = self.levels(np.zeros(1), np.array([room], np.int64), runs)
        return tuple(int(one) for one in found[0])
