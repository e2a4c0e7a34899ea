"""Every rule of the job manager, with plain values."""

from dataclasses import replace

import pytest

from broker.contract import LeaseState
from broker.contract.launch import Launch
from broker.jobs.events import (
    AttemptEnded,
    AttemptInstructed,
    AttemptPromoted,
    CancelRequested,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobPlanned,
    JobWaits,
    ProfileLearnt,
)
from broker.jobs.models import AGENT_ENDED, JobState, Outcome, Profile, WorkState
from tests.unit.workers.job_manager.scenes import (
    MARKET,
    PROFILE,
    USAGE,
    Scene,
    granted,
    lease,
    market,
    offer,
    outcomes,
    report,
    wish,
)
from workers.job_manager.attempt_outcome import BOOT_LIMIT_S
from workers.job_manager.effects import make_launch, make_work
from workers.job_manager.market import JobMarket
from workers.job_manager.observation import Denial, Grant
from workers.job_manager.state_machine import (
    COOL_DOWN_S,
    LEAST_COOL_DOWN_S,
    cool_down_s,
    count_occasions,
    list_cool_downs,
)

# A cloud that gives little notice, one whose spot is dear, and one where nothing lives long.
REPLICAS = market(offer("forge", 0.35, risk=0.1), offer("meadow", 0.36, risk=0.1))


def test_nothing_is_planned_before_the_market_is_known() -> None:
    scene = Scene()
    decision = scene.decide(market=None, asked=False)
    assert (decision.needs_market, decision.entries) == (True, ())
    away = scene.decide(market=None, asked=True)
    assert (away.needs_market, away.entries, away.next_at > 1.0) == (False, (), True)


def test_the_cheapest_cloud_and_why() -> None:
    planned = Scene().plan()
    (attempt,) = planned.attempts
    assert (attempt.cloud, attempt.mechanism, attempt.role) == ("forge", "checkpoint", "main")
    assert (attempt.price_usd_per_core_hour, attempt.table_version) == (0.1, "forge-7")
    assert attempt.checkpoint_s == pytest.approx(5.44)
    assert attempt.sla == 0.35  # the risk, and some room for others who are placed meanwhile
    assert attempt.why.startswith(
        "cheapest of 2 clouds: expected 0.053 $ with checkpoints against 0.50 $ on-demand"
    )


def test_instances_are_granted_or_refused() -> None:
    scene = Scene()
    scene.plan()
    assert scene.decide(grants={}).entries == ()
    scene.decide(grants=granted(scene.job))
    assert scene.job.attempts[0].leases == ("job.1.0.1",)
    refused = Scene()
    refused.plan()
    refused.decide(grants={"job.1.0": Denial("no capacity")})
    assert outcomes(refused.job) == [Outcome.REFUSED, None]
    assert refused.job.attempts[1].plan.cloud == "meadow"
    refused.decide(grants={"job.2.0": Denial("no capacity")})
    assert refused.job.attempts[2].plan.role == "on-demand"
    refused.decide(grants={"job.3.0": Denial("no capacity")})
    assert outcomes(refused.job) == [Outcome.REFUSED] * 3
    assert refused.job.wait is not None
    assert "home has no room on-demand" in refused.job.wait.why


def test_an_on_demand_instance_may_have_to_wait_for_its_room() -> None:
    scene = Scene(wish(clouds=("nowhere",)))
    scene.plan(market=market())
    scene.decide(grants={"job.1.0": Grant("job.1.0", 0, ready=False)})
    assert scene.job.attempts[0].began_at is None
    scene.decide(grants={"job.1.0": Grant("job.1.0", 0)})
    assert scene.job.attempts[0].began_at is not None


