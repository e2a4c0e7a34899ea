"""Decide what happens next to a job: the pure state machine of the job manager.

The folded job and the observation go in; entries for its journal come out. Nothing is asked and nothing is
done here. What is done follows from the journal (``workers.job_manager.effects``).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from broker.backoff import Backoff
from broker.jobs.events import (
    AttemptEnded,
    AttemptInstructed,
    AttemptPromoted,
    JobCancelled,
    JobEntry,
    JobFailed,
    JobFinished,
    JobWaits,
    ProfileLearnt,
)
from broker.jobs.models import Outcome, Profile
from broker.jobs.record import AttemptRecord, JobRecord, apply_entry
from broker.jobs.view import format_cost
from cloudsim.jobs.policy_names import PolicyName
from workers.job_manager import planner, running_job
from workers.job_manager.attempt_outcome import end_attempt, list_news
from workers.job_manager.market import JobMarket
from workers.job_manager.observation import Observation
from workers.job_manager.planner import NoPlanEver, NoPlanNow
from workers.job_manager.planning_input import PlanningInput

#: Seconds for which a cloud that evicted is left alone, doubled by each further eviction within an hour.
COOL_DOWN_S, LONGEST_COOL_DOWN_S, REMEMBERED_S = 60.0, 960.0, 3600.0
LEAST_COOL_DOWN_S, _TOGETHER_S = 10.0, 10.0
_MOST_DOUBLINGS = 30
#: Seconds for which a cloud that refused is not asked again.
REFUSED_S = 20.0
_JITTER_S = 1.5
_RETRY_BACKOFF = Backoff(first_s=2.0, longest_s=300.0)
_WAIT_BACKOFF = Backoff(first_s=2.0, longest_s=60.0)
#: The number of vain tries to measure a job at home after which it runs unmeasured.
_MOST_WAITS_TO_MEASURE = 3
_LOOK_S = 2.0
#: The weight of a new measurement against the known profile.
_NEW_SHARE = 0.5
_BOTHERS_S = 1e-6


@dataclass(frozen=True)
class JobDecision:
    """The next step of a job.

    entries: to be appended to its journal. next_at: when it must be looked at again, seconds since 1970.
    needs_market: True if the decision needs the market first; nothing is to be appended then.
    """

    entries: tuple[JobEntry, ...] = ()
    next_at: float = 0.0
    needs_market: bool = False


class _MarketNeededError(Exception):
    """The decision depends on what the clouds offer, which is not known yet."""


def decide(job: JobRecord, observation: Observation) -> JobDecision:
    """Decide what to write into the journal of a job that has not ended."""
    step_of_job = _JobStep(job, observation)
    try:
        step_of_job.run()
    except _MarketNeededError:
        return JobDecision(needs_market=True, next_at=observation.now)
    return JobDecision(tuple(step_of_job.entries), step_of_job.next_at())


def list_cool_downs(job: JobRecord, now: float) -> dict[str, float]:
    """Return the clouds that evicted the job, and until when they are left alone for it."""
    ends: dict[str, list[float]] = {}
    speeds: dict[str, float] = {}
    for attempt in job.attempts:
        evicted = attempt.ended is not None and attempt.ended.outcome is Outcome.EVICTED and attempt.plan.spot
        if evicted and attempt.ended is not None and attempt.ended.at > now - REMEMBERED_S:
            ends.setdefault(attempt.plan.cloud, []).append(attempt.ended.at)
            speeds[attempt.plan.cloud] = attempt.plan.speed
    return {cloud: max(at) + cool_down_s(len(at), speeds[cloud]) for cloud, at in ends.items()}


def cool_down_s(evictions: int, speed: float = 1.0) -> float:
    """Return how long a cloud is left alone after a number of evictions within an hour, in wall time.

    ``speed``: seconds of the cloud's time, in which its own users come and go, in one of wall time.
    """
    doubled_s = COOL_DOWN_S * 2 ** min(max(evictions - 1, 0), _MOST_DOUBLINGS)
    return float(max(min(doubled_s, LONGEST_COOL_DOWN_S) / speed, LEAST_COOL_DOWN_S))


def count_occasions(evicted_at: Iterable[float]) -> int:
    """Count evictions, but take those that come together, of several jobs, for one."""
    ordered = sorted(evicted_at)
    return sum(1 for at, next_at in pairwise([*ordered, math.inf]) if next_at - at > _TOGETHER_S)


class _JobStep:
    """Writes the entries of one decision, each on top of those before."""

    def __init__(self, job: JobRecord, observation: Observation):
        self.job, self.observation = job, observation
        self.entries: list[JobEntry] = []
        self._new: list[int] = []  # attempts that have ended just now

    def write(self, entry: JobEntry) -> None:
        """Add an entry, and apply it to the job."""
        self.job = apply_entry(self.job, entry)
        self.entries.append(entry)

    def run(self) -> None:
        """Write all entries that follow from the observation."""
        for number in [attempt.number for attempt in self.job.live]:
            for entry in list_news(self.job, number, self.observation):
                self.write(entry)
                if isinstance(entry, AttemptEnded):
                    self._new.append(number)
            if _outcome(self.job.get_attempt(number)) is Outcome.WON:
                break  # the first of several attempts wins
        if self._is_over():
            return
        self._after_losses()
        if self.job.live:
            self._adapt()
        else:
            self._place()

    def next_at(self) -> float:
        """Return when the job must be looked at again."""
        now = self.observation.now
        if self.entries or self.job.end is not None:
            return now
        if not self.job.live and self.job.wait is not None:
            return max(self.job.wait.until, now)
        return now + _LOOK_S

    # -- ends ---------------------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        """Write the end of the job if it has come; return True if it has."""
        now, request = self.observation.now, self.job.wish
        new = [self.job.get_attempt(number) for number in self._new]
        winner = next((attempt for attempt in new if _outcome(attempt) is Outcome.WON), None)
        if winner is not None:
            self._stop_all(f"attempt {winner.number} on {winner.plan.cloud} finished first")
            self._learn(winner)
            self.write(JobFinished(at=now, attempt=winner.number))
        elif self.job.cancel is not None:
            self._stop_all(f"{self.job.cancel.by} cancelled the job")
            self.write(JobCancelled(at=now, by=self.job.cancel.by))
        elif (why := self._why_hopeless(new)) is not None:
            broken = next((attempt for attempt in new if _outcome(attempt) is Outcome.FAILED), None)
            code = broken.ended.exit_code if broken is not None and broken.ended is not None else None
            self._stop_all("the job failed")
            self.write(JobFailed(at=now, why=why, exit_code=code))
        elif request.max_cost is not None and self.job.live and self.job.cost(now) >= request.max_cost:
            spent = format_cost(self.job.cost(now), self.job.unit)
            self._stop_all(f"the job has cost {spent}, and may cost no more")
            self.write(JobFailed(at=now, why=f"it has cost {spent}, and its max_cost allows no more"))
        return self.job.end is not None

    def _why_hopeless(self, new: list[AttemptRecord]) -> str | None:
        request = self.job.wish
        for attempt in new:
            assert attempt.ended is not None
            outcome, lost_s = attempt.ended.outcome, attempt.ended.lost_s
            if outcome is Outcome.FAILED:
                if not request.idempotent and attempt.started_at is not None:
                    return f"{attempt.ended.why}, and it must not run twice"
                if self.job.failures > request.retries:
                    tried = "" if not request.retries else f" (it was run again {request.retries} times)"
                    return f"{attempt.ended.why}{tried}"
            destroyed = (
                outcome is Outcome.EVICTED and attempt.started_at is not None and (lost_s or 0) > _BOTHERS_S
            )
            if destroyed and not request.idempotent:
                return f"{attempt.ended.why}, but it must not run twice"
        return None

    def _stop_all(self, why: str) -> None:
        for attempt in self.job.live:
            self.write(end_attempt(attempt, Outcome.STOPPED, why, self.observation.now))

    def _learn(self, winner: AttemptRecord) -> None:
        report = self.observation.reports.get(winner.list_work_ids(self.job.id)[0])
        if report is None or report.usage is None or winner.ended is None:
            return
        used = report.usage
        measured = Profile(
            work_s=max(winner.work_done_s(winner.ended.at), 1e-3),
            memory_gb=max(used.peak_memory_gb, 1e-3),
            disk_gb=max(used.disk_gb, 0.0),
            io_share=min(max(used.io_share, 0.0), 1.0),
        )
        before = self.observation.known
        profile = measured if before is None else _mean(before, measured)
        why = "measured" if before is None else "measured, and averaged with what was known"
        self.write(ProfileLearnt(at=self.observation.now, profile=profile, why=why))

    # -- losses -------------------------------------------------------------------------------------------

    def _after_losses(self) -> None:
        new = [self.job.get_attempt(number) for number in self._new]
        live = self.job.live
        if live and all(attempt.plan.role == "backup" for attempt in live):
            for attempt in live:
                self._from_backup(attempt, new)
        if self.job.live or not new:
            return
        now, failed = (
            self.observation.now,
            [attempt for attempt in new if _outcome(attempt) is Outcome.FAILED],
        )
        if failed:
            assert failed[0].ended is not None
            pause_s = _RETRY_BACKOFF.nominal_s(self.job.failures)
            left = self.job.wish.retries - self.job.failures
            why = f"{failed[0].ended.why}; it is run again then, and {left} more times if need be"
            self.write(JobWaits(at=now, until=now + self._jittered(pause_s), why=why))
        elif any(_outcome(attempt) is Outcome.EVICTED for attempt in new):
            why = "it was evicted, and goes on a moment later: not all that were evicted come back at once"
            self.write(JobWaits(at=now, until=now + self._random().uniform(0.1, _JITTER_S), why=why))

    def _from_backup(self, backup: AttemptRecord, new: list[AttemptRecord]) -> None:
        now, number = self.observation.now, backup.number
        lost = next((attempt for attempt in new if attempt.plan.role == "main"), None)
        where = "its spot instance" if lost is None else f"the instance on {lost.plan.cloud}"
        if backup.started_at is None:
            self.write(end_attempt(backup, Outcome.STOPPED, f"{where} is gone before it began", now))
        elif self.job.wish.checkpoint is not None:
            if backup.save_reason is None:
                why = f"{where} is gone, and the job goes on faster from what its backup has done"
                self.write(AttemptInstructed(at=now, attempt=number, wanted="save", why=why))
        elif not backup.promoted:
            why = f"{where} is gone: the backup is the job now, with all of its server that is free"
            share = max(self.observation.shares.get(number, backup.plan.share), backup.plan.share)
            self.write(AttemptPromoted(at=now, attempt=number, share=share, why=why))

    def _random(self) -> random.Random:
        return random.Random(f"{self.job.id}/{len(self.job.attempts)}/{self.job.entries}")

    def _jittered(self, pause_s: float) -> float:
        return pause_s * self._random().uniform(0.75, 1.25)

    # -- where to go on -----------------------------------------------------------------------------------

    def require_market(self) -> JobMarket | None:
        """Return the market, None if it cannot be had.

        Raises
        ------
        _MarketNeededError
            When it was not asked for yet.
        """
        if self.observation.market is None and not self.observation.asked:
            raise _MarketNeededError
        return self.observation.market

    def planning_input(self) -> PlanningInput:
        """Return the input of a plan."""
        now, job, request = self.observation.now, self.job, self.job.wish
        avoided = {
            cloud: "it has just evicted the job"
            for cloud, at in list_cool_downs(job, now).items()
            if at > now
        }
        for cloud, at in self.observation.cooled.items():
            if at > now:
                avoided.setdefault(cloud, f"it has just evicted jobs of {job.submitted.holder}")
        refused = [
            attempt
            for attempt in job.attempts
            if _outcome(attempt) is Outcome.REFUSED
            and attempt.ended is not None
            and attempt.ended.at > now - REFUSED_S
        ]
        avoided |= {attempt.plan.cloud: "it had no room just now" for attempt in refused if attempt.plan.spot}
        only = None
        if request.max_evictions is not None and job.evictions >= request.max_evictions:
            times = "once" if job.evictions == 1 else f"{job.evictions} times"
            only = f"it was evicted {times}, and may not be more often: on-demand from now on"
            only = only if job.evictions else "it may not be evicted: on-demand"
        elif request.policy is PolicyName.ON_DEMAND:
            only = "its policy is on-demand"
        elif request.policy is PolicyName.BASIC and job.evictions:
            only = "it was evicted, and its policy is basic: on-demand from now on"
        return PlanningInput(
            job,
            now,
            avoided=avoided,
            home_full=any(not attempt.plan.spot and attempt.plan.role != "backup" for attempt in refused),
            on_demand_only=only,
            overheads=self.observation.overheads,
        )

    def _place(self) -> None:
        now, job = self.observation.now, self.job
        if job.wait is not None and now < job.wait.until:
            return
        if job.profile is None and self.observation.known is not None:
            self.write(
                ProfileLearnt(
                    at=now, profile=self.observation.known, why="as earlier jobs of its name needed"
                )
            )
        market = self.require_market()
        if market is None:
            return
        planning = self.planning_input()
        if self.job.profile is None and market.home is not None:
            if not planning.home_full:
                self.write(planner.plan_first_run(planning, market, market.home))
                return
            if job.waits_in_row < _MOST_WAITS_TO_MEASURE:
                self._wait(f"{market.home.cloud} has no room on-demand, where it is to be measured")
                return
        match planner.choose_plan(planning, market):
            case NoPlanNow(why, None):
                self._wait(f"nobody has room for it now ({why})")
            case NoPlanNow(why, until):
                self._wait(f"it waits for spot ({why})", until)
            case NoPlanEver(why):
                self.write(JobFailed(at=now, why=why))
            case entry:
                self.write(entry)

    def _wait(self, why: str, latest: float | None = None) -> None:
        pause_s = _WAIT_BACKOFF.nominal_s(1 + self.job.waits_in_row)
        now = self.observation.now
        until = now + self._jittered(pause_s)
        self.write(JobWaits(at=now, until=until if latest is None else min(until, latest), why=why))

    # -- while it runs ------------------------------------------------------------------------------------

    def _adapt(self) -> None:
        lost = bool(self._new)
        for entry in running_job.decide_changes(
            self.job, self.observation, self.planning_input(), self.require_market, lost=lost
        ):
            self.write(entry)


def _outcome(attempt: AttemptRecord) -> Outcome | None:
    return None if attempt.ended is None else attempt.ended.outcome


def _mean(before: Profile, now: Profile) -> Profile:
    def mixed(name: str) -> float:
        return (1 - _NEW_SHARE) * float(getattr(before, name)) + _NEW_SHARE * float(getattr(now, name))

    return Profile.model_validate({name: mixed(name) for name in Profile.model_fields})
