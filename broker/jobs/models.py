"""Defines the models of batch jobs: as users submit them, as they are shown, and as node agents run them.

docs/design/batch-jobs.md "In the product", describes jobs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import (
    Base64Bytes,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from broker.contract import CloudId, Cores, Id, Lease, LivingSeconds, Message, Name, Seconds
from broker.contract.launch import Word
from cloudsim.jobs.job import StorageKind
from cloudsim.jobs.policy_names import PolicyName

_MOST_WORDS = 1_000
#: An argument cannot contain NUL, which ends it for the kernel.
_Word = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=32_768)]
Command = Annotated[tuple[_Word, ...], Field(min_length=1, max_length=_MOST_WORDS)]
_Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]
_Gigabytes = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Money = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
#: Ids of work, attempts and files begin with the id of the job.
JobId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)]

RESERVED_VARIABLES = "SPOTFED_"
#: Words for what a policy may need.
_NEEDS = {"deadline_s": "a deadline (deadline_s)", "checkpoint": "a state that can be saved (checkpoint)"}


class Profile(Message):
    """The needs of one instance of a job on the reference type, with local storage.

    Attributes
    ----------
    work_s
        Running time, in seconds of wall time.
    memory_gb, disk_gb
        Size of what a checkpoint must save of it.
    io_share
        Part of ``work_s`` that waits for storage.
    """

    work_s: Annotated[float, Field(gt=0, le=3_200_000_000, allow_inf_nan=False)]
    memory_gb: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 0.1
    disk_gb: _Gigabytes = 0.0
    io_share: _Share = 0.0


class Checkpoints(Message):
    """Declares that a job can go on from what is in its directory, SPOTFED_JOB_DIR, at any moment.

    Attributes
    ----------
    save, restore
        Commands to run there before its state is saved, and before the job's own command goes on from it;
        without them the files as they are must do.
    """

    save: Command | None = None
    restore: Command | None = None


class JobWish(Message):
    """A batch job as ``POST /v1/jobs`` takes it.

    Attributes
    ----------
    name
        Jobs of one name share their profile; a job without a profile runs on-demand first, and is measured.
    home
        Cloud on which it may have on-demand instances; by default the origin, if that is a cloud, else the
        only cloud of yours that runs commands.
    instances
        Number of ranks to run in parallel; each gets its rank in SPOTFED_JOB_RANK. Losing one is losing all.
    memory_limit_mb
        Memory limit of each instance: one that needs more is ended, and the job has failed.
    checkpoint
        How its state is saved; None: it always begins anew.
    slack
        Share of its time that may go into checkpoints.
    idempotent
        False if it must never run twice, nor again from an earlier state.
    deadline_s
        Time after its submission by which it should end.
    policy
        How it is placed; some policies need a deadline, or a state that can be saved and one instance.
    max_cost
        Largest cost, in the unit of its cost.
    retries
        How often it is run again after it failed by itself.
    clouds
        Clouds on whose spot instances it may run; None for any.
    image, instance_type
        What its instances on real clouds are, within what their operators allow; None: what these chose.
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
    image: Word | None = None
    instance_type: Word | None = None
    policy: PolicyName = PolicyName.COST_AWARE

    @field_validator("policy")
    @classmethod
    def _can_be_carried_out(cls, policy: PolicyName, info: ValidationInfo) -> PolicyName:
        missing = [
            words for field, words in _NEEDS.items() if field in policy.needs and not info.data.get(field)
        ]
        if "checkpoint" in policy.needs and info.data.get("instances", 1) > 1:
            missing.append("a job of one instance (instances)")
        if missing:
            raise PydanticCustomError("policy", f"{policy} needs {' and '.join(missing)}")
        return policy

    @model_validator(mode="after")
    def _reserved(self) -> Self:
        for name in self.environment:
            if name.startswith(RESERVED_VARIABLES):
                raise PydanticCustomError(
                    "environment",
                    "environment: names that begin with SPOTFED_ are reserved for the federation",
                )
        return self


class JobState(StrEnum):
    """State of a job. The last three are final, and a job reaches one of them only."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELLED})


class Outcome(StrEnum):
    """Way in which an attempt ended."""

    WON = "won"  # its command ended with status 0, first of all replicas: the job is finished
    EVICTED = "evicted"  # the cloud took its instance back
    SAVED = "saved"  # given up after its state was saved: the job goes on elsewhere from there
    FAILED = "failed"  # its command ended with another status, or could not be run
    STOPPED = "stopped"  # not needed any more: a replica won, the plan changed, or the job was cancelled
    REFUSED = "refused"  # no cloud let it begin


class Attempt(Message):
    """One attempt to run a job: all its instances on one cloud. Times are in seconds since 1970.

    Attributes
    ----------
    role
        Part that the attempt has in the job.
    lease
        Spot lease; with several instances, that of the first.
    price_usd_per_core_hour, table_version
        Price and quantile table when the attempt was planned.
    risk
        Risk of an eviction before ``expected_s``, as planned.
    expected_cost
        Cost, as planned.
    restored_from
        Number of the attempt from whose saved state it began.
    lost_s
        Work that has to be done again, in seconds.
    began, ended
        Reasons for its begin and its end, for people.
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

    Attributes
    ----------
    said
        Sentence about the state of the job and its next step.
    unit
        Unit of all costs: ``usd`` or, in a federation without prices, ``core-hours``.
    on_demand_cost
        Cost of the job on-demand from the start; None until its running time is known.
    next_at
        Time at which a waiting job is looked after again.
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
    policy: PolicyName = PolicyName.COST_AWARE


