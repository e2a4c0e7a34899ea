"""Distributions of the lengths of intervals: the protocol that all of them answer, and a histogram.

``Survival`` is what information and targeting (``cloudsim.volatile``) ask for: the lengths of a trace answer
it by ``LengthHistogram``, the lifetimes that a live cloud estimates from samples of which some still run by
``cloudsim.prediction.lifetimes.LifetimeDistribution``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloudsim.model.errors import SpecError

#: docs/design/volatile-resources.md "From price to availability" and "One sample, in this order": 5 minutes,
#: at most 48 hours.
BIN_S = 300.0
LONGEST_BINS = 576


class Survival(Protocol):
    """A distribution of lengths in seconds."""

    def survival(self, length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(L >= length_s) of each length; 1 at 0 and below."""
        ...

    def quantile_s(self, share: float) -> float:
        """Return the smallest length with P(L <= length) >= share; 0 without any evidence."""
        ...

    @property
    def mean_s(self) -> float:
        """The mean length; 0 without any evidence."""
        ...


@dataclass(frozen=True, eq=False)
class LengthHistogram:
    """Counts of lengths that are multiples of ``bin_s``.

    counts: int64 (bins,), counts[i] intervals are ``i * bin_s`` seconds long. An empty histogram has a mean,
    a deviation and quantiles of 0 and survives nothing.

    Raises
    ------
    SpecError
        When a count is negative or a bin has no width.
    """

    counts: NDArray[np.int64]
    bin_s: float = BIN_S

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bin_s) and self.bin_s > 0):
            raise SpecError(f"a bin is wider than 0 seconds, not {self.bin_s}", field="bin_s")
        counts = np.asarray(self.counts)
        if counts.ndim != 1 or not len(counts) or not np.issubdtype(counts.dtype, np.integer):
            raise SpecError("counts are one row of whole numbers", field="counts")
        if np.any(counts < 0):
            raise SpecError("a count is at least 0", field="counts")
        object.__setattr__(self, "counts", counts.astype(np.int64))

    @classmethod
    def from_lengths(
        cls, length_s: ArrayLike, bin_s: float = BIN_S, longest_bins: int = LONGEST_BINS
    ) -> LengthHistogram:
        """Count lengths in seconds.

        A length between two multiples counts as the lower one, which it has reached; one above
        ``longest_bins`` counts as that.

        Raises
        ------
        SpecError
            When a length is negative or not a number.
        """
        lengths = np.asarray(length_s, dtype=np.float64)
        if not np.all((lengths >= 0) & np.isfinite(lengths)):
            raise SpecError("lengths are finite seconds, at least 0", field="length_s")
        bins = np.minimum(np.floor(lengths / bin_s), longest_bins).astype(np.int64)
        return cls(np.bincount(bins, minlength=longest_bins + 1), bin_s)

    @classmethod
    def merged(cls, parts: Iterable[LengthHistogram]) -> LengthHistogram:
        """Merge histograms. Raises SpecError without a part, or when their bins differ."""
        parts = list(parts)
        if len({(part.bin_s, len(part.counts)) for part in parts}) != 1:
            raise SpecError("histograms merge when there is one and their bins are the same", field="counts")
        return cls(np.sum([part.counts for part in parts], axis=0), parts[0].bin_s)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LengthHistogram):
            return NotImplemented
        return self.bin_s == other.bin_s and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]  # its counts are an array

    @cached_property
    def lengths_s(self) -> NDArray[np.float64]:
        """The length in seconds of each bin, float64 (bins,)."""
        return np.arange(len(self.counts), dtype=np.float64) * self.bin_s

    @cached_property
    def count(self) -> int:
        """The number of intervals."""
        return int(self.counts.sum())

    @cached_property
    def total_s(self) -> float:
        """The sum of all lengths."""
        return int(self.counts @ np.arange(len(self.counts))) * self.bin_s

    @property
    def mean_s(self) -> float:
        """The mean length: the mean time to revocation."""
        return self.total_s / self.count if self.count else 0.0

    @property
    def std_s(self) -> float:
        """The population standard deviation."""
        if not self.count:
            return 0.0
        return math.sqrt(float(self.counts @ (self.lengths_s - self.mean_s) ** 2) / self.count)

    @property
    def median_s(self) -> float:
        """The smallest length that half of all intervals do not exceed."""
        return self.quantile_s(0.5)

    def quantile_s(self, share: float) -> float:
        """Return the smallest length with P(L <= length) >= share. Raises SpecError unless 0 < share <= 1."""
        check_share(share)
        return float(np.searchsorted(self._cdf, share) * self.bin_s) if self.count else 0.0

    def survival(self, length_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(L >= length_s) of each length; 1 at 0 and below."""
        reached = np.ceil(np.asarray(length_s, dtype=np.float64) / self.bin_s)
        return self._at_least[np.clip(reached, 0, len(self.counts)).astype(np.int64)]

    @cached_property
    def _cdf(self) -> NDArray[np.float64]:
        """P(L <= length) of each bin; a count over a count, so that 9 of 10 meet a share of 0.9 exactly."""
        return np.cumsum(self.counts) / self.count

    @cached_property
    def _at_least(self) -> NDArray[np.float64]:
        """P(L >= length) of each bin, and 0 beyond the last."""
        above = np.append(np.cumsum(self.counts[::-1])[::-1], 0)
        return np.append(1.0, above[1:] / max(self.count, 1))


def check_share(share: float) -> None:
    """Check a share. Raises SpecError unless 0 < share <= 1."""
    if not 0.0 < share <= 1.0:
        raise SpecError(f"a quantile is of a share above 0 and up to 1, not {share}", field="share")
