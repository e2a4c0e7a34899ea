"""Read lists of on-demand prices: CSV with ``Region,InstanceCode,Price``, US dollars an hour."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from cloudsim.model.arrays import BoolArray
from cloudsim.model.errors import TraceError
from cloudsim.traces.formats.columns import bad_ids, read_columns
from cloudsim.traces.formats.source import load_source
from cloudsim.traces.report import QuarantinedLine, refuse_damaged

REQUIRED = ("Region", "InstanceCode", "Price")

_ACCEPTED = f"accepted is CSV with {','.join(REQUIRED)}"


@dataclass(frozen=True)
class PriceList:
    """List of on-demand prices of instances."""

    file: str
    #: (region, instance type) -> US dollars an hour, > 0, in the order of the file.
    usd_per_hour: dict[tuple[str, str], float]
    records: int
    quarantined: tuple[QuarantinedLine, ...]
    #: Repairs that were needed to read the records, a sentence each.
    repaired: tuple[str, ...]
    #: The last line has no end.
    ends_open: bool


def read_price_list(path: str | os.PathLike[str], *, max_error_rate: float = 0.01) -> PriceList:
    """Read a price list. Quarantined are prices that are not above 0, and a second price of a type.

    Raises
    ------
    TraceError
        When it is no list of prices, is empty, or too many of its rows are bad (``refuse_damaged``).
    """
    source = load_source(path, accepted=_ACCEPTED)
    columns = read_columns(source, REQUIRED)
    region, kind = ([cell.strip() for cell in columns.cells[name]] for name in REQUIRED[:2])
    price = columns.numbers(REQUIRED[2])
    names = list(zip(region, kind, strict=True))
    with np.errstate(invalid="ignore"):
        no_price: BoolArray = ~((price > 0) & np.isfinite(price))
    keep, quarantined = columns.sift(
        (
            (bad_ids(region), "Region is empty or not printable"),
            (bad_ids(kind), "InstanceCode is empty or not printable"),
            (no_price, "Price is not a number above 0"),
            (_again(names), "a second price of the same region and type"),
        )
    )
    records = len(names) + len(columns.malformed)
    refuse_damaged(source.file, records, quarantined, max_error_rate)
    kept = np.flatnonzero(keep).tolist()
    if not kept:
        raise TraceError(f"holds no price; {_ACCEPTED}", file=source.file)
    return PriceList(
        source.file,
        {names[row]: float(price[row]) for row in kept},
        records,
        quarantined,
        (*source.repaired, *columns.repaired),
        source.ends_open,
    )


def _again(names: list[tuple[str, str]]) -> BoolArray:
    seen: set[tuple[str, str]] = set()
    again = np.zeros(len(names), dtype=np.bool_)
    for row, name in enumerate(names):
        again[row] = name in seen
        seen.add(name)
    return again
