"""What ``spotfed trace plot`` draws: a trace, or some markets of a price history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudsim.markets.prices import PriceSeries

_STRETCHES = 400
_MARKETS = 6
_NAMED = 8
_DAY_S = 86400.0


def draw(
    path: Path, picture: Path, capacity_cores: int | None, markets: list[str], max_error_rate: float
) -> dict[str, Any]:
    """Saves the picture and says what it shows, as JSON types.

    Raises:
        TraceError: the file cannot be read, or holds nothing that changes over time.
        SpecError: there is no such market.
    """
    from cloudsim.markets.recognition import FileKind, recognise_file
    from cloudsim.model.errors import TraceError

    kind = FileKind.PRICES if path.is_dir() else recognise_file(path)
    if kind is FileKind.ON_DEMAND_PRICES:
        raise TraceError("holds on-demand prices, which have no time to draw them over", file=str(path))
    if kind is FileKind.PRICES:
        shows = _draw_prices(path, picture, markets, max_error_rate)
    else:
        shows = _draw_trace(path, picture, capacity_cores, max_error_rate)
    return {"file": str(path), "kind": kind.value, "picture": str(picture), "shows": shows}


def _draw_trace(path: Path, picture: Path, capacity_cores: int | None, max_error_rate: float) -> str:
    import numpy as np

    from cloudsim.plots import save, trace_figure
    from cloudsim.traces import statistics
    from cloudsim.traces.formats import read

    trace, report = read(path, capacity_cores=capacity_cores, max_error_rate=max_error_rate)
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
    from cloudsim.markets.formats import read
    from cloudsim.plots import PriceLine, price_figure, save

    series, _ = read(path, max_error_rate=max_error_rate)
    chosen = _chosen(series, markets)
    first_s = min(one.starts_s for one in chosen)
    lines = [
        PriceLine(
            one.name,
            (one.at_s - first_s) / _DAY_S,
            one.price_usd_per_hour,
            (one.ends_s - first_s) / _DAY_S,
            (one.gaps_s - first_s) / _DAY_S,
            one.on_demand_usd_per_hour,
        )
        for one in chosen
    ]
    shows = f"{len(lines)} of {len(series)} markets"
    save(price_figure(lines, title=f"{path.name}: {shows}"), picture)
    return shows


def _chosen(series: Sequence[PriceSeries], markets: list[str]) -> list[PriceSeries]:
    from cloudsim.model.errors import SpecError

    if not markets:
        most = sorted(series, key=lambda one: -len(one))[:_MARKETS]
        return sorted(most, key=lambda one: one.name)
    by_name = {one.name: one for one in series}
    for name in markets:
        if name not in by_name:
            near = [repr(one) for one in sorted(by_name) if name.split(" ")[0] in one] or list(
                map(repr, by_name)
            )
            more = f" and {len(near) - _NAMED} more" if len(near) > _NAMED else ""
            raise SpecError(
                f"there is no {name!r}; there are {', '.join(near[:_NAMED])}{more}", field="--market"
            )
    return [by_name[name] for name in markets]
