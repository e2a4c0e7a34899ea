"""P1 Figures 6 and 7, P2 Figures 7 to 10: the production pairs on ever fewer nodes, at SLA .01 and none."""

from __future__ import annotations

from collections.abc import Sequence

from cloudsim.experiments.drawing import LINES, Axes, Figure, evicted_axis, legend_below, panels
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, distinct, where
from cloudsim.experiments.promise import pairs
from cloudsim.experiments.promise.outcomes import keeps_promise
from cloudsim.experiments.promise.published_numbers import (
    ADMITTED,
    BASELINE_COUNTS,
    EVICTED,
    ON_DEMAND,
    PAIRS,
    REQUESTS,
    drawn,
    of_experiment,
    quantity,
)
from cloudsim.experiments.runs import share_of_work
from cloudsim.plots import GREY, INK

SLAS: tuple[float | None, ...] = (None, 0.01)
#: Cloud → nodes taken away: up to three of the small clouds' seven, fifteen of the large ones' thirty-one.
STEPS = {"A": (0, 1, 2, 3), "B": (0, 1, 2, 3), "C": (0, 5, 10, 15), "D": (0, 5, 10, 15)}


def _cases(quick: bool) -> list[Case]:
    return [
        Case(
            f"{pair} on {nodes} nodes, SLA {'none' if sla is None else f'{sla:g}'}", pairs.run,
            {"pair": pair, "nodes": nodes, "sla": sla, "seed": 0, "most": 300 if quick else None},
            pairs.needs(pair),
        )
        for pair in (PAIRS[:1] if quick else PAIRS)
        for nodes in _nodes(pair)[: 2 if quick else None]
        for sla in SLAS
    ]  # fmt: skip


def _nodes(pair: str) -> list[int]:
    return [pairs.FULL_NODES[pair[0]] - step for step in STEPS[pair[0]]]


def _sentences(rows: Sequence[Row]) -> list[str]:
    promised = [row for row in rows if row["sla"] is not None]
    broken = [
        f"{row['pair']} on {row['nodes']} ({row['evicted']} of {row['spot_admitted']}, {_exact(row)})"
        for row in promised
        if not keeps_promise(row)
    ]
    texts = [
        f"The SLA of .01 is kept on {len(promised) - len(broken)} of {len(promised)} platforms"
        + (f"; not on {', '.join(broken)}." if broken else ".")
    ]
    texts += [
        f"{pair} at SLA .01: {'; '.join(_platform(row) for row in own)}."
        for pair in PAIRS
        if (own := where(promised, pair=pair))
    ]
    whole = [row for row in rows if row["on_demand_requests"] == REQUESTS[row["pair"][0]]]
    return texts + _unaware(where(whole, sla=None))


def _unaware(rows: Sequence[Row]) -> list[str]:
    """Return sentences about runs of whole traces without an SLA."""
    different = [
        f"{row['pair']} on {row['nodes']}"
        for row in rows
        if BASELINE_COUNTS[row["pair"], row["nodes"]]
        != (row["on_demand_admitted"], row["spot_admitted"], row["evicted"])
    ]
    texts = []
    if rows:
        texts.append(
            f"Without an SLA, {len(rows) - len(different)} of {len(rows)} platforms give exactly the counts "
            "of docs/design/prediction.md" + (f"; others: {', '.join(different)}." if different else ".")
        )
    texts += [
        "The papers' A-B without an SLA on 7 nodes (on-demand .977, spot 1.000, evicted .013) is ours on 6 "
        f"nodes: {quantity(row, ON_DEMAND):.3f}, {quantity(row, ADMITTED):.3f}, {quantity(row, EVICTED):.3f}."
        for row in rows
        if (row["pair"], row["nodes"]) == ("A-B", "6x12")
    ]
    return texts


def _exact(row: Row) -> str:
    return f"95 % from {row['evicted_low']:.4f} to {row['evicted_high']:.4f}"


