"""How many samples a promise needs: the same loads with tables from few births, from many, and from all.

Where all instances are of one size, tables can be worked out for every time of birth (PREDICTION.md "Fast"):
what is then left of broken promises is not sampling error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudsim.experiments.drawing import LINES
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.panels import legend_below, panels, share_axis
from cloudsim.experiments.promise import outcomes
from cloudsim.experiments.promise.beds import ONE_SIZE, SPOT_DELAY_S, draw
from cloudsim.experiments.promise.outcomes import chosen, outcome, share
from cloudsim.experiments.runs import single_cloud_row
from cloudsim.plots import GREY
from cloudsim.prediction.rule import PredictionRule

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLA = 0.01
#: Bed → seeds. Five sizes take longer than one, and have no exact table.
SEEDS = {"synthetic": range(6), "bursts": range(6), "mixed-bursts": range(3)}
BIRTHS = (100, 300, 1_000, 2_500, 10_000, 40_000)
MOST_BIRTHS_MIXED = 10_000
ALL = "all"  # births of an exact table
#: Evicted shares that PREDICTION.md reports of prototypes under bursts.
PROTOTYPE = {"1000": 0.0230, "2500": 0.0187, "10000": 0.0114, "40000": 0.0079}


def measure(
    data: Path | None, *, bed: str, seed: int, births: Sequence[int], hours: float | None = None
) -> list[Row]:
    """A case: one draw of a bed at SLA .01, strict, with so many births a size, and with all (one size)."""
    del data
    drawn = draw(bed, seed, hours)
    rows = [
        single_cloud_row(
            pair=bed, nodes=drawn.nodes, on_demand=drawn.on_demand, spot=drawn.spot, sla=SLA,
            spot_delay_s=SPOT_DELAY_S, prediction=PredictionRule(sampled=True), births=count, seed=seed,
        )
        | {"bed": bed, "births": str(count)}
        for count in births
    ]  # fmt: skip
    if bed in ONE_SIZE:
        exact = single_cloud_row(
            pair=bed, nodes=drawn.nodes, on_demand=drawn.on_demand, spot=drawn.spot, sla=SLA,
            spot_delay_s=SPOT_DELAY_S, seed=seed,
        )  # fmt: skip
        rows.append(exact | {"bed": bed, "births": ALL})
    return rows


def _cases(quick: bool) -> list[Case]:
    if quick:
        short = {"births": [100, 1000], "hours": outcomes.QUICK_HOURS}
        return [Case(f"{bed}, seed 0", measure, {"bed": bed, "seed": 0, **short}) for bed in SEEDS]
    return [
        Case(f"{bed}, seed {seed}", measure, {"bed": bed, "seed": seed, "births": _births(bed)})
        for bed, seeds in SEEDS.items()
        for seed in seeds
    ]


def _births(bed: str) -> list[int]:
    return [births for births in BIRTHS if bed in ONE_SIZE or births <= MOST_BIRTHS_MIXED]


def _numbers(rows: Sequence[Row]) -> list[str]:
    """Of births, ascending; all of them last."""
    found = {str(row["births"]) for row in rows}
    return sorted(found - {ALL}, key=int) + sorted(found & {ALL})


def _written(births: str) -> str:
    return births if births == ALL else f"{int(births):,}"


def _findings(rows: Sequence[Row]) -> list[str]:
    said = []
    for bed in outcomes.values(rows, "bed"):
        for births in _numbers(chosen(rows, bed=bed)):
            found = outcome(chosen(rows, bed=bed, births=births))
            prototype = PROTOTYPE.get(births) if bed == "bursts" else None
            beside = "" if prototype is None else f" (prototype: {share(prototype)})"
            said.append(
                f"{bed} with {_written(births)} births: {share(found.evicted)} evicted{beside}, "
                f"{share(found.admitted)} admitted; {SLA:g} is kept in {found.held_text} seeds."
            )
    return said


def _draw(rows: Sequence[Row]) -> Figure:
    with panels("Sampling error", 2, 1, size=(6.6, 6.4), sharex=True) as (figure, grid):
        evicted, admitted = grid[:, 0]
        numbers = _numbers(rows)
        for number, bed in enumerate(outcomes.values(rows, "bed")):
            _draw_bed(evicted, admitted, chosen(rows, bed=bed), numbers, bed, number)
        evicted.axhline(SLA, color=GREY, lw=1)
        evicted.annotate(
            "promise", (1, SLA), xycoords=("axes fraction", "data"), xytext=(0, 2),
            textcoords="offset points", ha="right", color=GREY, fontsize=8,
        )  # fmt: skip
        share_axis(evicted, "evicted share of admitted", log=True)
        share_axis(admitted, "admitted share of requests")
        admitted.set_ylim(bottom=0)
        admitted.set_xticks(range(len(numbers)), [_written(births) for births in numbers])
        admitted.set_xlabel("births a size")
        legend_below(figure, admitted)
    return figure


def _draw_bed(
    evicted: Axes, admitted: Axes, rows: Sequence[Row], numbers: Sequence[str], bed: str, number: int
) -> None:
    colour, marker = LINES[number]
    places = {births: place + 0.08 * (number - 1) for place, births in enumerate(numbers)}
    own = _numbers(rows)
    found = [outcome(chosen(rows, births=births)) for births in own]
    at = [places[births] for births in own]
    x = [places[row["births"]] for row in rows]
    each = [row["evicted"] / max(row["spot_admitted"], 1) or np.nan for row in rows]
    taken = [row["spot_admitted"] / max(row["spot_requests"], 1) for row in rows]
    pale: Any = {"color": colour, "alpha": 0.3, "ms": 4.0, "mew": 0.0}
    evicted.plot(x, each, ".", **pale)
    admitted.plot(x, taken, ".", **pale)
    for place, one in zip(at, found, strict=True):
        evicted.plot([place, place], [one.low or np.nan, one.high], color=colour, lw=1.4)
    line = f"{marker}-"
    evicted.plot(at, [one.evicted or np.nan for one in found], line, color=colour, ms=6, mec="white", lw=1.2)
    admitted.plot(
        at, [one.admitted for one in found], line, color=colour, ms=6, mec="white", lw=1.2, label=bed
    )


EXPERIMENT = Experiment(
    name="sampling-error",
    title="How many samples a promise needs",
    source='PREDICTION.md, "What the papers leave open"',
    cases=_cases,
    pictures=(
        Picture(
            "sampling-error",
            "Evicted and admitted shares at SLA .01, strict, by the number of Monte-Carlo samples a size, "
            "and with exact tables (all births). Pale dots are single seeds, marks all of them with "
            "exact 95 % intervals.",
            _draw,
        ),
    ),
    findings=_findings,
)
