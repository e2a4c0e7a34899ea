"""The offers of the clouds to one job at one moment: lifetimes in wall time, prices, and on-demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from broker.jobs.events import Unit
from cloudsim.model.arrays import FloatArray

#: A quoted risk bends the curve of usual lifetimes by no more than this.
_MOST_BENT = 20.0
#: The probability that an instance of a cloud that discloses nothing lives as long as the job needs it.
_UNKNOWN = 0.5
_NEVER = 1e-9


@dataclass(frozen=True)
class SpotLifetimes:
    """The distribution of the lifetimes of a cloud's instances, in wall time.

    It is the curve that the cloud discloses, bent so that it meets the risk that is quoted now. Without a
    curve, the risk is the same at any age.

    lifetime_s: the length that was quoted, in the cloud's time. risk: the probability of eviction before
    ``lifetime_s``, None if not disclosed. speed: seconds of the cloud's time in one of wall time. curve:
    P(life >= length in the cloud's time), None if not disclosed.
    """

    lifetime_s: float
    risk: float | None
    speed: float = 1.0
    curve: Callable[[FloatArray], FloatArray] | None = None

    def survival(self, length_s: FloatArray) -> FloatArray:
        """Return P(L >= length_s) for each length; it is 1 at 0 and below."""
        length = np.maximum(length_s, 0.0) * self.speed
        risk = 1.0 - _UNKNOWN if self.risk is None else self.risk
        if self.curve is None:
            kept = max(1.0 - risk, _NEVER)
            return np.asarray(kept ** (length / self.lifetime_s))
        alive = np.where(length > 0, self.curve(length), 1.0)
        usual = float(self.curve(np.array([self.lifetime_s]))[0])
        if self.risk is None or not (0 < usual < 1) or not (0 < self.risk < 1):
            return np.asarray(alive)
        bent = np.log1p(-self.risk) / np.log(usual)
        return np.asarray(alive ** float(np.clip(bent, 1 / _MOST_BENT, _MOST_BENT)))

    def quantile_s(self, share: float) -> float:
        """Return the length with P(L <= length) = share, found by bisection."""
        low, high = 0.0, self.lifetime_s / self.speed * 1e6
        for _ in range(80):
            middle = (low + high) / 2
            if 1.0 - float(self.survival(np.array([middle]))[0]) < share:
                low = middle
            else:
                high = middle
        return high

    @property
    def mean_s(self) -> float:
        """The mean lifetime, leaving out the longest one in a thousand."""
        length_s = np.linspace(0.0, self.quantile_s(0.999), 1_000)
        return float(np.trapezoid(self.survival(length_s), length_s))


@dataclass(frozen=True)
class SpotOffer:
    """Spot capacity that a cloud offers.

    usd: the price of a core-hour, None in a federation without prices. grace_s: wall time between notice and
    eviction. table_version: the version of the table that the quote is from. boots_agents: True if instances
    are those of a real cloud, each of which starts a node agent. wanted_s: the length of a renewable lease,
    of which no more than the quoted length can be promised at first; None to ask for the quoted length.
    """

    cloud: str
    lifetimes: SpotLifetimes
    usd: float | None = None
    grace_s: float = 0.0
    table_version: str | None = None
    boots_agents: bool = False
    wanted_s: float | None = None

    @property
    def price(self) -> float:
        """The price of a core-hour, in the unit of costs."""
        return 1.0 if self.usd is None else self.usd


@dataclass(frozen=True)
class HomeOnDemand:
    """The on-demand capacity of the job's home. usd: the price of a core-hour, None without prices."""

    cloud: str
    usd: float | None = None

    @property
    def price(self) -> float:
        """The price of a core-hour, in the unit of costs."""
        return 1.0 if self.usd is None else self.usd


@dataclass(frozen=True)
class JobMarket:
    """All that a job is offered at one moment.

    refused: clouds that would not take the job now, and why. home: None if the job has no home, or its home
    is away or runs no commands.
    """

    offers: tuple[SpotOffer, ...] = ()
    home: HomeOnDemand | None = None
    unit: Unit = "usd"
    refused: tuple[tuple[str, str], ...] = ()
