"""Infer how many units of a pool are idle from spot prices.

See docs/design/volatile-resources.md "From price to availability".

The market is taken to be cleared at all times: the highest price of a window means that nothing is idle, its
lowest that everything is, and between them the relation is linear (P3 Equation 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloudsim.markets.prices import PriceSeries
from cloudsim.model.arrays import BoolArray, FloatArray, IntArray, freeze_columns
from cloudsim.model.errors import SpecError

UnitArray = NDArray[np.int32]

#: The units of a pool when everything is idle.
MAX_UNITS = 5000
STEP_S = 300
DAY_S = 86_400
#: 90 days, the length of the traces of P3.
STUDY_SAMPLES = 90 * DAY_S // STEP_S


class Unknown(StrEnum):
    """Treatment of samples whose price is unknown: holes of the recording, and records without a price."""

    #: Excludes the pool.
    REFUSE = "refuse"
    #: Carries the last price forward. This is the study's reading (last observation carried forward); it
    #: makes a pool look calmer than it was, and ``Availability.known`` says where.
    CARRY = "carry"


class ExclusionReason(StrEnum):
    """Reason why a series makes no pool."""

    NEVER_CHANGES = "never_changes"
    UNKNOWN_PRICES = "unknown_prices"
    TOO_SHORT = "too_short"


@dataclass(frozen=True)
class ExcludedSeries:
    """A series that makes no pool, with the reason and a sentence of detail."""

    name: str
    reason: ExclusionReason
    detail: str


@dataclass(frozen=True, eq=False, repr=False)
class Availability:
    """Idle units of a pool at equidistant times, as read-only columns of shape (samples,).

    Raises
    ------
    SpecError
        When there is no sample, units are outside 0 to ``MAX_UNITS``, or columns have wrong types or lengths.
    """

    name: str
    #: Idle units, 0 to ``MAX_UNITS``.
    units: UnitArray
    #: Where the price was known; elsewhere the last one was carried forward.
    known: BoolArray
    #: Unix time of the first sample, seconds.
    starts_at_s: float = 0.0
    step_s: int = STEP_S

    def __post_init__(self) -> None:
        freeze_columns(self, ("units", "known"))
        if self.units.dtype != np.int32 or self.known.dtype != np.bool_ or self.step_s < 1:
            types = f"{self.units.dtype}, {self.known.dtype}, {self.step_s}"
            raise SpecError(f"needs int32 units, a mask and a step of seconds, not {types}", field="units")
        if self.units.ndim != 1 or not len(self.units) or self.units.shape != self.known.shape:
            raise SpecError(f"has shape {self.units.shape}, the mask {self.known.shape}", field="units")
        if self.units.min() < 0 or self.units.max() > MAX_UNITS:
            raise SpecError(f"must be from 0 to {MAX_UNITS}", field="units")

    @classmethod
    def of(cls, name: str, units: ArrayLike) -> Availability:
        """Make a pool of units that are all known, in steps of 5 minutes from 0 on."""
        column = np.array(units, dtype=np.int32)
        return cls(name, column, np.ones(column.shape, dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.units)

    def __repr__(self) -> str:
        return f"Availability({self.name!r}, {len(self)} samples, {self.days:.1f} days)"

    @property
    def days(self) -> float:
        """Length of the trace in days."""
        return len(self) * self.step_s / DAY_S

    @property
    def total_volatile_hours(self) -> float:
        """Unit hours available in the whole trace (P3 Table 3)."""
        return float(self.units.sum(dtype=np.int64)) * self.step_s / 3600

    @property
    def volatility(self) -> float:
        """Population standard deviation of the share that is idle."""
        return float(self.units.std()) / MAX_UNITS

    @property
    def periodicity(self) -> float:
        """Amplitude at one cycle a day over the mean amplitude of all other positive frequencies.

        Samples beyond the last whole day are left out. 0 if nothing changes.

        Raises
        ------
        SpecError
            When the trace is shorter than a day, or a day is not a whole number of steps.
        """
        steps = DAY_S // self.step_s
        whole_days = len(self) // steps
        if DAY_S % self.step_s or not whole_days:
            raise SpecError(
                f"{self.name}: {self.days:.2f} days in steps of {self.step_s} s have no daily cycle"
            )
        amplitude = np.abs(np.fft.rfft(self.units[: whole_days * steps].astype(np.float64)))
        other_amplitudes = np.delete(amplitude, [0, whole_days])
        level = float(other_amplitudes.mean())
        return float(amplitude[whole_days]) / level if level > 0 else 0.0

    def split(self, first_part: float = 0.5) -> tuple[Availability, Availability]:
        """Split into a first part, to inform users from, and the rest, to evaluate on.

        Units stay relative to the whole window: both parts are the same pool.

        Parameters
        ----------
        first_part
            Share of the samples in the first part.

        Raises
        ------
        SpecError
            Unless 0 < first_part < 1 and neither part is empty.
        """
        cut = round(len(self) * first_part) if 0 < first_part < 1 else 0
        if not 0 < cut < len(self):
            raise SpecError(f"{first_part} of {len(self)} samples leaves one part empty", field="first_part")
        return self.part(0, cut), self.part(cut, len(self))

    def part(self, begin: int, end: int) -> Availability:
        """Return the samples from ``begin`` until before ``end``."""
        starts_at_s = self.starts_at_s + begin * self.step_s
        return Availability(self.name, self.units[begin:end], self.known[begin:end], starts_at_s, self.step_s)


@dataclass(frozen=True)
class Window:
    """Equidistant times.

    Attributes
    ----------
    starts_at_s
        Unix time of the first one, in seconds.
    samples
        How many there are.
    step_s
        Seconds between two of them.
    """

    starts_at_s: float
    samples: int
    step_s: int = STEP_S

    @property
    def at_s(self) -> FloatArray:
        """Unix times in seconds, float64[samples]."""
        return self.starts_at_s + np.arange(self.samples, dtype=np.float64) * self.step_s


def whole_window(series: PriceSeries, step_s: int = STEP_S) -> Window:
    """Return all multiples of ``step_s`` from the first record until ``ends_s``; at least one."""
    begin = np.ceil(series.starts_s / step_s) * step_s
    return Window(float(begin), max(int((series.ends_s - begin) // step_s) + 1, 1), step_s)


def first_window(
    series: PriceSeries, samples: int = STUDY_SAMPLES, step_s: int = STEP_S
) -> Window | ExcludedSeries:
    """Return the first samples of a series, by default 90 days."""
    return _cut(series, samples, whole_window(series, step_s), from_end=False)


def last_window(
    series: PriceSeries, samples: int = STUDY_SAMPLES, step_s: int = STEP_S
) -> Window | ExcludedSeries:
    """Return the last samples of a series, by default 90 days."""
    return _cut(series, samples, whole_window(series, step_s), from_end=True)


def _cut(series: PriceSeries, samples: int, window: Window, *, from_end: bool) -> Window | ExcludedSeries:
    if samples < 1:
        raise SpecError(f"must be at least 1, not {samples}", field="samples")
    if window.samples < samples:
        return ExcludedSeries(
            series.name, ExclusionReason.TOO_SHORT, f"{window.samples} samples, {samples} are needed"
        )
    skipped = (window.samples - samples) * window.step_s if from_end else 0
    return Window(window.starts_at_s + skipped, samples, window.step_s)


def infer_availability(
    series: PriceSeries, window: Window | None = None, unknown: Unknown = Unknown.REFUSE
) -> Availability | ExcludedSeries:
    """Infer the idle units of a pool over a window, by default the whole series.

    ``V(t) = floor((max p - p(t)) / (max p - min p) * 5000)``, in exact decimals; the highest and the lowest
    price are those of the window's samples. A series that never changes its price in the window is excluded;
    with ``Unknown.REFUSE``, also one with unknown prices in it. The price before the first record is never
    known.
    """
    chosen = whole_window(series) if window is None else window
    at_s = chosen.at_s
    record = series.record_at(at_s)
    known = record >= 0
    if not known.all():
        record = series.record_at(at_s, carry=True)
    excluded = _unfit(series, record, known, unknown)
    if excluded is not None:
        return excluded
    units = _units(series, record)
    if units is None:
        return ExcludedSeries(
            series.name, ExclusionReason.NEVER_CHANGES, "the price is the same in the whole window"
        )
    return Availability(series.name, units, known, chosen.starts_at_s, chosen.step_s)


def _unfit(
    series: PriceSeries, record: IntArray, known: BoolArray, unknown: Unknown
) -> ExcludedSeries | None:
    missing = int((~known).sum()) if unknown is Unknown.REFUSE else int((record < 0).sum())
    if not missing:
        return None
    detail = f"the price of {missing} of {len(known)} samples is unknown"
    if unknown is Unknown.REFUSE:
        detail += "; choose a window without gaps, or carry the last price forward as the paper does"
    return ExcludedSeries(series.name, ExclusionReason.UNKNOWN_PRICES, detail)


def _units(series: PriceSeries, record: IntArray) -> UnitArray | None:
    """Return the units at each sample; None if the price never changes."""
    begins = np.diff(record, prepend=-1) != 0  # records ascend
    used, sample_of = record[begins], np.cumsum(begins) - 1
    texts, text_of = np.unique(series.price_text[used].astype(np.str_), return_inverse=True)
    exact = [Fraction(text) for text in texts.tolist()]
    scale = lcm(*(price.denominator for price in exact))
    prices = [price.numerator * (scale // price.denominator) for price in exact]
    top, low = max(prices), min(prices)
    if top == low:
        return None
    levels = np.array([(top - price) * MAX_UNITS // (top - low) for price in prices], dtype=np.int32)
    units: UnitArray = levels[text_of][sample_of]
    return units


@dataclass(frozen=True)
class PriceStatistics:
    """Statistics of the prices of a window's samples, US dollars an hour (P3 Table 2)."""

    dynamic_range: float
    mean: float
    standard_deviation: float

    @classmethod
    def of(cls, series: PriceSeries, window: Window | None = None) -> PriceStatistics:
        """Compute the statistics over all samples, with the last price carried forward.

        Samples before the first price are left out.

        Raises
        ------
        SpecError
            When no price is known in the window.
        """
        price = series.price_at((whole_window(series) if window is None else window).at_s, carry=True)
        price = price[~np.isnan(price)]
        if not len(price):
            raise SpecError(f"{series.name} has no known price in the window", field="window")
        return cls(float(np.ptp(price)), float(price.mean()), float(price.std()))
