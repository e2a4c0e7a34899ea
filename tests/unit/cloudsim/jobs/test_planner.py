"""Policies: what each of them chooses, and that the cost-aware one takes the least of all candidates."""

from dataclasses import replace

import numpy as np
import pytest

from cloudsim.jobs.attempts import JobPosition, Replica
from cloudsim.jobs.job import IMMEDIATE, OVERHEADS, Job, StorageKind
from cloudsim.jobs.mechanisms import Checkpoint
from cloudsim.jobs.planner import (
    CHECKPOINT_ONLY,
    ON_DEMAND,
    POLICIES,
    Basic,
    CostAware,
    OnDemandOnly,
    list_plans,
)
from cloudsim.jobs.replicas import Replicate
from cloudsim.markets.revocation import Memoryless, QuotedMarkets
from cloudsim.prediction.lifetimes import LifetimeDistribution
from tests.unit.cloudsim.jobs.scenes import DAY_S, HOUR, quoted

SMALL, LARGE = Job(10 * HOUR, 3.5), Job(10 * HOUR, 7.5)
START = JobPosition(0.0, SMALL)


def test_the_control_is_always_on_demand() -> None:
    plan = OnDemandOnly().plan(START, quoted(0.1), OVERHEADS)
    assert (plan.mechanism.name, plan.markets, plan.cost_usd) == ("on-demand", (), 10.0)


def unequal() -> QuotedMarkets:
    """The cheapest market is the most volatile."""
    lifetimes = (Memoryless(DAY_S / 48), Memoryless(DAY_S / 0.1))
    return QuotedMarkets(lifetimes, np.array([0.1, 0.12]), 1.0, np.full(2, np.inf))


def test_basic_looks_at_the_price_and_nothing_else() -> None:
    plan = Basic().plan(START, unequal(), OVERHEADS)
    assert (plan.mechanism.name, plan.markets) == ("migrate", (0,))
    assert Basic().plan(JobPosition(0.0, LARGE), unequal(), OVERHEADS).mechanism.name == "checkpoint"
    assert CHECKPOINT_ONLY.plan(JobPosition(0.0, LARGE), unequal(), OVERHEADS).markets == (1,)


def test_basic_ends_on_demand() -> None:
    assert Basic().plan(replace(START, revocations=1), unequal(), OVERHEADS).mechanism is ON_DEMAND
    dear = replace(unequal(), price_now=np.array([1.2, 1.1]))
    assert Basic().plan(START, dear, OVERHEADS).mechanism is ON_DEMAND
    parallel = JobPosition(0.0, replace(SMALL, instances=2))
    assert Basic().plan(parallel, unequal(), OVERHEADS).mechanism is ON_DEMAND


def test_the_least_of_all_is_chosen() -> None:
    policy = CostAware()
    for job in (SMALL, LARGE, replace(LARGE, io_share=0.9, disk_gb=500.0)):
        for markets in (quoted(0.1), quoted(24.0), quoted(2.4, 0.45), unequal()):
            plan = policy.plan(JobPosition(0.0, job), markets, IMMEDIATE)
            every = list_plans(job, (*policy.mechanisms, ON_DEMAND), markets, IMMEDIATE)
            assert plan.cost_usd == min(one.cost_usd for one in every)


def test_the_best_mechanism_depends_on_job_and_market() -> None:
    policy = CostAware()
    heavy = replace(LARGE, work_s=HOUR, io_share=0.9, disk_gb=500.0)
    chosen = {
        "small": policy.plan(START, quoted(1.0), IMMEDIATE).mechanism.name,
        "large": policy.plan(JobPosition(0.0, LARGE), quoted(1.0), IMMEDIATE).mechanism.name,
        "heavy": policy.plan(JobPosition(0.0, heavy), quoted(0.5), IMMEDIATE).mechanism.name,
        "dear": policy.plan(START, quoted(1.0, 1.1), IMMEDIATE).mechanism.name,
    }
    assert chosen == {"small": "migrate", "large": "checkpoint", "heavy": "replicate", "dear": "on-demand"}


