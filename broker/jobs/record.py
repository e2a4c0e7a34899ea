"""A job as its journal tells it: the pure fold of its entries. Imports nothing heavy: the API shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from broker.jobs.events import (
    AttemptBegan,
    AttemptCheckpointed,
    AttemptEnded,
    AttemptFreed,
    AttemptInstructed,
    AttemptNoticed,
    AttemptPromoted,
    AttemptStarted,
    CancelRequested,
    JobCancelled,
    JobEntry,
    JobFailed,
    JobFinished,
    JobPlanned,
    JobSubmitted,
    JobWaits,
    PlannedAttempt,
    ProfileLearnt,
    Unit,
    make_work_id,
)
from broker.jobs.models import JobState, JobWish, Outcome, Profile, Usage

HOUR_S = 3600.0

_OpenAttemptEntry = (
    AttemptBegan
    | AttemptStarted
    | AttemptCheckpointed
    | AttemptNoticed
    | AttemptInstructed
    | AttemptPromoted
    | AttemptEnded
)


class BrokenJournalError(ValueError):
    """The entries of a job contradict each other; the message says which."""


@dataclass(frozen=True)
class AttemptRecord:
    """An attempt as it stands. Times are seconds since 1970; None: not yet.

    plan: with ``role``, ``share`` and ``checkpoint_s`` as they are now. leases, nodes: by rank. told: because
    of what it is to keep its state and end. paid: what it has cost until it was promoted, at ``terms_at``.
    """

    plan: PlannedAttempt
    asked_at: float
    leases: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()
    began_at: float | None = None
    started_at: float | None = None
    paced_at: float | None = None  # since when it works at ``plan.pace``, from ``plan.done_s`` on
    noticed_at: float | None = None
    checkpoint: int = 0
    checkpoint_at: float | None = None
    checkpoint_gb: float = 0.0
    usage: Usage | None = None
    told: str | None = None
    promoted: bool = False
    paid: float = 0.0
    terms_at: float | None = None
    revision: int = 0
    ended: AttemptEnded | None = None
    freed: bool = False

    @property
    def number(self) -> int:
        """Of the attempt."""
        return self.plan.number

    def work_done_s(self, at: float) -> float:
        """How much of the job's work is done then, if nothing of it is lost."""
        if self.paced_at is None:
            return self.plan.done_s
        return self.plan.done_s + max(at - self.paced_at, 0.0) * self.plan.pace

    @property
    def safe_s(self) -> float:
        """How much of the job's work is done in the last state that it kept itself; 0 without one."""
        return 0.0 if self.checkpoint_at is None else self.work_done_s(self.checkpoint_at)

    def cost(self, at: float) -> float:
        """Until then, or until its end."""
        if self.ended is not None:
            return self.ended.cost
        if self.began_at is None:
            return 0.0
        plan = self.plan
        since = self.began_at if self.terms_at is None else self.terms_at
        hours = max(at - since, 0.0) / HOUR_S
        return self.paid + hours * plan.cores * plan.instances * plan.share * plan.price

    def works(self, job: str) -> tuple[str, ...]:
        """The ids of its pieces of work, by rank."""
        return tuple(make_work_id(job, self.number, rank) for rank in range(self.plan.instances))


