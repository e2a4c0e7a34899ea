"""The promise where instances have different sizes, with a steady load and under bursts."""

from __future__ import annotations

from collections.abc import Sequence

from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.promise import outcomes
from cloudsim.experiments.promise.outcomes import POPULATION, STRICT, UNAWARE

BEDS = ("mixed", "mixed-bursts")
SEEDS = range(40)
#: The strict rule and the baseline are for comparison: fewer seeds do.
COMPARED = 4
#: Five sizes: as many samples in all as one size has elsewhere, so that 40 seeds take minutes.
BIRTHS = 2_500

#: What the prototypes behind PREDICTION.md admitted, or nearly so.
GOALS: outcomes.Goals = {
    ("mixed", POPULATION, 0.25): 0.90,
    ("mixed", POPULATION, 0.10): 0.88,
    ("mixed", POPULATION, 0.05): 0.83,
    ("mixed", POPULATION, 0.01): 0.67,
    ("mixed-bursts", POPULATION, 0.25): 0.85,
    ("mixed-bursts", POPULATION, 0.10): 0.78,
    ("mixed-bursts", POPULATION, 0.05): 0.69,
    ("mixed-bursts", POPULATION, 0.01): 0.45,
}


def _cases(quick: bool) -> list[Case]:
    return [
        outcomes.case(
            bed, seed, (UNAWARE, STRICT, POPULATION) if seed < COMPARED else (POPULATION,),
            births=BIRTHS, quick=quick,
        )
        for bed in BEDS
        for seed in (SEEDS[:1] if quick else SEEDS)
    ]  # fmt: skip


def _findings(rows: Sequence[Row]) -> list[str]:
    return outcomes.findings(rows, GOALS)


EXPERIMENT = Experiment(
    name="mixed",
    title="The promise with mixed sizes",
    source='PREDICTION.md, "Test beds" and "Beyond the papers" 2',
    cases=_cases,
    pictures=(
        Picture(
            "reliability",
            "As for the steady load, on 12 nodes of 16 cores with instances of 1, 2, 4, 8 and 12 cores, "
            "30 days: left with a steady load, right under bursts and change points.",
            lambda rows: outcomes.reliability(rows, "Promised against realised: mixed sizes"),
        ),
    ),
    findings=_findings,
)
