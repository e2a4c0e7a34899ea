"""Draw results that were computed elsewhere; needs matplotlib (``pip install 'spotfed[plots]'``).

Colours are those of Okabe and Ito, which colour-blind people can tell apart; lines differ in their markers
too. Figures are made without pyplot: no window opens, and nothing keeps them alive. Importing matplotlib may
start processes and write files, so that happens in the functions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from cloudsim.model.arrays import FloatArray
    from cloudsim.traces.statistics import Load

_BLUE, _ORANGE, _GREEN, _PINK, _SKY, _RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
INK, GREY, PALE = "#222222", "#8C8C8C", "#E4E4E4"
LEVELS = ((_RED, "o"), (_ORANGE, "s"), (_GREEN, "^"), (_BLUE, "D"), (_PINK, "v"), (_SKY, "P"))

STYLE: Any = {
    "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "legend.fontsize": 9, "legend.frameon": False,
    "axes.edgecolor": GREY, "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK,
    "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False, "figure.facecolor": "white",
    "svg.fonttype": "none", "svg.hashsalt": "spotfed", "pdf.fonttype": 42,
}  # fmt: skip

#: Marks of a time axis, those to keep first when there is no room for all: seconds and label.
_TIMES = (
    (3600, "1 h"), (86400, "1 day"), (60, "1 min"), (7 * 86400, "1 week"), (1, "1 s"),
    (30 * 86400, "30 days"), (600, "10 min"), (6 * 3600, "6 h"), (365 * 86400, "1 year"), (10, "10 s"),
    (3 * 86400, "3 days"), (90 * 86400, "90 days"), (14 * 86400, "2 weeks"),
)  # fmt: skip

_MOST_TIMES, _MOST_SLOTS = 11, 8  # marks that an axis has room for

_PANELS_A_ROW = 5

#: With more free slots than this the axis is logarithmic.
_MOST_LINEAR = 40


@dataclass(frozen=True)
class CloudUse:
    """Cores in use on one cloud: a value holds from its time until the next.

    Attributes
    ----------
    capacity
        Cores of the cloud.
    time_s
        float64[times], seconds.
    on_demand, spot
        float64[times], cores in use.
    evictions_s
        float64[evictions], seconds.
    """

    name: str
    capacity: int
    time_s: NDArray[np.float64]
    on_demand: NDArray[np.float64]
    spot: NDArray[np.float64]
    evictions_s: NDArray[np.float64]


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of ``path``.

    The same figure gives the same bytes.
    """
    stamps = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    from matplotlib import rc_context

    with rc_context(STYLE):
        figure.savefig(path, dpi=160, metadata=stamps[path.suffix.lower()])