def test_an_evicted_job_goes_on_elsewhere_from_its_checkpoint() -> None:
    scene = Scene()
    scene.running()
    reports = report(scene.job, 1, at=100.0, checkpoint=4, checkpoint_at=95.0)
    scene.decide(now=100.0, reports=reports)
    reports = report(scene.job, 1, WorkState.EVICTED, at=130.0, checkpoint=4, checkpoint_at=95.0)
    decision = scene.decide(now=130.0, reports=reports)
    assert scene.kinds(decision) == ["ended", "waits"]
    ended = scene.job.attempts[0].ended
    assert ended is not None
    assert ended.lost_s == pytest.approx(35 * scene.job.attempts[0].plan.pace)
    assert (
        ended.why == "forge took its instance back; it goes on elsewhere from checkpoint 4, 33 s of work lost"
    )
    assert ended.cost == pytest.approx(129 / 3600 * 0.1)
    assert scene.job.wait is not None
    assert 130.0 < scene.job.wait.until < 132.0
    (attempt,) = scene.plan(now=132.0, reports={}).attempts
    assert (attempt.cloud, attempt.restored_from, attempt.restored_checkpoint) == ("meadow", 1, 4)
    assert attempt.done_s == pytest.approx(scene.job.attempts[0].safe_s)
    assert scene.job.evictions == 1


def test_a_state_that_is_kept_on_notice_loses_nothing() -> None:
    scene = Scene(wish(idempotent=False))
    (attempt,) = scene.plan(market=market(offer("forge", 0.1, grace_s=60.0))).attempts
    assert (attempt.mechanism, attempt.saves_on_notice) == ("migrate", True)
    scene.begin()
    scene.decide(now=50.0, reports=report(scene.job, 1, at=50.0, noticed_at=50.0))
    assert scene.job.attempts[0].noticed_at == 50.0
    saved = report(scene.job, 1, WorkState.SAVED, at=60.0, checkpoint=1, checkpoint_at=60.0, noticed_at=50.0)
    scene.decide(now=60.0, reports=saved)
    assert outcomes(scene.job) == [Outcome.EVICTED]
    assert scene.job.attempts[0].ended is not None
    assert scene.job.attempts[0].ended.lost_s == 0.0
    assert scene.job.state is JobState.QUEUED
    (attempt,) = scene.plan(now=70.0).attempts
    assert attempt.restored_from == 1


def test_what_must_not_run_twice_is_never_set_back() -> None:
    scene = Scene(wish(idempotent=False))
    mechanisms = {one.mechanism for one in scene.plan().attempts}
    assert mechanisms == {"on-demand"}
    lost = Scene(wish(idempotent=False))
    lost.plan(market=market(offer("forge", 0.1, grace_s=60.0)))
    lost.begin()
    decision = lost.decide(now=50.0, reports=report(lost.job, 1, WorkState.EVICTED, at=50.0))
    assert isinstance(decision.entries[-1], JobFailed)
    assert "must not run twice" in lost.job.end.why  # type: ignore[union-attr]
    failed = Scene(wish(idempotent=False, retries=5))
    failed.plan()
    failed.begin()
    failed.decide(now=9.0, reports=report(failed.job, 1, WorkState.EXITED, at=9.0, exit_code=1))
    assert failed.job.state is JobState.FAILED


def test_the_memory_limit_of_a_wish_is_that_of_its_work() -> None:
    scene = Scene(wish(memory_limit_mb=512))
    scene.running()
    assert make_work(scene.job, scene.job.attempts[0], 0).memory_mb == 512


def test_instances_of_real_clouds_start_agents_and_save_on_any_notice() -> None:
    real = replace(offer("forge", 0.1), boots_agents=True)
    scene = Scene(wish(image="debian-12", instance_type="m1.small"))
    scene.running(market=market(real, home=None))
    (attempt,) = scene.job.attempts
    assert attempt.plan.boots_agents
    assert (attempt.plan.checkpoint_s is not None, attempt.plan.saves_on_notice) == (True, False)
    assert make_work(scene.job, attempt, 0).saves_on_notice
    assert make_launch(scene.job.wish) == Launch(agent=True, image="debian-12", instance_type="m1.small")
    here = Scene()
    here.running()
    assert not make_work(here.job, here.job.attempts[0], 0).saves_on_notice


