"""Result of every reader of price histories, and the times that they all read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import nan
from typing import NamedTuple

import numpy as np

from cloudsim.model.arrays import FloatArray
from cloudsim.traces.report import QuarantinedLine

ACCEPTED = (
    "accepted are, plain or gzip: JSON as aws ec2 describe-spot-price-history prints it, CSV with "
    "timestamp,price_usd_per_hour and instance_type,availability_zone[,product] (without them the file is "
    "named zone_type.csv), lists of files with file,instance_type,availability_zone, directories of these"
)


class Market(NamedTuple):
    """Market that a price is for."""

    instance_type: str
    product: str
    zone: str


@dataclass(frozen=True)
class PriceRecords:
    """The n readable records of one file, in its order; unreadable ones are quarantined."""

    file: str
    format: str
    #: Records in the file, readable or not.
    records: int
    quarantined: tuple[QuarantinedLine, ...]
    market: Sequence[Market]
    #: Unix seconds, shape (n,).
    at_s: FloatArray
    #: US dollars an hour, shape (n,), NaN where unknown; and as it was written.
    price: FloatArray
    text: Sequence[str]
    #: Returns the line number and the text of the record with an index.
    place: Callable[[int], tuple[int, str]]
    #: What was mended to get at the records, a sentence each.
    repaired: tuple[str, ...] = ()


def parse_times(texts: Sequence[str]) -> FloatArray:
    """Return ISO 8601 times as unix seconds, float64[n]; UTC if no zone is named; NaN for invalid times."""
    return np.fromiter(map(_unix_time, texts), np.float64, len(texts))


def _unix_time(text: str) -> float:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return nan
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
