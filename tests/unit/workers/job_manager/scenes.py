"""Jobs in the middle of something: journals and what was seen, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from broker.contract import Lease, LeaseState
from broker.jobs.events import (
    AttemptBegan,
    AttemptCheckpointed,
    AttemptStarted,
    JobEntry,
    JobPlanned,
    JobSubmitted,
)
from broker.jobs.models import JobWish, Outcome, Usage, WorkReport, WorkState
from broker.jobs.record import JobRecord, apply_entry, fold_entries
from cloudsim.model.requests import Kind
from workers.job_manager.market import HomeOnDemand, JobMarket, SpotLifetimes, SpotOffer
from workers.job_manager.observation import Grant, Observation
from workers.job_manager.state_machine import JobDecision, decide

#: Half an hour of work, a hundredth of a gigabyte.
PROFILE = {"work_s": 1800.0, "memory_gb": 0.01}
USAGE = Usage(wall_s=10.0, cpu_s=9.0, peak_memory_gb=0.02, disk_gb=0.5, io_share=0.1)


def wish(**told: Any) -> JobWish:
    """Of a job with a profile that can go on from checkpoints."""
    return JobWish.model_validate({"command": ["loop"], "profile": PROFILE, "checkpoint": {}} | told)


def submitted(asked: JobWish | None = None, *, home: str | None = "home") -> JobSubmitted:
    return JobSubmitted(at=0.0, job="job", wish=asked or wish(), holder="ann", origin="home", home=home)


def offer(
    cloud: str, usd: float, *, risk: float = 0.3, grace_s: float = 0.0, lifetime_s: float = 3600.0
) -> SpotOffer:
    return SpotOffer(cloud, SpotLifetimes(lifetime_s, risk), usd, grace_s, table_version=f"{cloud}-7")


def market(*offers: SpotOffer, home: float | None = 1.0, **told: Any) -> JobMarket:
    return JobMarket(offers, None if home is None else HomeOnDemand("home", home), **told)


#: Two clouds and a home.
MARKET = market(offer("forge", 0.1), offer("meadow", 0.2))


class Scene:
    """A job that is decided on step by step, its entries kept."""

    def __init__(self, asked: JobWish | None = None, home: str | None = "home"):
        self.entries: list[JobEntry] = [submitted(asked, home=home)]
        self.job: JobRecord = fold_entries(self.entries)
        self.seen = Observation(now=1.0, market=MARKET, asked=True)

    def write(self, *entries: JobEntry) -> None:
        for entry in entries:
            self.job = apply_entry(self.job, entry)
            self.entries.append(entry)

    def decide(self, **seen: Any) -> JobDecision:
        """Decides, and writes what was decided."""
        self.seen = replace(self.seen, **seen)
        decision = decide(self.job, self.seen)
        self.write(*decision.entries)
        return decision

    def kinds(self, decision: JobDecision) -> list[str]:
        return [one.kind for one in decision.entries]

    def plan(self, **seen: Any) -> JobPlanned:
        """The decision is to go on somewhere."""
        decision = self.decide(**seen)
        assert isinstance(decision.entries[-1], JobPlanned), decision
        return decision.entries[-1]

    def begin(self, *, at: float | None = None, started: bool = True) -> None:
        """All that was asked for is granted, and runs."""
        now = self.seen.now if at is None else at
        for one in self.job.live:
            if one.began_at is None:
                leases = tuple(f"{work}.1" for work in one.list_work_ids(self.job.id))
                nodes = tuple(range(len(leases)))
                self.write(AttemptBegan(at=now, attempt=one.number, leases=leases, nodes=nodes))
                if started:
                    self.write(AttemptStarted(at=now, attempt=one.number, started_at=now))

    def keep(self, attempt: int, checkpoint: int, at: float) -> None:
        self.write(AttemptCheckpointed(at=at, attempt=attempt, checkpoint=checkpoint, checkpoint_at=at))

    def running(self, asked: JobWish | None = None, **seen: Any) -> None:
        """Planned, begun and started."""
        del asked
        self.plan(**seen)
        self.begin()


def report(
    job: JobRecord,
    attempt: int,
    state: WorkState = WorkState.RUNNING,
    at: float = 0.0,
    rank: int = 0,
    **told: Any,
) -> dict[str, WorkReport]:
    work = f"{job.id}.{attempt}.{rank}"
    place = job.get_attempt(attempt)
    fields = {"started_at": place.started_at, "usage": USAGE} | told
    if state not in (WorkState.RUNNING, WorkState.STARTING):
        fields = {"ended_at": at} | fields
    return {work: WorkReport(work=work, state=state, at=at, **fields)}


def lease(name: str, cloud: str, state: LeaseState = LeaseState.RUNNING, **told: Any) -> dict[str, Lease]:
    made = Lease(
        id=name,
        request=name.rpartition(".")[0],
        cloud=cloud,
        origin="home",
        kind=Kind.SPOT,
        cores=1,
        node=0,
        starts_at_s=0.0,
        ends_at_s=3600.0,
        promised_sla=0.3,
        eviction_probability=0.3,
        table_version="forge-7",
        fence=1,
        number=1,
        state=state,
    )
    return {name: made.model_copy(update=told)}


def granted(job: JobRecord) -> dict[str, Grant]:
    """All that was asked for."""
    asked = [one for one in job.live if one.began_at is None]
    return {work: Grant(f"{work}.1", 0) for one in asked for work in one.list_work_ids(job.id)}


def outcomes(job: JobRecord) -> Sequence[Outcome | None]:
    return [None if one.ended is None else one.ended.outcome for one in job.attempts]
