"""What is changed about a job that runs: moved before its deadline or the end of its lease, saved because its
sister was lost, adapted to a new phase. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from broker.jobs.events import AttemptInstructed, JobEntry, ProfileLearnt
from broker.jobs.models import Profile
from broker.jobs.record import AttemptRecord, JobRecord
from broker.jobs.view import money, span
from cloudsim.jobs.job import StorageKind
from cloudsim.jobs.mechanisms import Checkpoint
from workers.job_manager import planner
from workers.job_manager.attempt_plan import describe_mechanism, make_entry
from workers.job_manager.market import JobMarket
from workers.job_manager.observation import Observation
from workers.job_manager.planning_input import PlanningInput

#: A phase departs from the profile by this factor in memory, or by this much in its share of I/O.
MEMORY_FACTOR, IO_SHARE = 2.0, 0.25
#: Less memory than this is too little to plan by.
_LEAST_GB = 0.05
#: A job moves only for a gain of this share.
_WORTH = 0.1
#: A checkpoint interval is changed only by more than this share.
_ADAPTED = 0.25
#: How long before the last moment for its deadline a job is moved.
_AHEAD_S = 5.0


def is_other_phase(profile: Profile, memory_gb: float, io_share: float) -> bool:
    """Whether what is measured is another phase than the profile knows."""
    known, now = max(profile.memory_gb, _LEAST_GB), max(memory_gb, _LEAST_GB)
    return max(known, now) > MEMORY_FACTOR * min(known, now) or abs(profile.io_share - io_share) > IO_SHARE


def decide_changes(
    job: JobRecord,
    seen: Observation,
    standing: PlanningInput,
    market: Callable[[], JobMarket | None],
    *,
    lost: bool = False,
) -> list[JobEntry]:
    """Entries. market: is called where the decision depends on it. lost: an attempt has ended just now."""
    running = [one for one in job.live if one.started_at is not None and one.told is None]
    for one in running:
        if one.plan.spot and seen.final.intersection(one.leases) and _movable(job):
            why = f"its lease on {one.plan.cloud} ends, and is not extended"
            return [AttemptInstructed(at=seen.now, attempt=one.number, wanted="save", why=why)]
    if _is_last_moment(job, running, standing):
        found = _for_deadline(job, running, standing, market())
        if found:
            return found
    if lost and running and _movable(job) and [one.plan.role for one in job.live] == ["replica"]:
        known = market()
        if known is not None and not planner.keeps(standing, known, running[0]):
            why = "its other replica is gone, and going on from here elsewhere is cheaper"
            return [AttemptInstructed(at=seen.now, attempt=running[0].number, wanted="save", why=why)]
    for one in running:
        measured = seen.phases.get(one.number)
        if measured is not None and one.number not in job.phases and job.profile is not None:
            return _new_phase(job, one, measured, standing, market())
    return []


def _movable(job: JobRecord) -> bool:
    return job.wish.checkpoint is not None and job.wish.instances == 1


def _is_last_moment(job: JobRecord, running: list[AttemptRecord], standing: PlanningInput) -> bool:
    """Whether on-demand would keep the deadline if the job were evicted now, but not for much longer."""
    if job.deadline_at is None or job.profile is None or not running or len(running) < len(job.live):
        return False
    if any(not one.plan.spot and one.plan.role != "backup" for one in running):
        return False
    live, movable = standing.overheads, _movable(job)
    restore_s = live.of().restore_s(standing.left().memory_gb)
    most = max(running, key=lambda one: one.work_done_s(standing.now))
    survives_s = [one.work_done_s(standing.now) for one in running if not one.plan.spot]
    redo_s = max(job.profile.work_s - max([job.safe_s, *survives_s]), 0.0)
    need_s = 1.1 * redo_s + live.boot_s + live.poll_s + restore_s * (2 if movable else 1)
    here_s = max(job.profile.work_s - most.work_done_s(standing.now), 0.0) / most.plan.pace
    if here_s <= 2 * (live.boot_s + restore_s + live.poll_s):
        return False  # it is all but done
    return 0 <= standing.to_deadline_s - need_s <= _AHEAD_S


def _for_deadline(
    job: JobRecord, running: list[AttemptRecord], standing: PlanningInput, market: JobMarket | None
) -> list[JobEntry]:
    """On-demand, from where it is or else beside it."""
    if market is None or market.home is None or standing.home_full:
        return []
    left = span(standing.to_deadline_s)
    if _movable(job):
        most = max(running, key=lambda one: one.work_done_s(standing.now))
        why = f"its deadline is in {left}: from now on an eviction would cost it that"
        return [AttemptInstructed(at=standing.now, attempt=most.number, wanted="save", why=why)]
    if not job.wish.idempotent:
        return []
    why = f"beside the others, because the deadline is in {left} and they may be evicted"
    return [make_entry(standing, market, planner.on_demand_option(standing, market.home), why)]


def _new_phase(
    job: JobRecord, place: AttemptRecord, measured: Profile, standing: PlanningInput, known: JobMarket | None
) -> list[JobEntry]:
    assert job.profile is not None
    before = job.profile
    why = (
        f"another phase: {measured.memory_gb:.2g} GB and {measured.io_share:.0%} of I/O, "
        f"against {before.memory_gb:.2g} GB and {before.io_share:.0%}"
    )
    found: list[JobEntry] = [ProfileLearnt(at=standing.now, profile=measured, why=why)]
    now = replace(standing, job=replace(job, profile=measured))
    left = now.left(place.work_done_s(now.now))
    if known is not None and _movable(job):
        move = _worth_moving(now, known, place)
        if move is not None:
            return [*found, AttemptInstructed(at=now.now, attempt=place.number, wanted="save", why=move)]
    if place.plan.checkpoint_s is not None:
        storage = StorageKind(place.plan.storage)
        interval_s = max(Checkpoint(storage).interval_s(left, now.overheads.of()), 1.0)
        if abs(interval_s - place.plan.checkpoint_s) > _ADAPTED * place.plan.checkpoint_s:
            why = f"its state is kept every {span(interval_s)} from now on: it has another size"
            told = AttemptInstructed(
                at=now.now, attempt=place.number, wanted="run", checkpoint_s=interval_s, why=why
            )
            found.append(told)
    return found


def _worth_moving(standing: PlanningInput, market: JobMarket, place: AttemptRecord) -> str | None:
    """Why it should move, None: it should not."""
    home = None if standing.home_full else market.home
    clouds = {one.plan.cloud for one in standing.job.live if one.plan.spot}
    same = replace(market, offers=tuple(one for one in market.offers if one.cloud in clouds))
    found = planner.list_options(standing, market, home)
    here = planner.list_options(replace(standing, avoided={}), same, home)
    here = [one for one in here if one.mechanism.name == place.plan.mechanism]
    if not here or not found:
        return None
    best = min(found, key=lambda one: (one.cost, one.time_s))
    stays = min(here, key=lambda one: one.cost)
    restore_s = standing.overheads.of().restore_s(standing.left().memory_gb)
    moved = 2 * restore_s * place.plan.price * place.plan.cores / 3600.0
    if best.cost + moved >= (1 - _WORTH) * stays.cost:
        return None
    gain = money(stays.cost - best.cost, market.unit)
    return f"in its present phase {describe_mechanism(best)} elsewhere is expected to save {gain}"
