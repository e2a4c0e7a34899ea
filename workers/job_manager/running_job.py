"""Decide what changes about a job that runs (pure).

It may be moved before its deadline or the end of its lease, saved because its sister was lost, or adapted to
a new phase.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from broker.jobs.events import AttemptInstructed, JobEntry, ProfileLearnt
from broker.jobs.models import Profile
from broker.jobs.record import AttemptRecord, JobRecord
from broker.jobs.view import format_cost, format_duration
from cloudsim.jobs.mechanisms import find_mechanism
from workers.job_manager import planner
from workers.job_manager.attempt_plan import describe_mechanism, make_entry
from workers.job_manager.market import JobMarket
from workers.job_manager.observation import Observation
from workers.job_manager.planning_input import PlanningInput

#: The factor in memory, or the difference in the share of I/O, that makes another phase.
MEMORY_FACTOR, IO_SHARE = 2.0, 0.25
#: GB: smaller amounts of memory count as this one.
_LEAST_GB = 0.05
#: The share of its cost that a job must gain to be moved.
_WORTH = 0.1
#: The share by which a checkpoint interval must change to be changed.
_ADAPTED = 0.25
#: Seconds before the last moment for its deadline at which a job is moved.
_AHEAD_S = 5.0
#: Seconds during which a look at the market falls due; running jobs are looked after about every two.
_WINDOW_S = 3.0


def is_other_phase(profile: Profile, memory_gb: float, io_share: float) -> bool:
    """Return True if the measurement departs from the profile so far that it is another phase."""
    known, now = max(profile.memory_gb, _LEAST_GB), max(memory_gb, _LEAST_GB)
    return max(known, now) > MEMORY_FACTOR * min(known, now) or abs(profile.io_share - io_share) > IO_SHARE


def decide_changes(
    job: JobRecord,
    observation: Observation,
    planning: PlanningInput,
    market: Callable[[], JobMarket | None],
    *,
    lost: bool = False,
) -> list[JobEntry]:
    """Return the entries that change a running job.

    Parameters
    ----------
    market:
        Returns the market; it is called only if the decision depends on it.
    lost:
        True if an attempt has ended just now.
    """
    running = [
        attempt for attempt in job.live if attempt.started_at is not None and attempt.save_reason is None
    ]
    for attempt in running:
        if attempt.plan.spot and observation.final.intersection(attempt.leases) and _can_move(job):
            why = f"its lease on {attempt.plan.cloud} ends, and is not extended"
            return [AttemptInstructed(at=observation.now, attempt=attempt.number, wanted="save", why=why)]
    if _is_last_moment(job, running, planning):
        moves = _for_deadline(job, running, planning, market())
        if moves:
            return moves
    moves = _leave_on_demand(job, running, planning, market)
    if moves:
        return moves
    if lost and running and _can_move(job) and [attempt.plan.role for attempt in job.live] == ["replica"]:
        market_now = market()
        if market_now is not None and not planner.should_stay(planning, market_now, running[0]):
            why = "its other replica is gone, and going on from here elsewhere is cheaper"
            return [AttemptInstructed(at=observation.now, attempt=running[0].number, wanted="save", why=why)]
    for attempt in running:
        measured = observation.phases.get(attempt.number)
        if measured is not None and attempt.number not in job.phases and job.profile is not None:
            return _new_phase(job, attempt, measured, planning, market())
    return []


def _can_move(job: JobRecord) -> bool:
    return job.wish.checkpoint is not None and job.wish.instances == 1


def _is_last_moment(job: JobRecord, running: list[AttemptRecord], planning: PlanningInput) -> bool:
    """Return True if on-demand would keep the deadline after an eviction now, but not for much longer."""
    if job.deadline_at is None or job.profile is None or not running or len(running) < len(job.live):
        return False
    if any(not attempt.plan.spot and attempt.plan.role != "backup" for attempt in running):
        return False
    live, can_move = planning.overheads, _can_move(job)
    restore_s = live.of().restore_s(planning.left().memory_gb)
    most = max(running, key=lambda attempt: attempt.work_done_s(planning.now))
    survives_s = [attempt.work_done_s(planning.now) for attempt in running if not attempt.plan.spot]
    redo_s = max(job.profile.work_s - max([job.safe_s, *survives_s]), 0.0)
    need_s = 1.1 * redo_s + live.boot_s + live.poll_s + restore_s * (2 if can_move else 1)
    here_s = max(job.profile.work_s - most.work_done_s(planning.now), 0.0) / most.plan.pace
    if here_s <= 2 * (live.boot_s + restore_s + live.poll_s):
        return False  # it is all but done
    return 0 <= planning.to_deadline_s - need_s <= _AHEAD_S


def _for_deadline(
    job: JobRecord, running: list[AttemptRecord], planning: PlanningInput, market: JobMarket | None
) -> list[JobEntry]:
    """Move the job to on-demand, or start it there as well if it cannot be moved."""
    if market is None or market.home is None or planning.home_full:
        return []
    left = format_duration(planning.to_deadline_s)
    if _can_move(job):
        most = max(running, key=lambda attempt: attempt.work_done_s(planning.now))
        why = f"its deadline is in {left}: from now on an eviction would cost it that"
        return [AttemptInstructed(at=planning.now, attempt=most.number, wanted="save", why=why)]
    if not job.wish.idempotent:
        return []
    why = f"beside the others, because the deadline is in {left} and they may be evicted"
    return [make_entry(planning, market, planner.on_demand_option(planning, market.home), why)]


def _leave_on_demand(
    job: JobRecord,
    running: list[AttemptRecord],
    planning: PlanningInput,
    market: Callable[[], JobMarket | None],
) -> list[JobEntry]:
    """Leave an on-demand instance if the job's policy does; it looks from time to time."""
    if not (planner.may_leave_on_demand(job) and _can_move(job) and job.profile is not None):
        return []
    if len(job.live) != 1 or not running or running[0].plan.role != "on-demand":
        return []
    if planning.on_demand_only is not None:
        return []
    since_s = planning.now - (running[0].started_at or planning.now)
    if since_s < _WINDOW_S or since_s % planner.look_s(job) > _WINDOW_S:
        return []
    market_now = market()
    if market_now is None or not planner.should_leave_on_demand(planning, market_now, running[0]):
        return []
    why = f"its policy is {job.wish.policy}: it need not stay on-demand"
    return [AttemptInstructed(at=planning.now, attempt=running[0].number, wanted="save", why=why)]


