"""The policies of P4 on jobs of batch logs, most of which run on several processors together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row
from cloudsim.experiments.jobs.figure_2 import LOGS
from cloudsim.experiments.jobs.policies import cheapest
from cloudsim.experiments.jobs.runs import (
    JOBS,
    MARKETS_2015,
    PRICES_OD_2015,
    describe,
    draw_policies,
    policy_rows,
    world_2015,
)
from cloudsim.jobs.job import Job
from cloudsim.traces.formats import read

#: The logs record no memory; checkpoints are an hour apart.
MEMORY_GB, SLACK = 3.5, 105 / 3600
#: Shorter jobs are over before an instance has booted.
_LEAST_S = 600.0


def measure(data: Path, *, log: str, jobs: int) -> list[Row]:
    """Run jobs of a log that take at least ten minutes, with an instance for each processor.

    Columns: log, value (number of the log), parallel (share of jobs), and those of ``jobs.runs.policy_rows``.
    """
    trace, _ = read(data / LOGS[log])
    long = np.flatnonzero(trace.lifetime_s >= _LEAST_S)
    drawn = np.random.default_rng(2).choice(long, jobs, replace=False)
    kinds = [
        Job(float(trace.lifetime_s[row]), MEMORY_GB, slack=SLACK, instances=int(trace.cores[row]))
        for row in drawn
    ]
    common = {"log": log, "value": list(LOGS).index(log), "parallel": float((trace.cores[drawn] > 1).mean())}
    return [{**common, **row} for row in policy_rows(kinds, world_2015(data))]


def _sentences(rows: Sequence[Row]) -> list[str]:
    return [
        f"{row['log']}, {row['parallel']:.0%} parallel, {row['policy']}: {describe(row)}; attempts: "
        f"{', '.join(f'{name} {count}' for name, count in row['used'].items())}."
        for row in rows
    ]


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
    sentences=_sentences,
    claims=(Claim("docs/design/batch-jobs.md", "the cost-aware policy costs least", cheapest),),
)
