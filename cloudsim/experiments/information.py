"""What better information is worth: the requested ends of running spot instances as a condition."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cloudsim.experiments import promise
from cloudsim.experiments.beds import SPOT_DELAY_S, draw
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.runs import single_cloud_row
from cloudsim.prediction.rule import INFORMED_RULE, OUR_RULE

SEEDS = range(30)
BED = "synthetic"
SLAS = (0.05, 0.01)

PLAIN, INFORMED = "free slots", "and requested ends"
_RULES = {PLAIN: OUR_RULE, INFORMED: INFORMED_RULE}

#: PREDICTION.md, "Beyond the papers" 3.
GOALS: promise.Goals = {(BED, PLAIN, 0.01): 0.428, (BED, INFORMED, 0.01): 0.454}


def measure(
    data: Path | None, *, seed: int, slas: Sequence[float] = SLAS, hours: float | None = None
) -> list[Row]:
    """A case: one draw of the synthetic bed, strict, looked up by free slots alone and informed."""
    del data
    drawn = draw(BED, seed, hours)
    return [
        single_cloud_row(
            pair=BED, nodes=drawn.nodes, on_demand=drawn.on_demand, spot=drawn.spot, sla=sla,
            spot_delay_s=SPOT_DELAY_S, prediction=rule, seed=seed,
        )
        | {"bed": BED, "rule": name}
        for name, rule in _RULES.items()
        for sla in slas
    ]  # fmt: skip


def _cases(quick: bool) -> list[Case]:
    short = {"hours": promise.QUICK_HOURS} if quick else {}
    return [
        Case(f"{BED}, seed {seed}", measure, {"seed": seed, **short})
        for seed in (SEEDS[:2] if quick else SEEDS)
    ]


EXPERIMENT = Experiment(
    name="information",
    title="What it is worth to know when others will leave",
    source='PREDICTION.md, "Beyond the papers" 3',
    cases=_cases,
    pictures=(
        Picture(
            "information",
            "Strict promises on the synthetic bed (8 x 4 cores, 240 h). A lifetime is looked up by the slots "
            "that are free now, or by those that will be once the spot instances have left whose requested "
            "end comes within a quarter of it. Pale dots are single seeds.",
            lambda rows: promise.reliability(rows, "Risks by free slots, and by requested ends too"),
        ),
    ),
    findings=lambda rows: promise.findings(rows, GOALS),
)
