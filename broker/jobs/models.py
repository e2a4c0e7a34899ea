"""A batch job as its user hands it over, and as it is shown: what to run, where it ran, why it moved, what it
cost (JOBS.md "In the product")."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from broker.contract import CloudId, Cores, Id, LivingSeconds, Message, Name, Seconds
from cloudsim.jobs.job import StorageKind

_MOST_WORDS = 1_000
#: NUL ends an argument for the kernel.
_Word = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=32_768)]
Command = Annotated[tuple[_Word, ...], Field(min_length=1, max_length=_MOST_WORDS)]
_Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]
_Gigabytes = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Money = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
#: Ids of work, of attempts and of files hold that of the job with more behind it.
JobId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)]

RESERVED_VARIABLES = "SPOTFED_"


class Profile(Message):
    """What one instance of a job needs on the reference type, with local storage.

    work_s: running time, in wall time. memory_gb, disk_gb: what must be saved of it. io_share: part of
    ``work_s`` that waits for storage.
    """

    work_s: Annotated[float, Field(gt=0, le=3_200_000_000, allow_inf_nan=False)]
    memory_gb: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 0.1
    disk_gb: _Gigabytes = 0.0
    io_share: _Share = 0.0


class Checkpoints(Message):
    """That a job can go on from what is in its directory, SPOTFED_JOB_DIR, at any moment.

    save, restore: commands that are run there before its state is kept, and before the job's own command goes
    on from it; without them the files as they are must do.
    """

    save: Command | None = None
    restore: Command | None = None


class JobWish(Message):
    """A batch job. ``POST /v1/jobs`` takes it.

    name: jobs of one name share their profile; a job without a profile runs on-demand first, and is measured.
    home: the cloud on which it may have on-demand instances; left out: the origin, where that is a cloud.
    instances: so many run together, each told its SPOTFED_JOB_RANK; losing one is losing all.
    memory_limit_mb: of each instance: what needs more is ended, which is a failure of its own.
    checkpoint: None: it always begins anew. slack: the share of its time that may go into checkpoints.
    idempotent: False: it must never run twice, nor again from an earlier state.
    deadline_s: after its submission. max_cost: in the unit of its cost. retries: how often it is run again
    after it failed by itself. clouds: on whose spot it may run; None: any.
    """

    id: JobId | None = None
    name: Name | None = None
    origin: CloudId | None = None
    home: CloudId | None = None
    command: Command
    environment: Annotated[dict[_Variable, _Word], Field(max_length=200)] = Field(default_factory=dict)
    cores: Cores = 1
    instances: Annotated[int, Field(strict=True, ge=1, le=64)] = 1
    memory_limit_mb: Annotated[int, Field(strict=True, ge=16, le=100_000_000)] | None = None
    profile: Profile | None = None
    checkpoint: Checkpoints | None = None
    slack: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.0625
    idempotent: bool = True
    deadline_s: LivingSeconds | None = None
    max_cost: _Money | None = None
    max_evictions: Annotated[int, Field(strict=True, ge=0, le=10_000)] | None = None
    retries: Annotated[int, Field(strict=True, ge=0, le=100)] = 3
    clouds: Annotated[tuple[CloudId, ...], Field(min_length=1, max_length=1_000)] | None = None

    @model_validator(mode="after")
    def _reserved(self) -> Self:
        for name in self.environment:
            if name.startswith(RESERVED_VARIABLES):
                raise PydanticCustomError(
                    "environment", "environment: names that begin with SPOTFED_ are the federation's own"
                )
        return self


class JobState(StrEnum):
    """Where a job is. The last three are ends, and there is exactly one."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELLED})


class Outcome(StrEnum):
    """How an attempt ended."""

    WON = "won"  # its command ended with status 0, first of all replicas: the job is finished
    EVICTED = "evicted"  # the cloud took its instance back
    SAVED = "saved"  # given up after its state was kept: the job goes on elsewhere from there
    FAILED = "failed"  # its command ended with another status, or could not be run
    STOPPED = "stopped"  # not needed any more: a replica won, the plan changed, or the job was cancelled
    REFUSED = "refused"  # no cloud let it begin


class Attempt(Message):
    """One place in which the job ran or was to run: all its instances there.

    role: what it is to the job. lease: of spot (with several instances: the first). price_usd_per_core_hour
    and table_version: as they were when it was planned; so are risk (of eviction before expected_s) and
    expected_cost. restored_from: the attempt whose state it began with. lost_s: work that has to be done
    again. began, ended: because of what, for people. Times: seconds since 1970.
    """

    number: int
    role: Literal["profile", "main", "replica", "backup", "on-demand"]
    mechanism: str
    storage: StorageKind = StorageKind.LOCAL
    cloud: CloudId
    spot: bool
    cores: Cores
    instances: int = 1
    lease: Id | None = None
    asked_at: float
    started_at: float | None = None
    ended_at: float | None = None
    outcome: Outcome | None = None
    exit_code: int | None = None
    price_usd_per_core_hour: float | None = None
    table_version: str | None = None
    risk: float | None = None
    expected_s: float | None = None
    expected_cost: float | None = None
    cost: float = 0.0
    checkpoints: int = 0
    restored_from: int | None = None
    lost_s: float | None = None
    began: str
    ended: str | None = None


