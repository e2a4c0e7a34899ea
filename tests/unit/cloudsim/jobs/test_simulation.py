"""Jobs from beginning to end: what they cost, how long they take, and how estimates compare."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from cloudsim.experiments.jobs.synthetic_job import MECHANISMS, baseline, point
from cloudsim.jobs.attempts import AttemptPlan, JobPosition, Mechanism
from cloudsim.jobs.job import IMMEDIATE, OVERHEADS, Job, Overheads
from cloudsim.jobs.mechanisms import Backup, Checkpoint, Migration
from cloudsim.jobs.planner import Basic, CostAware, OnDemandOnly, list_plans
from cloudsim.jobs.replicas import Replicate
from cloudsim.jobs.simulation import SimulatedJob, simulate_job
from cloudsim.jobs.world import World
from cloudsim.markets.billing import Billing
from cloudsim.markets.revocation import Markets
from tests.unit.cloudsim.jobs.scenes import HOUR, history, world

JOB = Job(10 * HOUR, 3.0, slack=0.05)
LARGE = Job(10 * HOUR, 8.0, slack=0.0625)
#: A week of calm, then a rise in one market four hours after a job that comes at hour 200.
BEGIN_S = 200 * HOUR
TWO = world(history("a", (0, 0.10), (204, 5.0), (206, 0.10)), history("b", (0, 0.12)))


def names(outcome: SimulatedJob) -> list[tuple[str, ...]]:
    return [(attempt.mechanism, *attempt.markets) for attempt in outcome.attempts]


def test_on_demand_boots_runs_and_costs() -> None:
    outcome = simulate_job(JOB, OnDemandOnly(), TWO, BEGIN_S, OVERHEADS)
    assert outcome.time_s == pytest.approx(62 + 10 * HOUR)
    assert outcome.cost_usd == pytest.approx(10.0)
    assert names(outcome) == [("on-demand",)]


def test_a_small_job_migrates_and_goes_on_where_it_was() -> None:
    outcome = simulate_job(JOB, CostAware(), TWO, BEGIN_S, OVERHEADS)
    assert names(outcome) == [("migrate", "a"), ("migrate", "b")]
    # Both boots, the notice, saving while the next one boots, and restoring.
    assert outcome.time_s == pytest.approx(224 + 5 + 224 + 90 + 10 * HOUR)
    first_h = 4 - 224 / HOUR
    assert outcome.cost_usd == pytest.approx(0.1 * (first_h + 90 / HOUR) + 0.12 * (10 - first_h + 90 / HOUR))
    assert outcome.revocations == 1


def test_a_large_one_goes_back_to_its_checkpoint() -> None:
    outcome = simulate_job(LARGE, CostAware("checkpoints", (Checkpoint(),)), TWO, BEGIN_S, IMMEDIATE)
    assert names(outcome) == [("checkpoint", "a"), ("checkpoint", "b")]
    interval_s = 240 / 0.0625
    kept_s = math.floor(4 * HOUR / (interval_s + 240)) * interval_s
    assert outcome.time_s == pytest.approx(4 * HOUR + 240 + (10 * HOUR - kept_s) * 1.0625)


def test_basic_finishes_on_demand() -> None:
    outcome = simulate_job(JOB, Basic(), TWO, BEGIN_S, IMMEDIATE)
    assert names(outcome) == [("migrate", "a"), ("on-demand",)]
    assert outcome.cost_usd == pytest.approx(0.1 * (4 + 90 / HOUR) + 6 + 90 / HOUR)


BOTH_RISE = world(
    history("a", (0, 0.10), (204, 5.0), (206, 0.10)), history("b", (0, 0.12), (208, 5.0), (208.5, 0.12))
)


def test_replicas_wait_until_all_are_revoked() -> None:
    outcome = simulate_job(JOB, CostAware("waits", (Replicate(waits=True),)), BOTH_RISE, BEGIN_S, IMMEDIATE)
    assert names(outcome) == [("replicate", "a", "b"), ("on-demand",)]
    assert outcome.time_s == pytest.approx(18 * HOUR)
    assert outcome.cost_usd == pytest.approx(4 * 0.1 + 8 * 0.12 + 10)


def test_a_replica_that_is_kept_goes_on() -> None:
    outcome = simulate_job(JOB, CostAware("again", (Replicate(),)), TWO, BEGIN_S, OVERHEADS)
    assert names(outcome) == [("replicate", "a", "b"), ("replicate", "b")]
    assert outcome.time_s == pytest.approx(224 + 10 * HOUR)
    assert outcome.cost_usd == pytest.approx(0.1 * (4 - 224 / HOUR) + 10 * 0.12)


@dataclass(frozen=True)
class Saves:
    """Replicas first; at the first revocation the other one is saved, and migrates from then on."""

    name: str = "saves"

    def plan(self, state: JobPosition, markets: Markets, overheads: Overheads) -> AttemptPlan:
        mechanism = Migration() if state.revocations else Replicate()
        job = replace(state.job, work_s=state.job.work_s - state.done_s)
        return list_plans(job, (mechanism,), markets, overheads)[0]


def test_a_replica_that_is_not_kept_is_saved_and_paid_until_then() -> None:
    outcome = simulate_job(JOB, Saves(), BOTH_RISE, BEGIN_S, IMMEDIATE)
    assert names(outcome) == [("replicate", "a", "b"), ("migrate", "b"), ("migrate", "a")]
    # Four hours are kept, and three more and a half minute until b rises: both moves save and restore 3 GB.
    assert outcome.time_s == pytest.approx(10 * HOUR + 2 * (90 + 90))
    assert outcome.attempts[1].charges[0].usd == pytest.approx(0.12 * (4 + 90 / HOUR))
    assert [attempt.start_s for attempt in outcome.attempts[1:]] == [
        attempt.end_s for attempt in outcome.attempts[:-1]
    ]


@pytest.mark.parametrize("mechanism", [Migration(), Checkpoint(), Backup()], ids=lambda one: one.name)
def test_hourly_billing_forgives_the_hour_of_a_revocation(mechanism: Mechanism) -> None:
    policy = CostAware("one", (mechanism,))
    hourly = World(TWO.histories, 1.0, billing=Billing.HOURLY)
    free = simulate_job(JOB, policy, hourly, BEGIN_S + 0.5 * HOUR, IMMEDIATE)
    spot = [charge for charge in free.attempts[0].charges if charge.market is not None]
    assert spot[0].usd == pytest.approx(0.3), "three and a half hours"


def test_the_same_twice_gives_the_same() -> None:
    assert simulate_job(JOB, CostAware(), TWO, BEGIN_S, OVERHEADS) == simulate_job(
        JOB, CostAware(), TWO, BEGIN_S, OVERHEADS
    )


@pytest.mark.parametrize("name", MECHANISMS)
def test_estimate_and_simulation_agree_within_the_sampling_error(name: str) -> None:
    row = point(name, baseline(), 2.4, 0.2, jobs=1500, seed=11)
    for what in ("time", "cost"):
        off = abs(row[what] - row[f"simulated_{what}"])
        # Twice the half of the 95 % interval, and what a restore before the first checkpoint would cost.
        assert off < 2 * row[f"simulated_{what}_plus_minus"] + 0.002 * row[what], (what, row)


def test_the_planner_knows_no_later_prices() -> None:
    """What comes after the decision does not change it."""
    calm = world(history("a", (0, 0.10)), history("b", (0, 0.12)))
    for policy in (CostAware(), CostAware("checkpoints", (Checkpoint(),))):
        first = simulate_job(JOB, policy, TWO, BEGIN_S, IMMEDIATE).attempts[0]
        assert (
            first.markets == simulate_job(JOB, policy, calm, BEGIN_S, IMMEDIATE).attempts[0].markets == ("a",)
        )


def test_memory_keeps_jobs_out_of_small_instances() -> None:
    where = World(TWO.histories, 1.0, np.array([2.0, 16.0]))
    outcome = simulate_job(JOB, CostAware(), where, BEGIN_S, IMMEDIATE)
    assert {market for attempt in outcome.attempts for market in attempt.markets} == {"b"}