@pytest.mark.parametrize("real", [True, False])
def test_an_instance_of_a_real_cloud_that_never_reports_is_given_up(real: bool) -> None:
    scene = Scene()
    scene.plan(market=market(replace(offer("forge", 0.1), boots_agents=real), home=None))
    scene.begin(started=False)
    scene.decide(now=BOOT_LIMIT_S)
    assert scene.job.live
    scene.decide(now=BOOT_LIMIT_S + 100)
    assert bool(scene.job.live) is not real
    ended = scene.job.attempts[0].ended
    if real:
        assert ended is not None
        assert ended.outcome is Outcome.FAILED
        assert "no node agent of its instance has reported within 15" in ended.why


def test_all_work_of_a_cloud_may_end_with_its_agent() -> None:
    scene = Scene()
    scene.running()
    scene.decide(now=60.0, reports=report(scene.job, 1, WorkState.EVICTED, at=60.0, why=AGENT_ENDED))
    (place,) = scene.job.attempts
    assert place.ended is not None
    assert place.ended.outcome is Outcome.EVICTED
    assert "all work of forge was ended with its node agent" in place.ended.why


def test_unknown_is_not_evicted() -> None:
    scene = Scene()
    scene.running()
    assert scene.decide(now=500.0, reports={}, leases={}).entries == ()
    gone = lease("job.1.0.1", "forge", LeaseState.EVICTED)
    assert scene.decide(now=501.0, leases=gone, gone={"job.1.0.1": 501.0}).entries == ()
    scene.decide(now=512.0, leases=gone, gone={"job.1.0.1": 501.0})
    assert outcomes(scene.job) == [Outcome.EVICTED]
    once = Scene(wish(idempotent=False))
    once.plan(market=market(offer("forge", 0.1, grace_s=60.0)))
    once.begin()
    assert once.decide(now=900.0, leases=gone, gone={"job.1.0.1": 5.0}).entries == ()


def test_a_lease_that_ran_out_or_was_cancelled_is_said_so() -> None:
    for state, words in ((LeaseState.COMPLETED, "time was over"), (LeaseState.CANCELLED, "somebody else")):
        scene = Scene()
        scene.running()
        scene.decide(
            now=40.0,
            leases=lease("job.1.0.1", "forge", state),
            reports=report(scene.job, 1, WorkState.STOPPED, at=40.0),
        )
        ended = scene.job.attempts[0].ended
        assert ended is not None
        assert words in ended.why


def test_the_first_replica_to_finish_wins() -> None:
    scene = Scene(wish(checkpoint=None))
    planned = scene.plan(market=REPLICAS)
    assert [one.role for one in planned.attempts] == ["replica", "replica"]
    scene.begin()
    both = report(scene.job, 1, WorkState.EXITED, at=1800.0, exit_code=0) | report(
        scene.job, 2, WorkState.EXITED, at=1800.0, exit_code=0
    )
    decision = scene.decide(now=1800.0, reports=both)
    assert outcomes(scene.job) == [Outcome.WON, Outcome.STOPPED]
    assert sum(isinstance(one, JobFinished) for one in decision.entries) == 1
    assert isinstance(scene.job.end, JobFinished)


def test_a_lost_replica_leaves_the_other_and_the_last_one_is_planned_anew() -> None:
    scene = Scene(wish(checkpoint=None))
    scene.plan(market=REPLICAS)
    scene.begin()
    decision = scene.decide(now=60.0, reports=report(scene.job, 1, WorkState.EVICTED, at=60.0))
    assert scene.kinds(decision) == ["ended"]
    assert "its replica on meadow goes on" in decision.entries[0].why  # type: ignore[union-attr]
    scene.decide(now=90.0, reports=report(scene.job, 2, WorkState.EVICTED, at=90.0))
    assert outcomes(scene.job) == [Outcome.EVICTED] * 2
    assert isinstance(scene.entries[-1], JobWaits)
    (attempt,) = scene.plan(now=100.0, reports={}).attempts
    assert attempt.role == "on-demand"  # both clouds have just evicted it


