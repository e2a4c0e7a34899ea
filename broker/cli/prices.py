"""``prices``: what is in a history of spot prices, and what is wrong with it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from broker.cli import formatting
from broker.cli.console import JsonOption, number, print_json, show_list
from broker.cli.errors import warn
from cloudsim.markets.formats import read
from cloudsim.markets.formats.records import ACCEPTED
from cloudsim.markets.gaps import GapRule
from cloudsim.markets.report import PriceReport, SeriesReport
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError
from cloudsim.traces.formats.source import decode_source

SCHEMA = "spotfed.prices/1"
_STANDARD_INPUT = Path("-")


def prices(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="CSV or JSON files, plain or gzip, directories of them, or - for standard input."
        ),
    ],
    product: Annotated[str, typer.Option(help="What prices that name no product are for.")] = "Linux/UNIX",
    max_gap: Annotated[
        str, typer.Option(help="Silence of a market above this is a gap in it, or none: 36h.")
    ] = "36h",
    max_silence: Annotated[
        str, typer.Option(help="Silence of all markets above this is a gap in each, or none: 6h.")
    ] = "6h",
    max_error_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of a file's records that may be bad.")
    ] = 0.01,
    as_json: JsonOption = False,
) -> None:
    """Read spot prices in the formats of EC2, and report what each market holds.

    It reads the JSON of aws ec2 describe-spot-price-history, and CSV with timestamp,price_usd_per_hour and
    instance_type,availability_zone,product. A price of 0, null or NaN is unknown, never free.

    Example: spotfed prices us-east-1.json --json
    """
    rule = _gap_rule(max_gap, max_silence)
    _, report = read(
        *(
            decode_source(sys.stdin.buffer.read(), "standard input", accepted=ACCEPTED)
            if file == _STANDARD_INPUT
            else file
            for file in files
        ),
        product=product,
        gaps=rule,
        max_error_rate=max_error_rate,
    )
    for warning in report.warnings:
        warn(warning)
    if as_json:
        print_json({"schema": SCHEMA, **report.as_dict()})
    else:
        _show(report)


def _gap_rule(max_gap: str, max_silence: str) -> GapRule:
    def limit_s(text: str, field: str) -> float | None:
        if text.strip().lower() == "none":
            return None
        limit = parse_duration_s(text, field=field)
        if not limit:
            raise SpecError("must be above 0, or none", field=field)
        return limit

    return GapRule(limit_s(max_gap, "--max-gap"), limit_s(max_silence, "--max-silence"))


def _show(report: PriceReport) -> None:
    records = sum(file.records for file in report.files)
    numbers = ("from", "until", "records", "unknown", "repeated", "in gaps", "min", "median", "max")
    show_list(
        "markets",
        report.series,
        *("type", "zone", "product"),
        *map(number, numbers),
        row=_market_row,
        as_json=False,
        title=f"{len(report.series)} markets, {records} records, prices in US dollars an hour",
    )


def _market_row(market: SeriesReport) -> tuple[str, ...]:
    in_gaps_s = sum(end_s - start_s for start_s, end_s in market.gaps_s)
    usd = (market.min_usd_per_hour, market.median_usd_per_hour, market.max_usd_per_hour)
    return (
        *(market.instance_type, market.zone, market.product),
        *(datetime.fromtimestamp(at_s, UTC).date().isoformat() for at_s in (market.starts_s, market.ends_s)),
        *(str(count) for count in (market.records, market.unknown, market.repeated)),
        formatting.duration(in_gaps_s) if in_gaps_s else "–",
        *("–" if price is None else f"{price:.7g}" for price in usd),
    )
