"""The paper's Figure 10: what the policies cost and take by the memory of a job, on the markets of 2015."""

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
    sentences,
)
from cloudsim.experiments.jobs.runs import draw_policies

MEMORY_GB = (1.0, 2.0, 3.0, 4.0, 7.5, 15.0, 30.0)
#: What can be saved within the warning.
_FITS_GB = 4.0


def _migrates(rows: Sequence[Row]) -> Verdict:
    small = [row for row in rows if row["policy"] == COST_AWARE and row["value"] <= _FITS_GB]
    attempts = sum(sum(row["used"].values()) for row in small)
    migrated = sum(row["used"].get("migrate", 0) for row in small)
    return Verdict(migrated == attempts, f"{migrated} of {attempts} attempts up to {_FITS_GB:g} GB")


def _times_cheaper(rows: Sequence[Row]) -> Verdict:
    costs = by_policy(rows)[COST_AWARE]
    small = [cost for memory, cost in costs.items() if memory <= _FITS_GB]
    large = [cost for memory, cost in costs.items() if memory > _FITS_GB]
    ratio = (sum(large) / len(large)) / (sum(small) / len(small))
    return Verdict(ratio >= 4, f"{ratio:.2f} times")


CLAIMS = (
    Claim("Figure 10", "all policies cost less than on-demand", all_below_on_demand),
    Claim("Figure 10", "the cost-aware policy costs least", cheapest),
    Claim("§6.2", "the cost-aware policy migrates whenever that is feasible", _migrates),
    Claim("§6.2", "jobs that can migrate cost a fourth of larger ones", _times_cheaper),
)

EXPERIMENT = Experiment(
    name="jobs-figure-10",
    title="Batch jobs: policies by memory",
    source="paper 003, §6.2, Figure 10",
    cases=lambda quick: cases("memory_gb", MEMORY_GB, "memory GB", quick),
    pictures=(
        Picture(
            "jobs-figure-10",
            "Cost and time of 30 jobs of ten hours by memory, relative to on-demand, with 95 % intervals.",
            lambda rows: draw_policies(rows, "Policies by memory", "memory, GB"),
        ),
    ),
    findings=lambda rows: [*sentences(rows, "GB"), *judged(CLAIMS, rows)],
)
