"""The number of samples that a promise needs: tables from few births, from many, and from all.

Where all instances are of one size, tables can be worked out for every time of birth
(docs/design/prediction.md "Fast"): promises that are still broken then are not broken by sampling error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cloudsim.experiments.drawing import LINES, Axes, Figure, legend_below, panels, promise_line, share_axis
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, distinct, where
from cloudsim.experiments.promise import outcomes
from cloudsim.experiments.promise.beds import ONE_SIZE, draw
from cloudsim.experiments.promise.outcomes import outcome, share
from cloudsim.prediction.rule import PredictionRule

SLA = 0.01
#: Bed → seeds. Five sizes take longer than one, and have no exact table.
SEEDS = {"synthetic": range(6), "bursts": range(6), "mixed-bursts": range(3)}
BIRTHS = (100, 300, 1_000, 2_500, 10_000, 40_000)
MOST_BIRTHS_MIXED = 10_000
ALL = "all"  # births of an exact table
#: Births → evicted share that docs/design/prediction.md reports of prototypes under bursts.
PROTOTYPE = {"1000": 0.0230, "2500": 0.0187, "10000": 0.0114, "40000": 0.0079}


def measure(
    _data: Path | None, *, bed: str, seed: int, births: Sequence[int], hours: float | None = None
) -> list[Row]:
    """Run one draw of a bed at SLA .01, strict, with each number of births a size; one size also with all."""
    drawn = draw(bed, seed, hours)
    sampled = PredictionRule(sampled=True)
    rows = [
        drawn.row(sla=SLA, prediction=sampled, births=count, seed=seed) | {"bed": bed, "births": str(count)}
        for count in births
    ]
    if bed in ONE_SIZE:
        rows.append(drawn.row(sla=SLA, seed=seed) | {"bed": bed, "births": ALL})
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
    """Return the numbers of births, ascending; all of them last."""
    births = {str(row["births"]) for row in rows}
    return sorted(births - {ALL}, key=int) + sorted(births & {ALL})


def _written(births: str) -> str:
    return births if births == ALL else f"{int(births):,}"


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts = []
    for bed in distinct(rows, "bed"):
        for births in _numbers(where(rows, bed=bed)):
            pooled = outcome(where(rows, bed=bed, births=births))
            prototype = PROTOTYPE.get(births) if bed == "bursts" else None
            beside = "" if prototype is None else f" (prototype: {share(prototype)})"
            texts.append(
                f"{bed} with {_written(births)} births: {share(pooled.evicted)} evicted{beside}, "
                f"{share(pooled.admitted)} admitted, {pooled.work}; {SLA:g} is kept in {pooled.kept_text} "
                "seeds."
            )
    return texts


def _draw(rows: Sequence[Row]) -> Figure:
    with panels("Sampling error", 2, 1, size=(6.6, 6.4), sharex=True) as (figure, axes):
        evicted, admitted = axes[:, 0]
        numbers = _numbers(rows)
        for number, bed in enumerate(distinct(rows, "bed")):
            _draw_bed(evicted, admitted, where(rows, bed=bed), numbers, bed, number)
        promise_line(evicted, SLA)
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
    pooled = {places[births]: outcome(where(rows, births=births)) for births in _numbers(rows)}
    x = [places[row["births"]] for row in rows]
    pale: Any = {"color": colour, "alpha": 0.3, "ms": 4.0, "mew": 0.0}
    evicted.plot(x, [row["evicted"] / max(row["spot_admitted"], 1) or np.nan for row in rows], ".", **pale)
    admitted.plot(x, [row["spot_admitted"] / max(row["spot_requests"], 1) for row in rows], ".", **pale)
    for place, all_seeds in pooled.items():
        evicted.plot([place, place], [all_seeds.low or np.nan, all_seeds.high], color=colour, lw=1.4)
    style: Any = {"marker": marker, "color": colour, "ms": 6, "mec": "white", "lw": 1.2}
    evicted.plot(list(pooled), [all_seeds.evicted or np.nan for all_seeds in pooled.values()], **style)
    admitted.plot(list(pooled), [all_seeds.admitted for all_seeds in pooled.values()], label=bed, **style)


EXPERIMENT = Experiment(
    name="sampling-error",
    title="How many samples a promise needs",
    source='docs/design/prediction.md "What the papers leave open"',
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
    sentences=_sentences,
)