def _new_phase(
    job: JobRecord,
    attempt: AttemptRecord,
    measured: Profile,
    planning: PlanningInput,
    known: JobMarket | None,
) -> list[JobEntry]:
    assert job.profile is not None
    before = job.profile
    why = (
        f"another phase: {measured.memory_gb:.2g} GB and {measured.io_share:.0%} of I/O, "
        f"against {before.memory_gb:.2g} GB and {before.io_share:.0%}"
    )
    entries: list[JobEntry] = [ProfileLearnt(at=planning.now, profile=measured, why=why)]
    now = replace(planning, job=replace(job, profile=measured))
    left = now.left(attempt.work_done_s(now.now))
    if known is not None and _can_move(job):
        move = _worth_moving(now, known, attempt)
        if move is not None:
            return [*entries, AttemptInstructed(at=now.now, attempt=attempt.number, wanted="save", why=move)]
    mechanism = find_mechanism(attempt.plan.mechanism, attempt.plan.storage)
    interval_s = None if mechanism is None else mechanism.interval_s(left, now.overheads.of())
    if attempt.plan.checkpoint_s is not None and interval_s is not None:
        interval_s = max(interval_s, 1.0)
        if abs(interval_s - attempt.plan.checkpoint_s) > _ADAPTED * attempt.plan.checkpoint_s:
            why = f"its state is kept every {format_duration(interval_s)} from now on: it has another size"
            instruction = AttemptInstructed(
                at=now.now, attempt=attempt.number, wanted="run", checkpoint_s=interval_s, why=why
            )
            entries.append(instruction)
    return entries


def _worth_moving(planning: PlanningInput, market: JobMarket, attempt: AttemptRecord) -> str | None:
    """Return why the job should move, None if it should not."""
    home = None if planning.home_full else market.home
    clouds = {attempt.plan.cloud for attempt in planning.job.live if attempt.plan.spot}
    same = replace(market, offers=tuple(offer for offer in market.offers if offer.cloud in clouds))
    choices = planner.list_options(planning, market, home)
    staying = planner.list_options(replace(planning, avoided={}), same, home)
    staying = [option for option in staying if option.mechanism.name == attempt.plan.mechanism]
    if not staying or not choices:
        return None
    best = min(choices, key=lambda option: (option.cost, option.time_s))
    stays = min(staying, key=lambda option: option.cost)
    restore_s = planning.overheads.of().restore_s(planning.left().memory_gb)
    moved = 2 * restore_s * attempt.plan.price * attempt.plan.cores / 3600.0
    if best.cost + moved >= (1 - _WORTH) * stays.cost:
        return None
    gain = format_cost(stays.cost - best.cost, market.unit)
    return f"in its present phase {describe_mechanism(best)} elsewhere is expected to save {gain}"
