"""What happens next to a job: the pure state machine of the job manager.

The folded job and what was seen of the world go in; entries for its journal come out. Nothing is asked, and
nothing is done here. What is done follows from the journal (``workers.job_manager.effects``).
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
from broker.jobs.record import AttemptRecord, JobRecord, step
from broker.jobs.view import money
from workers.job_manager import planner, running_job
from workers.job_manager.attempt_outcome import end_attempt, news
from workers.job_manager.market import JobMarket
from workers.job_manager.observation import Observation
from workers.job_manager.planner import NoPlanEver, NoPlanNow
from workers.job_manager.planning_input import PlanningInput

#: A cloud that evicts is left alone for so long, twice as long after each further eviction within an hour.
COOL_DOWN_S, LONGEST_COOL_DOWN_S, REMEMBERED_S = 60.0, 960.0, 3600.0
LEAST_COOL_DOWN_S, _TOGETHER_S = 10.0, 10.0
_MOST_DOUBLINGS = 30
#: A cloud that refused is not asked again for so long.
REFUSED_S = 20.0
_JITTER_S = 1.5
_RETRY_BACKOFF = Backoff(first_s=2.0, longest_s=300.0)
_WAIT_BACKOFF = Backoff(first_s=2.0, longest_s=60.0)
#: After so many vain tries to measure it at home a job is run unmeasured.
_MOST_WAITS_TO_MEASURE = 3
_LOOK_S = 2.0
#: How much a new measurement weighs against what was known.
_NEW_SHARE = 0.5
_BOTHERS_S = 1e-6


@dataclass(frozen=True)
class JobDecision:
    """entries: to be appended. next_at: when somebody must look again. needs_market: it cannot be said
    without knowing the market; nothing is to be appended then."""

    entries: tuple[JobEntry, ...] = ()
    next_at: float = 0.0
    needs_market: bool = False


class _MarketNeeded(Exception):  # noqa: N818  (no error: the question comes back)
    """What the clouds offer must be known first."""


def decide(job: JobRecord, seen: Observation) -> JobDecision:
    """What to write into the journal of a job that has not ended."""
    deciding = _Deciding(job, seen)
    try:
        deciding.run()
    except _MarketNeeded:
        return JobDecision(needs_market=True, next_at=seen.now)
    return JobDecision(tuple(deciding.entries), deciding.next_at())


def cool_downs(job: JobRecord, now: float) -> dict[str, float]:
    """Clouds that evicted the job, and until when they are left alone for it."""
    ends: dict[str, list[float]] = {}
    speeds: dict[str, float] = {}
    for one in job.places:
        evicted = one.ended is not None and one.ended.outcome is Outcome.EVICTED and one.plan.spot
        if evicted and one.ended is not None and one.ended.at > now - REMEMBERED_S:
            ends.setdefault(one.plan.cloud, []).append(one.ended.at)
            speeds[one.plan.cloud] = one.plan.speed
    return {cloud: max(at) + cool_down_s(len(at), speeds[cloud]) for cloud, at in ends.items()}


def cool_down_s(evictions: int, speed: float = 1.0) -> float:
    """How long a cloud is left alone after so many evictions within an hour, wall time. speed: seconds of its
    time, in which its own users come and go, in one of wall time."""
    doubled_s = COOL_DOWN_S * 2 ** min(max(evictions - 1, 0), _MOST_DOUBLINGS)
    return float(max(min(doubled_s, LONGEST_COOL_DOWN_S) / speed, LEAST_COOL_DOWN_S))


def occasions(evicted_at: Iterable[float]) -> int:
    """On how many occasions there were evictions: those that come together are one, of several jobs."""
    ordered = sorted(evicted_at)
    return sum(1 for one, after in pairwise([*ordered, math.inf]) if after - one > _TOGETHER_S)


class _Deciding:
    """Writes entries, each on top of those before."""

    def __init__(self, job: JobRecord, seen: Observation):
        self.job, self.seen = job, seen
        self.entries: list[JobEntry] = []
        self._new: list[int] = []  # attempts that have ended just now

    def say(self, entry: JobEntry) -> None:
        self.job = step(self.job, entry)
        self.entries.append(entry)

    def run(self) -> None:
        for number in [one.number for one in self.job.live]:
            for entry in news(self.job, number, self.seen):
                self.say(entry)
                if isinstance(entry, AttemptEnded):
                    self._new.append(number)
            if _outcome(self.job.place(number)) is Outcome.WON:
                break  # of several, one has
        if self._is_over():
            return
        self._after_losses()
        if self.job.live:
            self._tend()
        else:
            self._place()

    def next_at(self) -> float:
        now = self.seen.now
        if self.entries or self.job.end is not None:
            return now
        if not self.job.live and self.job.waits is not None:
            return max(self.job.waits.until, now)
        return now + _LOOK_S

    # -- ends ---------------------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        """Writes the job's one end, where it is time for that."""
        now, wish = self.seen.now, self.job.wish
        new = [self.job.place(number) for number in self._new]
        winner = next((one for one in new if _outcome(one) is Outcome.WON), None)
        if winner is not None:
            self._stop_all(f"attempt {winner.number} on {winner.plan.cloud} finished first")
            self._learn(winner)
            self.say(JobFinished(at=now, attempt=winner.number))
        elif self.job.cancel is not None:
            self._stop_all(f"{self.job.cancel.by} cancelled the job")
            self.say(JobCancelled(at=now, by=self.job.cancel.by))
        elif (why := self._why_hopeless(new)) is not None:
            broken = next((one for one in new if _outcome(one) is Outcome.FAILED), None)
            code = broken.ended.exit_code if broken is not None and broken.ended is not None else None
            self._stop_all("the job failed")
            self.say(JobFailed(at=now, why=why, exit_code=code))
        elif wish.max_cost is not None and self.job.live and self.job.cost(now) >= wish.max_cost:
            spent = money(self.job.cost(now), self.job.unit)
            self._stop_all(f"the job has cost {spent}, and may cost no more")
            self.say(JobFailed(at=now, why=f"it has cost {spent}, and its max_cost allows no more"))
        return self.job.end is not None

    def _why_hopeless(self, new: list[AttemptRecord]) -> str | None:
        wish = self.job.wish
        for one in new:
            assert one.ended is not None
            outcome, lost_s = one.ended.outcome, one.ended.lost_s
            if outcome is Outcome.FAILED:
                if not wish.idempotent and one.started_at is not None:
                    return f"{one.ended.why}, and it must not run twice"
                if self.job.failures > wish.retries:
                    tried = "" if not wish.retries else f" (it was run again {wish.retries} times)"
                    return f"{one.ended.why}{tried}"
            destroyed = (
                outcome is Outcome.EVICTED and one.started_at is not None and (lost_s or 0) > _BOTHERS_S
            )
            if destroyed and not wish.idempotent:
                return f"{one.ended.why}, but it must not run twice"
        return None

    def _stop_all(self, why: str) -> None:
        for one in self.job.live:
            self.say(end_attempt(self.job, one, Outcome.STOPPED, why, self.seen.now))

    def _learn(self, winner: AttemptRecord) -> None:
        report = self.seen.reports.get(winner.works(self.job.id)[0])
        if report is None or report.usage is None or winner.ended is None:
            return
        used = report.usage
        measured = Profile(
            work_s=max(winner.work_done_s(winner.ended.at), 1e-3),
            memory_gb=max(used.peak_memory_gb, 1e-3),
            disk_gb=max(used.disk_gb, 0.0),
            io_share=min(max(used.io_share, 0.0), 1.0),
        )
        before = self.seen.known
        profile = measured if before is None else _mean(before, measured)
        why = "measured" if before is None else "measured, and averaged with what was known"
        self.say(ProfileLearnt(at=self.seen.now, profile=profile, why=why))

    # -- losses -------------------------------------------------------------------------------------------

    def _after_losses(self) -> None:
        new = [self.job.place(number) for number in self._new]
        live = self.job.live
        if live and all(one.plan.role == "backup" for one in live):
            for one in live:
                self._from_backup(one, new)
        if self.job.live or not new:
            return
        now, failed = self.seen.now, [one for one in new if _outcome(one) is Outcome.FAILED]
        if failed:
            assert failed[0].ended is not None
            pause_s = _RETRY_BACKOFF.nominal_s(self.job.failures)
            left = self.job.wish.retries - self.job.failures
            why = f"{failed[0].ended.why}; it is run again then, and {left} more times if need be"
            self.say(JobWaits(at=now, until=now + self._jittered(pause_s), why=why))
        elif any(_outcome(one) is Outcome.EVICTED for one in new):
            why = "it was evicted, and goes on a moment later: not all that were evicted come back at once"
            self.say(JobWaits(at=now, until=now + self._random().uniform(0.1, _JITTER_S), why=why))

    def _from_backup(self, backup: AttemptRecord, new: list[AttemptRecord]) -> None:
        now, number = self.seen.now, backup.number
        lost = next((one for one in new if one.plan.role == "main"), None)
        where = "its spot instance" if lost is None else f"the instance on {lost.plan.cloud}"
        if backup.started_at is None:
            self.say(end_attempt(self.job, backup, Outcome.STOPPED, f"{where} is gone before it began", now))
        elif self.job.wish.checkpoint is not None:
            if backup.told is None:
                why = f"{where} is gone, and the job goes on faster from what its backup has done"
                self.say(AttemptInstructed(at=now, attempt=number, wanted="save", why=why))
        elif not backup.promoted:
            why = f"{where} is gone: the backup is the job now, with all of its server that is free"
            share = max(self.seen.shares.get(number, backup.plan.share), backup.plan.share)
            self.say(AttemptPromoted(at=now, attempt=number, share=share, why=why))

    def _random(self) -> random.Random:
        return random.Random(f"{self.job.id}/{len(self.job.places)}/{self.job.entries}")

    def _jittered(self, pause_s: float) -> float:
        return pause_s * self._random().uniform(0.75, 1.25)

    # -- where to go on -----------------------------------------------------------------------------------

    def market(self) -> JobMarket | None:
        """None where it cannot be had."""
        if self.seen.market is None and not self.seen.asked:
            raise _MarketNeeded
        return self.seen.market

    def standing(self) -> PlanningInput:
        """What a plan goes by."""
        now, job, wish = self.seen.now, self.job, self.job.wish
        avoided = {
            cloud: "it has just evicted the job" for cloud, at in cool_downs(job, now).items() if at > now
        }
        for cloud, at in self.seen.cooled.items():
            if at > now:
                avoided.setdefault(cloud, f"it has just evicted jobs of {job.submitted.holder}")
        refused = [
            one
            for one in job.places
            if _outcome(one) is Outcome.REFUSED and one.ended is not None and one.ended.at > now - REFUSED_S
        ]
        avoided |= {one.plan.cloud: "it had no room just now" for one in refused if one.plan.spot}
        only = None
        if wish.max_evictions is not None and job.evictions >= wish.max_evictions:
            times = "once" if job.evictions == 1 else f"{job.evictions} times"
            only = f"it was evicted {times}, and may not be more often: on-demand from now on"
            only = only if job.evictions else "it may not be evicted: on-demand"
        return PlanningInput(
            job,
            now,
            avoided=avoided,
            home_full=any(not one.plan.spot and one.plan.role != "backup" for one in refused),
            on_demand_only=only,
            overheads=self.seen.overheads,
        )

    def _place(self) -> None:
        now, job = self.seen.now, self.job
        if job.waits is not None and now < job.waits.until:
            return
        if job.profile is None and self.seen.known is not None:
            self.say(ProfileLearnt(at=now, profile=self.seen.known, why="as earlier jobs of its name needed"))
        market = self.market()
        if market is None:
            return
        standing = self.standing()
        if self.job.profile is None and market.home is not None:
            if not standing.home_full:
                self.say(planner.first_run(standing, market, market.home))
                return
            if job.waited < _MOST_WAITS_TO_MEASURE:
                self._wait(f"{market.home.cloud} has no room on-demand, where it is to be measured")
                return
        match planner.choose_plan(standing, market):
            case NoPlanNow(why):
                self._wait(f"nobody has room for it now ({why})")
            case NoPlanEver(why):
                self.say(JobFailed(at=now, why=why))
            case planned:
                self.say(planned)

    def _wait(self, why: str) -> None:
        pause_s = _WAIT_BACKOFF.nominal_s(1 + self.job.waited)
        now = self.seen.now
        self.say(JobWaits(at=now, until=now + self._jittered(pause_s), why=why))

    # -- while it runs ------------------------------------------------------------------------------------

    def _tend(self) -> None:
        lost = bool(self._new)
        for entry in running_job.decide_changes(self.job, self.seen, self.standing(), self.market, lost=lost):
            self.say(entry)


def _outcome(place: AttemptRecord) -> Outcome | None:
    return None if place.ended is None else place.ended.outcome


def _mean(before: Profile, now: Profile) -> Profile:
    def mixed(name: str) -> float:
        return (1 - _NEW_SHARE) * float(getattr(before, name)) + _NEW_SHARE * float(getattr(now, name))

    return Profile.model_validate({name: mixed(name) for name in Profile.model_fields})
