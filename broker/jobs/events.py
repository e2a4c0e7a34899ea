"""Defines the entries of a job's journal, which alone determine the state of the job.

``broker.jobs.record`` folds them. A job manager writes an entry before it acts, and may act again after a
crash: all ids follow from those of the job, the attempt and the rank (``make_work_id``).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from broker.contract import CloudId, Cores, Id, Message
from broker.jobs.models import JobId, JobWish, Outcome, Profile, Usage
from cloudsim.jobs.job import StorageKind

Role = Literal["profile", "main", "replica", "backup", "on-demand"]
Unit = Literal["usd", "core-hours"]


class UnreadableEntryError(ValueError):
    """The journal of a job contains an entry that this version does not know."""


def make_work_id(job: str, attempt: int, rank: int = 0) -> str:
    """Return the id of a piece of work, which is also that of the request for its instance."""
    return f"{job}.{attempt}.{rank}"


def parse_job_id(name: str) -> str | None:
    """Return the job that the name of a piece of work, request or lease belongs to; None for other names."""
    job, dot, rest = name.partition(".")
    return job if dot and rest.partition(".")[0].isdigit() else None


class _Entry(Message):
    """An entry. ``at``: seconds since 1970, by the clock of its writer."""

    at: float


class _AttemptEntry(_Entry):
    """An entry about one attempt. ``attempt``: its number, from 1."""

    attempt: int


class JobSubmitted(_Entry):
    """The job was submitted: the first entry. ``holder`` is the holder of the key that submitted it."""

    kind: Literal["submitted"] = "submitted"
    job: JobId
    wish: JobWish
    holder: str
    origin: CloudId
    home: CloudId | None = None


class PlannedAttempt(Message):
    """The plan of an attempt: the place where the job is to run next, and its terms.

    Attributes
    ----------
    mechanism
        Name of the mechanism in ``cloudsim.jobs``.
    price_usd_per_core_hour, table_version, risk
        Price, quantile table and risk of an eviction before ``expected_s``, when it was planned.
    speed
        Seconds of the cloud's time in one second of wall time.
    lifetime_s, sla
        Lifetime (in the cloud's time) and SLA of the leases to ask for.
    least_s
        The least that their first promise is for, if they are to be renewable.
    checkpoint_s
        Interval between checkpoints.
    saves_on_notice
        An instance under notice has its state saved.
    restored_from, restored_checkpoint
        Attempt and checkpoint whose saved state it begins with.
    done_s
        Work of the job that is done in that state, in seconds.
    pace
        Work per second of wall time, overheads included.
    share
        Share of a shared server's cores, below 1 for a backup.
    boots_agents
        True for instances of a real cloud, each of which starts a node agent.
    why
        Reason, for people.
    """

    number: Annotated[int, Field(ge=1)]
    role: Role
    mechanism: str
    storage: StorageKind = StorageKind.LOCAL
    cloud: CloudId
    spot: bool
    cores: Cores
    instances: int = 1
    price_usd_per_core_hour: float | None = None
    table_version: str | None = None
    risk: float | None = None
    expected_s: float | None = None
    expected_cost: float | None = None
    speed: float = 1.0
    lifetime_s: float | None = None
    sla: float | None = None
    least_s: float | None = None
    checkpoint_s: float | None = None
    saves_on_notice: bool = False
    restored_from: int | None = None
    restored_checkpoint: int = 0
    done_s: float = 0.0
    pace: Annotated[float, Field(gt=0)] = 1.0
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    boots_agents: bool = False
    why: str

    @property
    def price(self) -> float:
        """Price of a core-hour, in the unit of the job's costs."""
        return 1.0 if self.price_usd_per_core_hour is None else self.price_usd_per_core_hour


class JobPlanned(_Entry):
    """New attempts were planned.

    Attributes
    ----------
    unit
        Unit of all costs.
    on_demand_cost
        Cost of all of the job's work on-demand, if its running time is known.
    """

    kind: Literal["planned"] = "planned"
    attempts: Annotated[tuple[PlannedAttempt, ...], Field(min_length=1)]
    unit: Unit = "usd"
    on_demand_cost: float | None = None


class AttemptBegan(_AttemptEntry):
    """All instances of an attempt were granted.

    Attributes
    ----------
    leases
        Spot leases or ids of on-demand instances, by rank; for a backup the id of the shared server.
    nodes
        Nodes of the instances, by rank.
    """

    kind: Literal["began"] = "began"
    leases: Annotated[tuple[Id, ...], Field(min_length=1)]
    nodes: Annotated[tuple[int, ...], Field(min_length=1)]


class AttemptStarted(_AttemptEntry):
    """The command of an attempt runs on all its instances, since ``started_at``."""

    kind: Literal["started"] = "started"
    started_at: float


class AttemptCheckpointed(_AttemptEntry):
    """The state of an attempt was saved: all work until ``checkpoint_at`` is safe."""

    kind: Literal["kept"] = "kept"
    checkpoint: Annotated[int, Field(ge=1)]
    checkpoint_at: float
    checkpoint_gb: float = 0.0
    usage: Usage | None = None


class AttemptNoticed(_AttemptEntry):
    """The cloud has given notice to an attempt: it wants the instance back soon."""

    kind: Literal["noticed"] = "noticed"


class AttemptInstructed(_AttemptEntry):
    """An attempt was told to save its state and end, or to save its state at another interval."""

    kind: Literal["told"] = "told"
    wanted: Literal["run", "save"]
    checkpoint_s: float | None = None
    why: str


class AttemptPromoted(_AttemptEntry):
    """The job goes on with a backup replica, because its spot instance is gone."""

    kind: Literal["promoted"] = "promoted"
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    why: str


class AttemptEnded(_AttemptEntry):
    """An attempt has ended.

    Attributes
    ----------
    cost
        Cost of all its instances.
    lost_s
        Work that has to be done again, in seconds.
    why
        Reason, for people.
    """

    kind: Literal["ended"] = "ended"
    outcome: Outcome
    exit_code: int | None = None
    cost: float = 0.0
    lost_s: float | None = None
    why: str


class AttemptFreed(_Entry):
    """The instances of these attempts were given back, and node agents have forgotten their work."""

    kind: Literal["freed"] = "freed"
    attempts: tuple[int, ...]


class ProfileLearnt(_Entry):
    """The profile of the job was measured, or is known from an earlier job."""

    kind: Literal["profile"] = "profile"
    profile: Profile
    why: str


class JobWaits(_Entry):
    """No attempt runs until ``until``."""

    kind: Literal["waits"] = "waits"
    until: float
    why: str


class CancelRequested(_Entry):
    """The holder asked for the end of the job. ``by`` is the name of the key that did."""

    kind: Literal["cancel"] = "cancel"
    by: str


class JobFinished(_Entry):
    """The command of the job ended with status 0. This is the last entry."""

    kind: Literal["finished"] = "finished"
    attempt: int


class JobFailed(_Entry):
    """The job was given up. This is the last entry."""

    kind: Literal["failed"] = "failed"
    why: str
    exit_code: int | None = None


class JobCancelled(_Entry):
    """The job was cancelled. This is the last entry."""

    kind: Literal["cancelled"] = "cancelled"
    by: str


_AttemptEntries = (
    AttemptBegan
    | AttemptStarted
    | AttemptCheckpointed
    | AttemptNoticed
    | AttemptInstructed
    | AttemptPromoted
    | AttemptEnded
    | AttemptFreed
)
_JobEntries = (
    JobSubmitted
    | JobPlanned
    | ProfileLearnt
    | JobWaits
    | CancelRequested
    | JobFinished
    | JobFailed
    | JobCancelled
)
JobEntry = Annotated[_AttemptEntries | _JobEntries, Field(discriminator="kind")]
_entries: TypeAdapter[JobEntry] = TypeAdapter(JobEntry)


def parse_entry(text: bytes) -> JobEntry:
    """Parse an entry of a journal; fields that this version does not know are ignored.

    Raises
    ------
    UnreadableEntryError
        When its kind is unknown, or it is no entry.
    """
    try:
        return _entries.validate_json(text, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise UnreadableEntryError(
            f"an entry of a job's journal cannot be read ({first['msg']}): a newer version of spotfed may "
            "have written it; run one that is as new"
        ) from None


def serialize_entry(entry: JobEntry) -> str:
    """Return the JSON of an entry, without fields that have their default."""
    return entry.model_copy(update={"kind": entry.kind}).model_dump_json(exclude_unset=True)
