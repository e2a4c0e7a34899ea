"""Folds the journal of a job into the state of the job. Imports nothing heavy, because the API uses it."""

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
    """The state of an attempt. Times are in seconds since 1970, None until they come.

    Attributes
    ----------
    plan
        Its plan, with the present ``role``, ``share`` and ``checkpoint_s``.
    leases, nodes
        Leases or on-demand instances, and their nodes, by rank.
    paced_at
        Time since which it works at ``plan.pace``, from ``plan.done_s`` on.
    save_reason
        Reason why it was told to save its state and end.
    paid
        Cost until its promotion, at ``terms_at``.
    """

    plan: PlannedAttempt
    asked_at: float
    leases: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()
    began_at: float | None = None
    started_at: float | None = None
    paced_at: float | None = None
    noticed_at: float | None = None
    checkpoint: int = 0
    checkpoint_at: float | None = None
    checkpoint_gb: float = 0.0
    usage: Usage | None = None
    save_reason: str | None = None
    promoted: bool = False
    paid: float = 0.0
    terms_at: float | None = None
    revision: int = 0
    ended: AttemptEnded | None = None
    freed: bool = False

    @property
    def number(self) -> int:
        """Number of the attempt, from 1."""
        return self.plan.number

    def work_done_s(self, at: float) -> float:
        """Return the seconds of the job's work that are done at a time, if none of it is lost."""
        if self.paced_at is None:
            return self.plan.done_s
        return self.plan.done_s + max(at - self.paced_at, 0.0) * self.plan.pace

    @property
    def safe_s(self) -> float:
        """Seconds of the job's work that are done in the last state that it saved itself, or 0."""
        return 0.0 if self.checkpoint_at is None else self.work_done_s(self.checkpoint_at)

    def cost(self, at: float) -> float:
        """Return the cost until a time, or until the end of the attempt."""
        if self.ended is not None:
            return self.ended.cost
        if self.began_at is None:
            return 0.0
        plan = self.plan
        since = self.began_at if self.terms_at is None else self.terms_at
        hours = max(at - since, 0.0) / HOUR_S
        return self.paid + hours * plan.cores * plan.instances * plan.share * plan.price

    def list_work_ids(self, job: str) -> tuple[str, ...]:
        """Return the ids of its pieces of work, by rank."""
        return tuple(make_work_id(job, self.number, rank) for rank in range(self.plan.instances))


@dataclass(frozen=True)
class JobRecord:
    """The state of a job.

    Attributes
    ----------
    entries
        Number of entries in its journal.
    at
        Time of the last entry; never goes back.
    profile
        Needs of the job; None if unknown.
    wait
        The wait since the last plan, during which nothing runs.
    waits_in_row
        Number of waits since an instance was last granted.
    phases
        Attempts during which the profile became known.
    """

    entries: int
    at: float
    submitted: JobSubmitted
    attempts: tuple[AttemptRecord, ...] = ()
    profile: Profile | None = None
    wait: JobWaits | None = None
    cancel: CancelRequested | None = None
    end: JobFinished | JobFailed | JobCancelled | None = None
    unit: Unit = "usd"
    on_demand_cost: float | None = None
    waits_in_row: int = 0
    phases: frozenset[int] = field(default_factory=frozenset)

    @property
    def id(self) -> str:
        """Id of the job."""
        return self.submitted.job

    @property
    def wish(self) -> JobWish:
        """The job as it was submitted."""
        return self.submitted.wish

    @property
    def state(self) -> JobState:
        """State of the job."""
        match self.end:
            case JobFinished():
                return JobState.FINISHED
            case JobFailed():
                return JobState.FAILED
            case JobCancelled():
                return JobState.CANCELLED
        return JobState.RUNNING if any(attempt.started_at for attempt in self.live) else JobState.QUEUED

    @property
    def live(self) -> tuple[AttemptRecord, ...]:
        """Attempts that have not ended."""
        return tuple(attempt for attempt in self.attempts if attempt.ended is None)

    @property
    def evictions(self) -> int:
        """Number of attempts that a cloud evicted."""
        return sum(
            attempt.ended is not None and attempt.ended.outcome is Outcome.EVICTED
            for attempt in self.attempts
        )

    @property
    def moves(self) -> int:
        """Number of times that the job went on in another attempt."""
        ran = [attempt for attempt in self.attempts if attempt.started_at is not None]
        return len({attempt.asked_at for attempt in ran}) - 1 if ran else 0

    @property
    def failures(self) -> int:
        """Number of attempts that failed by themselves."""
        return sum(
            attempt.ended is not None and attempt.ended.outcome is Outcome.FAILED for attempt in self.attempts
        )

    @property
    def safe(self) -> AttemptRecord | None:
        """The attempt that saved the state with the most work done, or None."""
        saved = [attempt for attempt in self.attempts if attempt.checkpoint and attempt.safe_s > 0]
        return max(saved, key=lambda attempt: (attempt.safe_s, attempt.number), default=None)

    @property
    def safe_s(self) -> float:
        """Seconds of the job's work that will never have to be done again."""
        return self.safe.safe_s if self.safe else 0.0

    @property
    def deadline_at(self) -> float | None:
        """Deadline, in seconds since 1970, or None."""
        deadline_s = self.wish.deadline_s
        return None if deadline_s is None else self.submitted.at + deadline_s

    def cost(self, at: float) -> float:
        """Return the cost of all attempts until a time."""
        return sum(attempt.cost(at) for attempt in self.attempts)

    def get_attempt(self, number: int) -> AttemptRecord:
        """Return the attempt of a number.

        Raises
        ------
        BrokenJournalError
            When there is none.
        """
        if not 1 <= number <= len(self.attempts):
            raise BrokenJournalError(f"job {self.id}: there is no attempt {number}")
        return self.attempts[number - 1]


