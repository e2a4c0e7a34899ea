"""A world in which jobs run that a test makes up: clouds that grant, refuse, give notice and evict at random,
agents that report late, and managers that crash between writing and doing.

The core is the real one: ``fold`` and ``decide``. What is done follows from the journal, as in
``workers.job_manager.effects``, and may be done again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from broker.contract import Lease, LeaseState
from broker.jobs.events import AttemptFreed, CancelRequested, JobEntry, JobSubmitted
from broker.jobs.models import WORK_ENDED, JobWish, Usage, WorkReport, WorkState
from broker.jobs.record import AttemptRecord, JobRecord, fold_entries
from tests.unit.workers.job_manager.scenes import lease
from workers.job_manager.market import HomeOnDemand, JobMarket, SpotLifetimes, SpotOffer
from workers.job_manager.observation import Denial, Grant, Observation
from workers.job_manager.state_machine import decide

SPOT = {"forge": 0.1, "meadow": 0.25, "harbour": 0.35}
_USAGE = Usage(wall_s=9.0, cpu_s=9.0, peak_memory_gb=0.01)


class CrashError(Exception):
    """The manager was killed."""


@dataclass
class World:
    """seed: of everything that happens. crashes: how likely a manager is killed at any step."""

    wish: JobWish
    seed: int
    crashes: float = 0.1
    cancel_at: float | None = None
    home: bool = True
    now: float = 0.0
    entries: list[JobEntry] = field(default_factory=list)
    answers: dict[str, Grant | Denial] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    reports: dict[str, WorkReport] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    gone: dict[str, float] = field(default_factory=dict)
    runs: list[tuple[str, float]] = field(default_factory=list)  # work that began, and when
    kept: dict[tuple[str, int], float] = field(default_factory=dict)
    saves: set[str] = field(default_factory=set)
    put_away: bool = False

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        home = "home" if self.home else None
        self.entries.append(
            JobSubmitted(at=0.0, job="job", wish=self.wish, holder="ann", origin="home", home=home)
        )

    def run(self, limit_s: float = 100_000.0) -> JobRecord:
        """Until the job is put away."""
        while not self.put_away:
            assert self.now < limit_s, self.entries[-5:]
            self._happen()
            try:
                while self._round():
                    pass
            except CrashError:
                pass
        return fold_entries(self.entries)

    # -- the manager ------------------------------------------------------------------------------------

    def _may_crash(self) -> None:
        if self.random.random() < self.crashes:
            raise CrashError

    def _round(self) -> bool:
        job = fold_entries(self.entries)
        ended = [one for one in job.attempts if one.ended is not None and not one.freed]
        for place in ended:
            self._free(job, place)
        if job.end is not None:
            self._may_crash()
            self.put_away = True
            return False
        if ended:
            self._may_crash()
            self.entries.append(AttemptFreed(at=self.now, attempts=tuple(one.number for one in ended)))
            return True
        self._may_crash()
        grants = {
            work: self._ask(place, work)
            for place in job.live
            if place.began_at is None and job.cancel is None
            for work in place.list_work_ids(job.id)
        }
        for place in job.live:
            if place.began_at is not None:
                self._put(job, place)
        self._may_crash()
        seen = Observation(
            now=self.now,
            reports=dict(self.reports),
            leases=dict(self.leases),
            gone=dict(self.gone),
            grants=grants,
        )
        decision = decide(job, seen)
        if decision.needs_market:
            decision = decide(job, replace(seen, market=self._market(), asked=True))
        self._may_crash()
        self.entries += decision.entries
        self._may_crash()
        return bool(decision.entries)

    def _market(self) -> JobMarket | None:
        if self.random.random() < 0.1:
            return None
        offers = tuple(
            SpotOffer(
                cloud,
                SpotLifetimes(3000.0, self.random.uniform(0.01, 0.9)),
                usd,
                grace_s=30.0 if cloud == "meadow" else 0.0,
            )
            for cloud, usd in SPOT.items()
            if self.random.random() < 0.8
        )
        return JobMarket(offers, HomeOnDemand("home", 1.0) if self.home else None)

    def _ask(self, place: AttemptRecord, work: str) -> Grant | Denial:
        if work not in self.answers:
            if self.random.random() < 0.2:
                self.answers[work] = Denial("no capacity")
            else:
                name = f"{work}.1"
                self.leases |= lease(name, place.plan.cloud)
                self.answers[work] = Grant(name, 0)
        return self.answers[work]

    def _put(self, job: JobRecord, place: AttemptRecord) -> None:
        for work in place.list_work_ids(job.id):
            assert work not in self.dropped
            if place.save_reason is not None:
                self.saves.add(work)
            if work not in self.reports and self.random.random() < 0.7:
                restored = place.plan.restored_from
                if restored is not None:
                    assert (f"{job.id}.{restored}.0", place.plan.restored_checkpoint) in self.kept
                self.reports[work] = WorkReport(
                    work=work, state=WorkState.RUNNING, at=self.now, started_at=self.now, usage=_USAGE
                )
                self.runs.append((work, self.now))

    def _free(self, job: JobRecord, place: AttemptRecord) -> None:
        for work in place.list_work_ids(job.id):
            self.dropped.add(work)
            self.reports.pop(work, None)
            answer = self.answers.setdefault(work, Denial("it was never asked for"))
            if isinstance(answer, Grant) and self.leases[answer.lease].state is LeaseState.RUNNING:
                self._end_lease(answer.lease, LeaseState.CANCELLED)

    # -- everybody else ----------------------------------------------------------------------------------

    def _end_lease(self, name: str, state: LeaseState) -> None:
        self.leases[name] = self.leases[name].model_copy(update={"state": state})
        self.gone[name] = self.now

    def _happen(self) -> None:
        step_s = self.random.uniform(1.0, 60.0)
        self.now += step_s
        if self.cancel_at is not None and self.now >= self.cancel_at:
            self.cancel_at = None
            if fold_entries(self.entries).end is None:
                self.entries.append(CancelRequested(at=self.now, by="ann"))
        for work, report in list(self.reports.items()):
            if report.state not in WORK_ENDED:
                self._work(work, report)

    def _work(self, work: str, report: WorkReport) -> None:
        place = fold_entries(self.entries).get_attempt(int(work.split(".")[1]))
        draw = self.random.random()
        name = f"{work}.1"
        changes: dict[str, object] = {"at": self.now}
        checkpoint = place.plan.checkpoint_s is not None and draw < 0.8
        if work in self.saves or (place.plan.saves_on_notice and draw > 0.97):
            changes |= self._keep(report) | {"state": WorkState.SAVED, "ended_at": self.now}
        elif place.plan.spot and draw > 0.93:
            if self.random.random() < 0.8:
                changes |= {"state": WorkState.EVICTED, "ended_at": self.now}
            self._end_lease(name, LeaseState.EVICTED)
        elif draw < 0.01:
            changes |= {"state": WorkState.EXITED, "exit_code": 1, "ended_at": self.now}
        elif report.started_at is not None and self.now - report.started_at > self.wish_s(place):
            changes |= {"state": WorkState.EXITED, "exit_code": 0, "ended_at": self.now}
        elif checkpoint:
            changes |= self._keep(report)
        self.reports[work] = report.model_copy(update=changes)

    def _keep(self, report: WorkReport) -> dict[str, object]:
        number = report.checkpoint + 1
        self.kept[(report.work, number)] = self.now
        return {"checkpoint": number, "checkpoint_at": self.now}

    @staticmethod
    def wish_s(place: AttemptRecord) -> float:
        """How long the attempt takes."""
        return max(600.0 - place.plan.done_s, 1.0) / place.plan.pace