def test_a_backup_without_checkpoints_becomes_the_job() -> None:
    scene = Scene(wish(checkpoint=None))
    planned = scene.plan(market=market(offer("forge", 0.2)))
    assert [(one.role, one.share) for one in planned.attempts] == [("main", 1.0), ("backup", 0.2)]
    scene.begin()
    decision = scene.decide(
        now=101.0, reports=report(scene.job, 1, WorkState.EVICTED, at=101.0), shares={2: 0.6}
    )
    assert scene.kinds(decision) == ["ended", "promoted"]
    assert isinstance(decision.entries[1], AttemptPromoted)
    backup = scene.job.attempts[1]
    assert (backup.plan.role, backup.plan.share) == ("main", 0.6)
    assert backup.work_done_s(101.0) == pytest.approx(20.0)
    assert backup.work_done_s(111.0) == pytest.approx(26.0)
    assert backup.began_at is not None
    before = backup.cost(101.0) / (101.0 - backup.began_at)
    assert backup.cost(111.0) - backup.cost(101.0) == pytest.approx(10.0 * 3 * before), "0.6 from then on"


def test_a_backup_with_checkpoints_is_kept_and_the_job_goes_on_faster() -> None:
    # Clouds where checkpoints cost more than a backup: the state is large.
    profile = PROFILE | {"memory_gb": 100.0}
    scene = Scene(wish(profile=profile))
    planned = scene.plan(market=market(offer("forge", 0.1, risk=0.8)))
    assert [one.role for one in planned.attempts] == ["main", "backup"]
    scene.begin()
    decision = scene.decide(now=101.0, reports=report(scene.job, 1, WorkState.EVICTED, at=101.0))
    assert isinstance(decision.entries[-1], AttemptInstructed)
    assert (decision.entries[-1].attempt, decision.entries[-1].wanted) == (2, "save")
    saved = report(scene.job, 2, WorkState.SAVED, at=105.0, checkpoint=1, checkpoint_at=104.0)
    scene.decide(now=105.0, reports=saved)
    assert outcomes(scene.job) == [Outcome.EVICTED, Outcome.SAVED, None]
    assert scene.job.attempts[2].plan.restored_from == 2
    assert scene.job.attempts[2].plan.done_s == pytest.approx(10.3)


def test_a_job_that_fails_is_run_again_after_growing_pauses() -> None:
    scene = Scene(wish(retries=2))
    pauses = []
    now = 1.0
    for attempt in (1, 2, 3):
        scene.plan(now=now, reports={})
        scene.begin()
        now += 10
        scene.decide(now=now, reports=report(scene.job, attempt, WorkState.EXITED, at=now, exit_code=7))
        if attempt < 3:
            assert scene.job.wait is not None
            pauses.append(scene.job.wait.until - now)
            assert scene.decide(now=now + 0.1, reports={}).next_at == scene.job.wait.until
            now = scene.job.wait.until
    assert scene.job.state is JobState.FAILED
    assert scene.job.end == JobFailed(
        at=now, why="its command ended with status 7 (it was run again 2 times)", exit_code=7
    )
    assert 1.5 <= pauses[0] <= 2.5
    assert 3.0 <= pauses[1] <= 5.0


def test_jobs_that_are_evicted_together_do_not_come_back_together() -> None:
    until = []
    for name in ("a", "b", "c"):
        scene = Scene()
        scene.entries[0] = scene.entries[0].model_copy(update={"job": name})
        scene.job = type(scene.job)(1, 0.0, scene.entries[0], profile=scene.job.profile)  # type: ignore[arg-type]
        scene.running()
        scene.decide(now=30.0, reports=report(scene.job, 1, WorkState.EVICTED, at=30.0))
        assert scene.job.wait is not None
        until.append(scene.job.wait.until)
    assert len(set(until)) == 3


