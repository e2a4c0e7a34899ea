"""Replicas: who pays until when, what is left when one or all are revoked, and how many markets are tried."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from cloudsim.jobs.attempts import AttemptPlan, JobPosition
from cloudsim.jobs.job import IMMEDIATE, OVERHEADS, Job
from cloudsim.jobs.planner import list_plans
from cloudsim.jobs.replicas import Replicate
from cloudsim.markets.revocation import Memoryless, QuotedMarkets
from tests.unit.cloudsim.jobs.scenes import HOUR, history, quoted, run, world

JOB = Job(2 * HOUR, 4.0)
CALM, LATE, EARLY = (
    history("calm", (0, 0.1)),
    history("late", (0, 0.2), (1.5, 5.0)),
    history("early", (0, 0.3), (0.5, 5.0), (0.6, 0.3)),
)
WAITS = Replicate(waits=True)


def test_both_are_paid_until_the_first_is_done() -> None:
    step = run(WAITS, JOB, world(CALM, CALM), bids=(0.5, 0.5))
    assert step.finished
    assert step.state.at_s == 2 * HOUR
    assert [charge.usd for charge in step.charges] == pytest.approx([0.2, 0.2])


def test_a_revoked_replica_is_paid_until_then_and_the_other_to_the_end() -> None:
    step = run(WAITS, JOB, world(CALM, EARLY), bids=(0.5, 0.5))
    assert step.finished
    assert {charge.market: round(charge.usd, 9) for charge in step.charges} == {0: 0.2, 1: 0.15}


def test_when_all_are_revoked_the_job_starts_again_on_demand() -> None:
    step = run(WAITS, JOB, world(LATE, EARLY), bids=(0.5, 0.5))
    assert not step.finished
    assert step.state.at_s == 1.5 * HOUR
    assert step.state.job == JOB
    assert step.state.only_on_demand
    assert step.state.revocations == 2
    assert sum(charge.usd for charge in step.charges) == pytest.approx(0.15 + 0.3)


def test_planning_again_stops_at_the_first_revocation_with_what_the_others_have_done() -> None:
    step = run(Replicate(), JOB, world(LATE, EARLY), bids=(0.5, 0.5))
    assert not step.finished
    assert [one.market for one in step.state.running] == [0]
    assert (step.state.at_s, step.state.done_s) == (0.5 * HOUR, 0.5 * HOUR)
    assert [charge.market for charge in step.charges] == [1]
    kept = AttemptPlan(Replicate(), (0,), (0.5,), 0, 0, keeps=True)
    last = kept.mechanism.step(kept, step.state, world(LATE, EARLY), IMMEDIATE)
    assert not last.finished
    assert (last.state.running, last.state.done_s, last.state.only_on_demand) == ((), 0.0, False)
    assert last.charges[0].usd == pytest.approx(1.5 * 0.2), "from its own beginning"


def test_a_kept_replica_finishes_when_it_would_have_done_anyway() -> None:
    where = world(CALM, EARLY)
    first = run(Replicate(), JOB, where, bids=(0.5, 0.5), overheads=OVERHEADS)
    kept = AttemptPlan(Replicate(), (0,), (0.5,), 0, 0, keeps=True)
    last = kept.mechanism.step(kept, first.state, where, OVERHEADS)
    assert last.finished
    assert last.state.at_s == pytest.approx(OVERHEADS.boot_spot_s + 2 * HOUR)
    assert last.charges[0].usd == pytest.approx(0.2)


def test_one_revoked_during_the_boot_leaves_the_other_booting() -> None:
    where = world(CALM, history("at once", (0, 0.1), (0.02, 5.0)))
    first = run(Replicate(), JOB, where, bids=(0.5, 0.5), overheads=OVERHEADS)
    assert first.charges == ()
    assert first.state.done_s == pytest.approx(72 + 5 - 224)
    kept = AttemptPlan(Replicate(), (0,), (0.5,), 0, 0, keeps=True)
    last = kept.mechanism.step(kept, first.state, where, OVERHEADS)
    assert last.state.at_s == pytest.approx(224 + 2 * HOUR)


def test_a_revocation_just_before_the_end_is_heard_of_after_it() -> None:
    where = world(CALM, history("late", (0, 0.1), (2 - 1 / HOUR, 5.0)))
    step = run(Replicate(), JOB, where, bids=(0.5, 0.5), overheads=replace(IMMEDIATE, poll_s=5.0))
    assert step.finished
    assert step.state.at_s == 2 * HOUR


def test_a_saved_state_is_restored_by_each() -> None:
    plan = AttemptPlan(WAITS, (0, 1), (0.5, 0.5), 0, 0)
    step = WAITS.step(plan, JobPosition(0.0, JOB, saved_gb=4.0), world(CALM, CALM), IMMEDIATE)
    assert step.state.at_s == 2 * HOUR + 120
    assert [charge.usd for charge in step.charges] == pytest.approx([0.1 * (2 + 1 / 30)] * 2)


def mixed(per_day: tuple[float, ...], prices: tuple[float, ...]) -> QuotedMarkets:
    lifetimes = tuple(Memoryless(86400 / rate) for rate in per_day)
    return QuotedMarkets(lifetimes, np.array(prices), 1.0, np.full(len(prices), np.inf))


def test_the_least_expected_sum_is_chosen_and_not_the_lowest_prices() -> None:
    rates, prices = (30.0, 30.0, 0.1, 0.1), (0.1, 0.1, 0.15, 0.16)
    markets = mixed(rates, prices)
    (plan,) = list_plans(JOB, (Replicate(),), markets, IMMEDIATE)
    lives = [1 - math.exp(-rate / 12) for rate in rates]
    cost = {
        (one, two): 24 * (prices[one] * lives[one] / rates[one] + prices[two] * lives[two] / rates[two])
        + 2 * lives[one] * lives[two]
        for one, two in combinations(range(4), 2)
    }
    assert tuple(sorted(plan.markets)) == min(cost, key=cost.__getitem__) == (0, 2)
    assert plan.cost_usd == pytest.approx(cost[0, 2], rel=1e-4)
    (three,) = list_plans(JOB, (Replicate(3),), markets, IMMEDIATE)
    assert len(three.markets) == 3
    assert three.bids == (1 / 3,) * 3


def test_markets_above_the_shared_bid_are_none() -> None:
    assert list_plans(JOB, (Replicate(3),), quoted(1.0, 0.34), IMMEDIATE) == []
    assert len(list_plans(JOB, (Replicate(2),), quoted(1.0, 0.34), IMMEDIATE)) == 1


def test_of_many_markets_the_best_alone_are_paired() -> None:
    prices = np.full(60, 0.4)
    prices[[17, 53]] = 0.1
    markets = mixed((1.0,) * 60, tuple(prices.tolist()))
    (plan,) = list_plans(JOB, (Replicate(),), markets, IMMEDIATE)
    assert plan.markets == (17, 53)


def test_what_keeping_costs_is_what_is_left_and_the_risk_of_all() -> None:
    state = run(Replicate(), JOB, world(CALM, EARLY), bids=(0.5, 0.5)).state
    calm = Replicate().plan_kept(state, quoted(1e-6, 0.1))
    assert calm.keeps
    assert calm.cost_usd == pytest.approx(1.5 * 0.1, rel=1e-4)
    assert calm.time_s == pytest.approx(1.5 * HOUR, rel=1e-4)
    risky = Replicate().plan_kept(state, quoted(24.0, 0.1))
    assert risky.cost_usd > 0.7 * 2, "most likely all of it is done again on-demand"


def test_a_replica_whose_market_gives_no_evidence_is_taken_as_lost() -> None:
    state = run(Replicate(), JOB, world(CALM, EARLY), bids=(0.5, 0.5)).state
    dear = world(history("dear", (0, 0.9)), CALM).known(300 * HOUR)
    kept = Replicate().plan_kept(state, dear)
    assert kept.cost_usd == 2.0, "all of it again, on-demand"
    assert kept.time_s == 2 * HOUR
