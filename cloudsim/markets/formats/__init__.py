"""Price histories: ``read`` recognises what it is given by its content and makes a series of each market.

A reader a file: ``table`` (CSV), ``history`` (JSON of EC2), ``listing`` (which files there are). What they
have in common (repetitions, gaps, the error rate, the report) is in ``merging`` and here.
"""

from __future__ import annotations

import os

from cloudsim.markets.formats import history, table
from cloudsim.markets.formats.file_list import ListedFile, expand_files
from cloudsim.markets.formats.merge import merge_records
from cloudsim.markets.formats.records import ACCEPTED, Market, PriceRecords
from cloudsim.markets.gaps import GapRule
from cloudsim.markets.prices import PriceSeries
from cloudsim.markets.report import FileReport, PriceReport, SeriesReport, list_warnings
from cloudsim.model.errors import SpecError, TraceError
from cloudsim.traces.formats.source import Source
from cloudsim.traces.report import refuse_damaged

__all__ = ["GapRule", "PriceReport", "read"]


def read(
    *files: str | os.PathLike[str] | Source,
    product: str = "Linux/UNIX",
    gaps: GapRule | None = None,
    max_error_rate: float = 0.01,
) -> tuple[tuple[PriceSeries, ...], PriceReport]:
    """Read price histories, one series a market sorted by its name, and say what was found.

    A file is read by its path, or given as ``Source``; all of them make one history, in which a record counts
    once. ``product`` is what files that name none are about.

    Raises:
        TraceError: not a price history, nothing in it, a repeated page, or more than ``max_error_rate`` of a
            file's records are bad (of few records up to half may be, unless the rate is 0).
        SpecError: no file, or a rate outside 0..1.
    """
    if not files:
        raise SpecError(f"name at least one; {ACCEPTED}", field="files")
    if not 0 <= max_error_rate <= 1:
        raise SpecError(f"must be from 0 to 1, not {max_error_rate}", field="max_error_rate")
    listed, missing = expand_files(files)
    pages = history.Pages()
    parsed = [_parse(one, product, pages) for one in listed]
    merged = merge_records(parsed)
    reports = []
    for given, records, repeated, conflicts in zip(
        listed, parsed, merged.repeated, merged.conflicts, strict=True
    ):
        quarantined = tuple(sorted((*records.quarantined, *conflicts), key=lambda bad: bad.line))
        refuse_damaged(records.file, records.records, quarantined, max_error_rate)
        reports.append(
            FileReport(
                records.file,
                records.format,
                records.records,
                repeated,
                quarantined,
                records.repaired,
                given.source.ends_open,
            )
        )
    if not merged.markets:
        raise TraceError(f"holds no price; {ACCEPTED}", file=parsed[0].file)
    prices = {one.prices_of: one.on_demand_usd_per_hour for one in listed}
    rule = GapRule() if gaps is None else gaps
    silences = rule.silences([one.at_s for one in merged.markets])
    last_s = max(float(one.at_s[-1]) for one in merged.markets)
    series = []
    for one in merged.markets:
        gaps_s, ends_s = rule.gaps(one.at_s, last_s, silences)
        on_demand = prices.get((one.market.instance_type, one.market.zone))
        series.append(PriceSeries(*one.market, one.at_s, one.price, one.text, ends_s, gaps_s, on_demand))
    found = tuple(SeriesReport.of(s, one.repeated) for s, one in zip(series, merged.markets, strict=True))
    silent = tuple((start_s, end_s) for start_s, end_s in silences.tolist())
    report = PriceReport(
        tuple(reports), found, tuple(missing), silent, list_warnings(reports, found, silent, missing)
    )
    return tuple(series), report


def _parse(listed: ListedFile, product: str, pages: history.Pages) -> PriceRecords:
    source = listed.source
    first = next((line for line in source.lines if line.strip()), "").lstrip()
    if first.startswith(("{", "[")):
        return history.parse(source, pages)
    return table.parse(source, Market(listed.instance_type, product, listed.zone))
