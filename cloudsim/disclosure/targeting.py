"""Choose the lifetime to aim at, given what a cloud discloses and what a job is worth (P3 §4.1, §4.2).

Values are in hours: a job of one hour that succeeds is worth 1 under each value function.
docs/design/volatile-resources.md "Information, targeting, value" settles what the paper leaves open.
``choose_target`` turns a target into a request to a live cloud (docs/design/volatile-resources.md "In the
product").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cloudsim.disclosure.levels import LATTICE_S, Disclosed, Disclosure
from cloudsim.disclosure.masked_tables import make_promise_curve
from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import Survival
from cloudsim.prediction.tables import SHOWN_SLAS

HOUR_S = 3600.0

#: Share of the mean time to revocation to aim at; P3 §4.2 takes it for one standard deviation below.
MTTR_SHARE = 0.9

#: Standard deviations from the median of a Gaussian to its 10th and 90th percentile.
DECILE_SIGMAS = 1.28155

#: Returns P(L >= length) for lengths in seconds.
Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class Value(Protocol):
    """Value of an interval to a user who aims at a target."""

    @property
    def name(self) -> str:
        """Name by which people choose it."""
        ...

    @property
    def targets_s(self) -> NDArray[np.float64]:
        """Possible targets in seconds, ascending: float64[targets]."""
        ...

    def expected(self, target_s: NDArray[np.float64], survival: Curve) -> NDArray[np.float64]:
        """Return the mean value of an interval for each target, in hours: float64[targets].

        Parameters
        ----------
        target_s
            float64[targets], seconds.
        survival
            P(L >= length) of the intervals.
        """
        ...

    def perfect(self, length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the greatest value, in hours, of intervals whose lengths are known in advance (the Oracle).

        Parameters
        ----------
        length_s
            float64[intervals], seconds.
        """
        ...


