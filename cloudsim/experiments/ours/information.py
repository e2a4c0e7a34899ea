"""The worth of better information: requested ends of spot instances and ages of on-demand instances."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.promise import outcomes
from cloudsim.experiments.promise.beds import draw
from cloudsim.prediction.rule import AGED_RULE, INFORMED_RULE, OUR_RULE

SEEDS = range(30)
BED = "synthetic"
SLAS = (0.05, 0.01)

PLAIN, INFORMED, AGED = "free slots", "and requested ends", "and ages"
_RULES = {PLAIN: OUR_RULE, INFORMED: INFORMED_RULE, AGED: AGED_RULE}
#: SLAs with ages: they are slow to look up, and matter most here.
_AGED_SLAS = (0.01,)

#: docs/design/prediction.md "Better information"; with ages, more than .45 is asked for in any case.
GOALS: outcomes.Goals = {(BED, PLAIN, 0.01): 0.428, (BED, INFORMED, 0.01): 0.454, (BED, AGED, 0.01): 0.45}

#: Measured outside of the experiment, because a simulation reads no clock.
COST = (
    "What it costs: a run of 240 h takes about 1 s of processor time by free slots alone, 3.5 s with "
    "requested ends and about 7 s with ages as well, on one core."
)


def measure(
    _data: Path | None, *, seed: int, slas: Sequence[float] = SLAS, hours: float | None = None
) -> list[Row]:
    """Run one draw of the synthetic bed, strict, looked up by free slots alone and informed."""
    bed = draw(BED, seed, hours)
    return [
        bed.row(sla=sla, prediction=rule, seed=seed) | {"bed": BED, "rule": name}
        for name, rule in _RULES.items()
        for sla in slas
        if name != AGED or sla in _AGED_SLAS
    ]


def _cases(quick: bool) -> list[Case]:
    short = {"hours": outcomes.QUICK_HOURS} if quick else {}
    return [
        Case(f"{BED}, seed {seed}", measure, {"seed": seed, **short})
        for seed in (SEEDS[:2] if quick else SEEDS)
    ]


EXPERIMENT = Experiment(
    name="information",
    title="What it is worth to know when others will leave",
    source='docs/design/prediction.md "Better information"',
    cases=_cases,
    pictures=(
        Picture(
            "information",
            "Strict promises on the synthetic bed (8 x 4 cores, 240 h). A lifetime is looked up by the slots "
            "that are free now; or by those that will be once the spot instances have left whose requested "
            "end comes within a quarter of it; or by how likely these requested ends and the ages of the "
            "running on-demand instances make it that room runs short within a quarter of it. Pale dots are "
            "single seeds.",
            lambda rows: outcomes.reliability(rows, "Risks by free slots, by requested ends and by ages too"),
        ),
    ),
    sentences=lambda rows: [*outcomes.sentences(rows, GOALS), COST],
)
