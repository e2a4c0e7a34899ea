"""Jobs in the middle of something: journals and what was seen, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from broker.contract import Lease, LeaseState
from broker.jobs.entries import Began, JobEntry, Kept, Planned, Started, Submitted
from broker.jobs.fold import Folded, fold, step
from broker.jobs.models import JobWish, Outcome, Usage, WorkReport, WorkState
from cloudsim.requests import Kind
from workers.jobs.deciding import Decision, decide
from workers.jobs.market import Home, Lifetimes, Market, Offer
from workers.jobs.seen import Grant, Seen

#: Half an hour of work, a hundredth of a gigabyte.
PROFILE = {"work_s": 1800.0, "memory_gb": 0.01}
USAGE = Usage(wall_s=10.0, cpu_s=9.0, peak_memory_gb=0.02, disk_gb=0.5, io_share=0.1)


def wish(**told: Any) -> JobWish:
    """Of a job with a profile that can go on from checkpoints."""
    return JobWish.model_validate({"command": ["loop"], "profile": PROFILE, "checkpoint": {}} | told)


def submitted(asked: JobWish | None = None, *, home: str | None = "home") -> Submitted:
    return Submitted(at=0.0, job="job", wish=asked or wish(), holder="ann", origin="home", home=home)


def offer(
    cloud: str, usd: float, *, risk: float = 0.3, grace_s: float = 0.0, lifetime_s: float = 3600.0
) -> Offer:
    return Offer(cloud, Lifetimes(lifetime_s, risk), usd, grace_s, table_version=f"{cloud}-7")


def market(*offers: Offer, home: float | None = 1.0, **told: Any) -> Market:
    return Market(offers, None if home is None else Home("home", home), **told)


#: Two clouds and a home.
MARKET = market(offer("forge", 0.1), offer("meadow", 0.2))


class Scene:
    """A job that is decided on step by step, its entries kept."""

    def __init__(self, asked: JobWish | None = None, home: str | None = "home"):
        self.entries: list[JobEntry] = [submitted(asked, home=home)]
        self.job: Folded = fold(self.entries)
        self.seen = Seen(now=1.0, market=MARKET, asked=True)

    def write(self, *entries: JobEntry) -> None:
        for entry in entries:
            self.job = step(self.job, entry)
            self.entries.append(entry)

    def decide(self, **seen: Any) -> Decision:
        """Decides, and writes what was decided."""
        self.seen = replace(self.seen, **seen)
        decision = decide(self.job, self.seen)
        self.write(*decision.entries)
        return decision

    def kinds(self, decision: Decision) -> list[str]:
        return [one.kind for one in decision.entries]

    def plan(self, **seen: Any) -> Planned:
        """The decision is to go on somewhere."""
        decision = self.decide(**seen)
        assert isinstance(decision.entries[-1], Planned), decision
        return decision.entries[-1]

    def begin(self, *, at: float | None = None, started: bool = True) -> None:
        """All that was asked for is granted, and runs."""
        now = self.seen.now if at is None else at
        for one in self.job.live:
            if one.began_at is None:
                leases = tuple(f"{work}.1" for work in one.works(self.job.id))
                nodes = tuple(range(len(leases)))
                self.write(Began(at=now, attempt=one.number, leases=leases, nodes=nodes))
                if started:
                    self.write(Started(at=now, attempt=one.number, started_at=now))

    def keep(self, attempt: int, checkpoint: int, at: float) -> None:
        self.write(Kept(at=at, attempt=attempt, checkpoint=checkpoint, checkpoint_at=at))

    def running(self, asked: JobWish | None = None, **seen: Any) -> None:
        """Planned, begun and started."""
        del asked
        self.plan(**seen)
        self.begin()


def report(
    job: Folded,
    attempt: int,
    state: WorkState = WorkState.RUNNING,
    at: float = 0.0,
    rank: int = 0,
    **told: Any,
) -> dict[str, WorkReport]:
    work = f"{job.id}.{attempt}.{rank}"
    place = job.place(attempt)
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


def granted(job: Folded) -> dict[str, Grant]:
    """All that was asked for."""
    asked = [one for one in job.live if one.began_at is None]
    return {work: Grant(f"{work}.1", 0) for one in asked for work in one.works(job.id)}


def outcomes(job: Folded) -> Sequence[Outcome | None]:
    return [None if one.ended is None else one.ended.outcome for one in job.places]
