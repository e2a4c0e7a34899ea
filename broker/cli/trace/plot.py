"""``trace plot``: draw a trace, or some markets of a price history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from broker.cli.console import JsonOption, check_picture, console, print_json
from broker.cli.trace.options import ErrorRateOption, NodesOption, parse_capacity
from cloudsim.markets import formats as price_formats
from cloudsim.markets.prices import PriceSeries
from cloudsim.markets.recognition import FileKind, recognise_file
from cloudsim.model.errors import SpecError, TraceError
from cloudsim.plots import PriceLine, price_figure, save, trace_figure
from cloudsim.traces import formats, statistics

SCHEMA = "spotfed.trace-plot/1"

#: Points in time at which the load of a trace is drawn.
_STRETCHES = 400
#: Markets that are drawn where none is named.
_MARKETS = 6
#: Markets that an error lists.
_MOST_LISTED = 8
_DAY_S = 86400.0


def plot(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace, or prices (also a directory).")],
    picture: Annotated[Path, typer.Option(help="Where to: .png, .svg or .pdf by its ending.")],
    nodes: NodesOption = None,
    market: Annotated[
        list[str] | None,
        typer.Option(
            help='Of prices, a market such as "m1.large us-east-1a"; may be repeated.',
            show_default="those with most records",
        ),
    ] = None,
    max_error_rate: ErrorRateOption = 0.01,
    as_json: JsonOption = False,
) -> None:
    """Draw a trace (cores in use, arrivals, lifetimes) or prices over time, with their gaps.

    Example: spotfed trace plot DS2-trace.txt --picture DS2.png
    """
    check_picture(picture, field="--picture")
    capacity_cores = parse_capacity(nodes)
    kind = FileKind.PRICES if file.is_dir() else recognise_file(file)
    if kind is FileKind.ON_DEMAND_PRICES:
        raise TraceError("holds on-demand prices, which have no time to draw them over", file=str(file))
    if kind is FileKind.PRICES:
        shows = _draw_prices(file, picture, market or [], max_error_rate)
    else:
        shows = _draw_trace(file, picture, capacity_cores, max_error_rate)
    if as_json:
        result = {"file": str(file), "kind": kind.value, "picture": str(picture), "shows": shows}
        print_json({"schema": SCHEMA, **result})
    else:
        console(stderr=True).print(f"saved {picture}: {shows}", soft_wrap=True, markup=False)


def _draw_trace(path: Path, picture: Path, capacity_cores: int | None, max_error_rate: float) -> str:
    """Save a picture of a trace, and return what it shows."""
    trace, report = formats.read(path, capacity_cores=capacity_cores, max_error_rate=max_error_rate)
    drop_outs = np.array([(gap.start_s, gap.end_s) for gap in report.drop_outs]).reshape(-1, 2)
    shows = f"{len(trace):,} instances, {report.peak_cores:,} cores at the peak"
    figure = trace_figure(
        statistics.load_over_time(trace, _STRETCHES),
        statistics.lifetime_shares(trace, report.drop_outs),
        drop_outs,
        title=f"{trace.name}: {shows}",
        capacity_cores=report.capacity_cores,
    )
    save(figure, picture)
    return shows


def _draw_prices(path: Path, picture: Path, markets: list[str], max_error_rate: float) -> str:
    """Save a picture of the named markets, or of those with most records; return what it shows."""
    series, _ = price_formats.read(path, max_error_rate=max_error_rate)
    chosen = _choose_series(series, markets)
    first_s = min(each.starts_s for each in chosen)
    lines = [
        PriceLine(
            each.name,
            (each.at_s - first_s) / _DAY_S,
            each.price_usd_per_hour,
            (each.ends_s - first_s) / _DAY_S,
            (each.gaps_s - first_s) / _DAY_S,
            each.on_demand_usd_per_hour,
        )
        for each in chosen
    ]
    shows = f"{len(lines)} of {len(series)} markets"
    save(price_figure(lines, title=f"{path.name}: {shows}"), picture)
    return shows


def _choose_series(series: Sequence[PriceSeries], markets: list[str]) -> list[PriceSeries]:
    """Return the named markets, or those with most records. Raises SpecError when there is no such market."""
    if not markets:
        longest = sorted(series, key=lambda each: -len(each))[:_MARKETS]
        return sorted(longest, key=lambda each: each.name)
    by_name = {each.name: each for each in series}
    for name in markets:
        if name not in by_name:
            near = [known for known in sorted(by_name) if name.split(" ")[0] in known] or list(by_name)
            more = f" and {len(near) - _MOST_LISTED} more" if len(near) > _MOST_LISTED else ""
            known_names = ", ".join(map(repr, near[:_MOST_LISTED]))
            raise SpecError(f"there is no {name!r}; there are {known_names}{more}", field="--market")
    return [by_name[name] for name in markets]