@dataclass(frozen=True)
class JobRecord:
    """A job. entries: how many made it. at: of the last one, never going back. profile: None: not known.
    waits: until when nothing runs; since the last plan."""

    entries: int
    at: float
    submitted: JobSubmitted
    places: tuple[AttemptRecord, ...] = ()
    profile: Profile | None = None
    waits: JobWaits | None = None
    cancel: CancelRequested | None = None
    end: JobFinished | JobFailed | JobCancelled | None = None
    unit: Unit = "usd"
    on_demand_cost: float | None = None
    #: How often in a row it waited since something was granted.
    waited: int = 0
    #: For which attempts a change of phase was told.
    phases: frozenset[int] = field(default_factory=frozenset)

    @property
    def id(self) -> str:
        """Of the job."""
        return self.submitted.job

    @property
    def wish(self) -> JobWish:
        """As it was submitted."""
        return self.submitted.wish

    @property
    def state(self) -> JobState:
        """Where it is."""
        match self.end:
            case JobFinished():
                return JobState.FINISHED
            case JobFailed():
                return JobState.FAILED
            case JobCancelled():
                return JobState.CANCELLED
        return JobState.RUNNING if any(one.started_at for one in self.live) else JobState.QUEUED

    @property
    def live(self) -> tuple[AttemptRecord, ...]:
        """Attempts that have not ended."""
        return tuple(one for one in self.places if one.ended is None)

    @property
    def evictions(self) -> int:
        """How often a cloud took back what it ran on."""
        return sum(one.ended is not None and one.ended.outcome is Outcome.EVICTED for one in self.places)

    @property
    def moves(self) -> int:
        """How often it went on in another place than before."""
        ran = [one for one in self.places if one.started_at is not None]
        return len({one.asked_at for one in ran}) - 1 if ran else 0

    @property
    def failures(self) -> int:
        """How often it failed by itself."""
        return sum(one.ended is not None and one.ended.outcome is Outcome.FAILED for one in self.places)

    @property
    def safe(self) -> AttemptRecord | None:
        """The attempt that kept the state with the most work done; None where there is none."""
        kept = [one for one in self.places if one.checkpoint and one.safe_s > 0]
        return max(kept, key=lambda one: (one.safe_s, one.number), default=None)

    @property
    def safe_s(self) -> float:
        """How much of the job's work will never have to be done again."""
        return self.safe.safe_s if self.safe else 0.0

    @property
    def deadline_at(self) -> float | None:
        """Seconds since 1970."""
        wish_s = self.wish.deadline_s
        return None if wish_s is None else self.submitted.at + wish_s

    def cost(self, at: float) -> float:
        """Of all attempts until then."""
        return sum(one.cost(at) for one in self.places)

    def place(self, number: int) -> AttemptRecord:
        """The attempt of that number. Raises BrokenJournalError."""
        if not 1 <= number <= len(self.places):
            raise BrokenJournalError(f"job {self.id}: there is no attempt {number}")
        return self.places[number - 1]


def fold_entries(entries: Sequence[JobEntry]) -> JobRecord:
    """The job that these entries make. Raises BrokenJournalError, and ValueError where there are none."""
    if not entries:
        raise ValueError("a job has at least one entry")
    first = entries[0]
    if not isinstance(first, JobSubmitted):
        raise BrokenJournalError(f"the first entry of a job is its submission, not {first.kind}")
    job = JobRecord(1, first.at, first, profile=first.wish.profile)
    for entry in entries[1:]:
        job = apply_entry(job, entry)
    return job


def apply_entry(job: JobRecord, entry: JobEntry) -> JobRecord:
    """The job with one entry more. Raises BrokenJournalError."""
    if job.end is not None:
        raise BrokenJournalError(f"job {job.id}: {entry.kind} after {job.end.kind}, which is the end")
    at = max(job.at, entry.at)
    job = replace(job, entries=job.entries + 1, at=at)
    match entry:
        case JobSubmitted():
            raise BrokenJournalError(f"job {job.id}: it was submitted twice")
        case JobPlanned():
            job = _apply_plan(job, entry, at)
        case ProfileLearnt():
            live = frozenset(one.number for one in job.live)
            job = replace(job, profile=entry.profile, phases=job.phases | live)
        case JobWaits():
            job = replace(job, waits=entry, waited=job.waited + 1)
        case CancelRequested():
            job = replace(job, cancel=job.cancel or entry)
        case JobFinished() | JobFailed() | JobCancelled():
            if job.live:
                raise BrokenJournalError(f"job {job.id}: {entry.kind} while an attempt runs")
            job = replace(job, end=entry, waits=None)
        case AttemptFreed():
            for number in entry.attempts:
                job = _replace_attempt(job, replace(_get_ended(job, number, entry), freed=True))
        case (
            AttemptBegan()
            | AttemptStarted()
            | AttemptCheckpointed()
            | AttemptNoticed()
            | AttemptInstructed()
            | AttemptPromoted()
            | AttemptEnded()
        ):
            job = replace(job, waited=0) if isinstance(entry, AttemptBegan) else job
            job = _replace_attempt(job, _apply_to_attempt(_get_open(job, entry.attempt, entry), entry, at))
        case _:
            assert_never(entry)
    return job