def _platform(row: Row) -> str:
    lost = row["on_demand_admitted_without_spot"] - row["on_demand_admitted"]
    admitted, evicted = quantity(row, ADMITTED), quantity(row, EVICTED)
    assert admitted is not None
    return (
        f"{row['nodes']} admits {admitted:.3f}, {share_of_work(row)}"
        + (f" and evicts {evicted:.4f}" if evicted is not None else "")
        + (
            f", with {abs(lost)} on-demand requests {'fewer' if lost > 0 else 'more'} than without spot"
            if lost
            else ""
        )
    )


def _draw(rows: Sequence[Row]) -> Figure:
    shown = [pair for pair in PAIRS if where(rows, pair=pair)]
    with panels(None, 2, len(shown), size=(10, 5.4), sharex="col", sharey="row") as (figure, axes):
        for pair, (admitted, evicted) in zip(shown, axes.T, strict=True):
            own = where(rows, pair=pair)
            _draw_lines(admitted, pair, own, ((None, ON_DEMAND), (None, ADMITTED), (0.01, ADMITTED)))
            _draw_lines(evicted, pair, own, ((None, EVICTED), (0.01, EVICTED)))
            admitted.set_title(pair, fontweight="bold")
            evicted.axhline(0.01, ls=":", color=GREY, lw=1.4, zorder=0, label="the promise")
            evicted_axis(evicted, 0.12)
        axes[0, 0].set_ylim(0, 1.05)
        axes[0, 0].set_ylabel("share admitted")
        axes[1, 0].set_ylabel("evicted ÷ admitted")
        legend_below(figure, *axes.flat, columns=3)
    return figure


_LABELS = {
    (None, ON_DEMAND): ("on-demand admitted, no SLA", 2),
    (None, ADMITTED): ("spot, no SLA", 1),
    (0.01, ADMITTED): ("spot, SLA .01", 0),
    (None, EVICTED): ("spot, no SLA", 1),
    (0.01, EVICTED): ("spot, SLA .01", 0),
}


def _draw_lines(
    axes: Axes, pair: str, rows: Sequence[Row], lines: Sequence[tuple[float | None, str]]
) -> None:
    shapes = distinct(rows, "nodes")
    for place, (sla, name) in enumerate(lines):
        label, style = _LABELS[sla, name]
        colour, marker = LINES[style]
        own = where(rows, sla=sla)
        beside = (place - 0.5) * 0.14 if name == EVICTED else 0.0  # so that intervals do not hide each other
        places = [shapes.index(row["nodes"]) + beside for row in own]
        axes.plot(
            places, [drawn(row, name) for row in own], color=colour, marker=marker, ms=5, lw=1.2,
            mec="white", mew=0.5, label=label, zorder=4 + place, clip_on=False,
        )  # fmt: skip
        if name == EVICTED:
            axes.vlines(
                places, [row["evicted_low"] for row in own], [row["evicted_high"] for row in own],
                color=colour, lw=1.2, alpha=0.6,
            )  # fmt: skip
        printed = [
            number
            for number in of_experiment(EXPERIMENT.name, name)
            if (number.of["pair"], number.of["sla"]) == (pair, sla) and number.of["nodes"] in shapes
        ]
        if printed:
            axes.plot(
                [shapes.index(number.of["nodes"]) for number in printed],
                [number.number for number in printed], "_",
                color=INK, ms=18, mew=1.6, zorder=9, label="printed in the papers",
            )  # fmt: skip
    axes.set_xticks(range(len(shapes)), [shape.partition("x")[0] for shape in shapes])
    axes.set_xlim(-0.4, len(shapes) - 0.6)
    if lines[0][1] == EVICTED:
        axes.set_xlabel("nodes")


EXPERIMENT = Experiment(
    name="scaling",
    title="Production traces on ever fewer nodes",
    source="P1 Figures 6 and 7 (§III-E), P2 Figures 7 to 10 (§3.5)",
    cases=_cases,
    pictures=(
        Picture(
            "scaling",
            "Requests admitted (above) and admitted spot instances evicted (below, with exact 95 % "
            "intervals) on full and reduced platforms. Dashes are printed in the papers: the numbers of P1 "
            "Figure 7, and the one miss that P2 reports.",
            _draw,
        ),
    ),
    sentences=_sentences,
)
