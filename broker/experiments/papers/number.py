"""A printed number: where it stands, which values it stands for, and how ours is read off rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cloudsim.experiments.experiment import Row, where
from cloudsim.experiments.promise.published_numbers import interval
from cloudsim.model.binomial import clopper_pearson

Rows = Sequence[Row]

#: Numbers that stand beside "about", "nearly" or "up to", or in prose without digits to round to, allow this.
ABOUT = 0.1

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e\d+)?|-?\.\d+")


class MissingRowError(LookupError):
    """An experiment has no row, or no column, for a printed number."""


class Ours(NamedTuple):
    """Our value of a printed number, with a 95 % interval where ``of`` says what it is over."""

    value: float | str
    low: float = math.nan
    high: float = math.nan
    of: str = ""


class Bounds(NamedTuple):
    """The values that a printed number stands for."""

    least: float
    most: float


@dataclass(frozen=True)
class PrintedNumber:
    """One printed number that can be computed.

    where: paper and part. printed: as printed; per cents are shares. within: the values that it stands for;
    None: those that its digits stand for. reading: what the paper leaves open, as we read it. fitted: our
    input was made to agree with it, so that agreement says something of the fit only.
    """

    where: str
    what: str
    printed: str
    experiment: str
    ours: Callable[[Rows], Ours]
    within: Bounds | None = None
    reading: str = ""
    fitted: bool = False

    def holds(self, ours: Ours) -> bool:
        """Return whether our value agrees.

        A value or its interval has to reach the values that the number stands for; where the paper says "at
        most" or "at least", the value itself has to keep the bound.
        """
        if isinstance(ours.value, str):
            return ours.value == self.printed
        least, most = self.bounds
        bound = math.isinf(least) or math.isinf(most)
        low, high = (ours.value, ours.value) if bound or not ours.of else (ours.low, ours.high)
        return bool(low <= most and high >= least)

    @property
    def bounds(self) -> Bounds:
        """Least and largest value that the number stands for."""
        if self.within is not None:
            return self.within
        match = _NUMBER.search(self.printed)
        assert match, f"{self.printed!r} has no number"
        text, unit = match[0].replace(",", ""), 0.01 if "%" in self.printed else 1.0
        half = 0.5 * 10.0 ** -len(text.partition("e")[0].partition(".")[2])
        half *= 10.0 ** int(text.partition("e")[2] or 0)
        value = float(text)
        return Bounds((value - half) * unit - 1e-9, (value + half) * unit + 1e-9)


class NotComputed(NamedTuple):
    """Printed numbers that cannot be computed here: where they stand, what and how many, and why not."""

    where: str
    what: str
    numbers: int
    why: str


def about(value: float) -> Bounds:
    """Return the bounds of a number that is said with "about", "nearly" or "up to"."""
    return Bounds(value * (1 - ABOUT), value * (1 + ABOUT))


def at_most(value: float) -> Bounds:
    """Return the bounds of a number that ours must not be above."""
    return Bounds(-math.inf, value)


def at_least(value: float) -> Bounds:
    """Return the bounds of a number that ours must not be below."""
    return Bounds(value, math.inf)


def select(rows: Rows, **columns: object) -> list[Row]:
    """Return the rows with these values.

    Raises
    ------
    MissingRowError
        When there is none.
    """
    own = where(rows, **columns)
    if not own:
        raise MissingRowError(
            "no row with " + ", ".join(f"{name} {value}" for name, value in columns.items())
        )
    return own


def mean(values: Sequence[float], of: str) -> Ours:
    """Return the mean of values with the normal 95 % interval of the mean."""
    middle, half = interval(values)
    return Ours(middle, middle - half, middle + half, f"mean of {len(values)} {of}")


def runs(values: Sequence[float], of: str) -> Ours:
    """Return the mean of runs with the normal 95 % interval of one more run: a paper prints one.

    Of a single run there is no interval.
    """
    middle, half = interval(values)
    if len(values) < 2:
        return Ours(middle)
    half *= math.sqrt(len(values) + 1)  # of the mean → of one run beside the mean
    low = middle - half if min(values) < 0 else max(middle - half, 0.0)
    return Ours(middle, low, middle + half, f"{len(values)} {of}")


def share(count: int, whole: int) -> Ours:
    """Return a share of counted things with its exact binomial interval.

    Raises
    ------
    MissingRowError
        When there is nothing to count.
    """
    if not whole:
        raise MissingRowError("nothing was counted")
    return Ours(count / whole, *clopper_pearson(count, whole), f"exact, {whole:,}")


def column(rows: Rows, name: str, **columns: object) -> Ours:
    """Return a column of the one row with these values, with column NAME_plus_minus where there is one."""
    row = select(rows, **columns)[0]
    value, half = float(row[name]), row.get(f"{name}_plus_minus")
    return Ours(value) if half is None else Ours(value, value - half, value + half, f"{row['jobs']:,} jobs")