def fold_entries(entries: Sequence[JobEntry]) -> JobRecord:
    """Return the state of the job that these entries make.

    Raises
    ------
    BrokenJournalError
        When they contradict each other.
    ValueError
        When there are none.
    """
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
    """Return the state of a job after one more entry.

    Raises
    ------
    BrokenJournalError
        When the entry contradicts those before it.
    """
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
            live = frozenset(attempt.number for attempt in job.live)
            job = replace(job, profile=entry.profile, phases=job.phases | live)
        case JobWaits():
            job = replace(job, wait=entry, waits_in_row=job.waits_in_row + 1)
        case CancelRequested():
            job = replace(job, cancel=job.cancel or entry)
        case JobFinished() | JobFailed() | JobCancelled():
            if job.live:
                raise BrokenJournalError(f"job {job.id}: {entry.kind} while an attempt runs")
            job = replace(job, end=entry, wait=None)
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
            job = replace(job, waits_in_row=0) if isinstance(entry, AttemptBegan) else job
            job = _replace_attempt(job, _apply_to_attempt(_get_open(job, entry.attempt, entry), entry, at))
        case _:
            assert_never(entry)
    return job


def _apply_plan(job: JobRecord, entry: JobPlanned, at: float) -> JobRecord:
    numbers = [attempt.number for attempt in entry.attempts]
    first = len(job.attempts) + 1
    if numbers != list(range(first, first + len(numbers))):
        raise BrokenJournalError(f"job {job.id}: attempts {numbers} after {len(job.attempts)} others")
    for attempt in entry.attempts:
        if attempt.restored_from is not None:
            job.get_attempt(attempt.restored_from)
    attempts = (*job.attempts, *(AttemptRecord(attempt, at) for attempt in entry.attempts))
    cost = job.on_demand_cost if entry.on_demand_cost is None else entry.on_demand_cost
    return replace(job, attempts=attempts, wait=None, unit=entry.unit, on_demand_cost=cost)


def _apply_to_attempt(attempt: AttemptRecord, entry: _OpenAttemptEntry, at: float) -> AttemptRecord:
    match entry:
        case AttemptBegan():
            if attempt.began_at is not None:
                raise BrokenJournalError(f"attempt {attempt.number} began twice")
            attempt = replace(attempt, leases=entry.leases, nodes=entry.nodes, began_at=at)
        case AttemptStarted():
            attempt = replace(attempt, started_at=entry.started_at, paced_at=entry.started_at)
        case AttemptCheckpointed():
            attempt = replace(
                attempt,
                checkpoint=max(entry.checkpoint, attempt.checkpoint),
                checkpoint_at=max(entry.checkpoint_at, attempt.checkpoint_at or entry.checkpoint_at),
                checkpoint_gb=entry.checkpoint_gb,
                usage=entry.usage or attempt.usage,
            )
        case AttemptNoticed():
            attempt = replace(attempt, noticed_at=attempt.noticed_at or at)
        case AttemptInstructed():
            plan = attempt.plan
            if entry.checkpoint_s is not None:
                plan = plan.model_copy(update={"checkpoint_s": entry.checkpoint_s})
            save_reason = entry.why if entry.wanted == "save" else attempt.save_reason
            attempt = replace(attempt, plan=plan, save_reason=save_reason, revision=attempt.revision + 1)
        case AttemptPromoted():
            attempt = _apply_promotion(attempt, entry, at)
        case AttemptEnded():
            attempt = replace(attempt, ended=entry)
    return attempt


def _apply_promotion(attempt: AttemptRecord, entry: AttemptPromoted, at: float) -> AttemptRecord:
    """Return the attempt at its new pace and price; what it did until now stays at the old ones."""
    changed = {
        "role": "main",
        "share": entry.share,
        "done_s": attempt.work_done_s(at),
        "pace": attempt.plan.pace * entry.share / attempt.plan.share,
    }
    plan = attempt.plan.model_copy(update=changed)
    paced_at = None if attempt.paced_at is None else at
    revision = attempt.revision + 1
    attempt = replace(attempt, paid=attempt.cost(at), terms_at=at)
    return replace(attempt, plan=plan, promoted=True, paced_at=paced_at, revision=revision)


def _get_open(job: JobRecord, number: int, entry: JobEntry) -> AttemptRecord:
    attempt = job.get_attempt(number)
    if attempt.ended is not None:
        raise BrokenJournalError(f"job {job.id}: {entry.kind} after the end of attempt {number}")
    return attempt


def _get_ended(job: JobRecord, number: int, entry: JobEntry) -> AttemptRecord:
    attempt = job.get_attempt(number)
    if attempt.ended is None:
        raise BrokenJournalError(f"job {job.id}: {entry.kind} before the end of attempt {number}")
    return attempt


def _replace_attempt(job: JobRecord, attempt: AttemptRecord) -> JobRecord:
    attempts = list(job.attempts)
    attempts[attempt.number - 1] = attempt
    return replace(job, attempts=tuple(attempts))
