"""Which lifetime to aim at, given what is told about lifetimes and what a job is worth (paper §4.1, §4.2;
VOLATILE.md "Information, targeting, value").

Values are in hours: a job of one hour that succeeds is worth 1 under each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cloudsim.disclosure.levels import LATTICE_S, Disclosed, Disclosure
from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import Survival

HOUR_S = 3600.0

#: Of the mean time to revocation; the paper takes it for one standard deviation below.
MTTR_SHARE = 0.9

#: Standard deviations from the median of a Gaussian to its 10th and 90th percentile.
DECILE_SIGMAS = 1.28155

#: P(L >= length) of lengths in seconds.
Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class Value(Protocol):
    """What an interval is worth to whoever aims at a target."""

    @property
    def name(self) -> str:
        """How people choose it."""
        ...

    @property
    def targets_s(self) -> NDArray[np.float64]:
        """What may be aimed at, in seconds, rising."""
        ...

    def expected(self, target_s: NDArray[np.float64], survival: Curve) -> NDArray[np.float64]:
        """The mean value of an interval for each target, in hours, when lengths survive like that."""
        ...

    def perfect(self, length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """The greatest value, in hours, of intervals whose lengths are known in advance (the Oracle)."""
        ...


@dataclass(frozen=True)
class StepValue:
    """Hours ** exponent of the target for an interval that reaches it, else nothing (Equation 2)."""

    name: str
    exponent: float

    @property
    def targets_s(self) -> NDArray[np.float64]:
        """The whole lattice."""
        return LATTICE_S

    def expected(self, target_s: NDArray[np.float64], survival: Curve) -> NDArray[np.float64]:
        """v0(target) x P(L >= target)."""
        return self.perfect(target_s) * survival(target_s)

    def perfect(self, length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """v0(length): the target is the length."""
        hours: NDArray[np.float64] = (length_s / HOUR_S) ** self.exponent
        return hours


@dataclass(frozen=True)
class SlicedValue:
    """Intervals are cut into products of one fixed duration, which is the target; what is left over is worth
    nothing (the "defined duration" resources of the paper's §8).

    durations_s: the products, rising.
    """

    name: str
    durations_s: tuple[float, ...]

    @property
    def targets_s(self) -> NDArray[np.float64]:
        """The products."""
        return np.array(self.durations_s)

    def expected(self, target_s: NDArray[np.float64], survival: Curve) -> NDArray[np.float64]:
        """target x E[whole slices in an interval]."""
        whole = [float(survival(_multiples_s(one)).sum()) for one in target_s.tolist()]
        return target_s / HOUR_S * np.array(whole, dtype=np.float64)

    def perfect(self, length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Cut into whichever product leaves least over."""
        products = self.targets_s[:, np.newaxis]
        whole: NDArray[np.float64] = (products * np.floor(length_s / products)).max(axis=0)
        return whole / HOUR_S


@dataclass(frozen=True)
class CheckpointedValue:
    """A job as long as the target that saves its work every ``every_s``: what was saved before the eviction
    is worth its hours, the whole target once it is reached (the paper's §8: checkpoints of long jobs).
    """

    name: str
    every_s: float

    @property
    def targets_s(self) -> NDArray[np.float64]:
        """The whole lattice."""
        return LATTICE_S

    def expected(self, target_s: NDArray[np.float64], survival: Curve) -> NDArray[np.float64]:
        """E[saved before eviction], and the rest of the target where it is reached."""
        saves_s = _multiples_s(self.every_s)
        saved_s = np.append(0.0, np.cumsum(self.every_s * survival(saves_s)))
        whole = np.floor(target_s / self.every_s).astype(np.int64)
        rest_s = target_s - whole * self.every_s
        return (saved_s[whole] + rest_s * survival(target_s)) / HOUR_S

    def perfect(self, length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """All of it: the target is the length."""
        return length_s / HOUR_S


LINEAR = StepValue("linear", 1.0)
POLYNOMIAL = StepValue("polynomial", 1.5)
SLICES = SlicedValue("slices", tuple(hours * HOUR_S for hours in (1, 2, 3, 4, 5, 6)))
CHECKPOINTED = CheckpointedValue("checkpointed", 1800.0)

VALUES: dict[str, Value] = {one.name: one for one in (LINEAR, POLYNOMIAL, SLICES, CHECKPOINTED)}


def named_value(name: str) -> Value:
    """One of ``VALUES``. Raises SpecError naming the field ``value`` when there is none of that name."""
    if name not in VALUES:
        raise SpecError(f"{name!r} is not one of {', '.join(VALUES)}", field="value")
    return VALUES[name]


def target_s(disclosed: Disclosed, value: Value) -> float | None:
    """The lifetime to aim at, in seconds, one of ``value.targets_s``; of equally good ones the shortest.

    None where nothing is told, or all that is told is that nothing lives: whoever asks chooses by themselves.
    """
    if disclosed.level is Disclosure.MTTR:
        assert disclosed.mean_s is not None
        return _reached(MTTR_SHARE * disclosed.mean_s, value.targets_s)
    if disclosed.median_s is not None and disclosed.median_s == disclosed.quantile_s:
        return _reached(disclosed.median_s, value.targets_s)
    survival = believed(disclosed)
    return None if survival is None else _best(value, survival)


def believed(disclosed: Disclosed) -> Curve | None:
    """The distribution that what is told lets one believe in. Of a median and a percentile: the Gaussian
    through both (§4.2), or, where they are the same, that all live as long. None of a mean, and of nothing.
    """
    if disclosed.survival is not None:
        return _stepped(disclosed.survival)
    if disclosed.median_s is None or disclosed.quantile_s is None:
        return None
    sigma_s = abs(disclosed.median_s - disclosed.quantile_s) / DECILE_SIGMAS
    if sigma_s == 0:
        return _stepped(np.where(disclosed.median_s >= LATTICE_S, 1.0, 0.0).tolist())
    return _gaussian(disclosed.median_s, sigma_s)


def expected_value(value: Value, target_s: float | None, lengths: Survival) -> float:
    """The mean value in hours of such an interval to whoever aims at this target; 0 without one."""
    if target_s is None:
        return 0.0
    return float(value.expected(np.array([target_s]), lengths.survival)[0])


def _reached(wanted_s: float, targets_s: NDArray[np.float64]) -> float | None:
    """The longest target that is not longer than what is wanted; the shortest where all are; None for 0."""
    if wanted_s <= 0:
        return None
    return float(targets_s[max(int(np.searchsorted(targets_s, wanted_s, side="right")) - 1, 0)])


def _best(value: Value, survival: Curve) -> float | None:
    worth = value.expected(value.targets_s, survival)
    best = int(np.argmax(worth))
    return float(value.targets_s[best]) if worth[best] > 0 else None


def _gaussian(mean_s: float, sigma_s: float) -> Curve:
    """P(L >= length) of a normal distribution."""
    scale = sigma_s * math.sqrt(2.0)

    def survival(length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        return 0.5 * np.array([math.erfc(one) for one in ((length_s - mean_s) / scale).tolist()])

    return survival


def _stepped(curve: Sequence[float]) -> Curve:
    """P(L >= length) from its values on the lattice: between two of them that of the longer, beyond it 0."""
    steps = np.array([*curve, 0.0])

    def survival(length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(length_s > 0, steps[np.searchsorted(LATTICE_S, length_s)], 1.0)

    return survival


def _multiples_s(duration_s: float) -> NDArray[np.float64]:
    """All whole multiples of a duration up to the end of the lattice."""
    return np.arange(1, int(LATTICE_S[-1] // duration_s) + 1, dtype=np.float64) * duration_s
