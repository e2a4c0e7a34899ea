"""Read price histories as CSV, in any order of rows and columns.

Columns are ``timestamp,price_usd_per_hour``, and ``instance_type``, ``availability_zone`` and ``product``
where the file holds several markets. Other columns are not used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cloudsim.markets.formats.records import ACCEPTED, Market, PriceRecords, parse_times
from cloudsim.markets.prices import parse_prices
from cloudsim.model.errors import TraceError
from cloudsim.traces.formats.columns import Columns, bad_ids, read_columns
from cloudsim.traces.formats.source import Source

REQUIRED = ("timestamp", "price_usd_per_hour")
_NAMES = ("instance_type", "product", "availability_zone")


def parse(source: Source, named: Market) -> PriceRecords:
    """Read one record a row.

    Quarantined are malformed rows, invalid times, prices that are neither a number nor unknown, and names
    that are empty or not printable.

    Parameters
    ----------
    named
        What is known of the market beside the file's content; empty texts are not known.

    Raises
    ------
    TraceError
        When a required column is missing, or the market is not known.
    """
    columns = read_columns(source, REQUIRED)
    names = {name: _names(source, columns, name, known) for name, known in zip(_NAMES, named, strict=True)}
    texts = columns.decimals("price_usd_per_hour")
    at_s = parse_times(columns.cells["timestamp"])
    price, bad = parse_prices(texts)
    keep, quarantined = columns.sift(
        (
            *((bad_ids(cells), f"{name} is empty or not printable") for name, cells in names.items()),
            (np.isnan(at_s), "timestamp is not an ISO 8601 time"),
            (bad, "price_usd_per_hour is neither a number nor unknown"),
        )
    )
    kept = np.flatnonzero(keep).tolist()
    line = [columns.line[row] for row in kept]
    rows = list(zip(*names.values(), strict=True))
    distinct = {row: Market(*row) for row in set(rows)}
    return PriceRecords(
        source.file,
        "csv",
        records=len(texts) + len(columns.malformed),
        quarantined=quarantined,
        market=[distinct[rows[row]] for row in kept],
        at_s=at_s[keep],
        price=price[keep],
        text=[texts[row] for row in kept],
        place=lambda record: (line[record], source.lines[line[record] - 1]),
        repaired=(*source.repaired, *columns.repaired),
    )


def _names(source: Source, columns: Columns, name: str, known: str) -> Sequence[str]:
    if name in columns.cells:
        return [cell.strip() for cell in columns.cells[name]]
    if not known:
        raise TraceError(
            f"does not say which {name} its prices are for: no such column, and the file is not named "
            f"zone_type.csv; {ACCEPTED}",
            file=source.file,
            field=name,
        )
    return [known] * len(columns.line)
