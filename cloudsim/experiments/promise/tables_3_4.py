"""P1 Tables III and IV, P2 Tables 3 and 4: the four production pairs on their full platforms.

Beyond the tables: SLAs in between, and work beside requests, as most of D's core-hours are in few large
instances (PREDICTION.md "Requests are not work").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.promise import pairs
from cloudsim.experiments.promise.published_numbers import (
    ADMITTED,
    EVICTED,
    FIGURES,
    PAIRS,
    WORK,
    drawn,
    quantity,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLAS: tuple[float | None, ...] = (None, 0.25, 0.10, 0.05, 0.01)
_TIGHTEST = 0.01


def _cases(quick: bool) -> list[Case]:
    return [
        Case(
            f"{pair}, SLA {'none' if sla is None else f'{sla:g}'}", pairs.run,
            {"pair": pair, "nodes": pairs.FULL_NODES[pair[0]], "sla": sla, "seed": 0,
             "most": 300 if quick else None},
            pairs.needs(pair),
        )
        for pair in (PAIRS[:1] if quick else PAIRS)
        for sla in ((None, _TIGHTEST) if quick else SLAS)
    ]  # fmt: skip


def _findings(rows: Sequence[Row]) -> list[str]:
    found = [_promise(rows)]
    for pair in PAIRS:
        of = {row["sla"]: row for row in rows if row["pair"] == pair}
        if None not in of or _TIGHTEST not in of:
            continue
        base, kept = of[None], of[_TIGHTEST]
        found.append(
            f"{pair} at SLA .01 (in brackets: no SLA): {_share(kept, ADMITTED)} ({_share(base, ADMITTED)}) "
            f"of the requests admitted, {kept['evicted']} of {kept['spot_admitted']} ({base['evicted']} of "
            f"{base['spot_admitted']}) evicted; 95 % of the ratio from {kept['evicted_low']:.4f} to "
            f"{kept['evicted_high']:.4f}."
        )
        found.append(
            f"{pair}, work: {_share(kept, WORK)} ({_share(base, WORK)}) of the requested core-hours "
            f"completed, {_ratio(kept, base)} of what is without an SLA; {kept['core_hours_lost']:,.0f} "
            f"({base['core_hours_lost']:,.0f}) lost to evictions; utilisation "
            f"{kept['utilisation_without_spot']:.3f} without spot, {kept['utilisation']:.3f} "
            f"({base['utilisation']:.3f}) with it; {kept['on_demand_admitted']:,} on-demand requests "
            f"admitted, {kept['on_demand_admitted_without_spot']:,} without spot."
        )
    baseline = [row for row in rows if row["sla"] is None]
    held = [row["pair"] for row in baseline if row["evicted"] <= 0.01 * row["spot_admitted"]]
    if held:
        found.append(
            f"Without admission control the eviction ratio of {', '.join(held)} is already below .01 here, "
            "where the papers have it above .01 on all four pairs."
        )
    return found


def _share(row: Row, name: str) -> str:
    value = quantity(row, name)
    return "–" if value is None else f"{value:.3f}"


def _ratio(kept: Row, base: Row) -> str:
    done, possible = kept["spot_core_hours_completed"], base["spot_core_hours_completed"]
    return f"{done / possible:.2f}" if possible else "–"


def _promise(rows: Sequence[Row]) -> str:
    promised = [row for row in rows if row["sla"] is not None]
    broken = [
        f"{row['pair']} at {row['sla']:g} ({row['evicted']} of {row['spot_admitted']})"
        for row in promised
        if row["evicted"] > row["sla"] * row["spot_admitted"]
    ]
    kept = len(promised) - len(broken)
    return f"The SLA is kept in {kept} of {len(promised)} runs with one" + (
        f"; not by {', '.join(broken)}." if broken else "."
    )


def _draw(rows: Sequence[Row]) -> Figure:
    from cloudsim.experiments.drawing import figure_of, styled

    shown = [pair for pair in PAIRS if any(row["pair"] == pair for row in rows)]
    with styled():
        figure = figure_of(10, 5.4)
        grid = figure.subplots(2, len(shown), sharex=True, sharey="row", squeeze=False)
        for column, pair in enumerate(shown):
            _shares(grid[0, column], pair, [row for row in rows if row["pair"] == pair])
            _evictions(grid[1, column], pair, [row for row in rows if row["pair"] == pair])
        grid[0, 0].set_ylabel("share")
        grid[1, 0].set_ylabel("evicted ÷ admitted")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        more, names = grid[1, 0].get_legend_handles_labels()
        figure.legend(handles + more, labels + names, loc="outside lower center", ncols=3)
    return figure


def _places(rows: Sequence[Row]) -> list[int]:
    return [SLAS.index(row["sla"]) for row in rows]


def _shares(axes: Axes, pair: str, rows: Sequence[Row]) -> None:
    from cloudsim.experiments.drawing import LINES
    from cloudsim.plots import INK

    for number, (name, label) in enumerate(
        ((ADMITTED, "spot requests admitted"), (WORK, "spot core-hours completed"))
    ):
        colour, marker = LINES[number]
        axes.plot(
            _places(rows), [drawn(row, name) for row in rows], color=colour, marker=marker, ms=5, lw=1.2,
            mec="white", mew=0.5, label=label, clip_on=False,
        )  # fmt: skip
        printed = "printed in the papers" if name == ADMITTED else None
        _printed(axes, pair, name, printed, INK if name == ADMITTED else colour)
    axes.set_title(pair, fontweight="bold")
    axes.set_ylim(0, 1.05)


def _evictions(axes: Axes, pair: str, rows: Sequence[Row]) -> None:
    from cloudsim.experiments.drawing import LINES, evicted_axis
    from cloudsim.plots import GREY, INK

    colour, marker = LINES[3]
    places = _places(rows)
    shares = [quantity(row, EVICTED) or 0.0 for row in rows]
    axes.errorbar(
        places, shares,
        [[share - row["evicted_low"] for share, row in zip(shares, rows, strict=True)],
         [row["evicted_high"] - share for share, row in zip(shares, rows, strict=True)]],
        fmt=marker, color=colour, ms=5, mec="white", mew=0.5, elinewidth=1.2, clip_on=False,
        label="spot evicted, exact 95 %",
    )  # fmt: skip
    for place, sla in enumerate(SLAS):
        if sla is not None:
            axes.plot(
                [place - 0.4, place + 0.4], [sla] * 2, ":", color=GREY, lw=1.4, zorder=0,
                label="the promise" if place == 1 else None,
            )  # fmt: skip
    _printed(axes, pair, EVICTED, None, INK)
    evicted_axis(axes, 0.3)
    axes.set_xticks(range(len(SLAS)), ["none", *(f"{sla:g}".removeprefix("0") for sla in SLAS if sla)])
    axes.set_xlim(-0.5, len(SLAS) - 0.5)
    axes.set_xlabel("SLA")


def _printed(axes: Axes, pair: str, name: str, label: str | None, colour: str) -> None:
    figures = [
        one for one in FIGURES
        if one.experiment == EXPERIMENT.name and one.of["pair"] == pair and one.quantity == name
    ]  # fmt: skip
    axes.plot(
        [SLAS.index(one.of["sla"]) for one in figures], [one.number for one in figures], "_", color=colour,
        ms=18, mew=1.6, zorder=5, label=label,
    )  # fmt: skip


def _draw_work(rows: Sequence[Row]) -> Figure:
    from cloudsim.experiments.drawing import figure_of, styled

    shown = [pair for pair in PAIRS if any(row["pair"] == pair for row in rows)]
    with styled():
        figure = figure_of(9, 1.0 + 2.1 * len(shown))
        panels = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
        for axes, pair in zip(panels, shown, strict=True):
            _work(axes, pair, {row["sla"]: row for row in rows if row["pair"] == pair})
        panels[-1].set_xlabel("cores of the instance")
        figure.supylabel("core-hours", fontsize=9)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _work(axes: Axes, pair: str, of: dict[float | None, Row]) -> None:
    from matplotlib.ticker import FuncFormatter

    from cloudsim.experiments.drawing import LINES
    from cloudsim.plots import GREY

    sizes = [size["cores"] for size in of[None]["by_size"]]
    bars = (
        ("requested", [size["core_hours_requested"] for size in of[None]["by_size"]], GREY),
        ("completed, no SLA", [size["core_hours_completed"] for size in of[None]["by_size"]], LINES[1][0]),
        (
            "completed, SLA .01",
            [size["core_hours_completed"] for size in of[_TIGHTEST]["by_size"]],
            LINES[0][0],
        ),
    )
    for number, (label, heights, colour) in enumerate(bars):
        axes.bar(
            [place + (number - 1) * 0.27 for place in range(len(sizes))],
            heights,
            0.27,
            color=colour,
            label=label,
        )
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_title(pair, loc="left", fontweight="bold")


EXPERIMENT = Experiment(
    name="tables-3-4",
    title="Production traces: the four pairs on their own platforms",
    source="P1 Tables III and IV (§III-D), P2 Tables 3 and 4 (§3.4) and §3.6",
    cases=_cases,
    pictures=(
        Picture(
            "tables-3-4",
            "Above, share of spot requests admitted and of requested spot core-hours completed; below, share "
            "of the admitted that was evicted, with its exact 95 % interval. Dashes are printed in the "
            "papers (the coloured one: the only one of core-hours). Dotted lines are the promise.",
            _draw,
        ),
        Picture(
            "tables-3-4-work",
            "Spot core-hours by size of instance: requested, and completed without an SLA and at SLA .01. A "
            "few large instances hold much of the work.",
            _draw_work,
        ),
    ),
    findings=_findings,
)
