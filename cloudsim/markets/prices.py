"""Recorded prices of one spot market: a step function of time that is unknown where nothing was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloudsim.model.arrays import BoolArray, FloatArray, IntArray, freeze_columns
from cloudsim.model.errors import TraceError

TextArray = NDArray[np.object_]

#: Texts of an unknown price.
_UNKNOWN_WORDS = frozenset({"", "null", "none", "nan"})


@dataclass(frozen=True, eq=False, repr=False)
class PriceSeries:
    """The n records of one market (type, product, zone): read-only columns of shape (n,), ascending in time.

    A record's price holds until the next record. It is *unknown*, and never free, where the record is 0, a
    negative or infinite number, NaN or empty; before the first record; inside a gap; and after ``ends_s``.
    The constructor checks and does not sort; ``PriceSeries.of`` makes the columns from prices.

    Raises
    ------
    TraceError
        When a column has the wrong length or type, or a row breaks one of the rules above.
    """

    instance_type: str
    product: str
    zone: str
    #: Unix time, seconds, finite, strictly ascending.
    at_s: FloatArray
    #: US dollars an instance hour, > 0; NaN where unknown.
    price_usd_per_hour: FloatArray
    #: The same as it was written, all its decimals kept.
    price_text: TextArray
    #: Until when the last price is known to have held, unix seconds.
    ends_s: float
    #: Shape (gaps, 2): from when until when nothing was recorded, unix seconds, ascending, apart. The price
    #: is known at both ends and unknown between them.
    gaps_s: FloatArray
    #: Price of the instance without the risk of losing it, where that is known.
    on_demand_usd_per_hour: float | None = None

    def __post_init__(self) -> None:
        freeze_columns(self, (field.name for field in fields(self)))
        _check(self)

    @classmethod
    def of(
        cls,
        at_s: ArrayLike,
        prices: Sequence[str | float | Decimal | None],
        *,
        instance_type: str,
        product: str = "Linux/UNIX",
        zone: str = "",
        ends_s: float | None = None,
        gaps_s: ArrayLike = (),
        on_demand_usd_per_hour: float | None = None,
    ) -> PriceSeries:
        """Make a series of prices as text or numbers, in order of time.

        It ends with its last record unless ``ends_s`` is given.

        Raises
        ------
        TraceError
            When a column breaks a rule of the class, or a price is no number.
        """
        times = np.array(at_s, dtype=np.float64)
        texts = np.empty(len(prices), dtype=object)
        texts[:] = ["" if price is None else str(price) for price in prices]
        values, bad = parse_prices(texts.tolist())
        if bad.any():
            raise TraceError(f"{texts[bad][0]!r} is not a number", field="price_usd_per_hour")
        last_s = float(times[-1]) if times.ndim == 1 and len(times) else 0.0
        return cls(
            instance_type,
            product,
            zone,
            times,
            values,
            texts,
            last_s if ends_s is None else ends_s,
            np.array(gaps_s, dtype=np.float64).reshape(-1, 2),
            on_demand_usd_per_hour,
        )

    def __len__(self) -> int:
        return len(self.at_s)

    def __repr__(self) -> str:
        return f"PriceSeries({self.name!r}, {len(self)} records, {self.span_s / 86400:.1f} days)"

    @property
    def name(self) -> str:
        """Name such as ``m1.large us-east-1a``, with the product unless it is Linux/UNIX."""
        words = (self.instance_type, self.zone, "" if self.product == "Linux/UNIX" else self.product)
        return " ".join(word for word in words if word)

    @property
    def market(self) -> str:
        """Market such as ``m1.large/us-east-1a``, with the product unless it is Linux/UNIX."""
        words = (self.instance_type, self.zone, "" if self.product == "Linux/UNIX" else self.product)
        return "/".join(word for word in words if word)

    @property
    def starts_s(self) -> float:
        """First record, unix seconds."""
        return float(self.at_s[0])

    @property
    def span_s(self) -> float:
        """Seconds from the first record until ``ends_s``."""
        return self.ends_s - self.starts_s

    def equals(self, other: PriceSeries) -> bool:
        """Return True if all fields are exactly the same (NaN equals NaN)."""
        return all(
            np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")
            if isinstance(mine, np.ndarray)
            else mine == theirs
            for mine, theirs in ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        )

    def record_at(self, at_s: ArrayLike, *, carry: bool = False) -> IntArray:
        """Return the record whose price holds at each time, in the shape of ``at_s``; -1 where it is unknown.

        Parameters
        ----------
        at_s
            Unix seconds.
        carry
            Carry the last known price forward over gaps, records without a price, and the time after
            ``ends_s``. Then only the time before the first price is unknown.
        """
        times = np.asarray(at_s, dtype=np.float64)
        known = ~np.isnan(self.price_usd_per_hour)
        record = np.searchsorted(self.at_s, times, side="right") - 1
        if carry:
            last_known = np.maximum.accumulate(np.where(known, np.arange(len(self)), -1))
            return np.where(record >= 0, last_known[record], -1)
        gap = np.searchsorted(self.gaps_s[:, 0], times, side="left") - 1
        ends = np.concatenate([self.gaps_s[:, 1], [-np.inf]])  # index -1: no gap began before
        return np.where(
            (record >= 0) & known[record] & (times >= ends[gap]) & (times <= self.ends_s), record, -1
        )

    def price_at(self, at_s: ArrayLike, *, carry: bool = False) -> FloatArray:
        """Return the price at each time, US dollars an hour, in the shape of ``at_s``; NaN where unknown."""
        record = self.record_at(at_s, carry=carry)
        price: FloatArray = np.where(record >= 0, self.price_usd_per_hour[record], np.nan)
        return price


def parse_prices(texts: Sequence[str]) -> tuple[FloatArray, BoolArray]:
    """Return prices as float64[n], NaN where unknown, and a mask of the texts that are no price at all."""
    price_of = {text: _price(text) for text in set(texts)}
    bad = np.fromiter((price_of[text] is None for text in texts), np.bool_, len(texts))
    values = np.fromiter((price_of[text] or np.nan for text in texts), np.float64, len(texts))
    return values, bad


def _price(text: str) -> float | None:
    """Return the price that a text holds, NaN if unknown; None if the text is neither."""
    word = text.strip()
    if word.lower() in _UNKNOWN_WORDS:
        return np.nan
    # Python's float reads 1_000 and the digits of all scripts; no price history has them.
    if not word.isascii() or "_" in word:
        return None
    try:
        value = float(word)
    except ValueError:
        return None
    return value if 0 < value < np.inf else np.nan


def _check(series: PriceSeries) -> None:
    n = len(series)
    columns: dict[str, tuple[NDArray[Any], tuple[int, ...], str]] = {
        "at_s": (series.at_s, (n,), "f"),
        "price_usd_per_hour": (series.price_usd_per_hour, (n,), "f"),
        "price_text": (series.price_text, (n,), "O"),
        "gaps_s": (series.gaps_s, (len(series.gaps_s), 2), "f"),
    }
    for name, (column, shape, kind) in columns.items():
        if column.shape != shape or column.dtype.kind != kind:
            raise TraceError(f"has shape {column.shape} of {column.dtype}, not {shape}", field=name)
    if not n:
        raise TraceError(f"{series.name or 'the series'} has no record", field="at_s")
    if not (np.isfinite(series.at_s).all() and (np.diff(series.at_s) > 0).all()):
        raise TraceError("times are not finite and strictly ascending", field="at_s")
    price = series.price_usd_per_hour
    if not ((price > 0) & np.isfinite(price) | np.isnan(price)).all():
        raise TraceError(
            "a price is neither positive and finite nor unknown (NaN)", field="price_usd_per_hour"
        )
    if not series.at_s[-1] <= series.ends_s < np.inf:
        raise TraceError(f"{series.ends_s} is not finite and after the last record", field="ends_s")
    edges = series.gaps_s.ravel()
    if not (np.isfinite(edges).all() and (np.diff(edges) >= 0).all() and (edges[::2] < edges[1::2]).all()):
        raise TraceError("gaps are not ascending and apart", field="gaps_s")
