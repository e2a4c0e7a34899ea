"""The table of docs/design/batch-jobs.md: what each mechanism costs on the mean, and what one revocation does
to it.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloudsim.jobs.attempts import AttemptPlan, JobPosition, Mechanism
from cloudsim.jobs.job import IMMEDIATE, OVERHEADS, Job, StorageKind
from cloudsim.jobs.mechanism_names import MechanismName
from cloudsim.jobs.mechanisms import MECHANISMS, Backup, Checkpoint, Migration, OnDemand, find_mechanism
from cloudsim.jobs.planner import list_plans
from cloudsim.jobs.replicas import Replicate
from cloudsim.model.errors import SpecError
from tests.unit.cloudsim.jobs.scenes import HOUR, history, quoted, run, world

#: Figure 7a's: slack makes the interval 15 minutes.
PAPERS = Job(3399.0, 8.0, io_share=0.5, slack=240 / 900)
#: Two hours, saved for two minutes every half hour.
JOB = Job(2 * HOUR, 4.0, slack=120 / 1800)
NEVER = world(history("calm", (0, 0.1)))
#: The price rises after an hour and 5 minutes.
ONCE = world(history("once", (0, 0.1), (1 + 1 / 12, 5.0)))


def estimated(
    mechanism: Mechanism, job: Job = PAPERS, per_day: float = 2.4, price: float = 0.2
) -> AttemptPlan:
    (plan,) = list_plans(job, (mechanism,), quoted(per_day, price), IMMEDIATE)
    return plan


@pytest.mark.parametrize(
    ("mechanism", "time", "cost"),
    [(Checkpoint(), 1.98, 0.397), (Replicate(waits=True), 1.01, 0.390), (Backup(), 1.04, 0.415)],
    ids=["checkpoint", "replicate", "backup"],
)
def test_figure_7a(mechanism: Mechanism, time: float, cost: float) -> None:
    plan = estimated(mechanism)
    assert plan.time_s / PAPERS.work_s == pytest.approx(time, rel=0.01)
    assert plan.cost_usd / (PAPERS.work_s / HOUR) == pytest.approx(cost, rel=0.006)


@pytest.mark.parametrize(
    ("mechanism", "rare", "often"),
    [(Checkpoint(), 0.39, 0.49), (Replicate(waits=True), 0.40, 0.65), (Backup(), 0.40, 0.58)],
    ids=["checkpoint", "replicate", "backup"],
)
def test_from_half_a_revocation_a_day_to_24(mechanism: Mechanism, rare: float, often: float) -> None:
    costs = [estimated(mechanism, per_day=rate).cost_usd / (PAPERS.work_s / HOUR) for rate in (0.5, 24.0)]
    assert costs[0] == pytest.approx(rare, abs=0.006)
    assert costs[1] == pytest.approx(often, abs=0.02)


@pytest.mark.parametrize(
    "other", [replace(PAPERS, memory_gb=2.0, slack=60 / 900), replace(PAPERS, io_share=0.9)]
)
def test_memory_and_storage_move_only_checkpoints(other: Job) -> None:
    for mechanism in (Replicate(), Backup()):
        assert estimated(mechanism, other).cost_usd == estimated(mechanism).cost_usd
    assert estimated(Checkpoint(), other).cost_usd != pytest.approx(
        estimated(Checkpoint()).cost_usd, rel=0.05
    )


def test_what_is_never_revoked_costs_what_it_takes() -> None:
    hours = JOB.work_s / HOUR
    for mechanism, cost in ((Migration(), 0.1), (Checkpoint(), 0.1 * (1 + JOB.slack)), (Backup(), 0.2)):
        assert estimated(mechanism, JOB, 1e-6, 0.1).cost_usd == pytest.approx(cost * hours, rel=1e-4)
    assert estimated(Replicate(3), JOB, 1e-6, 0.1).cost_usd == pytest.approx(0.3 * hours, rel=1e-4)
    assert estimated(OnDemand(), JOB).cost_usd == hours


def test_migration_needs_the_warning_and_a_backup_twice_the_price() -> None:
    assert Migration().suits(JOB, OVERHEADS)
    assert not Migration().suits(replace(JOB, memory_gb=4.1), OVERHEADS)
    assert not Migration(StorageKind.LOCAL).suits(replace(JOB, disk_gb=0.1), OVERHEADS)
    assert Migration().suits(replace(JOB, disk_gb=0.1), OVERHEADS), "remote storage stays where it is"
    assert list_plans(JOB, (Backup(),), quoted(1.0, 0.51), IMMEDIATE) == [], "the bid is below the price"


def test_jobs_that_must_not_run_twice_only_migrate() -> None:
    once = replace(JOB, idempotent=False)
    suited = [
        one.name
        for one in (Migration(), Checkpoint(), Replicate(), Backup(), OnDemand())
        if one.suits(once, OVERHEADS)
    ]
    assert suited == ["migrate", "on-demand"]


def test_parallel_jobs_are_replicated_and_pay_for_each_instance() -> None:
    four = replace(JOB, instances=4)
    suited = [
        one.name
        for one in (Migration(), Checkpoint(), Replicate(), Backup(), OnDemand())
        if one.suits(four, OVERHEADS)
    ]
    assert suited == ["replicate", "backup", "on-demand"]
    assert estimated(Backup(), four, 1e-6).cost_usd == pytest.approx(
        4 * estimated(Backup(), JOB, 1e-6).cost_usd
    )
    assert estimated(Backup(), four, 5.0).cost_usd > 4.2 * estimated(Backup(), JOB, 5.0).cost_usd
    step = run(Backup(), four, NEVER, bids=(0.9,))
    assert sum(one.usd for one in step.charges) == pytest.approx(4 * 2 * 2 * 0.1)


def test_remote_storage_stretches_what_waits_for_it() -> None:
    heavy = replace(JOB, io_share=0.5, disk_gb=10.0)
    assert Checkpoint().wall_s(heavy, IMMEDIATE) == pytest.approx(2 * HOUR * 1.54 * (1 + JOB.slack))
    assert Checkpoint(StorageKind.LOCAL).wall_s(heavy, IMMEDIATE) == pytest.approx(2 * HOUR * (1 + JOB.slack))
    assert Checkpoint(StorageKind.LOCAL).interval_s(heavy, IMMEDIATE) == pytest.approx(14 * 30 / JOB.slack)


@pytest.mark.parametrize(
    ("mechanism", "bid", "end_h", "usd"),
    [
        (Migration(), 1.0, 2.0, 0.2),
        (Checkpoint(), 1.0, 2 * (1 + JOB.slack), 0.2 * (1 + JOB.slack)),
        (Backup(), 0.9, 2.0, 0.4),
    ],
    ids=["migrate", "checkpoint", "backup"],
)
def test_a_step_without_revocations_takes_what_the_estimate_says(
    mechanism: Mechanism, bid: float, end_h: float, usd: float
) -> None:
    step = run(mechanism, JOB, NEVER, bids=(bid,))
    assert step.finished
    assert step.state.at_s == pytest.approx(end_h * HOUR)
    assert sum(charge.usd for charge in step.charges) == pytest.approx(usd)


def test_a_migrated_job_loses_nothing_and_pays_for_its_saving() -> None:
    step = run(Migration(), JOB, ONCE, bids=(1.0,))
    assert not step.finished
    left = step.state
    assert left.job.work_s == pytest.approx(2 * HOUR - 65 * 60)
    assert (left.saved_gb, left.revocations) == (4.0, 1)
    assert left.saved_at_s == pytest.approx(65 * 60 + 120)
    assert step.charges[0].usd == pytest.approx((65 * 60 + 120) / HOUR * 0.1)
    again = OnDemand().step(AttemptPlan(OnDemand(), (), (), 0, 0), left, NEVER, IMMEDIATE)
    assert again.state.at_s == pytest.approx(left.saved_at_s + 120.0 + left.job.work_s), (
        "saved, restored, run"
    )


def test_a_checkpointed_job_goes_back_to_its_last_checkpoint() -> None:
    step = run(Checkpoint(), JOB, ONCE, bids=(1.0,))
    # 65 minutes hold two intervals of 32 minutes.
    assert step.state.job.work_s == pytest.approx(2 * HOUR - 2 * 1800.0)
    assert step.state.saved_gb == 4.0
    assert step.charges[0].usd == pytest.approx(65 / 60 * 0.1)


def test_before_the_first_checkpoint_there_is_nothing_to_restore() -> None:
    early = world(history("early", (0, 0.1), (0.5, 5.0)))
    step = run(Checkpoint(), JOB, early, bids=(1.0,))
    assert step.state.job == JOB
    assert step.state.saved_gb == 0.0


def test_with_a_backup_the_job_is_where_the_slower_replica_is() -> None:
    step = run(Backup(), JOB, ONCE, bids=(0.9,))
    assert step.state.job.work_s == pytest.approx(2 * HOUR - 65 * 60 * 0.1)
    assert step.state.saved_gb == 0.0
    spot, backup = step.charges
    assert spot.usd == pytest.approx(backup.usd) == pytest.approx(65 / 60 * 0.1)
    assert backup.market is None
    assert backup.share == pytest.approx(0.1)


@pytest.mark.parametrize("mechanism", [Migration(), Checkpoint(), Backup()], ids=lambda one: one.name)
def test_what_is_revoked_while_it_boots_costs_nothing(mechanism: Mechanism) -> None:
    early = world(history("early", (0, 0.1), (0.05, 5.0)))
    step = run(mechanism, JOB, early, bids=(0.9,), overheads=OVERHEADS)
    assert step.charges == ()
    assert step.state.at_s == pytest.approx(180 + OVERHEADS.poll_s)
    assert step.state.job == JOB


def test_what_is_revoked_while_it_restores_is_restored_again() -> None:
    early = world(history("early", (0, 0.1), (0.05, 5.0)))
    state = JobPosition(0.0, JOB, saved_gb=8.0)
    for mechanism in (Migration(), Checkpoint(), Backup()):
        step = mechanism.step(AttemptPlan(mechanism, (0,), (0.9,), 0, 0), state, early, IMMEDIATE)
        assert (step.state.job, step.state.saved_gb) == (JOB, 8.0)
        assert step.charges[0].usd == pytest.approx(0.05 * 0.1)


def test_memory_and_price_keep_a_job_out_of_a_market() -> None:
    markets = replace(
        quoted(1.0), memory_gb=np.array([2.0, 8.0, 4.0]), price_now=np.array([0.1, 0.3, np.inf])
    )
    for mechanism in (Migration(), Checkpoint(), Backup()):
        (plan,) = list_plans(JOB, (mechanism,), markets, IMMEDIATE)
        assert plan.markets == (1,)
    assert list_plans(JOB, (Replicate(),), markets, IMMEDIATE) == [], "one market is not two"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("work_s", -1.0), ("work_s", 0.0), ("work_s", math.nan), ("memory_gb", 0.0), ("io_share", 1.1),
        ("slack", 0.0), ("slack", 1.5), ("instances", 0), ("disk_gb", math.inf),
    ],
)  # fmt: skip
def test_a_job_says_which_number_is_wrong(field: str, value: Any) -> None:
    with pytest.raises(SpecError, match=f"^{field}:"):
        replace(JOB, **{field: value})


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: f"{one.name}-{one.storage}")
def test_every_mechanism_has_words_and_is_found_again(mechanism: Mechanism) -> None:
    name = MechanismName(mechanism.name)
    assert name.words
    assert name.meaning
    assert find_mechanism(mechanism.name, mechanism.storage) is mechanism
