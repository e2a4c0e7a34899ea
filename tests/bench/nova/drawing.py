"""The picture of ``compare``: Figure 2's bars at the fewest hosts, and both schedulers by number of hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cloudsim.experiments.drawing import LINES, figure_of, styled
from cloudsim.plots import GREY, PALE, save
from tests.bench.nova.scenarios import FIGURE_2, SCHEDULERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["figure", "save"]

Row = Mapping[str, Any]
#: Parties that are drawn: the name shown, how their line and their bars look.
_PARTIES: dict[str, tuple[str, Any, float]] = {
    "nova": ("nova", "-", 1.0),
    "nova alike": ("nova, our filters only", ":", 0.65),
    "ours": ("spotfed", "--", 0.35),
}
_LOOKS = dict(zip(SCHEDULERS, LINES, strict=False))
_GROUPS = (("empty", "normal"), ("empty", "preemptible"), ("saturated", "normal"))


def figure(rows: Sequence[Row]) -> Figure:
    """``rows`` are those of ``table.rows``: all parties, every scenario of Figure 2, one or more numbers
    of hosts."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    fewest = min(int(row["hosts"]) for row in rows)
    with styled():
        drawn = figure_of(11, 4.4)
        drawn.suptitle("Time to schedule one instance: nova's handlers and spotfed", fontsize=11)
        bars, empty, saturated = drawn.subplots(1, 3, width_ratios=[1.35, 1, 1], sharey=True)
        _draw_bars(bars, [row for row in rows if row["hosts"] == fewest])
        bars.set_title(f"{fewest} hosts (mean, standard deviation)", loc="left")
        bars.set_ylabel("ms of process time a request")
        for axes, state in ((empty, "empty"), (saturated, "saturated")):
            _draw_lines(axes, [row for row in rows if (row["state"], row["kind"]) == (state, "normal")])
            axes.set_title(f"normal requests, {state} (median)", loc="left")
        handles: list[Line2D | Patch] = [
            Line2D([], [], color=_LOOKS[name][0], marker=_LOOKS[name][1], ms=4, label=name)
            for name in SCHEDULERS
        ]
        handles += [
            Line2D([], [], color=GREY, ls=style, label=shown) for shown, style, _ in _PARTIES.values()
        ]
        handles += [Patch(color=GREY, alpha=alpha, label=shown) for shown, _, alpha in _PARTIES.values()]
        drawn.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return drawn


def _draw_bars(axes: Axes, rows: Sequence[Row]) -> None:
    """The bars of Figure 2, those of the parties side by side."""
    found = {(row["party"], *_case(row)): row for row in rows}
    middles, left = [], 0.0
    for state, kind in _GROUPS:
        group = [one for one in FIGURE_2 if (one.state, one.kind) == (state, kind)]
        for number, one in enumerate(group):
            for side, (party, (_, _, alpha)) in enumerate(_PARTIES.items()):
                row = found[party, one.scheduler, state, kind]
                mean_ms, deviation_ms = row["mean_ms"], row["deviation_ms"]
                axes.bar(
                    left + number + 0.28 * side, mean_ms, 0.26, color=_LOOKS[one.scheduler][0], alpha=alpha,
                    yerr=[[min(deviation_ms, 0.9 * mean_ms)], [deviation_ms]], ecolor=GREY, capsize=2,
                )  # fmt: skip
        middles.append(left + (len(group) - 1) / 2 + 0.28)
        left += len(group) + 0.6
    axes.set_xticks(middles, [f"{kind},\n{state}" for state, kind in _GROUPS])
    axes.set_yscale("log")
    axes.grid(axis="y", color=PALE, lw=0.7)
    axes.set_axisbelow(True)


def _case(row: Row) -> tuple[str, str, str]:
    return row["scheduler"], row["state"], row["kind"]


def _draw_lines(axes: Axes, rows: Sequence[Row]) -> None:
    """A line a scheduler and party: ms a request by number of hosts, both logarithmic."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    for party, (_, style, _) in _PARTIES.items():
        for name, (colour, marker) in _LOOKS.items():
            own = sorted(
                (row["hosts"], row["median_ms"])
                for row in rows
                if (row["party"], row["scheduler"]) == (party, name)
            )
            if own:
                axes.plot(
                    *zip(*own, strict=True), style, color=colour, marker=marker, ms=4, mec="white", mew=0.4
                )
    axes.set_xscale("log")
    axes.set_xlabel("hosts")
    axes.xaxis.set_major_locator(FixedLocator(sorted({row["hosts"] for row in rows})))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", color=PALE, lw=0.7)