@dataclass(frozen=True)
class StepValue:
    """Hours ** exponent of the target for an interval that reaches it, else nothing (P3 Equation 2)."""

    name: str
    exponent: float

    @property
    def targets_s(self) -> NDArray[np.float64]:
        """All lengths of the lattice."""
        return LATTICE_S

    def expected(self, target_s: NDArray[np.float64], survival: Curve) -> NDArray[np.float64]:
        """Return v0(target) x P(L >= target)."""
        return self.perfect(target_s) * survival(target_s)

    def perfect(self, length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return v0(length): the target is the length."""
        hours: NDArray[np.float64] = (length_s / HOUR_S) ** self.exponent
        return hours


@dataclass(frozen=True)
class SlicedValue:
    """Value of intervals cut into products of one fixed duration, the target; the rest is worth nothing.

    These are the "defined duration" resources of P3 §8.

    Attributes
    ----------
    durations_s
        The products' durations in seconds, ascending.
    """

    name: str
    durations_s: tuple[float, ...]

    @property
    def targets_s(self) -> NDArray[np.float64]:
        """Durations of the products."""
        return np.array(self.durations_s)

    def expected(self, target_s: NDArray[np.float64], survival: Curve) -> NDArray[np.float64]:
        """Return target x E[whole slices in an interval]."""
        whole = [float(survival(_multiples_s(duration_s)).sum()) for duration_s in target_s.tolist()]
        return target_s / HOUR_S * np.array(whole, dtype=np.float64)

    def perfect(self, length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the value with the product that leaves least over."""
        products = self.targets_s[:, np.newaxis]
        whole: NDArray[np.float64] = (products * np.floor(length_s / products)).max(axis=0)
        return whole / HOUR_S


@dataclass(frozen=True)
class CheckpointedValue:
    """Value of a job as long as the target that saves its work every ``every_s`` seconds.

    Work saved before the eviction is worth its hours; the whole target is, once it is reached (P3 §8,
    checkpoints of long jobs).
    """

    name: str
    every_s: float

    @property
    def targets_s(self) -> NDArray[np.float64]:
        """All lengths of the lattice."""
        return LATTICE_S

    def expected(self, target_s: NDArray[np.float64], survival: Curve) -> NDArray[np.float64]:
        """Return E[saved before eviction], plus the rest of the target where it is reached."""
        saves_s = _multiples_s(self.every_s)
        saved_s = np.append(0.0, np.cumsum(self.every_s * survival(saves_s)))
        whole = np.floor(target_s / self.every_s).astype(np.int64)
        rest_s = target_s - whole * self.every_s
        return (saved_s[whole] + rest_s * survival(target_s)) / HOUR_S

    def perfect(self, length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the length in hours: the target is the length."""
        return length_s / HOUR_S


LINEAR = StepValue("linear", 1.0)

POLYNOMIAL = StepValue("polynomial", 1.5)

SLICES = SlicedValue("slices", tuple(hours * HOUR_S for hours in (1, 2, 3, 4, 5, 6)))

CHECKPOINTED = CheckpointedValue("checkpointed", 1800.0)

VALUES: dict[str, Value] = {value.name: value for value in (LINEAR, POLYNOMIAL, SLICES, CHECKPOINTED)}


def find_value(name: str) -> Value:
    """Return one of ``VALUES`` by its name.

    Raises
    ------
    SpecError
        When there is none of that name; names the field ``value``.
    """
    if name not in VALUES:
        raise SpecError(f"{name!r} is not one of {', '.join(VALUES)}", field="value")
    return VALUES[name]


def find_target_s(disclosed: Disclosed, value: Value) -> float | None:
    """Return the best of ``value.targets_s`` in seconds, the shortest of equally good ones.

    None if nothing is disclosed, or only that no instance lives: users then choose by themselves.
    """
    if disclosed.level is Disclosure.MTTR:
        assert disclosed.mean_s is not None
        return _longest_target(MTTR_SHARE * disclosed.mean_s, value.targets_s)
    if disclosed.median_s is not None and disclosed.median_s == disclosed.quantile_s:
        return _longest_target(disclosed.median_s, value.targets_s)
    survival = infer_survival(disclosed)
    return None if survival is None else _best_target(value, survival)


def infer_survival(disclosed: Disclosed) -> Curve | None:
    """Return the distribution that the disclosed figures suggest, None for a mean or nothing.

    For a median and a percentile it is the Gaussian through both (P3 §4.2); if the two are equal, all live
    equally long.
    """
    if disclosed.survival is not None:
        return _lattice_survival(disclosed.survival)
    if disclosed.median_s is None or disclosed.quantile_s is None:
        return None
    sigma_s = abs(disclosed.median_s - disclosed.quantile_s) / DECILE_SIGMAS
    if sigma_s == 0:
        return _lattice_survival(np.where(disclosed.median_s >= LATTICE_S, 1.0, 0.0).tolist())
    return _gaussian_survival(disclosed.median_s, sigma_s)


def expected_value(value: Value, target_s: float | None, lengths: Survival) -> float:
    """Return the mean value in hours of an interval to a user who aims at this target; 0 without a target."""
    if target_s is None:
        return 0.0
    return float(value.expected(np.array([target_s]), lengths.survival)[0])


def _longest_target(wanted_s: float, targets_s: NDArray[np.float64]) -> float | None:
    """Return the longest target up to ``wanted_s``; the shortest if all are longer; None for 0."""
    if wanted_s <= 0:
        return None
    return float(targets_s[max(int(np.searchsorted(targets_s, wanted_s, side="right")) - 1, 0)])


def _best_target(value: Value, survival: Curve) -> float | None:
    worth = value.expected(value.targets_s, survival)
    best = int(np.argmax(worth))
    return float(value.targets_s[best]) if worth[best] > 0 else None


def _gaussian_survival(mean_s: float, sigma_s: float) -> Curve:
    """Return P(L >= length) of a normal distribution."""
    scale = sigma_s * math.sqrt(2.0)

    def survival(length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        return 0.5 * np.array([math.erfc(deviation) for deviation in ((length_s - mean_s) / scale).tolist()])

    return survival


def _lattice_survival(curve: Sequence[float]) -> Curve:
    """Return P(L >= length) from its values on the lattice.

    Between two lengths of the lattice it is that of the longer one, beyond the lattice 0.
    """
    steps = np.array([*curve, 0.0])

    def survival(length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(length_s > 0, steps[np.searchsorted(LATTICE_S, length_s)], 1.0)

    return survival


def _multiples_s(duration_s: float) -> NDArray[np.float64]:
    """Return all whole multiples of a duration up to the end of the lattice."""
    return np.arange(1, int(LATTICE_S[-1] // duration_s) + 1, dtype=np.float64) * duration_s


@dataclass(frozen=True)
class TargetChoice:
    """A lifetime to ask for, and what to expect of it.

    Attributes
    ----------
    lifetime_s
        Seconds.
    chance
        Probability to reach it, as far as the disclosed figures suggest; None for a mean.
    value_h
        Mean value in hours, likewise.
    sla
        The smallest SLA at which it is promised, rounded up; None if at none: ask without a guarantee.
    """

    lifetime_s: float
    chance: float | None
    value_h: float | None
    sla: float | None

    @property
    def value_per_core_hour(self) -> float | None:
        """Value for each core-hour that is asked for."""
        return None if self.value_h is None else self.value_h / (self.lifetime_s / HOUR_S)


def choose_target(disclosed: Disclosed, value: Value) -> TargetChoice | None:
    """Return the lifetime to ask for; None if the disclosed figures do not support a choice."""
    chosen_s = find_target_s(disclosed, value)
    if chosen_s is None:
        return None
    survival = infer_survival(disclosed)
    if survival is None:
        return TargetChoice(chosen_s, None, None, None)
    chosen = np.array([chosen_s])
    chance, value_h = float(survival(chosen)[0]), float(value.expected(chosen, survival)[0])
    return TargetChoice(chosen_s, chance, value_h, _promised_sla(disclosed, chosen_s))


def parse_disclosed(level: str, figures: Mapping[str, Any]) -> Disclosed:
    """Parse the published figures of one flavour.

    Raises
    ------
    SpecError
        When a figure is missing, superfluous or out of range; names the figure.
    """
    curve = figures.get("survival")
    return Disclosed(
        Disclosure(level),
        mean_s=figures.get("mean_s"),
        median_s=figures.get("median_s"),
        quantile_s=figures.get("quantile_s"),
        survival=None if curve is None else tuple(curve),
    )


def _promised_sla(disclosed: Disclosed, lifetime_s: float) -> float | None:
    if disclosed.survival is not None:
        risk = 1.0 - disclosed.survival[int(np.searchsorted(LATTICE_S, lifetime_s))]
    else:
        curve = make_promise_curve(disclosed)
        risk = 1.0 if curve is None else curve.risk(lifetime_s)
    # A smaller SLA needs more evidence than most clouds have, whatever their curve says
    # (docs/design/prediction.md).
    rounded = max(math.ceil(risk * 10_000 - 1e-6) / 10_000, min(SHOWN_SLAS))
    return rounded if rounded < 1 else None
