"""Policies that a user gives a job: where it goes, when it waits, and when it leaves on-demand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from broker.jobs.events import AttemptEnded, AttemptInstructed, JobPlanned, JobWaits
from broker.jobs.models import Outcome, WorkState
from broker.jobs.view import make_job_view
from cloudsim.jobs.policy_names import PolicyName
from tests.unit.workers.job_manager.scenes import Scene, market, offer, outcomes, report, wish

HOUR_S = 3600.0
#: Half an hour of work is due in an hour.
DUE = {"deadline_s": HOUR_S}
NONE = market()


def scene(policy: PolicyName, **told: Any) -> Scene:
    return Scene(wish(policy=policy, **told))


def where(planned: JobPlanned) -> list[tuple[str, bool, str]]:
    return [(attempt.cloud, attempt.spot, attempt.mechanism) for attempt in planned.attempts]


def test_on_demand_never_uses_spot_and_waits_for_its_home() -> None:
    assert where(scene(PolicyName.ON_DEMAND).plan()) == [("home", False, "on-demand")]
    away = scene(PolicyName.ON_DEMAND)
    (entry,) = away.decide(market=market(offer("forge", 0.1), home=None)).entries
    assert isinstance(entry, JobWaits)


def test_checkpoint_only_neither_migrates_nor_replicates() -> None:
    offers = market(offer("forge", 0.1, grace_s=600.0), offer("meadow", 0.1, grace_s=600.0))
    assert where(scene(PolicyName.COST_AWARE).plan(market=offers))[0][2] == "migrate"
    assert where(scene(PolicyName.CHECKPOINT_ONLY).plan(market=offers))[0][2] == "checkpoint"


def test_basic_takes_the_lowest_price_and_stays_on_demand_after_an_eviction() -> None:
    risky = market(offer("forge", 0.1, risk=0.99), offer("meadow", 0.11, risk=0.01))
    basic = scene(PolicyName.BASIC)
    assert where(basic.plan(market=risky)) == [("forge", True, "checkpoint")]
    basic.begin()
    basic.write(AttemptEnded(at=60.0, attempt=1, outcome=Outcome.EVICTED, why="taken back"))
    assert where(basic.plan(now=90.0)) == [("home", False, "on-demand")]


@pytest.mark.parametrize("policy", [PolicyName.GREEDY, PolicyName.UNIFORM_PROGRESS, PolicyName.WAY_BACK])
def test_policies_for_deadlines_take_spot_that_keeps_the_deadline(policy: PolicyName) -> None:
    planned = scene(policy, **DUE).plan()
    assert where(planned) == [("forge", True, "checkpoint")]
    assert policy in planned.attempts[0].why


def test_greedy_waits_until_only_on_demand_is_in_time() -> None:
    greedy = scene(PolicyName.GREEDY, **DUE)
    (entry,) = greedy.decide(market=NONE).entries
    assert isinstance(entry, JobWaits)
    assert "waits for spot" in entry.why
    last_s = HOUR_S - 1.1 * 1800.0
    (entry,) = greedy.decide(market=NONE, now=last_s - 10.0).entries
    assert isinstance(entry, JobWaits)
    assert entry.until < last_s, "it does not sleep through the last moment"
    assert where(greedy.plan(market=NONE, now=last_s)) == [("home", False, "on-demand")]


def test_uniform_progress_runs_on_demand_while_it_is_behind_and_leaves_when_ahead() -> None:
    job = scene(PolicyName.UNIFORM_PROGRESS, **DUE)
    assert where(job.plan(market=NONE, now=10.0)) == [("home", False, "on-demand")], "nothing is done yet"
    job.begin(at=10.0)
    running = report(job.job, 1)
    assert not job.decide(market=NONE, now=20.0, reports=running).entries, "not ahead of 2 changes yet"
    (entry,) = job.decide(market=NONE, now=10.0 + 2 * 36.0, reports=running).entries
    assert isinstance(entry, AttemptInstructed)
    assert entry.wanted == "save"
    assert "uniform-progress" in entry.why


def test_a_way_back_leads_to_spot_and_cost_aware_has_none() -> None:
    for policy, leaves in ((PolicyName.WAY_BACK, True), (PolicyName.COST_AWARE, False)):
        job = scene(policy, **DUE)
        assert where(job.plan(market=NONE, now=10.0)) == [("home", False, "on-demand")]
        job.begin(at=10.0)
        running = report(job.job, 1)
        assert not job.decide(market=NONE, now=82.0, reports=running).entries
        spot = market(offer("forge", 0.1))
        decision = job.decide(market=spot, now=118.0, reports=running)
        assert [entry.kind for entry in decision.entries] == (["told"] if leaves else [])
        if leaves:
            saved = report(job.job, 1, WorkState.SAVED, at=120.0, checkpoint=1, checkpoint_at=120.0)
            job.decide(now=120.0, reports=saved, market=spot)
            assert outcomes(job.job)[0] is Outcome.SAVED
            assert job.job.live[0].plan.cloud == "forge"
            assert job.job.live[0].plan.restored_from == 1


def test_who_may_not_be_evicted_again_stays_on_demand_and_who_cannot_pay_does_not_move() -> None:
    for told in ({"max_evictions": 0}, {"max_cost": 0.04}):
        job = scene(PolicyName.WAY_BACK, **DUE)
        job.plan(market=NONE, now=10.0)
        job.begin(at=10.0)
        changed = job.job.submitted.model_copy(update={"wish": job.job.wish.model_copy(update=told)})
        job.job = replace(job.job, submitted=changed)
        decision = job.decide(market=market(offer("forge", 0.1)), now=118.0, reports=report(job.job, 1))
        assert "told" not in job.kinds(decision), told


def test_an_on_demand_instance_is_looked_at_from_time_to_time_only() -> None:
    job = scene(PolicyName.WAY_BACK, **DUE)
    job.plan(market=NONE, now=10.0)
    job.begin(at=10.0)
    running = report(job.job, 1)
    assert job.decide(now=10.0 + 50.0, market=None, asked=False, reports=running).needs_market is False
    assert job.decide(now=10.0 + 73.0, market=None, asked=False, reports=running).needs_market is True


@pytest.mark.parametrize(
    ("told", "missing"),
    [
        ({"policy": "greedy"}, "deadline_s"),
        ({"policy": "uniform-progress", "deadline_s": 60, "checkpoint": None}, "checkpoint"),
        ({"policy": "basic", "checkpoint": None}, "checkpoint"),
        ({"policy": "way-back", "deadline_s": 60, "instances": 2}, "instances"),
    ],
)
def test_what_a_policy_needs_is_asked_for(told: dict[str, Any], missing: str) -> None:
    with pytest.raises(ValidationError, match=missing):
        wish(**told)


def test_the_policy_is_shown() -> None:
    assert make_job_view(scene(PolicyName.GREEDY, **DUE).entries).policy is PolicyName.GREEDY
    assert make_job_view(Scene().entries).policy is PolicyName.COST_AWARE
