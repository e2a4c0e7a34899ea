"""P1 Tables III and IV, P2 Tables 3 and 4: the four production pairs on their full platforms.

Beyond the tables: SLAs in between, and work beside requests, because most of D's core-hours are in few large
instances (docs/design/prediction.md "Requests are not work").
"""

from __future__ import annotations

from collections.abc import Sequence

from cloudsim.experiments.drawing import (
    LINES,
    Axes,
    Figure,
    evicted_axis,
    legend_below,
    panels,
    promise_steps,
)
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, where
from cloudsim.experiments.promise import pairs
from cloudsim.experiments.promise.outcomes import keeps_promise
from cloudsim.experiments.promise.published_numbers import (
    ADMITTED,
    EVICTED,
    ON_DEMAND,
    PAIRS,
    WORK,
    drawn,
    of_experiment,
    quantity,
)
from cloudsim.experiments.runs import share_of_work
from cloudsim.plots import GREY, INK

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


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts = [_promise(rows)]
    for pair in PAIRS:
        of = {row["sla"]: row for row in where(rows, pair=pair)}
        if None not in of or _TIGHTEST not in of:
            continue
        base, kept = of[None], of[_TIGHTEST]
        texts.append(
            f"{pair} at SLA .01 (in brackets: no SLA): {_share(kept, ADMITTED)} ({_share(base, ADMITTED)}) "
            f"of the requests admitted, {share_of_work(kept)} ({_share(base, WORK)}); "
            f"{kept['evicted']} of {kept['spot_admitted']} ({base['evicted']} of "
            f"{base['spot_admitted']}) evicted; 95 % of the ratio from "
            f"{kept['evicted_low']:.4f} to {kept['evicted_high']:.4f}."
        )
        texts.append(
            f"{pair}: {kept['core_hours_lost']:,.0f} ({base['core_hours_lost']:,.0f}) core-hours lost to "
            "evictions; utilisation "
            f"{kept['utilisation_without_spot']:.3f} without spot, {kept['utilisation']:.3f} "
            f"({base['utilisation']:.3f}) with it; {kept['on_demand_admitted']:,} on-demand requests "
            f"admitted, {kept['on_demand_admitted_without_spot']:,} without spot."
        )
    baseline = where(rows, sla=None)
    texts += [
        f"A-B admits {_share(row, ON_DEMAND)} of the on-demand requests here; the papers' .977 is ours on "
        "six nodes (experiment scaling)."
        for row in where(baseline, pair="A-B")
    ]
    below = [row["pair"] for row in baseline if row["evicted"] <= 0.01 * row["spot_admitted"]]
    if below:
        texts.append(
            f"Without admission control the eviction ratio of {', '.join(below)} is already below .01 here, "
            "where the papers have it above .01 on all four pairs."
        )
    return texts


def _share(row: Row, name: str) -> str:
    value = quantity(row, name)
    return "–" if value is None else f"{value:.3f}"


def _promise(rows: Sequence[Row]) -> str:
    promised = [row for row in rows if row["sla"] is not None]
    broken = [
        f"{row['pair']} at {row['sla']:g} ({row['evicted']} of {row['spot_admitted']})"
        for row in promised
        if not keeps_promise(row)
    ]
    kept = len(promised) - len(broken)
    return f"The SLA is kept in {kept} of {len(promised)} runs with one" + (
        f"; not by {', '.join(broken)}." if broken else "."
    )


def _draw(rows: Sequence[Row]) -> Figure:
    shown = [pair for pair in PAIRS if where(rows, pair=pair)]
    with panels(None, 2, len(shown), size=(10, 5.4), sharex=True, sharey="row") as (figure, axes):
        for column, pair in enumerate(shown):
            _draw_shares(axes[0, column], pair, where(rows, pair=pair))
            _draw_evictions(axes[1, column], pair, where(rows, pair=pair))
        axes[0, 0].set_ylabel("share")
        axes[1, 0].set_ylabel("evicted ÷ admitted")
        legend_below(figure, *axes[:, 0], columns=3)
    return figure


def _places(rows: Sequence[Row]) -> list[int]:
    return [SLAS.index(row["sla"]) for row in rows]


def _draw_shares(axes: Axes, pair: str, rows: Sequence[Row]) -> None:
    for number, (name, label) in enumerate(
        ((ADMITTED, "spot requests admitted"), (WORK, "spot core-hours completed"))
    ):
        colour, marker = LINES[number]
        axes.plot(
            _places(rows), [drawn(row, name) for row in rows], color=colour, marker=marker, ms=5, lw=1.2,
            mec="white", mew=0.5, label=label, clip_on=False,
        )  # fmt: skip
        printed = "printed in the papers" if name == ADMITTED else None
        _draw_printed(axes, pair, name, printed, INK if name == ADMITTED else colour)
    axes.set_title(pair, fontweight="bold")
    axes.set_ylim(0, 1.05)


def _draw_evictions(axes: Axes, pair: str, rows: Sequence[Row]) -> None:
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
    promise_steps(axes, SLAS, 0.4)
    _draw_printed(axes, pair, EVICTED, None, INK)
    evicted_axis(axes, 0.3)
    axes.set_xticks(range(len(SLAS)), ["none", *(f"{sla:g}".removeprefix("0") for sla in SLAS if sla)])
    axes.set_xlim(-0.5, len(SLAS) - 0.5)
    axes.set_xlabel("SLA")


def _draw_printed(axes: Axes, pair: str, name: str, label: str | None, colour: str) -> None:
    numbers = [number for number in of_experiment(EXPERIMENT.name, name) if number.of["pair"] == pair]
    axes.plot(
        [SLAS.index(number.of["sla"]) for number in numbers], [number.number for number in numbers], "_",
        color=colour, ms=18, mew=1.6, zorder=5, label=label,
    )  # fmt: skip


def _draw_work(rows: Sequence[Row]) -> Figure:
    from matplotlib.ticker import FuncFormatter

    shown = [pair for pair in PAIRS if where(rows, pair=pair)]
    with panels(None, len(shown), 1, size=(9, 1.0 + 2.1 * len(shown))) as (figure, axes):
        for panel, pair in zip(axes.flat, shown, strict=True):
            of = {row["sla"]: row["by_size"] for row in where(rows, pair=pair)}
            bars = (
                ("requested", of[None], "core_hours_requested", GREY),
                ("completed, no SLA", of[None], "core_hours_completed", LINES[1][0]),
                ("completed, SLA .01", of[_TIGHTEST], "core_hours_completed", LINES[0][0]),
            )
            for number, (label, sizes, column, colour) in enumerate(bars):
                places = [place + (number - 1) * 0.27 for place in range(len(sizes))]
                panel.bar(places, [size[column] for size in sizes], 0.27, color=colour, label=label)
            panel.set_xticks(range(len(of[None])), [str(size["cores"]) for size in of[None]])
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            panel.set_title(pair, loc="left", fontweight="bold")
        axes[-1, 0].set_xlabel("cores of the instance")
        figure.supylabel("core-hours", fontsize=9)
        legend_below(figure, axes[0, 0], columns=3)
    return figure


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
    sentences=_sentences,
)
