"""Forecast how likely free slots run out, from how long on-demand instances have run.

How long they will go on is estimated from the cloud's own history (Kaplan-Meier): an instance of age a ends
within h with probability 1 - S(a + h) / S(a). Together with the requested ends of spot instances and the
expected on-demand arrivals, this forecasts the free slots of a uniform cloud, as if they were normally
distributed. The forecast is not a risk by itself. It is a condition: tables look up what happened to earlier
births with an equal forecast (docs/design/prediction.md "Better information").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cloudsim.prediction.lifetimes import LifetimeDistribution

#: Levels of a forecast, higher is safer: each factor of e in the probability of running out is two levels.
LEVELS = 30
LEVELS_A_FACTOR = 2.0

#: Ages are looked up in bins, four to a doubling, from this age on; the last bin ends after a thousand years.
FIRST_AGE_S = 10.0
BINS_A_DOUBLING = 4
AGE_BINS = 128

_STEPS = 200  # of the numerical integral over a horizon


@dataclass(frozen=True)
class OnDemandRuns:
    """Starts and ends of the on-demand instances that were placed, in order of start.

    Attributes
    ----------
    start_s
        float64[instances], seconds.
    left_s
        float64[instances], seconds; inf for instances that still run.
    """

    start_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    left_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


class Forecast:
    """Estimates from a history of on-demand instances how many will end and start within each horizon.

    Attributes
    ----------
    ending
        float64[AGE_BINS, horizons], probability that an instance of that age ends within the horizon.
    arriving
        float64[horizons], expected number of instances that start within the horizon and run at its end.

    Parameters
    ----------
    runs
        On-demand instances of the history.
    until_s
        End of the history in seconds.
    horizons_s
        Horizons in seconds, ascending.
    """

    def __init__(self, runs: OnDemandRuns, until_s: float, horizons_s: Sequence[float]):
        ended = np.isfinite(runs.left_s)
        duration_s = np.where(ended, runs.left_s, until_s) - runs.start_s
        lifetimes = LifetimeDistribution.from_samples(duration_s, ended)

        def share_running(after_s: NDArray[np.float64]) -> NDArray[np.float64]:
            """Return the probability of running longer; flat beyond the last time followed up."""
            return 1.0 - lifetimes.risk(np.minimum(after_s, lifetimes.followed_up_s))

        horizons = np.array(horizons_s, np.float64)
        middle = (np.arange(AGE_BINS) + 0.5) / BINS_A_DOUBLING
        ages_s = (FIRST_AGE_S * (2.0**middle - 1.0))[:, np.newaxis]
        self.ending = 1.0 - share_running(ages_s + horizons) / share_running(ages_s)
        steps = (np.arange(_STEPS) + 0.5) / _STEPS
        arrivals_per_s = len(runs.start_s) / until_s if until_s > 0 else 0.0
        self.arriving = (
            arrivals_per_s * horizons * share_running(steps[:, np.newaxis] * horizons).mean(axis=0)
        )

    def levels(
        self, at_s: NDArray[np.float64], room: NDArray[np.int64], runs: OnDemandRuns
    ) -> NDArray[np.int32]:
        """Rate how safe a birth is up to each horizon: int32[times, horizons], from 1 to ``LEVELS``.

        The level of a horizon comes from the mean, over it and the shorter ones, of the probability that no
        slot is left at its end.

        Parameters
        ----------
        at_s
            float64[times], times of birth in seconds, ascending.
        room
            int64[times, horizons], slots that are free once the spot instances have left whose requested end
            lies within the horizon.
        runs
            On-demand instances, in order of start.
        """
        from cloudsim.prediction.kernels import ages as kernel

        first = np.searchsorted(at_s, runs.start_s, side="left")
        last = np.searchsorted(at_s, runs.left_s, side="left")
        return kernel.levels(at_s, room, runs.start_s, first, last, self.ending, self.arriving)

    def level(self, room: Sequence[int], ages_s: Sequence[float]) -> tuple[int, ...]:
        """Return the level of each horizon at one time, given the ages of the on-demand instances that run.

        Parameters
        ----------
        room
            Free slots once spot instances have left, for each horizon; see ``levels``.
        ages_s
            Ages in seconds, in order of start.
        """
        start_s = -np.array(ages_s, np.float64)
        runs = OnDemandRuns(start_s, np.full(len(start_s), np.inf))
        levels = self.levels(np.zeros(1), np.array([room], np.int64), runs)
        return tuple(int(level) for level in levels[0])
