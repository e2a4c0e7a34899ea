"""Estimate how long instances live from samples of which some still run (Kaplan-Meier).

Kaplan and Meier, "Nonparametric estimation from incomplete observations" (JASA 1958). A sample that still
runs when the history ends is right-censored. Counting it as evicted is far too careful, and leaving it out
deadlocks admission (docs/design/prediction.md "What the papers leave open").
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from statistics import NormalDist
from typing import overload

import numpy as np
from numpy.typing import NDArray

from cloudsim.history.take_backs import TakeBacks
from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import check_share
from cloudsim.prediction.rule import OUR_RULE, Censoring, PredictionRule

_STEPS_A_DOUBLING = 16


class LifetimeDistribution:
    """Risk of eviction before a lifetime: a step function, constant on (ends_s[i-1], ends_s[i]].

    risk(L) = 1 - S(L-) is the estimated probability of an eviction strictly before L; risk(0) = 0. Beyond the
    last time followed up the risk is 1: reading the curve as flat there breaks promises.

    Attributes
    ----------
    ends_s
        float64[steps], seconds, ascending and unique; the last one is ``followed_up_s``.
    risks
        float64[steps], never falling, in [0, 1].
    samples
        Number of samples behind the estimate.
    evictions
        Number of these that were evicted.
    estimates
        float64[steps], risks without the confidence bound; ``risks`` themselves if there is no bound.
    """

    def __init__(
        self,
        ends_s: NDArray[np.float64],
        risks: NDArray[np.float64],
        samples: int,
        evictions: int,
        estimates: NDArray[np.float64] | None = None,
    ):
        self.ends_s, self.risks = ends_s, risks
        self.samples, self.evictions = samples, evictions
        self.estimates = risks if estimates is None else estimates
        self.followed_up_s = float(ends_s[-1]) if len(ends_s) else 0.0

    @classmethod
    def from_samples(
        cls,
        duration_s: NDArray[np.float64],
        evicted: NDArray[np.bool_],
        span_s: NDArray[np.float64] | None = None,
        rule: PredictionRule = OUR_RULE,
    ) -> LifetimeDistribution:
        """Estimate the distribution from samples; at ties evictions come first.

        Without any sample the distribution is followed up for no time.

        Parameters
        ----------
        duration_s
            float64[samples], seconds.
        evicted
            bool[samples]; the others still ran.
        span_s
            float64[samples], seconds of births that an interval sample stands for (``Samples``): its
            lifetimes are spread evenly over (duration_s - span_s, duration_s], and it weighs ``span_s``. None
            or zeros: all samples are points.
        rule
            Its censoring, horizon and confidence are applied.

        Raises
        ------
        SpecError
            When a duration or a span is negative or not a number, or points and intervals are mixed.
        """
        duration_s = np.asarray(duration_s, dtype=np.float64)
        evicted = np.asarray(evicted, dtype=np.bool_)
        span_s = np.zeros(len(duration_s)) if span_s is None else np.asarray(span_s, dtype=np.float64)
        _check(duration_s, evicted, span_s)
        if rule.censoring is Censoring.DROPPED:
            duration_s, span_s, evicted = duration_s[evicted], span_s[evicted], evicted[evicted]
        elif rule.censoring is Censoring.AS_EVICTED:
            evicted = np.ones(len(evicted), np.bool_)
        if np.any(span_s):
            ends_s, risks = _estimate_intervals(duration_s, evicted, span_s)
        else:
            ends_s, risks = _estimate_points(duration_s, evicted)
        ends_s, risks = _cut(ends_s, risks, rule.horizon_s)
        estimate = cls(ends_s, risks, len(duration_s), int(np.count_nonzero(evicted)))
        return estimate.bounded(rule.confidence_z)

    @classmethod
    def mixture(
        cls, lower: LifetimeDistribution | None, upper: LifetimeDistribution, weight: float
    ) -> LifetimeDistribution:
        """Interpolate risks linearly: (1 - weight) x the risk of ``lower`` + weight x that of ``upper``.

        Without ``lower`` its risk is 1 at any lifetime. The mixture is followed up as far as both are. Its
        ``samples`` and ``evictions`` are those of the part with fewer samples, which limits its precision.
        """
        ends_s, fewer = upper.ends_s, upper
        if lower is not None:
            ends_s = np.union1d(lower.ends_s, upper.ends_s)
            ends_s = ends_s[ends_s <= min(lower.followed_up_s, upper.followed_up_s)]
            fewer = min(lower, upper, key=lambda part: part.samples)
        above = np.searchsorted(upper.ends_s, ends_s)
        below = None if lower is None else np.searchsorted(lower.ends_s, ends_s)

        def mix(of_lower: NDArray[np.float64] | None, of_upper: NDArray[np.float64]) -> NDArray[np.float64]:
            from_lower = 1.0 if of_lower is None else of_lower[below]
            values = np.minimum((1.0 - weight) * from_lower + weight * of_upper[above], 1.0)
            return np.where(ends_s > 0, values, 0.0)

        return cls(
            ends_s,
            mix(None if lower is None else lower.risks, upper.risks),
            fewer.samples,
            fewer.evictions,
            mix(None if lower is None else lower.estimates, upper.estimates),
        )

    def bounded(self, confidence_z: float) -> LifetimeDistribution:
        """Return the distribution with each risk replaced by its upper Wilson bound.

        The bound never falls either, so ``survives_s`` stays exact. With ``confidence_z`` 0 the distribution
        itself is returned.

        Parameters
        ----------
        confidence_z
            Standard errors above the estimate, for as many independent samples as there are.
        """
        if confidence_z == 0.0 or not self.samples:
            return self
        risks = np.maximum.accumulate(_wilson(self.estimates, self.samples, confidence_z)[1])
        return LifetimeDistribution(self.ends_s, risks, self.samples, self.evictions, self.estimates)

    def exposed_to(self, take_backs: TakeBacks) -> LifetimeDistribution:
        """Return the distribution of instances that the cloud may also take back by itself, independently.

        The risk of that rises with every second, so the steps become finer: _STEPS_A_DOUBLING for each
        doubling of the lifetime.
        """
        if not len(self.ends_s):
            return self
        doublings = max(np.log2(self.followed_up_s), 0.0) if self.followed_up_s > 0 else 0.0
        finer_s = self.followed_up_s / 2.0 ** np.arange(0, doublings, 1 / _STEPS_A_DOUBLING)
        ends_s = np.union1d(self.ends_s, finer_s)
        step = np.searchsorted(self.ends_s, ends_s)
        lives = 1.0 - take_backs.risk(ends_s)
        risks, estimates = (1.0 - (1.0 - own[step]) * lives for own in (self.risks, self.estimates))
        return LifetimeDistribution(ends_s, risks, self.samples, self.evictions, estimates)

    @classmethod
    def spliced(
        cls, parts: Sequence[LifetimeDistribution | None], limits_s: Sequence[float]
    ) -> LifetimeDistribution | None:
        """Join parts for consecutive ranges of lifetimes; the risk never falls from one part to the next.

        The first part holds for lifetimes up to ``limits_s[0]``, the next up to ``limits_s[1]``, and so on.
        The result is followed up to the first gap, and is None when the first part is missing. Its
        ``samples`` and ``evictions`` are those of the part with fewest samples.
        """
        ends: list[NDArray[np.float64]] = []
        risks: list[NDArray[np.float64]] = []
        used: list[LifetimeDistribution] = []
        below_s, least = 0.0, 0.0
        for part, limit_s in zip(parts, limits_s, strict=True):
            if part is None or (used and part.followed_up_s <= below_s):
                break
            used.append(part)
            whole = part.followed_up_s > limit_s
            inside = (part.ends_s > below_s) & (part.ends_s < limit_s)
            own_s = np.append(part.ends_s[inside], limit_s) if whole else part.ends_s[part.ends_s > below_s]
            own = np.maximum(part.risk(own_s), least)
            ends.append(own_s)
            risks.append(own)
            if not whole:
                break
            below_s, least = limit_s, float(own[-1])
        if not used:
            return None
        fewest = min(used, key=lambda part: part.samples)
        return cls(np.concatenate(ends), np.concatenate(risks), fewest.samples, fewest.evictions)

    @cached_property
    def _steps(self) -> tuple[list[float], list[float]]:
        """Ends and risks as plain floats.

        For one lifetime, bisect on a list is several times faster than numpy.
        """
        return self.ends_s.tolist(), self.risks.tolist()

    def has_evidence(self, lifetime_s: float) -> bool:
        """Return True if some sample was followed up for that long."""
        return lifetime_s <= self.followed_up_s

    @overload
    def risk(self, lifetime_s: float) -> float: ...
    @overload
    def risk(self, lifetime_s: NDArray[np.float64]) -> NDArray[np.float64]: ...

    def risk(self, lifetime_s: float | NDArray[np.float64]) -> float | NDArray[np.float64]:
        """Return the probability of eviction strictly before a lifetime.

        It is 0 for lifetimes up to 0, and 1 beyond ``followed_up_s``.
        """
        if isinstance(lifetime_s, np.ndarray):
            step = np.searchsorted(self.ends_s, lifetime_s, side="left")
            risks = np.append(self.risks, 1.0)[step]
            return np.where(lifetime_s > 0, risks, 0.0)
        if lifetime_s <= 0:
            return 0.0
        ends_s, steps = self._steps
        index = bisect_left(ends_s, lifetime_s)
        return steps[index] if index < len(steps) else 1.0

    def survival(self, length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(L >= length_s), the interface by which a cloud discloses its lifetimes (``Survival``).

        Samples that still ran at ``followed_up_s`` count as evicted there, also in the mean and the
        quantiles.
        """
        return 1.0 - self.risk(np.asarray(length_s, dtype=np.float64))

    def quantile_s(self, share: float) -> float:
        """Return the smallest lifetime in seconds with P(L <= lifetime) >= share.

        It is at most ``followed_up_s``, and 0 without samples.

        Raises
        ------
        SpecError
            Unless 0 < share <= 1.
        """
        check_share(share)
        if not len(self.ends_s):
            return 0.0
        # What dies at an end is a step of the risk just after it; whatever is left dies at the last.
        until = np.append(self.risks[1:], 1.0)
        return float(self.ends_s[np.searchsorted(until, share)])

    @property
    def mean_s(self) -> float:
        """Mean restricted to ``followed_up_s``: the area below the survival curve, in seconds."""
        return float(np.diff(self.ends_s, prepend=0.0) @ (1.0 - self.risks))

    def interval(self, lifetime_s: float, confidence: float = 0.95) -> tuple[float, float]:
        """Return bounds of the risk before ``lifetime_s`` at a confidence (Wilson), for display.

        (0, 1) where there is no evidence, (0, 0) at 0. Neighbouring samples meet the same evictions, so the
        truth is somewhat less certain than this.

        Raises
        ------
        SpecError
            Unless 0 < confidence < 1.
        """
        if not 0.0 < confidence < 1.0:
            raise SpecError(f"a confidence is between 0 and 1, not {confidence}", field="confidence")
        if lifetime_s <= 0:
            return 0.0, 0.0
        if not self.has_evidence(lifetime_s):
            return 0.0, 1.0
        estimate = self.estimates[bisect_left(self._steps[0], lifetime_s)]
        low, high = _wilson(estimate, self.samples, NormalDist().inv_cdf((1.0 + confidence) / 2.0))
        return float(low), float(high)

    def survives_s(self, sla: float) -> float:
        """Return the longest lifetime in seconds whose risk is at most ``sla``, up to ``followed_up_s``.

        Exact: ``risk(survives_s(p)) <= p``, and any longer lifetime has a greater risk or no evidence.

        Raises
        ------
        SpecError
            Unless 0 <= sla <= 1.
        """
        if not 0.0 <= sla <= 1.0:
            raise SpecError(f"an SLA is a probability from 0 to 1, not {sla}", field="sla")
        ends_s, steps = self._steps
        index = bisect_right(steps, sla)
        return ends_s[index - 1] if index else 0.0


