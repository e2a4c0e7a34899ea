"""The paper's Figure 11: what revocations beside those of the trace do to the policies."""

from __future__ import annotations

from collections.abc import Sequence

from cloudsim.experiments.claims import Claim, Verdict, judged
from cloudsim.experiments.experiment import Experiment, Picture, Row
from cloudsim.experiments.jobs.policies import (
    BASIC,
    COST_AWARE,
    by_policy,
    cases,
    cheapest,
    near_on_demand,
    saves_more_than_checkpoints,
    sentences,
)
from cloudsim.experiments.jobs.runs import draw_policies

PER_DAY = (0.0, 1.0, 6.0, 24.0)
#: JOBS.md "Acceptance".
EXPECTED = {BASIC: (0.13, 0.35, 0.78, 0.95), COST_AWARE: (0.13, 0.14, 0.15, 0.25)}


def _basic_loses(rows: Sequence[Row]) -> Verdict:
    costs = by_policy(rows)
    gap = {value: cost / costs[COST_AWARE][value] for value, cost in costs[BASIC].items()}
    told = ", ".join(f"{ratio:.1f} times at {value:g}" for value, ratio in gap.items())
    return Verdict(all(ratio > 1 for ratio in gap.values()), f"basic costs {told}")


CLAIMS = (
    Claim("Figure 11", "the cost-aware policy costs least at every rate", cheapest),
    Claim("Figure 11", "it costs less than with checkpoints only", saves_more_than_checkpoints),
    Claim("Figure 11", "whoever does not look at volatility pays more", _basic_loses),
    Claim("Figure 11", "the time stays near that of on-demand (here: at most 10 % more)", near_on_demand),
)


def _findings(rows: Sequence[Row]) -> list[str]:
    costs = by_policy(rows)
    beside = [
        f"{name}, cost at {', '.join(f'{value:g}' for value in costs[name])} more revocations a day: "
        f"{', '.join(f'{cost:.2f}' for cost in costs[name].values())}; JOBS.md says, at 0, 1, 6 and 24, "
        f"{', '.join(f'{cost:.2f}' for cost in expected)}."
        for name, expected in EXPECTED.items()
    ]
    return [*beside, *sentences(rows, "more revocations a day"), *judged(CLAIMS, rows)]


EXPERIMENT = Experiment(
    name="jobs-figure-11",
    title="Batch jobs: policies by injected revocations",
    source="paper 003, §6.2, Figure 11",
    cases=lambda quick: cases("per_day", PER_DAY, "per day", quick),
    pictures=(
        Picture(
            "jobs-figure-11",
            "Cost and time of 30 jobs of ten hours and 7.5 GB, relative to on-demand, with 95 % intervals, "
            "when revocations are injected into the prices of every market.",
            lambda rows: draw_policies(rows, "Policies by revocations", "injected revocations a day"),
        ),
    ),
    findings=_findings,
)