class JobList(Message):
    """A page of jobs, newest first. ``more`` is True if older ones follow."""

    jobs: tuple[JobView, ...]
    more: bool = False


class JobLog(Message):
    """The output of an attempt, standard output and error, from byte ``offset`` on.

    Attributes
    ----------
    next_offset
        Offset at which to go on.
    end
        True if the attempt has ended and this is the rest of its output.
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
    """A piece of work: what the node agent of a cloud is to run on one instance. Only ``wanted`` changes.

    Attributes
    ----------
    id
        ``<job>.<attempt>.<rank>``.
    instance
        Spot lease of the instance, whose end ends the work; with ``spot`` False, the on-demand instance,
        which the job manager stops after the work.
    server
        Instance whose cores a backup replica shares, at ``share`` of them.
    restore
        Work whose saved state is put into its directory before it begins, and the number of that checkpoint;
        None: it begins anew.
    storage
        ``remote``: states are saved in its directory itself; ``local``: the directory is copied at each
        checkpoint.
    checkpoint_s
        Interval between checkpoints; None for no checkpoints.
    wanted
        ``run``; ``save``: save its state, then end it; ``stop``: end it.
    saves_on_notice
        An instance under notice has its state saved, and ends.
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
    """State of a piece of work; the last five are final."""

    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"  # by itself, see exit_code
    SAVED = "saved"  # its state was saved on request, and it ended
    STOPPED = "stopped"  # on request
    EVICTED = "evicted"  # with its instance
    UNUSABLE = "unusable"  # it could not be run, see why


WORK_ENDED = frozenset(WorkState) - {WorkState.STARTING, WorkState.RUNNING}


class Usage(Message):
    """Resources that the processes of a piece of work have used until ``at``, in this attempt alone."""

    wall_s: float
    cpu_s: float
    peak_memory_gb: float
    disk_gb: float = 0.0
    io_share: float = 0.0


#: Reason in the report on work that was ended from outside, together with its agent.
AGENT_ENDED = "its node agent was ended"
#: Name of the directories in which node agents put aside what jobs left, to remove it.
TRASH = ".trash"


class WorkReport(Message):
    """A node agent's report on a piece of work. Times are in seconds since 1970.

    Attributes
    ----------
    checkpoint
        Number of the last state that was saved whole, from 1 on; 0 for none.
    checkpoint_at
        Time at which that checkpoint began, so that all work until then is safe.
    checkpoint_gb
        Size of that state.
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


# -- between the API and a node agent on an instance of a real cloud -----------------------------------------

#: Name of a file of a saved state in a bucket: a part of its archive, and the description that completes it.
StateFile = Annotated[str, StringConstraints(pattern=r"^(part-[0-9]{5}|kept\.json)$")]


class InstanceWork(Message):
    """The assignment of the node agent on one instance, as ``GET /v1/instance/work`` shows it.

    Attributes
    ----------
    version
        Names this answer; the agent sends it back to wait for another one.
    work
        What it is to run; None until a job manager has assigned it.
    lease
        The lease of the instance, as its cloud shows it.
    leave_in_s
        Seconds until the instance leaves; None if it was given no notice.
    report
        The last report on the work.
    """

    version: str
    work: Work | None = None
    lease: Lease | None = None
    leave_in_s: float | None = None
    report: WorkReport | None = None


class InstanceReport(Message):
    """A report from an instance. ``is_news``: a job manager is to look at it at once."""

    report: WorkReport
    is_news: bool = True


class InstanceOutput(Message):
    """The last part of what the work on an instance has written, after ``offset`` bytes."""

    offset: Annotated[int, Field(ge=0, le=2**53)]
    part: Base64Bytes


class StateRequest(Message):
    """A request for addresses of files of a saved state, which work without credentials for an hour.

    Attributes
    ----------
    action
        An agent writes states of its own work, and reads those that its work begins with.
    checkpoint
        Number of the state.
    """

    action: Literal["read", "write"]
    work: Id
    checkpoint: Annotated[int, Field(ge=1, le=10**9)]
    files: Annotated[tuple[StateFile, ...], Field(min_length=1, max_length=1_000)]


class StateLinks(Message):
    """Addresses of files, in the order in which they were asked for."""

    urls: tuple[str, ...]


class JobFiles(Message):
    """The files of a job: the archive (tar) of its directory as it was last saved, in parts.

    Attributes
    ----------
    checkpoint
        Number of the saved state of this attempt.
    urls
        Addresses of the parts, which make the archive one after the other. They work for an hour.
    """

    job: JobId
    attempt: int
    rank: int
    checkpoint: int
    urls: tuple[str, ...]
