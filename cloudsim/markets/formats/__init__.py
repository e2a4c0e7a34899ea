"""Price histories: ``read`` recognises files by their content and makes a series of each market.

table       CSV
history     JSON of ``aws ec2 describe-spot-price-history``
file_list   directories, and lists that say what each file is about
records     readable records of one file, the result of every reader
merge       all files' records as one history

The error rate, gaps and the report, which all formats share, are here.
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
    """Read price histories, one series a market sorted by its name, and report what was series_reports.

    All files make one history, in which a record counts once.

    Parameters
    ----------
    files
        Paths, or files that are read already.
    product
        Product of files that name none.
    gaps
        Rule by which silence is a gap.
    max_error_rate
        Largest share of bad records in a file. Of few records up to half may be bad, unless the rate is 0.

    Raises
    ------
    TraceError
        When a file is no price history, nothing is in it, a page is repeated, or too many of its records are
        bad.
    SpecError
        When there is no file, or the rate is outside 0..1.
    """
    if not files:
        raise SpecError(f"name at least one; {ACCEPTED}", field="files")
    if not 0 <= max_error_rate <= 1:
        raise SpecError(f"must be from 0 to 1, not {max_error_rate}", field="max_error_rate")
    listed, missing = expand_files(files)
    pages = history.Pages()
    parsed = [_parse(file, product, pages) for file in listed]
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
    prices = {file.prices_of: file.on_demand_usd_per_hour for file in listed}
    rule = GapRule() if gaps is None else gaps
    silences = rule.silences([market.at_s for market in merged.markets])
    last_s = max(float(market.at_s[-1]) for market in merged.markets)
    series = []
    for market in merged.markets:
        gaps_s, ends_s = rule.gaps(market.at_s, last_s, silences)
        on_demand = prices.get((market.market.instance_type, market.market.zone))
        series.append(
            PriceSeries(*market.market, market.at_s, market.price, market.text, ends_s, gaps_s, on_demand)
        )
    series_reports = tuple(
        SeriesReport.of(s, market.repeated) for s, market in zip(series, merged.markets, strict=True)
    )
    silent = tuple((start_s, end_s) for start_s, end_s in silences.tolist())
    report = PriceReport(
        tuple(reports),
        series_reports,
        tuple(missing),
        silent,
        pages.is_unfinished,
        list_warnings(reports, series_reports, silent, missing, pages.is_unfinished),
    )
    return tuple(series), report


def _parse(listed: ListedFile, product: str, pages: history.Pages) -> PriceRecords:
    source = listed.source
    first = next((line for line in source.lines if line.strip()), "").lstrip()
    if first.startswith(("{", "[")):
        return history.parse(source, pages)
    return table.parse(source, Market(listed.instance_type, product, listed.zone))
