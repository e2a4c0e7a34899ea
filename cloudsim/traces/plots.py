"""Pictures of a recorded trace and of recorded prices, in the style of ``cloudsim.plots``. They compute
nothing: what is drawn comes from ``shape`` and from the series. Need matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cloudsim.plots import GREY, INK, LEVELS, PALE, STYLE
from cloudsim.traces.shape import Load
from cloudsim.traces.trace import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RED, _ORANGE, _BLUE = LEVELS[0][0], LEVELS[1][0], LEVELS[3][0]
#: Marks of the axis of lifetimes, seconds and how people say them.
_MARKS = {1: "1 s", 60: "1 min", 3600: "1 h", 86400: "1 day", 30 * 86400: "30 days", 365 * 86400: "1 year"}


@dataclass(frozen=True)
class PriceLine:
    """One market: its price holds from each time until the next; unknown in gaps and where it is NaN.

    Times are days since the first record of all.
    """

    name: str
    at_days: FloatArray
    usd_per_hour: FloatArray
    ends_days: float
    #: Shape (gaps, 2).
    gaps_days: FloatArray
    on_demand_usd_per_hour: float | None


def trace_figure(
    load: Load,
    lifetimes: tuple[FloatArray, FloatArray],
    drop_outs_s: FloatArray,
    *,
    title: str,
    capacity_cores: int | None,
) -> Figure:
    """Cores in use over time, arrivals below, and the shares of lifetimes beside them.

    ``lifetimes`` are seconds and the share that is no longer; ``drop_outs_s`` has shape (n, 2).
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    span_s = float(load.edges_s[-1] - load.edges_s[0])
    unit_s, unit = (86400.0, "days") if span_s >= 2 * 86400 else (3600.0, "hours")
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 5.4), layout="constrained")
        figure.suptitle(title, fontsize=11)
        grid = figure.add_gridspec(2, 2, width_ratios=[2.2, 1], height_ratios=[1.9, 1])
        cores = figure.add_subplot(grid[0, 0])
        starts = figure.add_subplot(grid[1, 0], sharex=cores)
        lives = figure.add_subplot(grid[:, 1])
        edges = load.edges_s / unit_s
        cores.stairs(load.peak_cores, edges, color=_ORANGE, fill=True, label="most in a stretch")
        cores.stairs(load.mean_cores, edges, color=_BLUE, fill=True, label="mean")
        if capacity_cores is not None:
            cores.axhline(
                capacity_cores, color=INK, lw=1, ls="--", label=f"{capacity_cores:,} cores there are"
            )
        _shade(cores, drop_outs_s / unit_s, "drop-out: nothing recorded")
        cores.set_ylim(0)
        cores.set_title("cores in use", loc="left")
        cores.tick_params(labelbottom=False)
        starts.stairs(load.starts, edges, color=_BLUE, fill=True)
        _shade(starts, drop_outs_s / unit_s, None)
        starts.set_title(
            f"instances that start, each {span_s / len(load.starts) / 3600:.3g} hours", loc="left"
        )
        starts.set_xlabel(f"{unit} of the trace")
        starts.set_xlim(edges[0], edges[-1])
        _draw_lifetimes(lives, *lifetimes)
        figure.legend(*cores.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def price_figure(lines: Sequence[PriceLine], *, title: str) -> Figure:
    """Prices over time, a panel a market; where nobody knows them the ground is grey and no line is drawn."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    with rc_context(STYLE):
        figure = Figure(figsize=(10, 1.3 + 1.5 * len(lines)), layout="constrained")
        figure.suptitle(title, fontsize=11)
        panels = figure.subplots(len(lines), 1, sharex=True, squeeze=False)[:, 0]
        for axes, line in zip(panels, lines, strict=True):
            _draw_price(axes, line)
        panels[-1].set_xlabel("days since the first record")
        panels[-1].set_xlim(0, max(line.ends_days for line in lines) or 1.0)
        figure.supylabel("US dollars an hour", fontsize=9)
        handles: list[Line2D | Patch] = [
            Line2D([], [], color=_BLUE, lw=1.2, label="spot price"),
            Line2D([], [], color=_RED, lw=1, ls="--", label="on-demand price, where known"),
            Patch(color=PALE, label="gap: the price is unknown"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _shade(axes: Axes, spans: FloatArray, label: str | None) -> None:
    for number, (begin, end) in enumerate(spans.tolist()):
        axes.axvspan(begin, end, color=GREY, alpha=0.35, lw=0, label=None if number else label)


def _draw_lifetimes(axes: Axes, seconds: FloatArray, shares: FloatArray) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

    axes.set_title("lifetimes seen whole: share that is no longer", loc="left")
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(color=PALE, lw=0.7)
    if not len(seconds):
        axes.text(0.5, 0.5, "none", ha="center", transform=axes.transAxes)
        return
    axes.set_xscale("log")
    low = max(float(seconds[seconds > 0].min(initial=np.inf)), 0.5) if (seconds > 0).any() else 0.5
    axes.step(np.maximum(seconds, low), shares, where="post", color=_BLUE, lw=1.4)
    axes.xaxis.set_major_locator(FixedLocator(list(_MARKS)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _MARKS.get(round(value), "")))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(low / 1.5, float(seconds.max()) * 1.5 + low)


def _draw_price(axes: Axes, line: PriceLine) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    at = np.append(line.at_days, line.ends_days)
    price = np.append(line.usd_per_hour, line.usd_per_hour[-1])
    for begin, end in line.gaps_days.tolist():  # no line through a gap
        before = int(np.searchsorted(at, begin, side="right"))
        at = np.insert(at, before, begin)
        price = np.insert(price, before, np.nan)
        axes.axvspan(begin, end, color=PALE, lw=0)
    for begin, end in _unknown(line):
        axes.axvspan(begin, end, color=PALE, lw=0)
    axes.step(at, price, where="post", color=_BLUE, lw=0.9)
    if line.on_demand_usd_per_hour is not None:
        axes.axhline(line.on_demand_usd_per_hour, color=_RED, lw=1, ls="--")
    known = line.usd_per_hour[~np.isnan(line.usd_per_hour)]
    if len(known) and known.max() > 20 * known.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0)
    axes.set_title(line.name, loc="left")


def _unknown(line: PriceLine) -> list[tuple[float, float]]:
    """From when until when records say no price."""
    ends = np.append(line.at_days[1:], line.ends_days)
    return [(line.at_days[row], ends[row]) for row in np.flatnonzero(np.isnan(line.usd_per_hour)).tolist()]