class JobView(Message):
    """A job as ``GET /v1/jobs/{id}`` shows it.

    said: in one sentence, how it stands and what happens next. unit: of all costs, "usd" or, in a federation
    without prices, "core-hours". on_demand_cost: what the same would have cost on-demand from the start; None
    until its running time is known. next_at: when it is looked after again, where it waits.
    """

    id: JobId
    name: Name | None
    holder: str
    origin: CloudId
    home: CloudId | None
    state: JobState
    said: str
    command: Command
    cores: Cores
    instances: int
    submitted_at: float
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    deadline_at: float | None = None
    next_at: float | None = None
    evictions: int = 0
    retries_left: int = 0
    profile: Profile | None = None
    cost: float = 0.0
    on_demand_cost: float | None = None
    unit: Literal["usd", "core-hours"] = "usd"
    attempts: tuple[Attempt, ...] = ()


class JobList(Message):
    """Jobs, the latest first; ``more``: there are more."""

    jobs: tuple[JobView, ...]
    more: bool = False


class JobLog(Message):
    """What an attempt has written to standard output and error, from ``offset`` bytes on.

    next_offset: where to go on; ``end``: the attempt has ended and this is all of it.
    """

    job: JobId
    attempt: int
    rank: int
    offset: int
    next_offset: int
    text: str
    end: bool


# -- between job manager and node agents ---------------------------------------------------------------------


class Work(Message):
    """What the agent of a cloud is to run on one instance. ``wanted`` changes, the rest stays.

    id: ``<job>.<attempt>.<rank>``. instance: the spot lease whose instance it is (its end ends the work), or
    with ``spot`` False the on-demand instance, which the job manager stops after the work. server: the
    instance whose cores a backup replica shares, at ``share`` of them. restore: the work whose kept state is
    put into its directory before it begins, and which of its checkpoints; None: it begins anew. storage:
    ``remote``: its directory is where states are kept; ``local``: it is copied there at each checkpoint.
    checkpoint_s: interval; None: none are made. wanted: ``run``; ``save``: keep its state, then end it;
    ``stop``: end it. saves_on_notice: an instance that is given notice has its state kept, and ends.
    """

    id: Id
    job: JobId
    attempt: int
    rank: int = 0
    size: int = 1
    cloud: CloudId
    instance: Id
    spot: bool
    node: int
    command: Command
    environment: dict[str, str] = Field(default_factory=dict)
    cores: Cores
    memory_mb: Annotated[int, Field(ge=1)] | None = None
    server: Id | None = None
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    storage: StorageKind = StorageKind.LOCAL
    checkpoint_s: Seconds | None = None
    save: Command | None = None
    resume: Command | None = None
    restore: tuple[Id, int] | None = None
    saves_on_notice: bool = False
    wanted: Literal["run", "save", "stop"] = "run"
    revision: int = 0


class WorkState(StrEnum):
    """Where a piece of work is; the last five are ends."""

    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"  # by itself, see exit_code
    SAVED = "saved"  # its state was kept as it was asked to, and it ended
    STOPPED = "stopped"  # as it was asked to
    EVICTED = "evicted"  # with its instance
    UNUSABLE = "unusable"  # it could not be run, see why


WORK_ENDED = frozenset(WorkState) - {WorkState.STARTING, WorkState.RUNNING}


class Usage(Message):
    """What the processes of a piece of work have used until ``at``: of this attempt alone."""

    wall_s: float
    cpu_s: float
    peak_memory_gb: float
    disk_gb: float = 0.0
    io_share: float = 0.0


#: Why work is reported as evicted that was ended from outside, with its agent.
AGENT_ENDED = "its node agent was ended"


class WorkReport(Message):
    """How a piece of work stands, as its agent says. Times: seconds since 1970.

    checkpoint: number of the last state that was kept whole, from 1 on, 0 for none; checkpoint_at: when that
    was begun, so that all work until then is safe. checkpoint_gb: its size.
    """

    work: Id
    state: WorkState
    at: float
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    noticed_at: float | None = None
    checkpoint: int = 0
    checkpoint_at: float | None = None
    checkpoint_gb: float = 0.0
    restored: bool = False
    usage: Usage | None = None
    why: str | None = None
