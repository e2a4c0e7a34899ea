"""Merge all files' records into one history: sorted, each once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cloudsim.markets.formats.records import Market, PriceRecords
from cloudsim.markets.prices import TextArray
from cloudsim.model.arrays import FloatArray
from cloudsim.traces.report import QuarantinedLine


@dataclass(frozen=True)
class MarketRecords:
    """The n records of a market, ascending in time, no time twice."""

    market: Market
    at_s: FloatArray
    price: FloatArray
    text: TextArray
    #: Records that were there already.
    repeated: int


@dataclass(frozen=True)
class MergedRecords:
    """Markets by name; and for each file its repeated and its contradicting records."""

    markets: list[MarketRecords]
    repeated: list[int]
    conflicts: list[list[QuarantinedLine]]


def merge_records(files: Sequence[PriceRecords]) -> MergedRecords:
    """Sort the records of all files by market and time.

    The first record of a market and time counts, in order of the files and within them. The same price again
    is a repetition and dropped. Another price contradicts it and is quarantined.
    """
    names = sorted({market for file in files for market in file.market})
    codes = {market: code for code, market in enumerate(names)}
    market = np.array([codes[market] for file in files for market in file.market], dtype=np.int64)
    at_s = np.concatenate([file.at_s for file in files])
    price = np.concatenate([file.price for file in files])
    text = np.empty(len(at_s), dtype=object)
    text[:] = [price_text for file in files for price_text in file.text]
    order = np.lexsort((at_s, market))  # stable: of equal ones the first comes first
    market, at_s, price, text = market[order], at_s[order], price[order], text[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (np.diff(market) != 0) | (np.diff(at_s) != 0)
    first_price = price[np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))]
    repeated = ~first & ((price == first_price) | (np.isnan(price) & np.isnan(first_price)))
    sizes = np.array([len(file.at_s) for file in files])
    ends = np.cumsum(sizes)
    file_of = np.repeat(np.arange(len(files)), sizes)
    conflicts: list[list[QuarantinedLine]] = [[] for _ in files]
    for where in order[~first & ~repeated].tolist():
        at = int(file_of[where])
        line, text_of = files[at].place(where - int(ends[at] - sizes[at]))
        reason = "another price of the same market at the same time"
        conflicts[at].append(QuarantinedLine.of(line, text_of, reason))
    markets = []
    bounds = np.searchsorted(market, np.arange(len(names) + 1)).tolist()
    for code, (begin, end) in enumerate(pairwise(bounds)):
        kept = begin + np.flatnonzero(first[begin:end])
        times = int(repeated[begin:end].sum())
        markets.append(MarketRecords(names[code], at_s[kept], price[kept], text[kept], times))
    again = np.bincount(file_of[order[repeated]], minlength=len(files)).tolist()
    return MergedRecords(markets, again, conflicts)