def test_a_cloud_that_evicts_is_left_alone_for_longer_each_time() -> None:
    assert [cool_down_s(times) for times in (1, 2, 3, 9, 9999)] == [60.0, 120.0, 240.0, 960.0, 960.0]
    assert [cool_down_s(times, speed=6.0) for times in (1, 2, 9)] == [10.0, 20.0, 160.0]
    assert cool_down_s(1, speed=600.0) == LEAST_COOL_DOWN_S
    assert [count_occasions(at) for at in ([], [5.0], [5.0, 6.0, 3.0], [5.0, 40.0, 6.0])] == [0, 1, 1, 2]
    scene = Scene()
    scene.running()
    scene.decide(now=30.0, reports=report(scene.job, 1, WorkState.EVICTED, at=30.0))
    assert list_cool_downs(scene.job, 31.0) == {"forge": 30.0 + COOL_DOWN_S}
    assert list_cool_downs(scene.job, 4000.0) == {}
    other = Scene()
    planned = other.plan(cooled={"forge": 50.0})
    assert planned.attempts[0].cloud == "meadow"
    assert Scene().plan(now=60.0, cooled={"forge": 50.0}).attempts[0].cloud == "forge"


def test_near_its_deadline_a_job_is_planned_on_demand() -> None:
    safe = Scene(wish(deadline_s=7200.0)).plan()
    assert safe.attempts[0].spot
    near = Scene(wish(deadline_s=2000.0)).plan()
    assert (near.attempts[0].spot, near.attempts[0].role) == (False, "on-demand")
    assert "might miss the deadline" in near.attempts[0].why
    late = Scene(wish(deadline_s=500.0)).plan()
    assert "nothing is sure to keep it" in late.attempts[0].why


def test_a_running_job_moves_at_the_last_moment_that_keeps_its_deadline() -> None:
    """What an eviction would leave is what its slow backup has done."""
    scene = Scene(wish(profile=PROFILE | {"memory_gb": 100.0}, deadline_s=3600.0))
    planned = scene.plan(market=market(offer("forge", 0.1, risk=0.2)))
    assert [one.role for one in planned.attempts] == ["main", "backup"]
    scene.begin()
    for now in range(2, 1800):
        reports = report(scene.job, 1, at=float(now)) | report(scene.job, 2, at=float(now))
        decision = scene.decide(now=float(now), reports=reports)
        if decision.entries:
            break
    assert 800 < now < 1000
    assert isinstance(decision.entries[0], AttemptInstructed)
    assert (decision.entries[0].attempt, decision.entries[0].wanted) == (1, "save")
    assert "deadline" in decision.entries[0].why


def test_without_checkpoints_on_demand_begins_beside_the_replicas() -> None:
    scene = Scene(wish(checkpoint=None, deadline_s=2500.0))
    assert [one.role for one in scene.plan(market=REPLICAS).attempts] == ["replica", "replica"]
    scene.begin()
    for now in range(2, 600):
        reports = report(scene.job, 1, at=float(now)) | report(scene.job, 2, at=float(now))
        decision = scene.decide(now=float(now), reports=reports)
        if decision.entries:
            break
    assert isinstance(decision.entries[0], JobPlanned)
    assert [one.role for one in decision.entries[0].attempts] == ["on-demand"]
    assert scene.decide(now=now + 1.0, reports=reports).entries == ()