def _check(duration_s: NDArray[np.float64], evicted: NDArray[np.bool_], span_s: NDArray[np.float64]) -> None:
    if not len(duration_s) == len(evicted) == len(span_s):
        raise SpecError(f"{len(duration_s)} durations but {len(evicted)} outcomes and {len(span_s)} spans")
    if not np.all((duration_s >= 0) & np.isfinite(duration_s)):
        raise SpecError("durations are finite seconds, at least 0")
    if not np.all((span_s >= 0) & np.isfinite(span_s)):
        raise SpecError("spans are finite seconds, at least 0")
    if np.any(span_s) and not np.all(span_s):
        raise SpecError("points and intervals of births do not mix in one estimate")


def _estimate_points(
    duration_s: NDArray[np.float64], evicted: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ends and risks of the Kaplan-Meier steps of point samples."""
    deaths, censored = np.sort(duration_s[evicted]), np.sort(duration_s[~evicted])
    times, first, died = np.unique(deaths, return_index=True, return_counts=True)
    # A sample censored at the very time of a death was still at risk then: side="left".
    at_risk = len(deaths) - first + len(censored) - np.searchsorted(censored, times, side="left")
    risks = np.concatenate(([0.0], 1.0 - np.cumprod(1.0 - died / at_risk)))
    last = float(duration_s.max()) if len(duration_s) else 0.0
    ends_s = np.append(times, last) if not len(times) or times[-1] < last else times
    return ends_s, risks[: len(ends_s)]


def _estimate_intervals(
    duration_s: NDArray[np.float64], evicted: NDArray[np.bool_], span_s: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ends and risks to which Kaplan-Meier tends as ever more births are drawn from the intervals.

    Between two neighbouring ends of lifetimes, c intervals are on their way out, d of them by eviction: of Y
    seconds of births at risk, c leave each second. The hazard d / Y integrates to -d / c x log(Y after / Y
    before). In between, the risk is taken as what it is at the end, which is careful.
    """
    begins_s = np.maximum(duration_s - span_s, 0.0)
    breaks_s, where = np.unique(np.concatenate((begins_s, duration_s)), return_inverse=True)
    change = np.repeat([1, -1], len(duration_s))
    leaving = np.cumsum(np.bincount(where, change, len(breaks_s)))[:-1]
    dying = np.cumsum(np.bincount(where, change * np.tile(evicted, 2), len(breaks_s)))[:-1]
    left = leaving * np.diff(breaks_s)
    at_risk = np.cumsum(left[::-1])[::-1]  # summed from the end, where it is small: nothing cancels
    deaths = dying > 0
    hazard = np.zeros(len(left))
    with np.errstate(divide="ignore"):  # the last may end all: log(0)
        hazard[deaths] = -dying[deaths] / leaving[deaths] * np.log1p(-left[deaths] / at_risk[deaths])
    risks = np.append(0.0, -np.expm1(-np.cumsum(hazard)))
    stepped = np.append(risks[1:] > risks[:-1], True) & (breaks_s > 0)  # of equal steps the last stays
    return breaks_s[stepped], risks[stepped]


def _cut(
    ends_s: NDArray[np.float64], risks: NDArray[np.float64], horizon_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cut the curve at a horizon, beyond which nothing is known."""
    if not len(ends_s) or ends_s[-1] <= horizon_s:
        return ends_s, risks
    steps = int(np.searchsorted(ends_s, horizon_s, side="left")) + 1
    return np.append(ends_s[: steps - 1], horizon_s), risks[:steps]


@overload
def _wilson(risk: float, samples: int, z: float) -> tuple[float, float]: ...
@overload
def _wilson(
    risk: NDArray[np.float64], samples: int, z: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...


def _wilson(
    risk: float | NDArray[np.float64], samples: int, z: float
) -> tuple[float | NDArray[np.float64], float | NDArray[np.float64]]:
    """Return Wilson's score interval of a share at z standard errors (JASA 1927)."""
    spread = z * np.sqrt(z * z + 4.0 * samples * risk * (1.0 - risk))
    middle, scale = 2.0 * samples * risk + z * z, 2.0 * (samples + z * z)
    return np.maximum((middle - spread) / scale, 0.0), np.minimum((middle + spread) / scale, 1.0)
