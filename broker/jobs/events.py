"""What happens to a batch job, entry by entry: the journal of a job is a list of these, and nothing else says
how it stands (``broker.jobs.view``).

What is done in the world after an entry was written may be done again: all ids follow from the job's, the
attempt's number and the rank (``work_id``).
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
    """The journal of a job holds something that this version does not know."""


def make_work_id(job: str, attempt: int, rank: int = 0) -> str:
    """The id of a piece of work, which is that of the request for its instance too."""
    return f"{job}.{attempt}.{rank}"


def parse_job_id(name: str) -> str | None:
    """The job that a piece of work, its request or its lease belongs to; None for other names."""
    job, dot, rest = name.partition(".")
    return job if dot and rest.partition(".")[0].isdigit() else None


class _Entry(Message):
    """``at``: seconds since 1970, by the clock of who wrote it."""

    at: float


class _AttemptEntry(_Entry):
    """``attempt``: its number, from 1."""

    attempt: int


class JobSubmitted(_Entry):
    """The first entry. holder: whose key submitted it. origin, home: as they hold for this job."""

    kind: Literal["submitted"] = "submitted"
    job: JobId
    wish: JobWish
    holder: str
    origin: CloudId
    home: CloudId | None = None


class PlannedAttempt(Message):
    """Where the job is to run next, and on which terms.

    mechanism: as ``cloudsim.jobs`` names them. price_usd_per_core_hour, table_version, risk: when it was
    planned; risk: of eviction before ``expected_s``. speed: seconds of the cloud's time in one of wall time.
    lifetime_s (the cloud's time), sla: of the leases that are asked for. checkpoint_s: interval.
    saves_on_notice: an instance that is given notice has its state kept. restored_from, restored_checkpoint:
    whose kept state it begins with. done_s: how much of the job's work is done in that state. pace: work in a
    second of wall time, all of its overheads counted. share: of a shared server's cores, below 1 for a
    backup. why: for people.
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
    checkpoint_s: float | None = None
    saves_on_notice: bool = False
    restored_from: int | None = None
    restored_checkpoint: int = 0
    done_s: float = 0.0
    pace: Annotated[float, Field(gt=0)] = 1.0
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    why: str

    @property
    def price(self) -> float:
        """Of a core-hour, in the unit of the job's costs."""
        return 1.0 if self.price_usd_per_core_hour is None else self.price_usd_per_core_hour


class JobPlanned(_Entry):
    """The job goes on in these places. unit: of costs. on_demand_cost: what all of the job's work would cost
    on-demand, where its running time is known."""

    kind: Literal["planned"] = "planned"
    attempts: Annotated[tuple[PlannedAttempt, ...], Field(min_length=1)]
    unit: Unit = "usd"
    on_demand_cost: float | None = None


class AttemptBegan(_AttemptEntry):
    """All its instances were granted, in the order of their ranks. leases: of spot instances, or the ids of
    the on-demand ones; of a backup that of the shared server. ends_at_s: of its leases, the cloud's time."""

    kind: Literal["began"] = "began"
    leases: Annotated[tuple[Id, ...], Field(min_length=1)]
    nodes: Annotated[tuple[int, ...], Field(min_length=1)]


class AttemptStarted(_AttemptEntry):
    """The command runs, on all instances, since ``started_at``."""

    kind: Literal["started"] = "started"
    started_at: float


class AttemptCheckpointed(_AttemptEntry):
    """Its state was kept for the ``checkpoint``-th time: all work until ``checkpoint_at`` is safe."""

    kind: Literal["kept"] = "kept"
    checkpoint: Annotated[int, Field(ge=1)]
    checkpoint_at: float
    checkpoint_gb: float = 0.0
    usage: Usage | None = None


class AttemptNoticed(_AttemptEntry):
    """Its cloud wants the instance back soon."""

    kind: Literal["noticed"] = "noticed"


class AttemptInstructed(_AttemptEntry):
    """It is to keep its state and end, or to change how often its state is kept."""

    kind: Literal["told"] = "told"
    wanted: Literal["run", "save"]
    checkpoint_s: float | None = None
    why: str


class AttemptPromoted(_AttemptEntry):
    """A backup replica is what the job goes on with, now that the spot instance is gone."""

    kind: Literal["promoted"] = "promoted"
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    why: str


class AttemptEnded(_AttemptEntry):
    """It has ended. cost: of all its instances. lost_s: work that has to be done again. why: for people."""

    kind: Literal["ended"] = "ended"
    outcome: Outcome
    exit_code: int | None = None
    cost: float = 0.0
    lost_s: float | None = None
    why: str


class AttemptFreed(_Entry):
    """The instances of these attempts were given back, and their work was taken away from the agents."""

    kind: Literal["freed"] = "freed"
    attempts: tuple[int, ...]


class ProfileLearnt(_Entry):
    """What the job needs, as it was measured or known from before."""

    kind: Literal["profile"] = "profile"
    profile: Profile
    why: str


class JobWaits(_Entry):
    """Nothing runs until then."""

    kind: Literal["waits"] = "waits"
    until: float
    why: str


class CancelRequested(_Entry):
    """Its holder does not want it any more. by: whose key said so."""

    kind: Literal["cancel"] = "cancel"
    by: str


class JobFinished(_Entry):
    """Its command ended with status 0. The end."""

    kind: Literal["finished"] = "finished"
    attempt: int


class JobFailed(_Entry):
    """It is given up. The end."""

    kind: Literal["failed"] = "failed"
    why: str
    exit_code: int | None = None


class JobCancelled(_Entry):
    """It was cancelled. The end."""

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
    """An entry as it is in Redis; fields that this version does not know are passed over.

    Raises UnreadableEntryError for a kind that it does not know, and for what is no entry.
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
    """The entry as it is written; what has its default is left out."""
    return entry.model_copy(update={"kind": entry.kind}).model_dump_json(exclude_unset=True)