def test_what_would_cost_too_much_is_passed_over_or_given_up() -> None:
    hopeless = Scene(wish(max_cost=0.01))
    decision = hopeless.decide()
    assert isinstance(decision.entries[-1], JobFailed)
    assert "more than its max_cost of 0.01 $" in decision.entries[-1].why
    # On-demand, 0.50 $, would keep the deadline and costs too much.
    assert Scene(wish(max_cost=0.3, deadline_s=2000.0)).plan().attempts[0].spot
    scene = Scene(wish(max_cost=0.1))
    scene.running()
    assert scene.decide(now=3000.0, reports=report(scene.job, 1, at=3000.0)).entries == ()
    decision = scene.decide(now=3700.0, reports=report(scene.job, 1, at=3700.0))
    assert outcomes(scene.job) == [Outcome.STOPPED]
    assert isinstance(scene.job.end, JobFailed)
    assert scene.job.cost(3700.0) == pytest.approx(3699 / 3600 * 0.1)


def test_after_as_many_evictions_as_it_bears_a_job_runs_on_demand() -> None:
    scene = Scene(wish(max_evictions=1))
    scene.running()
    scene.decide(now=30.0, reports=report(scene.job, 1, WorkState.EVICTED, at=30.0))
    (attempt,) = scene.plan(now=40.0, reports={}).attempts
    assert (attempt.role, attempt.spot) == ("on-demand", False)
    assert attempt.why.startswith("it was evicted once, and may not be more often")


def test_a_job_without_a_profile_is_measured_at_home() -> None:
    scene = Scene(wish(profile=None, name="loop"))
    (attempt,) = scene.plan().attempts
    assert (attempt.role, attempt.cloud, attempt.spot) == ("profile", "home", False)
    scene.begin()
    done = report(scene.job, 1, WorkState.EXITED, at=301.0, exit_code=0)
    decision = scene.decide(now=301.0, reports=done)
    learnt = next(one for one in decision.entries if isinstance(one, ProfileLearnt))
    assert learnt.profile == Profile(work_s=300.0, memory_gb=0.02, disk_gb=0.5, io_share=0.1)
    assert isinstance(scene.job.end, JobFinished)
    known = Scene(wish(profile=None, name="loop"))
    decision = known.decide(known=learnt.profile)
    assert known.kinds(decision) == ["profile", "planned"]
    assert known.job.attempts[0].plan.spot


def test_what_is_measured_again_moves_the_profile() -> None:
    scene = Scene(wish(name="loop"))
    scene.running()
    done = report(scene.job, 1, WorkState.EXITED, at=1001.0, exit_code=0)
    before = Profile(work_s=1800.0, memory_gb=0.01)
    scene.decide(now=1001.0, reports=done, known=before)
    assert scene.job.profile is not None
    measured = 1000.0 * scene.job.attempts[0].plan.pace
    assert scene.job.profile.work_s == pytest.approx((1800.0 + measured) / 2)


def test_a_home_that_is_full_is_asked_again_before_a_job_runs_unmeasured() -> None:
    scene = Scene(wish(profile=None))
    now, waited = 1.0, 0
    while True:
        planned = scene.decide(now=now, grants={})
        if isinstance(planned.entries[-1], JobPlanned) and planned.entries[-1].attempts[0].spot:
            break
        if isinstance(planned.entries[-1], JobPlanned):
            scene.decide(now=now, grants={f"job.{len(scene.job.attempts)}.0": Denial("no capacity")})
        if scene.job.wait is not None:
            waited += 1
            now = scene.job.wait.until
        assert now < 1000
    assert waited >= 3


def test_another_phase_changes_the_interval_or_the_place() -> None:
    scene = Scene()
    scene.running()
    larger = Profile(work_s=1800.0, memory_gb=3.0)
    decision = scene.decide(now=60.0, reports=report(scene.job, 1, at=60.0), phases={1: larger})
    assert scene.kinds(decision) == ["profile", "told"]
    told = decision.entries[1]
    assert isinstance(told, AttemptInstructed)
    assert told.wanted == "run"
    assert told.checkpoint_s == pytest.approx((3.0 + 0.075) * 4 / 0.0625)
    assert scene.job.attempts[0].plan.checkpoint_s == told.checkpoint_s
    assert scene.decide(now=62.0, reports=report(scene.job, 1, at=62.0)).entries == ()
    moved = Scene()
    moved.running()
    cheaper = market(offer("forge", 0.1, risk=0.95, lifetime_s=600.0), offer("meadow", 0.02))
    decision = moved.decide(
        now=60.0, market=cheaper, reports=report(moved.job, 1, at=60.0), phases={1: larger}
    )
    assert isinstance(decision.entries[-1], AttemptInstructed)
    assert decision.entries[-1].wanted == "save"


