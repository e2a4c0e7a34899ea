"""Samples that still run when the history ends: three ways to count them, and the papers' rank beside them.

A virtual instance that has not been evicted yet says something, but not when it will be. Leaving it out makes
the risk of the few that were evicted the risk of all; where none was evicted there is no sample, so that
nothing is admitted and nothing will ever be evicted. Counting it as evicted is far too careful.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cloudsim.experiments.drawing import (
    Dot,
    Figure,
    dots_by_group,
    legend_below,
    panels,
    promise_line,
    share_axis,
)
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, distinct, total, where
from cloudsim.experiments.promise import outcomes, pairs
from cloudsim.experiments.promise.beds import draw
from cloudsim.experiments.promise.outcomes import BedOutcome, outcome, share
from cloudsim.prediction.rule import Censoring, PredictionRule

SLA = 0.01
SEEDS = range(10)
BIRTHS = 10_000
BEDS = ("synthetic", "long-lived")
PAIRS = ("A-B", "B-A", "C-D", "D-C")

#: Name → how running samples are counted.
VARIANTS: dict[str, PredictionRule] = {
    "Kaplan–Meier": PredictionRule(),
    "always youngest": PredictionRule(always_youngest=True),
    "as evicted": PredictionRule(censoring=Censoring.AS_EVICTED),
    "dropped": PredictionRule(censoring=Censoring.DROPPED),
}


def on_bed(_data: Path | None, *, bed: str, seed: int, births: int, hours: float | None = None) -> list[Row]:
    """Run one draw of a bed under every variant."""
    drawn = draw(bed, seed, hours)
    return [
        drawn.row(sla=SLA, prediction=prediction, births=births, seed=seed) | {"bed": bed, "variant": variant}
        for variant, prediction in VARIANTS.items()
    ]


def on_pair(data: Path, *, pair: str, variant: str, births: int) -> list[Row]:
    """Run a pair of production traces on the platform of the first under one variant."""
    row = pairs.pair_row(data, pair, sla=SLA, prediction=VARIANTS[variant], births=births)
    return [row | {"bed": pair, "variant": variant}]


def _cases(quick: bool) -> list[Case]:
    if quick:
        short: dict[str, Any] = {"births": outcomes.QUICK_BIRTHS, "hours": 60.0}
        return [Case(f"{bed}, seed 0", on_bed, {"bed": bed, "seed": 0, **short}) for bed in BEDS]
    return [
        Case(f"{bed}, seed {seed}", on_bed, {"bed": bed, "seed": seed, "births": BIRTHS})
        for bed in BEDS
        for seed in SEEDS
    ] + [
        Case(
            f"{pair}, {variant}", on_pair, {"pair": pair, "variant": variant, "births": BIRTHS},
            pairs.needs(pair),
        )
        for pair in PAIRS
        for variant in VARIANTS
    ]  # fmt: skip


def _outcomes(rows: Sequence[Row]) -> dict[str, dict[str, BedOutcome]]:
    """Return variant → bed → outcome of all its runs."""
    return {
        variant: {bed: outcome(where(rows, bed=bed, variant=variant)) for bed in distinct(rows, "bed")}
        for variant in VARIANTS
    }


def _sentences(rows: Sequence[Row]) -> list[str]:
    beds, pooled = distinct(rows, "bed"), _outcomes(rows)
    texts = []
    for bed in beds:
        each = ", ".join(
            f"{variant} {share(of[bed].admitted)} ({of[bed].work}, {share(of[bed].evicted)} evicted, "
            f"kept in {of[bed].kept_text})"
            for variant, of in pooled.items()
        )
        texts.append(f"{bed} at {SLA:g}, admitted: {each}.")
    stuck = [bed for bed in beds if total(where(rows, bed=bed, variant="dropped"), "spot_admitted") == 0]
    if stuck:
        texts.append(
            f"Deadlock: on {', '.join(stuck)} nothing at all is admitted when running samples are dropped, "
            "whatever the seed."
        )
    return texts


def _draw(rows: Sequence[Row]) -> Figure:
    beds, pooled = distinct(rows, "bed"), _outcomes(rows)
    shares = {
        name: {bed: Dot.at(all_seeds.admitted) for bed, all_seeds in of.items()}
        for name, of in pooled.items()
    }
    evictions = {
        name: {
            bed: Dot(all_seeds.evicted, all_seeds.low, all_seeds.high)
            for bed, all_seeds in of.items()
            if all_seeds.admitted
        }
        for name, of in pooled.items()
    }
    floor, title = SLA / 30, "Samples that still run when the history ends"
    with panels(title, 2, 1, size=(8.6, 6.2), sharex=True) as (figure, axes):
        admitted, evicted = axes[:, 0]
        dots_by_group(admitted, beds, shares)
        share_axis(admitted, "admitted share of requests")
        admitted.set_ylim(0, 1)
        dots_by_group(evicted, beds, evictions, floor=floor)
        share_axis(evicted, "evicted share of admitted", log=True)
        evicted.set_ylim(floor, 1)
        promise_line(evicted, SLA)
        legend_below(figure, admitted)
    return figure


EXPERIMENT = Experiment(
    name="censoring",
    title="Samples that still run when the history ends",
    source='docs/design/prediction.md "What the papers leave open"',
    cases=_cases,
    pictures=(
        Picture(
            "censoring",
            "Admitted and evicted at SLA .01, strict, for each way to count virtual instances that still run "
            "when the history ends, and with the rank that P2 §2.4 seems to give the virtual instance "
            "(always the youngest; Kaplan–Meier as well). Bars are exact 95 % intervals over all seeds; no "
            "dot where nothing is admitted, and a dot on the lower edge where nobody is evicted.",
            _draw,
        ),
    ),
    sentences=_sentences,
)
