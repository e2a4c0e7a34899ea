"""Choose when virtual instances are injected: a jittered grid, thinned by halves as the history grows.

Number k of a size, counted from 1, is born at (k + u) * width, with u in [0, 1) drawn from a generator that
depends on (seed, size, k) only. Level L keeps the numbers divisible by 2**L. A birth therefore never moves,
whoever draws it and whenever; a longer history only drops every second one (docs/design/prediction.md "What
the papers leave open").
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.requests import Amounts

#: Grid points for each wanted birth in the first day, after which the first table is made. More than one,
#: because a birth without a free slot makes no sample.
GRID_POINTS_A_BIRTH = 32
FIRST_TABLE_S = 86_400.0

_MASK = (1 << 64) - 1
# Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014): the increment and the
# finalizer of SplitMix64. A counter-based generator needs no state: draw k finalizes key + k * increment.
_INCREMENT = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def _finalize(value: int) -> int:
    """Return SplitMix64's finalizer of one integer."""
    value = ((value ^ (value >> 30)) * _MULTIPLIERS[0]) & _MASK
    value = ((value ^ (value >> 27)) * _MULTIPLIERS[1]) & _MASK
    return value ^ (value >> 31)


@dataclass(frozen=True)
class BirthGrid:
    """Births of virtual instances of one size.

    Attributes
    ----------
    seed
        0 to 2**64 - 1.
    cores
        The size.
    births
        Number of births wanted over the whole history.
    """

    seed: int
    cores: int
    births: int

    @property
    def width_s(self) -> float:
        """Mean seconds between two neighbouring numbers at level 0."""
        return FIRST_TABLE_S / (GRID_POINTS_A_BIRTH * self.births)

    def uniform(self, number: NDArray[np.int64]) -> NDArray[np.float64]:
        """Draw one value from [0, 1) for each number; it depends on (seed, size, number) only."""
        key = _finalize((_finalize(self.seed) + _INCREMENT * self.cores) & _MASK)
        value = number.astype(np.uint64)
        value *= np.uint64(_INCREMENT)
        value += np.uint64(key)
        value ^= value >> np.uint64(30)
        value *= np.uint64(_MULTIPLIERS[0])
        value ^= value >> np.uint64(27)
        value *= np.uint64(_MULTIPLIERS[1])
        value ^= value >> np.uint64(31)
        return (value >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def birth_s(self, number: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the time of each number's birth in seconds; it never falls as the number grows."""
        return np.asarray((number + self.uniform(number)) * self.width_s, dtype=np.float64)

    def within(
        self, from_s: NDArray[np.float64], to_s: NDArray[np.float64], level: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the numbers of a level that are born in any of some spans, and their births in seconds.

        Only numbers near a span are drawn, so a size that seldom finds a free slot costs no more than its few
        births.

        Parameters
        ----------
        from_s, to_s
            float64[spans], half-open spans [from_s, to_s) in seconds, ascending and disjoint.
        level
            Only numbers divisible by 2**level count.
        """
        step = 1 << level
        # A number is born within one width of its grid point; one more on each side is room for rounding.
        first = np.ceil((from_s / self.width_s - 2.0) / step).astype(np.int64)
        np.maximum(first, 1, out=first)
        last = np.floor((to_s / self.width_s + 1.0) / step).astype(np.int64)
        count = np.maximum(last - first + 1, 0)
        span = np.repeat(np.arange(len(count)), count)
        before = np.cumsum(count) - count
        number = (first[span] + (np.arange(len(span)) - before[span])) * step
        birth = self.birth_s(number)
        inside = (birth >= from_s[span]) & (birth < to_s[span])
        return number[inside], birth[inside]

    def highest_level(self, until_s: float) -> int:
        """Return a level above which [0, until_s) certainly holds fewer births than wanted."""
        points = int(until_s / self.width_s) + 2
        level = 0
        while points >> (level + 1) >= self.births:
            level += 1
        return level


def find_level(number: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the highest level that holds each number: the largest L such that 2**L divides it.

    Parameters
    ----------
    number
        int64[numbers], from 1.
    """
    lowest_bit = (number & -number).astype(np.float64)
    return np.frexp(lowest_bit)[1].astype(np.int64) - 1


def seed_of(seed: int, amounts: Amounts) -> int:
    """Return the seed of a flavour: flavours of one size have births of their own."""
    if not amounts:
        return seed
    return int.from_bytes(hashlib.blake2b(repr((seed, amounts)).encode(), digest_size=8).digest())
