"""The worth of planning again, of the choice of storage, of billing and of shared backups in P4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cloudsim.experiments.drawing import Dot, Figure, dots_by_group, legend_below, panels
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict, where
from cloudsim.experiments.jobs.runs import (
    JOBS,
    MARKETS_2015,
    PRICES_OD_2015,
    describe,
    job_of,
    policy_rows,
    world_2015,
)
from cloudsim.experiments.jobs.synthetic_job import Always, baseline, made_world, quoted
from cloudsim.jobs.backup_servers import pack_backups
from cloudsim.jobs.job import IMMEDIATE
from cloudsim.jobs.mechanisms import Backup, Checkpoint, Migration
from cloudsim.jobs.planner import CostAware, list_plans
from cloudsim.jobs.replicas import Replicate
from cloudsim.jobs.simulation import simulate_job
from cloudsim.markets.billing import Billing
from cloudsim.markets.revocation import WINDOW_S

POLICY, SHARED = "policy", "shared backup"
REPLAN, STORAGE, BILLING, PARALLEL = "replicas", "storage", "billing", "parallel"
#: Injected revocations a day: the choice of storage pays where there are few, the rest where there are many.
_PER_DAY = {REPLAN: 6.0, STORAGE: 0.0, BILLING: 6.0, PARALLEL: 6.0}

_REPLICAS = (
    CostAware("replicas: planned again", (Replicate(),)),
    CostAware("replicas: wait until all are revoked", (Replicate(waits=True),)),
)
_REMOTE_ONLY = CostAware(
    "storage: remote unless replicated", (Migration(), Checkpoint(), Replicate(), Backup())
)
_CHOICE = CostAware("storage: local or remote")
_HOURLY = "billing: hourly as in 2015"
_CONTINUOUS = "billing: by the second"
_TOGETHER = (1, 2, 5, 10, 50)


def measure(data: Path, *, ablation: str, jobs: int) -> list[Row]:
    """Run the planner with and without one part.

    Columns: row = "policy", ablation, per_day, and those of ``jobs.runs.policy_rows``.
    """
    per_day = _PER_DAY[ablation]
    world = world_2015(data, per_day)
    if ablation == REPLAN:
        rows = policy_rows([job_of(hours=2.0)] * jobs, world, policies=_REPLICAS)
    elif ablation == STORAGE:
        heavy = job_of(io_share=0.5, disk_gb=20.0)
        rows = policy_rows([heavy] * jobs, world, policies=(_REMOTE_ONLY, _CHOICE))
    elif ablation == PARALLEL:
        four = replace(job_of(hours=5.0), instances=4)
        rows = policy_rows([four] * jobs, world, policies=(CostAware("parallel: four instances"),))
    else:
        rows = []
        for name, billing in ((_CONTINUOUS, Billing.CONTINUOUS), (_HOURLY, Billing.HOURLY)):
            billed = world_2015(data, per_day, billing)
            rows += policy_rows([job_of()] * jobs, billed, policies=(CostAware(name),))
    return [{"row": POLICY, "ablation": ablation, "per_day": per_day, **row} for row in rows]


def share(_data: Path | None, *, together: int) -> list[Row]:
    """Run jobs at once, each with a backup replica on a fifth of an on-demand server.

    Columns: row = "shared backup", together, servers, paid_hours (server hours paid by jobs) and up_hours.
    """
    job = baseline()
    (plan,) = list_plans(job, (Backup(),), quoted(2.4, 0.2), IMMEDIATE)
    world, policy = made_world(2.4, 0.2, 3), Always(plan.mechanism, plan.bids)
    begin_s = np.random.default_rng(3).uniform(WINDOW_S, 2 * WINDOW_S, together)
    at_s = [WINDOW_S + (float(drawn_s) - WINDOW_S) % 1800.0 for drawn_s in begin_s]  # within half an hour
    charges = [
        charge
        for submit_s in at_s
        for attempt in simulate_job(job, policy, world, submit_s, IMMEDIATE).attempts
        for charge in attempt.charges
    ]
    bill = pack_backups(charges)
    hours = {"paid_hours": bill.paid_hours, "up_hours": bill.up_hours}
    return [{"row": SHARED, "together": together, "servers": bill.servers, **hours}]


def _cases(quick: bool) -> list[Case]:
    needs = (MARKETS_2015, PRICES_OD_2015)
    jobs = 6 if quick else JOBS
    return [
        *(
            Case(name, measure, {"ablation": name, "jobs": jobs}, needs)
            for name in (REPLAN, STORAGE, BILLING, PARALLEL)
        ),
        *(Case(f"{jobs} jobs share", share, {"together": jobs}) for jobs in _TOGETHER),
    ]


def _cost(rows: Sequence[Row], policy: str) -> float:
    (row,) = where(rows, row=POLICY, policy=policy)
    return float(row["cost"])


def _first_is_cheaper(first: str, second: str) -> Claim:
    def check(rows: Sequence[Row]) -> Verdict:
        cost, other = _cost(rows, first), _cost(rows, second)
        return Verdict(cost < other, f"{cost:.3f} and {other:.3f} of on-demand")

    return Claim("docs/design/batch-jobs.md", f"“{first}” costs less than “{second}”", check)


def _sharing_fills(rows: Sequence[Row]) -> Verdict:
    filled = {row["together"]: row["paid_hours"] / row["up_hours"] for row in where(rows, row=SHARED)}
    shares = ", ".join(f"{share:.0%} of {jobs}" for jobs, share in filled.items())
    return Verdict(max(filled.values()) > 0.8, f"servers are paid for by jobs to {shares}")


def _sentences(rows: Sequence[Row]) -> list[str]:
    return [
        f"{row['policy']}, {row['per_day']:g} injected revocations a day: {describe(row)}, "
        f"{row['revocations']:.2f} revocations a job."
        for row in where(rows, row=POLICY)
    ]


def _draw(rows: Sequence[Row]) -> Figure:
    own = {row["policy"].replace(": ", ":\n"): row for row in where(rows, row=POLICY)}
    with panels("With and without parts of the planner", 1, 1, size=(10, 4)) as (figure, axes):
        axis = axes[0, 0]
        series = {
            name: {group: Dot.of_mean(row, name) for group, row in own.items()} for name in ("cost", "time")
        }
        dots_by_group(axis, list(own), series)
        legend_below(figure, axis)
        axis.tick_params(axis="x", labelsize=7)
        axis.set_ylabel("over on-demand")
        axis.set_ylim(bottom=0)
    return figure


EXPERIMENT = Experiment(
    name="jobs-ablations",
    title="Batch jobs: what planning again, storage, billing and sharing are worth",
    source="our own question; P4 §3.3.2, §5 and §7",
    cases=_cases,
    pictures=(Picture("jobs-ablations", "Cost and time with and without a part of the planner.", _draw),),
    sentences=_sentences,
    claims=(
        _first_is_cheaper(_REPLICAS[0].name, _REPLICAS[1].name),
        _first_is_cheaper(_CHOICE.name, _REMOTE_ONLY.name),
        _first_is_cheaper(_HOURLY, _CONTINUOUS),
        Claim("§3.3.2", "jobs that share backup servers pay for nearly all of them", _sharing_fills),
    ),
)
