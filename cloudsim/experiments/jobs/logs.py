"""Our own question: the policies on jobs of batch logs, most of which run on several processors together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cloudsim.experiments.claims import Claim, judged
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.jobs.figure_2 import LOGS
from cloudsim.experiments.jobs.policies import cheapest
from cloudsim.experiments.jobs.runs import (
    JOBS,
    MARKETS_2015,
    PRICES_OD_2015,
    draw_policies,
    policy_rows,
    said,
    world_2015,
)
from cloudsim.jobs.job import Job
from cloudsim.traces.formats import read

#: What the logs do not say: the memory of an instance, and an hour between checkpoints.
MEMORY_GB, SLACK = 3.5, 105 / 3600
#: Shorter jobs are over before an instance has booted.
_LEAST_S = 600.0


def measure(data: Path | None, *, log: str, jobs: int) -> list[Row]:
    """A case: jobs of a log that run for at least ten minutes, an instance for each processor. Columns: log,
    value: its number, parallel (share of jobs), and those of ``jobs_runs.policy_rows``."""
    assert data is not None, "a case with needs has data"
    trace, _ = read(data / LOGS[log])
    long = np.flatnonzero(trace.lifetime_s >= _LEAST_S)
    drawn = np.random.default_rng(2).choice(long, jobs, replace=False)
    kinds = [
        Job(float(trace.lifetime_s[one]), MEMORY_GB, slack=SLACK, instances=int(trace.cores[one]))
        for one in drawn
    ]
    common = {"log": log, "value": list(LOGS).index(log), "parallel": float((trace.cores[drawn] > 1).mean())}
    return [{**common, **row} for row in policy_rows(kinds, world_2015(data))]


CLAIMS = (Claim("JOBS.md", "the cost-aware policy costs least", cheapest),)


def _findings(rows: Sequence[Row]) -> list[str]:
    lines = [
        f"{row['log']}, {row['parallel']:.0%} parallel, {row['policy']}: {said(row)}; attempts: "
        f"{', '.join(f'{name} {count}' for name, count in row['used'].items())}."
        for row in rows
    ]
    return [*lines, *judged(CLAIMS, rows)]


EXPERIMENT = Experiment(
    name="jobs-logs",
    title="Batch jobs: policies on jobs of batch logs",
    source="our own question, with logs of the Parallel Workloads Archive",
    cases=lambda quick: [
        Case(log, measure, {"log": log, "jobs": 5 if quick else JOBS}, (file, MARKETS_2015, PRICES_OD_2015))
        for log, file in LOGS.items()
    ],
    pictures=(
        Picture(
            "jobs-logs",
            "Cost and time of 30 jobs of each log (KTH SP2, NASA iPSC, SDSC SP2), relative to on-demand.",
            lambda rows: draw_policies(
                [{**row, "value": row["log"]} for row in rows], "Policies on jobs of logs", "log"
            ),
        ),
    ),
    findings=_findings,
)
