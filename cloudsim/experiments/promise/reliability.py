"""The reliability of promises and their cost: on a steady load, under bursts, and with mixed sizes."""

from __future__ import annotations

from collections.abc import Sequence

from cloudsim.experiments.experiment import Case, Experiment, Picture
from cloudsim.experiments.promise import outcomes
from cloudsim.experiments.promise.outcomes import POPULATION, STRICT, UNAWARE

SEEDS = range(40)
RULES = (UNAWARE, STRICT, POPULATION)

#: Admitted by the prototypes behind docs/design/prediction.md: under bursts less a hundredth for another draw
#: of the bed, and with mixed sizes rounded.
GOALS: outcomes.Goals = {
    (bed, rule, sla): goal
    for bed, rule, goals in (
        ("synthetic", STRICT, (0.60, 0.566, 0.521, 0.431)),
        ("synthetic", POPULATION, (0.71, 0.635, 0.585, 0.51)),
        ("bursts", POPULATION, (0.58, 0.50, 0.44, 0.30)),
        ("mixed", POPULATION, (0.90, 0.88, 0.83, 0.67)),
        ("mixed-bursts", POPULATION, (0.85, 0.78, 0.69, 0.45)),
    )
    for sla, goal in zip(outcomes.SLAS, goals, strict=True)
} | {("synthetic", UNAWARE, None): 0.708}


def _cases(quick: bool, beds: Sequence[str], compared: int, births: int = 10_000, few: int = 2) -> list[Case]:
    """Return a case a seed; the baseline and the strict rule run with ``compared`` seeds only."""
    return [
        outcomes.case(bed, seed, RULES if seed < compared else (POPULATION,), births=births, quick=quick)
        for bed in beds
        for seed in (SEEDS[:few] if quick else SEEDS)
    ]


CALIBRATION = Experiment(
    name="calibration",
    title="Promised against realised, to each and to all",
    source='docs/design/prediction.md "Population mode"',
    cases=lambda quick: _cases(quick, ("synthetic",), compared=len(SEEDS)),
    pictures=(
        Picture(
            "reliability",
            "Evicted and admitted shares at each SLA on the synthetic bed (8 x 4 cores, 240 h). A strict "
            "promise is to each request, one of the population to their mean. Pale dots are single "
            "seeds; marks all of them, with exact 95 % intervals. Above: in how many seeds it held.",
            lambda rows: outcomes.reliability(rows, "Promised against realised: a steady load"),
        ),
    ),
    sentences=lambda rows: outcomes.sentences(rows, GOALS),
)

BURSTS = Experiment(
    name="bursts",
    title="The promise under bursts and change points",
    source='docs/design/prediction.md "Test beds" and "Population mode"',
    cases=lambda quick: _cases(quick, ("bursts",), compared=10),
    pictures=(
        Picture(
            "reliability",
            "As for the steady load, with arrivals that come in bursts and batches and by a daily cycle, "
            "30 % more of them after a third of the time and 25 % fewer after two thirds.",
            lambda rows: outcomes.reliability(rows, "Promised against realised: bursts and change points"),
        ),
    ),
    sentences=lambda rows: outcomes.sentences(rows, GOALS),
)

MIXED = Experiment(
    name="mixed",
    title="The promise with mixed sizes",
    source='docs/design/prediction.md "Test beds" and "Many samples under bursts"',
    # Five sizes with a fourth of the births: 40 seeds take minutes.
    cases=lambda quick: _cases(quick, ("mixed", "mixed-bursts"), compared=4, births=2_500, few=1),
    pictures=(
        Picture(
            "reliability",
            "As for the steady load, on 12 nodes of 16 cores with instances of 1, 2, 4, 8 and 12 cores, "
            "30 days: left with a steady load, right under bursts and change points.",
            lambda rows: outcomes.reliability(rows, "Promised against realised: mixed sizes"),
        ),
    ),
    sentences=lambda rows: outcomes.sentences(rows, GOALS),
)
