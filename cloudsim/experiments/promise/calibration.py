"""Is a promise kept, and what does it cost? Both ways to understand it, on the papers' synthetic set-up."""

from __future__ import annotations

from collections.abc import Sequence

from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.promise import outcomes
from cloudsim.experiments.promise.outcomes import POPULATION, STRICT, UNAWARE

SEEDS = range(40)

#: What the prototypes behind PREDICTION.md admitted.
GOALS: outcomes.Goals = {
    ("synthetic", UNAWARE, None): 0.708,
    ("synthetic", STRICT, 0.25): 0.60,
    ("synthetic", STRICT, 0.10): 0.566,
    ("synthetic", STRICT, 0.05): 0.521,
    ("synthetic", STRICT, 0.01): 0.431,
    ("synthetic", POPULATION, 0.25): 0.71,
    ("synthetic", POPULATION, 0.10): 0.635,
    ("synthetic", POPULATION, 0.05): 0.585,
    ("synthetic", POPULATION, 0.01): 0.51,
}


def _cases(quick: bool) -> list[Case]:
    return [
        outcomes.case("synthetic", seed, (UNAWARE, STRICT, POPULATION), quick=quick)
        for seed in (SEEDS[:2] if quick else SEEDS)
    ]


def _findings(rows: Sequence[Row]) -> list[str]:
    return outcomes.findings(rows, GOALS)


EXPERIMENT = Experiment(
    name="calibration",
    title="Promised against realised, to each and to all",
    source='PREDICTION.md, "Beyond the papers" 1',
    cases=_cases,
    pictures=(
        Picture(
            "reliability",
            "Evicted and admitted shares at each SLA on the synthetic bed (8 x 4 cores, 240 h). A strict "
            "promise is to each request, one of the population to their mean. Pale dots are single "
            "seeds; marks all of them, with exact 95 % intervals. Above: in how many seeds it held.",
            lambda rows: outcomes.reliability(rows, "Promised against realised: a steady load"),
        ),
    ),
    findings=_findings,
)