def test_storage_is_part_of_the_choice() -> None:
    policy = CHECKPOINT_ONLY
    heavy = replace(LARGE, io_share=0.5)
    little = policy.plan(JobPosition(0.0, replace(heavy, disk_gb=1.0)), quoted(1.0), IMMEDIATE)
    much = policy.plan(JobPosition(0.0, replace(heavy, disk_gb=900.0)), quoted(6.0), IMMEDIATE)
    assert little.mechanism == Checkpoint(StorageKind.LOCAL)
    assert much.mechanism == Checkpoint(StorageKind.REMOTE)


RUNNING = JobPosition(0.0, LARGE, running=(Replica(0, 0.5, 0.0),), done_s=5 * HOUR, revocations=1)


def test_a_safe_replica_is_kept_and_a_risky_one_saved() -> None:
    policy = CostAware()
    assert policy.plan(RUNNING, quoted(0.01), OVERHEADS).keeps
    risky = policy.plan(RUNNING, quoted(24.0), OVERHEADS)
    assert not risky.keeps
    assert risky.mechanism.name == "checkpoint"
    left = list_plans(replace(LARGE, work_s=5 * HOUR), (Checkpoint(),), quoted(24.0), OVERHEADS)[0]
    moved_usd = 0.2 * (225 + 225) / HOUR
    assert risky.cost_usd == pytest.approx(left.cost_usd + moved_usd), "saved there and restored here"


def test_what_has_not_begun_or_runs_in_parallel_cannot_be_saved() -> None:
    policy = CostAware()
    assert policy.plan(replace(RUNNING, done_s=-10.0), quoted(24.0), OVERHEADS).keeps
    parallel = replace(RUNNING, job=replace(LARGE, instances=3))
    assert policy.plan(parallel, quoted(24.0), OVERHEADS).keeps


def test_a_mechanism_may_leave_only_on_demand() -> None:
    assert (
        CostAware().plan(replace(START, only_on_demand=True), quoted(0.1), OVERHEADS).mechanism is ON_DEMAND
    )


def test_without_a_market_everything_is_on_demand() -> None:
    for policy in POLICIES:
        assert policy.plan(START, quoted(1.0, markets=0), OVERHEADS).mechanism is ON_DEMAND


def test_what_a_cloud_estimates_of_its_lifetimes_is_enough() -> None:
    """A live cloud quotes a Kaplan-Meier estimate, and a price that a bid only caps."""
    duration_s = np.array([2.0, 5.0, 30.0, 30.0, 40.0]) * HOUR
    estimate = LifetimeDistribution.from_samples(duration_s, np.array([True, True, False, False, False]))
    markets = QuotedMarkets((estimate,), np.array([0.25]), 1.0, np.full(1, np.inf))
    odds = markets.odds(np.ones(1), 10 * HOUR, 1)
    assert odds.revoked[0] == pytest.approx(0.4)
    assert odds.running_s[0] == pytest.approx((2 + 5 + 3 * 10) / 5 * HOUR, rel=0.01)
    plan = CostAware().plan(START, markets, IMMEDIATE)
    assert plan.mechanism.name == "migrate"
    assert plan.cost_usd == pytest.approx(2.5, rel=0.02)


def test_the_four_policies_have_names_of_their_own() -> None:
    assert [policy.name for policy in POLICIES] == ["on-demand", "basic", "checkpoint only", "cost-aware"]


def test_without_prices_cost_is_occupied_time() -> None:
    """docs/design/batch-jobs.md: where a federation has no prices, cost is occupied core-hours."""
    markets = replace(quoted(0.5), price_now=np.ones(3))
    plans = list_plans(SMALL, CostAware().mechanisms, markets, IMMEDIATE)
    assert plans[0].cost_usd == pytest.approx(10.0, rel=0.02)
    assert "replicate" not in {plan.mechanism.name for plan in plans}
    assert Replicate().suits(SMALL, IMMEDIATE)
