"""What becomes of samples that still run when the history ends: three answers, and the papers' rank beside.

A virtual instance that has not been evicted yet says something, but not when it will be. Leaving it out makes
the risk of the few that were evicted the risk of all; where nobody was evicted there is nothing to go by, so
that nothing is admitted, and nobody ever will be. Taking it for evicted is far too careful.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.panels import Dot, dots_by_group, legend_below, panels, share_axis
from cloudsim.experiments.promise import outcomes, pairs
from cloudsim.experiments.promise.beds import SPOT_DELAY_S, draw
from cloudsim.experiments.promise.outcomes import chosen, outcome, share
from cloudsim.experiments.runs import single_cloud_row
from cloudsim.plots import GREY
from cloudsim.prediction.rule import Censoring, PredictionRule
from cloudsim.traces.formats import read

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLA = 0.01
SEEDS = range(10)
BIRTHS = 10_000
BEDS = ("synthetic", "long-lived")
PAIRS = ("A-B", "B-A", "C-D", "D-C")

#: What is compared, by name.
VARIANTS: dict[str, PredictionRule] = {
    "Kaplan–Meier": PredictionRule(),
    "always youngest": PredictionRule(always_youngest=True),
    "as evicted": PredictionRule(censoring=Censoring.AS_EVICTED),
    "dropped": PredictionRule(censoring=Censoring.DROPPED),
}


def on_bed(data: Path | None, *, bed: str, seed: int, births: int, hours: float | None = None) -> list[Row]:
    """One draw of a bed under every variant."""
    del data
    drawn = draw(bed, seed, hours)
    return [
        single_cloud_row(
            pair=bed, nodes=drawn.nodes, on_demand=drawn.on_demand, spot=drawn.spot, sla=SLA,
            spot_delay_s=SPOT_DELAY_S, prediction=prediction, births=births, seed=seed,
        )
        | {"bed": bed, "variant": variant}
        for variant, prediction in VARIANTS.items()
    ]  # fmt: skip


def on_pair(data: Path, *, pair: str, variant: str, births: int) -> list[Row]:
    """A pair of production traces on the platform of the first, under one variant."""
    on_demand, spot = (read(data / name)[0] for name in pairs.needs(pair))
    platform = pair[0]
    row = single_cloud_row(
        pair=pair, nodes=f"{pairs.FULL_NODES[platform]}x{pairs.TRACES[platform][1]}", on_demand=on_demand,
        spot=spot, sla=SLA, prediction=VARIANTS[variant], births=births,
    )  # fmt: skip
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


def _findings(rows: Sequence[Row]) -> list[str]:
    said = []
    for bed in outcomes.values(rows, "bed"):
        found = {variant: outcome(chosen(rows, bed=bed, variant=variant)) for variant in VARIANTS}
        each = ", ".join(
            f"{variant} {share(one.admitted)} ({share(one.evicted)} evicted, kept in {one.held_text})"
            for variant, one in found.items()
        )
        said.append(f"{bed} at {SLA:g}, admitted: {each}.")
    stuck = [
        bed
        for bed in outcomes.values(rows, "bed")
        if sum(row["spot_admitted"] for row in chosen(rows, bed=bed, variant="dropped")) == 0
    ]
    if stuck:
        said.append(
            f"Deadlock: on {', '.join(stuck)} nothing at all is admitted when running samples are dropped, "
            "whatever the seed."
        )
    return said


def _draw(rows: Sequence[Row]) -> Figure:
    beds = outcomes.values(rows, "bed")
    found = {
        variant: {bed: outcome(chosen(rows, bed=bed, variant=variant)) for bed in beds}
        for variant in VARIANTS
    }
    with panels("Samples that still run when the history ends", 2, 1, size=(8.6, 6.2), sharex=True) as (
        figure,
        grid,
    ):
        admitted, evicted = grid[:, 0]
        dots_by_group(
            admitted, beds,
            {name: {bed: Dot(*[one.admitted] * 3) for bed, one in of.items()} for name, of in found.items()},
        )  # fmt: skip
        share_axis(admitted, "admitted share of requests")
        admitted.set_ylim(0, 1)
        floor = SLA / 30
        dots_by_group(
            evicted, beds,
            {
                name: {bed: Dot(one.evicted, one.low, one.high) for bed, one in of.items() if one.admitted}
                for name, of in found.items()
            },
            floor=floor,
        )  # fmt: skip
        share_axis(evicted, "evicted share of admitted", log=True)
        evicted.set_ylim(floor, 1)
        evicted.axhline(SLA, color=GREY, lw=1)
        evicted.annotate(
            "promise", (1, SLA), xycoords=("axes fraction", "data"), xytext=(0, 2),
            textcoords="offset points", ha="right", color=GREY, fontsize=8,
        )  # fmt: skip
        legend_below(figure, admitted)
    return figure


EXPERIMENT = Experiment(
    name="censoring",
    title="Samples that still run when the history ends",
    source='PREDICTION.md, "What the papers leave open"',
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
    findings=_findings,
)
