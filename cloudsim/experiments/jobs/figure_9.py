"""The paper's Figure 9: what the policies cost and take by the length of a job, on the markets of 2015."""

from __future__ import annotations

from collections.abc import Sequence

from cloudsim.experiments.claims import Claim, Verdict, judged
from cloudsim.experiments.experiment import Experiment, Picture, Row
from cloudsim.experiments.jobs.policies import (
    COST_AWARE,
    all_below_on_demand,
    by_policy,
    cases,
    cheapest,
    near_on_demand,
    saves_more_than_checkpoints,
    sentences,
)
from cloudsim.experiments.jobs.runs import draw_policies

HOURS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0)


def _saves(rows: Sequence[Row]) -> Verdict:
    costs = by_policy(rows)[COST_AWARE]
    told = ", ".join(f"{1 - cost:.1%} at {hours:g} h" for hours, cost in costs.items())
    return Verdict(min(costs.values()) <= 0.2, f"{told} below on-demand")


CLAIMS = (
    Claim("Figure 9", "all policies cost less than on-demand", all_below_on_demand),
    Claim("Figure 9", "the cost-aware policy costs least", cheapest),
    Claim("Figure 9", "it costs less than with checkpoints only", saves_more_than_checkpoints),
    Claim("§6.2", "it saves as much as 86 % (here: at least 80 %)", _saves),
    Claim("§6.2", "the time is near that of on-demand (here: at most 10 % more)", near_on_demand),
)

EXPERIMENT = Experiment(
    name="jobs-figure-9",
    title="Batch jobs: policies by the length of a job",
    source="paper 003, §6.2, Figure 9",
    cases=lambda quick: cases("hours", HOURS, "hours", quick),
    pictures=(
        Picture(
            "jobs-figure-9",
            "Cost and time of 30 jobs of 7.5 GB over three months of 2015, relative to on-demand, with 95 % "
            "intervals.",
            lambda rows: draw_policies(rows, "Policies by the length of a job", "running time, hours"),
        ),
    ),
    findings=lambda rows: [*sentences(rows, "hours"), *judged(CLAIMS, rows)],
)
