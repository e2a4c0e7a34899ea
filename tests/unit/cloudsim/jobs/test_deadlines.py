"""Policies for deadlines, on availability that is drawn at random and in single situations."""

from __future__ import annotations

import numpy as np
import pytest

from cloudsim.jobs.deadlines import DEADLINE_POLICIES, DeadlinePolicy, Greedy, Punctual, UniformProgress
from cloudsim.jobs.job import OVERHEADS, Job
from cloudsim.jobs.simulation import SimulatedJob, simulate_job
from cloudsim.jobs.world import World
from cloudsim.markets.revocation import HOUR_S, WINDOW_S, PriceHistory

WORK_S = 4 * HOUR_S
#: Its state is saved within the warning.
JOB = Job(WORK_S, 2.0)
PRICE, NONE = 0.3, 10.0


def world(at_s: list[float], prices: list[float]) -> World:
    return World([PriceHistory("market", np.array([0.0, *at_s]), np.array([PRICE, *prices]))], 1.0)


def run(policy: DeadlinePolicy, of: World, room: float) -> SimulatedJob:
    return simulate_job(JOB, policy, of, WINDOW_S, OVERHEADS, room * WORK_S)


@pytest.mark.parametrize("policy", DEADLINE_POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("seed", range(5))
def test_every_deadline_is_kept(policy: DeadlinePolicy, seed: int) -> None:
    generator = np.random.default_rng(seed)
    at_s = np.cumsum(generator.exponential(HOUR_S, 400)).tolist()
    of = world(at_s, [NONE, PRICE] * 200)
    for room in (1.1, 1.5, 3.0):
        job = run(policy, of, room)
        assert job.time_s <= room * WORK_S, (policy.name, room)
        assert job.cost_usd <= 1.15 * WORK_S / HOUR_S


def test_where_there_is_always_spot_all_take_it() -> None:
    for policy in DEADLINE_POLICIES:
        job = run(policy, world([1e7], [PRICE]), 2.0)
        assert [attempt.mechanism for attempt in job.attempts] == ["migrate"]
        assert job.cost_usd == pytest.approx(PRICE * WORK_S / HOUR_S)


def test_without_spot_greedy_waits_and_uniform_progress_works() -> None:
    none = world([WINDOW_S - 1], [NONE])
    greedy, even = run(Greedy(), none, 2.0), run(UniformProgress(), none, 2.0)
    first = next(attempt for attempt in greedy.attempts if attempt.mechanism == "on-demand")
    assert first.start_s == pytest.approx(WINDOW_S + WORK_S, abs=200)
    assert {attempt.mechanism for attempt in greedy.attempts[:-1]} == {"wait"}
    worked = [attempt.start_s for attempt in even.attempts if attempt.mechanism == "on-demand"]
    assert worked[0] - WINDOW_S < 600
    assert any(attempt.mechanism == "wait" for attempt in even.attempts[1:]), "it pauses while it is ahead"


def test_a_way_back_goes_to_spot_when_there_is_some_again() -> None:
    later = world([WINDOW_S - 1, WINDOW_S + HOUR_S], [NONE, PRICE])
    stays, returns = run(Punctual(), later, 2.0), run(Punctual(returns=True), later, 2.0)
    assert {attempt.mechanism for attempt in stays.attempts} == {"on-demand"}
    assert [attempt.mechanism for attempt in returns.attempts][-1] == "migrate"
    on_demand = [
        charge for attempt in returns.attempts for charge in attempt.charges if charge.market is None
    ]
    assert sum(charge.end_s - charge.start_s for charge in on_demand) == pytest.approx(HOUR_S, rel=0.15)
    assert returns.cost_usd < 0.6 * stays.cost_usd


def test_uniform_progress_does_not_change_back_and_forth_at_once() -> None:
    minutes = [WINDOW_S - 1 + 600.0 * step for step in range(60)]
    job = run(UniformProgress(), world(minutes, [NONE, PRICE] * 30), 1.3)
    stays = [
        charge.end_s - charge.start_s
        for attempt in job.attempts
        for charge in attempt.charges
        if charge.market is None
    ]
    assert len(stays) > 1
    assert min(stays[:-1]) >= 300.0
