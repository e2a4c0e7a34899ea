"""How long an instance lives, from samples of which some still run: the Kaplan-Meier estimate.

Kaplan and Meier, "Nonparametric estimation from incomplete observations" (JASA 1958). A sample that still
runs when the history ends is right-censored: counting it as evicted is far too careful, and leaving it out
deadlocks admission (PREDICTION.md "What the papers leave open").
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from cloudsim.errors import SpecError


class LifetimeDistribution:
    """Risk of eviction before a lifetime: a step function that is constant on (ends_s[i-1], ends_s[i]].

    risk(L) = 1 - S(L-): the estimated probability of an eviction strictly before L; risk(0) = 0. Beyond the
    last time that was followed up nothing is known, and the risk is taken as 1: reading the curve as flat
    there breaks promises.

    ends_s: float64, ascending, unique; the last one is ``followed_up_s``. risks: float64, never falling, in
    [0, 1]. samples, evictions: how many it is made from.
    """

    def __init__(self, ends_s: NDArray[np.float64], risks: NDArray[np.float64], samples: int, evictions: int):
        self.ends_s, self.risks = ends_s, risks
        self.samples, self.evictions = samples, evictions
        self.followed_up_s = float(ends_s[-1]) if len(ends_s) else 0.0

    @classmethod
    def from_samples(
        cls, duration_s: NDArray[np.float64], evicted: NDArray[np.bool_]
    ) -> LifetimeDistribution:
        """Kaplan-Meier estimate; who was not ``evicted`` still ran. At ties evictions come first.

        No sample at all gives a distribution that was followed up for no time. Raises SpecError when a
        duration is negative or not a number.
        """
        if len(duration_s) != len(evicted):
            raise SpecError(f"{len(duration_s)} durations but {len(evicted)} outcomes")
        duration_s = np.asarray(duration_s, dtype=np.float64)
        evicted = np.asarray(evicted, dtype=np.bool_)
        if not np.all((duration_s >= 0) & np.isfinite(duration_s)):
            raise SpecError("durations are finite seconds, at least 0")
        deaths, censored = np.sort(duration_s[evicted]), np.sort(duration_s[~evicted])
        times, first, died = np.unique(deaths, return_index=True, return_counts=True)
        # A sample censored at the very time of a death was still at risk then: side="left".
        at_risk = len(deaths) - first + len(censored) - np.searchsorted(censored, times, side="left")
        surviving = np.cumprod(1.0 - died / at_risk)
        risks = np.concatenate(([0.0], 1.0 - surviving))
        last = float(duration_s.max()) if len(duration_s) else 0.0
        ends_s = np.append(times, last) if not len(times) or times[-1] < last else times
        return cls(ends_s, risks[: len(ends_s)], len(duration_s), len(deaths))

    @classmethod
    def mixture(
        cls, lower: LifetimeDistribution | None, upper: LifetimeDistribution, weight: float
    ) -> LifetimeDistribution:
        """Risk interpolated linearly: (1 - weight) x the risk of ``lower`` + weight x that of ``upper``.

        Without ``lower`` its risk is 1 at any lifetime. The mixture is followed up as far as both are. Its
        ``samples`` and ``evictions`` are those of the one with fewer samples, which is what its sampling
        error hangs on.
        """
        if lower is None:
            ends_s = upper.ends_s
            lower_risks: NDArray[np.float64] | float = 1.0
            fewer = upper
        else:
            ends_s = np.union1d(lower.ends_s, upper.ends_s)
            ends_s = ends_s[ends_s <= min(lower.followed_up_s, upper.followed_up_s)]
            lower_risks = lower.risk(ends_s)
            fewer = min(lower, upper, key=lambda one: one.samples)
        risks = np.minimum((1.0 - weight) * lower_risks + weight * upper.risk(ends_s), 1.0)
        return cls(ends_s, np.where(ends_s > 0, risks, 0.0), fewer.samples, fewer.evictions)

    @cached_property
    def _steps(self) -> tuple[list[float], list[float]]:
        """Plain floats: bisect on a list is several times faster than numpy for a single lifetime."""
        return self.ends_s.tolist(), self.risks.tolist()

    def has_evidence(self, lifetime_s: float) -> bool:
        """True as long as somebody was followed up for that long."""
        return lifetime_s <= self.followed_up_s

    @overload
    def risk(self, lifetime_s: float) -> float: ...
    @overload
    def risk(self, lifetime_s: NDArray[np.float64]) -> NDArray[np.float64]: ...

    def risk(self, lifetime_s: float | NDArray[np.float64]) -> float | NDArray[np.float64]:
        """Probability of eviction strictly before it; 1 beyond ``followed_up_s``; 0 at 0 and below."""
        if isinstance(lifetime_s, np.ndarray):
            step = np.searchsorted(self.ends_s, lifetime_s, side="left")
            risks = np.append(self.risks, 1.0)[step]
            return np.where(lifetime_s > 0, risks, 0.0)
        if lifetime_s <= 0:
            return 0.0
        ends_s, steps = self._steps
        index = bisect_left(ends_s, lifetime_s)
        return steps[index] if index < len(steps) else 1.0

    def survives_s(self, sla: float) -> float:
        """The longest lifetime in seconds whose risk is at most ``sla``, never beyond ``followed_up_s``.

        Exact: ``risk(survives_s(p)) <= p``, and any longer lifetime has a greater risk or no evidence. Raises
        SpecError unless 0 <= sla <= 1.
        """
        if not 0.0 <= sla <= 1.0:
            raise SpecError(f"an SLA is a probability from 0 to 1, not {sla}", field="sla")
        ends_s, steps = self._steps
        index = bisect_right(steps, sla)
        return ends_s[index - 1] if index else 0.0