def test_a_lease_that_is_not_extended_is_left_in_time() -> None:
    scene = Scene()
    scene.running()
    decision = scene.decide(now=90.0, reports=report(scene.job, 1, at=90.0), final=frozenset({"job.1.0.1"}))
    assert isinstance(decision.entries[0], AttemptInstructed)
    assert "not extended" in decision.entries[0].why


def test_all_instances_must_end_well() -> None:
    scene = Scene(wish(instances=2, checkpoint=None))
    scene.plan(market=REPLICAS)
    scene.begin()
    one = report(scene.job, 1, WorkState.EXITED, at=50.0, exit_code=0)
    assert not scene.decide(now=50.0, reports=one | report(scene.job, 1, at=50.0, rank=1)).entries
    scene.decide(now=60.0, reports=one | report(scene.job, 1, WorkState.EXITED, at=60.0, rank=1, exit_code=0))
    assert isinstance(scene.job.end, JobFinished)


@pytest.mark.parametrize("stage", ["queued", "waiting", "asked", "begun", "running", "told"])
def test_cancelling_in_every_state(stage: str) -> None:
    scene = Scene()
    if stage == "waiting":
        scene.decide(market=JobMarket())
        assert scene.job.wait is not None
    if stage in ("asked", "begun", "running", "told"):
        scene.plan()
    if stage in ("begun", "running", "told"):
        scene.begin(started=stage != "begun")
    if stage == "told":
        scene.write(AttemptInstructed(at=2.0, attempt=1, wanted="save", why="because"))
    scene.write(CancelRequested(at=5.0, by="ann"))
    scene.decide(now=6.0)
    assert scene.job.end == JobCancelled(at=6.0, by="ann")
    assert not scene.job.live


def test_what_had_finished_before_it_was_cancelled_is_finished() -> None:
    scene = Scene()
    scene.running()
    scene.write(CancelRequested(at=5.0, by="ann"))
    scene.decide(now=6.0, reports=report(scene.job, 1, WorkState.EXITED, at=5.5, exit_code=0))
    assert isinstance(scene.job.end, JobFinished)


def test_costs_are_core_hours_where_there_are_no_prices() -> None:
    free = JobMarket(
        tuple(
            offer(cloud, 0.0).__class__(cloud, offer(cloud, 0.0).lifetimes) for cloud in ("forge", "meadow")
        ),
        None,
        "core-hours",
    )
    scene = Scene(home=None)
    planned = scene.plan(market=free)
    assert (planned.unit, planned.attempts[0].price_usd_per_core_hour) == ("core-hours", None)
    scene.begin()
    assert scene.job.cost(3601.0) == pytest.approx(1.0)


def test_without_a_home_and_without_checkpoints_a_lone_cloud_is_tried_again_and_again() -> None:
    scene = Scene(wish(checkpoint=None), home=None)
    (attempt,) = scene.plan(market=market(offer("forge", 0.1), home=None)).attempts
    assert (attempt.mechanism, attempt.role, attempt.cloud) == ("begin again", "main", "forge")


def test_an_ended_attempt_is_told_once() -> None:
    scene = Scene()
    scene.running()
    reports = report(scene.job, 1, WorkState.EVICTED, at=30.0)
    scene.decide(now=30.0, reports=reports)
    again = scene.decide(now=30.1, reports=reports)
    assert not any(isinstance(one, AttemptEnded) for one in again.entries)
    assert MARKET.home is not None
    assert USAGE.peak_memory_gb == 0.02