def _apply_plan(job: JobRecord, entry: JobPlanned, at: float) -> JobRecord:
    numbers = [one.number for one in entry.attempts]
    first = len(job.places) + 1
    if numbers != list(range(first, first + len(numbers))):
        raise BrokenJournalError(f"job {job.id}: attempts {numbers} after {len(job.places)} others")
    for one in entry.attempts:
        if one.restored_from is not None:
            job.place(one.restored_from)
    places = (*job.places, *(AttemptRecord(one, at) for one in entry.attempts))
    cost = job.on_demand_cost if entry.on_demand_cost is None else entry.on_demand_cost
    return replace(job, places=places, waits=None, unit=entry.unit, on_demand_cost=cost)


def _apply_to_attempt(place: AttemptRecord, entry: _OpenAttemptEntry, at: float) -> AttemptRecord:
    match entry:
        case AttemptBegan():
            if place.began_at is not None:
                raise BrokenJournalError(f"attempt {place.number} began twice")
            place = replace(place, leases=entry.leases, nodes=entry.nodes, began_at=at)
        case AttemptStarted():
            place = replace(place, started_at=entry.started_at, paced_at=entry.started_at)
        case AttemptCheckpointed():
            place = replace(
                place,
                checkpoint=max(entry.checkpoint, place.checkpoint),
                checkpoint_at=max(entry.checkpoint_at, place.checkpoint_at or entry.checkpoint_at),
                checkpoint_gb=entry.checkpoint_gb,
                usage=entry.usage or place.usage,
            )
        case AttemptNoticed():
            place = replace(place, noticed_at=place.noticed_at or at)
        case AttemptInstructed():
            plan = place.plan
            if entry.checkpoint_s is not None:
                plan = plan.model_copy(update={"checkpoint_s": entry.checkpoint_s})
            told = entry.why if entry.wanted == "save" else place.told
            place = replace(place, plan=plan, told=told, revision=place.revision + 1)
        case AttemptPromoted():
            place = _apply_promotion(place, entry, at)
        case AttemptEnded():
            place = replace(place, ended=entry)
    return place


def _apply_promotion(place: AttemptRecord, entry: AttemptPromoted, at: float) -> AttemptRecord:
    """What it did until now it did at the old pace and price."""
    changed = {
        "role": "main",
        "share": entry.share,
        "done_s": place.work_done_s(at),
        "pace": place.plan.pace * entry.share / place.plan.share,
    }
    plan = place.plan.model_copy(update=changed)
    paced_at = None if place.paced_at is None else at
    revision = place.revision + 1
    place = replace(place, paid=place.cost(at), terms_at=at)
    return replace(place, plan=plan, promoted=True, paced_at=paced_at, revision=revision)


def _get_open(job: JobRecord, number: int, entry: JobEntry) -> AttemptRecord:
    place = job.place(number)
    if place.ended is not None:
        raise BrokenJournalError(f"job {job.id}: {entry.kind} after the end of attempt {number}")
    return place


def _get_ended(job: JobRecord, number: int, entry: JobEntry) -> AttemptRecord:
    place = job.place(number)
    if place.ended is None:
        raise BrokenJournalError(f"job {job.id}: {entry.kind} before the end of attempt {number}")
    return place


def _replace_attempt(job: JobRecord, place: AttemptRecord) -> JobRecord:
    places = list(job.places)
    places[place.number - 1] = place
    return replace(job, places=tuple(places))