def table_figure(rows: Sequence[Mapping[str, Any]], slas: Sequence[float], *, title: str) -> Figure:
    """Draw samples (above) and quantiles of the lifetime by size and free slots (P1 Figures 2 and 3 in one).

    A quantile of 0 sits on the lower edge: no lifetime keeps that SLA.

    Parameters
    ----------
    rows
        Rows of ``QuantileTable.rows(slas)``.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    sizes = sorted({int(row["cores"]) for row in rows})
    columns = min(len(sizes), _PANELS_A_ROW) or 1
    bands = math.ceil(len(sizes) / columns) or 1
    with rc_context(STYLE):
        figure = Figure(figsize=(1.2 + max(2.2 * columns, 6.4), 1.1 + 3.3 * bands), layout="constrained")
        figure.suptitle(title, fontsize=11)
        grid = figure.add_gridspec(2 * bands, columns, height_ratios=[1, 2.6] * bands)
        low_s, high_s = _time_range(rows, slas)
        most = max((int(row["samples"]) for row in rows), default=1)
        for number, cores in enumerate(sizes):
            band, column = divmod(number, columns)
            own = [row for row in rows if int(row["cores"]) == cores]
            counts = figure.add_subplot(grid[2 * band, column])
            lives = figure.add_subplot(grid[2 * band + 1, column], sharex=counts)
            _draw_counts(counts, own, most)
            counts.set_title(f"{cores} core{'s' if cores > 1 else ''}", fontweight="bold")
            _draw_lifetimes(lives, own, slas, low_s, high_s)
            _slot_axis(counts, lives, own)
            if column:
                counts.tick_params(labelleft=False)
                lives.tick_params(labelleft=False)
            else:
                counts.set_ylabel("samples")
                lives.set_ylabel("longest lifetime")
            lives.set_xlabel("free slots of this size")
        _table_legend(figure, slas)
    return figure


def _time_range(rows: Sequence[Mapping[str, Any]], slas: Sequence[float]) -> tuple[float, float]:
    lives = [float(row["quantiles_s"][sla]) for row in rows for sla in slas]
    lives += [float(row["followed_up_s"]) for row in rows]
    known = [life for life in lives if 0 < life < math.inf] or [1.0, 3600.0]
    return min(known) / 2.5, max(known) * 1.6


def _draw_counts(axes: Axes, rows: Sequence[Mapping[str, Any]], most: int) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    left = [row["free_slots_from"] - 0.5 for row in rows]
    width = [row["free_slots_to"] - row["free_slots_from"] + 1 for row in rows]
    axes.bar(
        left, [row["samples"] for row in rows], width, align="edge", color=_SKY, edgecolor="white", lw=0.6
    )
    axes.set_yscale("log")
    axes.set_ylim(10, max(most * 1.5, 1000))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.tick_params(labelbottom=False)


def _draw_lifetimes(
    axes: Axes, rows: Sequence[Mapping[str, Any]], slas: Sequence[float], low_s: float, high_s: float
) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    edges = [(row["free_slots_from"] - 0.5, row["free_slots_to"] + 0.5) for row in rows]
    for (left, right), row in zip(edges, rows, strict=True):
        followed_s = min(float(row["followed_up_s"]), high_s)
        axes.fill_between([left, right], [followed_s] * 2, [high_s] * 2, color=PALE, lw=0, zorder=0)
    # Lines may lie on each other: those drawn first are wider and stay visible beneath.
    for number, sla in enumerate(slas):
        colour, marker = LEVELS[number % len(LEVELS)]
        lives = [max(float(row["quantiles_s"][sla]), low_s) for row in rows]
        width = 1.0 + 0.6 * (len(slas) - 1 - number)
        axes.plot(
            [x for edge in edges for x in edge], [life for life in lives for _ in range(2)],
            color=colour, lw=width, solid_capstyle="butt", zorder=2 + number,
        )  # fmt: skip
        middles = [_middle(row) for row in rows]
        axes.plot(
            middles, lives, marker, color=colour, ms=3.2 + 0.5 * (len(slas) - 1 - number), mec="white",
            mew=0.4, zorder=20 + number, clip_on=False,
        )  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(low_s, high_s)
    labels: dict[float, str] = {float(seconds): label for seconds, label in _TIMES}
    marks = _spread(
        [seconds for seconds in labels if low_s * 1.3 < seconds < high_s], low_s, high_s, _MOST_TIMES
    )
    if any(row["quantiles_s"][sla] <= 0 for row in rows for sla in slas):
        marks, labels = [low_s, *marks], {**labels, low_s: "0"}
    axes.yaxis.set_major_locator(FixedLocator(marks))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: labels.get(value, "")))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", color=PALE, lw=0.7, zorder=1)


def _middle(row: Mapping[str, Any]) -> float:
    low, high = float(row["free_slots_from"]), float(row["free_slots_to"])
    return math.sqrt(low * high) if high > _MOST_LINEAR else (low + high) / 2


def _slot_axis(upper: Axes, lower: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Set up the axis that both panels share: linear for few free slots, else by doublings."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    first = min(int(row["free_slots_from"]) for row in rows)
    most = max(int(row["free_slots_to"]) for row in rows)
    if most <= _MOST_LINEAR:
        upper.set_xlim(0.5, most + 0.5)
        lower.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        return
    upper.set_xscale("log")
    upper.set_xlim(first - 0.5, most + 0.5)
    marks = _spread([int(row["free_slots_from"]) for row in rows], first, most, _MOST_SLOTS)
    lower.xaxis.set_major_locator(FixedLocator(marks))
    lower.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    lower.xaxis.set_minor_locator(NullLocator())


def _spread(marks: Sequence[float], low: float, high: float, most: int) -> list[float]:
    """Return the marks of a logarithmic axis that stand far enough apart, the first ones preferred."""
    apart = math.log(high / low) / most if high > low else 0.0
    kept: list[float] = []
    for mark in marks:
        if all(abs(math.log(mark / other)) >= apart for other in kept):
            kept.append(mark)
    return sorted(kept)


def _table_legend(figure: Figure, slas: Sequence[float]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    lines: list[Line2D | Patch] = [
        Line2D([], [], color=LEVELS[n % len(LEVELS)][0], marker=LEVELS[n % len(LEVELS)][1], ms=4, lw=2,
               label=f"risk ≤ {sla:g}")
        for n, sla in enumerate(slas)
    ]  # fmt: skip
    lines.append(Patch(color=PALE, label="never followed up for so long"))
    wide = figure.get_figwidth() >= 1.3 * len(slas) + 2.4
    columns = len(lines) if wide else math.ceil(len(lines) / 2)
    figure.legend(handles=lines, loc="outside lower center", ncols=columns)


def use_figure(clouds: Sequence[CloudUse], *, title: str, until_s: float) -> Figure:
    """Draw the use of each cloud's cores: on-demand, spot on top of it, and evictions marked."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    with rc_context(STYLE):
        figure = Figure(figsize=(9, 1.2 + 1.75 * len(clouds)), layout="constrained")
        figure.suptitle(title, fontsize=11)
        panels = figure.subplots(len(clouds), 1, sharex=True, squeeze=False)[:, 0]
        unit_s, unit = (86400.0, "days") if until_s >= 2 * 86400 else (3600.0, "hours")
        for axes, cloud in zip(panels, clouds, strict=True):
            _draw_use(axes, cloud, until_s, unit_s)
        panels[-1].set_xlabel(f"{unit} of the federation")
        figure.supylabel("cores", fontsize=9)
        handles: list[Patch | Line2D] = [
            Patch(color=_BLUE, label="on-demand: own users"),
            Patch(color=_ORANGE, label="spot: from the federation"),
            Patch(facecolor=PALE, label="free"),
            Line2D([], [], color=_RED, marker="v", ls="", ms=6, mec="white", label="spot instance evicted"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _draw_use(axes: Axes, cloud: CloudUse, until_s: float, unit_s: float) -> None:
    from matplotlib.ticker import MaxNLocator

    time = (
        np.append(cloud.time_s, max(until_s, float(cloud.time_s[-1]) if len(cloud.time_s) else 0.0)) / unit_s
    )
    own = np.append(cloud.on_demand, cloud.on_demand[-1:] if len(cloud.on_demand) else [0.0])
    both = own + np.append(cloud.spot, cloud.spot[-1:] if len(cloud.spot) else [0.0])
    axes.set_facecolor(PALE)
    axes.fill_between(time, 0, own, step="post", color=_BLUE, lw=0)
    axes.fill_between(time, own, both, step="post", color=_ORANGE, lw=0)
    at = cloud.evictions_s[cloud.evictions_s <= until_s] / unit_s
    if len(at):  # an empty line has an extent, which would upset the layout
        above = np.full(len(at), cloud.capacity * 1.06)  # of the panel, so that it hides nothing
        axes.plot(at, above, "v", color=_RED, ms=5, mec="white", mew=0.4, clip_on=False)
    axes.set_xlim(0, until_s / unit_s)
    axes.set_ylim(0, cloud.capacity)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    evicted = f", {len(at)} evicted" if len(at) else ""
    axes.set_title(f"{cloud.name}: {cloud.capacity} cores{evicted}", loc="left", pad=11)


#: Marks of the axis of lifetimes: seconds and label.
_MARKS = {1: "1 s", 60: "1 min", 3600: "1 h", 86400: "1 day", 30 * 86400: "30 days", 365 * 86400: "1 year"}


@dataclass(frozen=True)
class PriceLine:
    """Prices of one market: each holds from its time until the next; unknown in gaps and where it is NaN.

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
    """Draw cores in use over time, arrivals below, and the shares of lifetimes beside them.

    Parameters
    ----------
    lifetimes
        Seconds, and the share of lifetimes that is no longer.
    drop_outs_s
        float64[drop-outs, 2], from and to in seconds.
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
        _draw_lifetime_shares(lives, *lifetimes)
        figure.legend(*cores.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def price_figure(lines: Sequence[PriceLine], *, title: str) -> Figure:
    """Draw prices over time, a panel a market, with a grey ground and no line where they are unknown."""
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


def _draw_lifetime_shares(axes: Axes, seconds: FloatArray, shares: FloatArray) -> None:
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
    for begin, end in _unknown_spans(line):
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


def _unknown_spans(line: PriceLine) -> list[tuple[float, float]]:
    """Return from when until when records have no price, in days."""
    ends = np.append(line.at_days[1:], line.ends_days)
    return [(line.at_days[row], ends[row]) for row in np.flatnonzero(np.isnan(line.usd_per_hour)).tolist()]
