"""Leases as preemptible jobs of a Slurm cluster, by its own programs: sbatch, squeue, sinfo and scancel.

The cloud is what the nodes of a partition leave to others: jobs of partitions above it preempt the jobs that
leases are (Lopez Garcia et al., "Preemptible instances", Section 5.1). Slurm does that by itself
(PreemptType=preempt/partition_prio, PreemptMode=CANCEL of the spot partition); the driver tells of it, and of
all other jobs as foreign instances. A partition whose jobs share no node (OverSubscribe=EXCLUSIVE, for
parallel jobs that use the interconnect) needs nothing more: its jobs then have all cores of their nodes.

A job of a lease has the comment ``spotfed:<prefix>:<cloud>:<lease>``, which counts for jobs of this
driver's user alone, and a name of its own with the dependency "singleton": whoever submits it, one runs at a
time.
Tried with Slurm 22.05.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints
from pydantic import field_validator as checked

from workers.cloud_agent.drivers.base import (
    BesideFile,
    CloudInstance,
    CommonOptions,
    Cores,
    DesiredInstance,
    Duration,
    InstanceError,
    InstanceState,
    NoRoomError,
    RefusedError,
    Word,
)
from workers.cloud_agent.drivers.slurm_output import (
    COMMENT_FIELDS,
    JOB_FIELDS,
    NODE_FORMAT,
    SlurmJob,
    SlurmNode,
    parse_comments,
    parse_jobs,
    parse_nodes,
)

#: Standard error of an sbatch that may do it the next time.
_AWAY: tuple[str, ...] = (
    "unable to contact",
    "timed out",
    "connection refused",
    "zero bytes",
    "temporarily",
    "try again",
)

_AWAY += ("munge", "authentication", "socket")


#: Slurm sends a job SIGTERM so long before its time limit.
_WARNING_S = 60

_MEMORY = "memory_mb"

_LONGEST_NAME = 255

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


#: As Slurm names partitions, accounts and the like: nothing that ends an option or begins another one.
SlurmName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=100)]


class SlurmOptions(CommonOptions):
    """Of the driver "slurm".

    partition, qos, account: of the jobs that leases become; the partition's nodes are the cloud. constraint:
    of their nodes. script: what each of these jobs runs. gres: Slurm's word for a resource that leases name
    (memory_mb needs none). time_limit: of these jobs, as Slurm writes it; None: the partition's. patience_s:
    a job that waits for room for longer counts as ended. programs: the directory of sbatch and the others;
    config: Slurm's configuration file; None of both: as a shell finds them. output: where jobs write, on
    their nodes.
    """

    driver: Literal["slurm"]
    partition: SlurmName
    script: BesideFile
    qos: SlurmName | None = None
    account: SlurmName | None = None
    constraint: Word | None = None
    gres: dict[str, SlurmName] = Field(default_factory=dict)
    time_limit: Annotated[str, StringConstraints(pattern=r"^(UNLIMITED|[0-9]+([:-][0-9]+){0,3})$")] | None = (
        None
    )
    patience_s: Duration = Field(60.0, alias="patience", ge=1, le=3600)
    programs: Path | None = Field(None, strict=False)
    config: BesideFile | None = None
    output: Annotated[str, StringConstraints(pattern=r"^/", max_length=1000)] = "/dev/null"
    sizes: dict[Cores, Word] = Field(default_factory=dict)

    @checked("sizes", "foreign_sizes")
    @classmethod
    def _any_size(cls, sizes: dict[Any, Any]) -> dict[Any, Any]:
        if sizes:
            raise ValueError("Slurm takes and tells numbers of cores: leave it out")
        return sizes

    @checked("programs")
    @classmethod
    def _with_programs(cls, path: Path | None) -> Path | None:
        if path is not None and not (path / "sbatch").is_file():
            raise ValueError(f"there is no sbatch in {path}")
        return path


class SlurmDriver:
    """The instances of one cluster.

    Jobs get SPOTFED_LEASE, SPOTFED_CLOUD, SPOTFED_ORIGIN, SPOTFED_CORES and SPOTFED_USER_DATA in their
    environment, and nothing of this process's. Their notice is a SIGTERM to the script. An ended job is
    listed until Slurm forgets it (MinJobAge, five minutes unless the cluster says otherwise).
    """

    def __init__(self, options: SlurmOptions, cloud: str):
        self._options = options
        self._cloud = cloud
        self._mark = f"spotfed:{options.prefix}:{cloud}:"
        self._starting = threading.Lock()

    def listed(self) -> list[CloudInstance]:
        """All instances, those of others too: of a job on several nodes one for each, with the same number of
        cores, rounded up."""
        nodes = self._nodes()
        jobs = self._jobs()
        leases = self._leases()  # after the jobs: none of them is new then
        mine: dict[str, list[SlurmJob]] = defaultdict(list)
        found: list[CloudInstance] = []
        for job in jobs:
            if job.id in leases:
                mine[leases[job.id]].append(job)
            else:
                found += _foreign(job, nodes)
        return found + [self._instance(lease, _shown(several)) for lease, several in mine.items()]

    def start(self, wanted: DesiredInstance) -> None:
        """Submits a job for the lease unless there is one, even an ended one.

        Two drivers that do so at the same time submit two, of which Slurm lets one run at a time and both
        drivers withdraw the later one.
        """
        if len(wanted.lease) > _LONGEST_NAME:
            raise RefusedError(f"the lease's id is longer than {_LONGEST_NAME} characters")
        with self._starting:
            if self._of(wanted.lease):
                return
            self._check_room(wanted)
            self._submit(wanted)
            if later := sorted(self._of(wanted.lease), key=int)[1:]:
                self._call("scancel", ["--quiet", *later])

    def notice(self, lease: str, leaves_at: float) -> bool:
        """SIGTERM to the script of the lease's job; False: none runs."""
        del leaves_at  # a signal tells no time
        jobs = self._of(lease, "RUNNING")
        if jobs:
            self._call("scancel", ["--quiet", "--batch", "--signal=TERM", *jobs])
        return bool(jobs)

    def end(self, lease: str) -> None:
        """Kills the lease's job. Without the signal to its script it would have Slurm's KillWait to leave."""
        if jobs := self._of(lease, "PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING"):
            with suppress(InstanceError):  # one that has just ended, or waits, takes no signal
                self._call("scancel", ["--quiet", "--batch", "--signal=KILL", *jobs])
            self._call("scancel", ["--quiet", *jobs])

    def free_cores(self) -> int | None:
        """Idle CPUs of the partition's nodes, without those that jobs wait for."""
        nodes = self._nodes().values()
        partitions = frozenset(partition for node in nodes for partition in node.partitions)
        waiting = sum(job.cores for job in self._jobs() if job.waits_for_room and job.partitions & partitions)
        return max(0, sum(node.idle for node in nodes) - waiting)

    # -- how ----------------------------------------------------------------------------------------------

    def _nodes(self) -> dict[str, SlurmNode]:
        """Of the partition. Raises RefusedError where there is no such partition."""
        every = parse_nodes(self._call("sinfo", ["--all", "--noheader", "--Node", f"--format={NODE_FORMAT}"]))
        here = {name: node for name, node in every.items() if self._options.partition in node.partitions}
        if not here:
            raise RefusedError(f"the cluster has no partition {self._options.partition} with nodes")
        return here

    def _jobs(self) -> list[SlurmJob]:
        return parse_jobs(self._squeue(JOB_FIELDS, "--noheader"))

    def _leases(self) -> dict[str, str]:
        """By the ids of their jobs."""
        told = parse_comments(self._squeue(COMMENT_FIELDS, "--me"))
        return {job: text.removeprefix(self._mark) for job, text in told if text.startswith(self._mark)}

    def _of(self, lease: str, states: str = "all") -> list[str]:
        """Ids of the lease's jobs in these states."""
        told = self._squeue(COMMENT_FIELDS, "--me", f"--name={self._name(lease)}", states=states)
        return [job for job, comment in parse_comments(told) if comment == f"{self._mark}{lease}"]

    def _name(self, lease: str) -> str:
        """Of its jobs. A comma would make several names of it."""
        return f"{self._mark}{lease}"

    def _squeue(self, fields: Sequence[str], *more: str, states: str = "all") -> str:
        shown = ",".join(f"{field}:|" for field in fields)
        arguments = ["--all", "--array", f"--states={states}", f"--Format={shown}", *more]
        return self._call("squeue", arguments)

    def _instance(self, lease: str, job: SlurmJob) -> CloudInstance:
        state, why, ends_at = job.state, None, None
        if state is InstanceState.ENDED:
            why = job.word.lower().replace("_", " ") + (f" ({job.reason})" if job.reason else "")
        elif job.preempted_at is not None:
            ends_at, why = job.ends_at, "preempted by a job of the cluster's users"
        elif job.word == "PENDING" and job.submitted_at is not None:
            waited_s = time.time() - job.submitted_at
            if waited_s > self._options.patience_s:
                reason = job.reason or "none was told"
                state, why = (
                    InstanceState.ENDED,
                    f"no room for it in {waited_s:.0f} s (Slurm's reason: {reason})",
                )
        return CloudInstance(
            job.id, lease, state, f"{job.cores} CPUs", job.cores, job.nodes, ends_at=ends_at, why=why
        )

    def _check_room(self, wanted: DesiredInstance) -> None:
        """Slurm would queue what has no room now, and also what never has."""
        nodes = self._nodes().values()
        most = max(node.total for node in nodes)
        if wanted.cores > most:
            raise RefusedError(f"the largest node of {self._options.partition} has {most} CPUs")
        if wanted.cores > max(node.idle for node in nodes):
            raise NoRoomError(f"no node of {self._options.partition} has {wanted.cores} idle CPUs")

    def _submit(self, wanted: DesiredInstance) -> None:
        told, environment = self._options, self._environment(wanted)
        arguments = [
            "--parsable",
            f"--partition={told.partition}",
            f"--job-name={self._name(wanted.lease)}",
            f"--comment={self._mark}{wanted.lease}",
            "--dependency=singleton",
            "--no-requeue",
            "--nodes=1",
            "--ntasks=1",
            f"--cpus-per-task={wanted.cores}",
            f"--signal=B:TERM@{_WARNING_S}",
            f"--output={told.output}",
            "--chdir=/",
            f"--export={','.join(environment)}",
            *(
                f"--{name}={value}"
                for name, value in {
                    "qos": told.qos,
                    "account": told.account,
                    "constraint": told.constraint,
                    "time": told.time_limit,
                }.items()
                if value is not None
            ),
            *self._amounts(wanted.amounts),
            str(told.script),
        ]
        self._call("sbatch", arguments, environment)

    def _environment(self, wanted: DesiredInstance) -> dict[str, str]:
        user_data = self._options.user_data if wanted.user_data is None else wanted.user_data
        found = {
            "SPOTFED_LEASE": wanted.lease,
            "SPOTFED_CLOUD": self._cloud,
            "SPOTFED_ORIGIN": wanted.origin,
            "SPOTFED_CORES": str(wanted.cores),
        }
        if user_data is not None:
            if "\0" in user_data:
                raise RefusedError("user data that an environment cannot hold: there is a null byte in it")
            found["SPOTFED_USER_DATA"] = user_data
        return found

    def _amounts(self, amounts: Mapping[str, int]) -> list[str]:
        arguments, gres = [], []
        for name, amount in amounts.items():
            if name in self._options.gres:
                gres.append(f"{self._options.gres[name]}:{amount}")
            elif name == _MEMORY:
                arguments.append(f"--mem={amount}M")
            else:
                raise RefusedError(f"the option gres does not say what {name} is to Slurm")
        return arguments + ([f"--gres={','.join(gres)}"] if gres else [])

    def _call(self, program: str, arguments: Sequence[str], more: Mapping[str, str] | None = None) -> str:
        """Standard output of a program. Raises InstanceError, RefusedError."""
        told = self._options
        path = told.programs / program if told.programs is not None else shutil.which(program)
        if path is None:
            raise RefusedError(f"{program} is not installed here: set the option programs to its directory")
        # Times in seconds since 1970, whatever the time zone; messages in English.
        environment = {"PATH": _PATH, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", **(more or {})}
        if told.config is not None:
            environment["SLURM_CONF"] = str(told.config)
        try:
            done = subprocess.run(  # noqa: S603  (Slurm's own programs)
                [str(path), *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=told.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise InstanceError(f"{program} did not end within {told.timeout_s:g} s") from error
        except OSError as error:  # as where it is more than an environment holds
            raise RefusedError(f"{program} cannot be run: {error}") from error
        if done.returncode == 0:
            return done.stdout
        said = " ".join(done.stderr.split())[:300] or f"exit code {done.returncode}"
        refused = said.startswith("sbatch: ") and not any(text in said.lower() for text in _AWAY)
        raise (RefusedError if refused else InstanceError)(f"{program}: {said}")


def _shown(jobs: Sequence[SlurmJob]) -> SlurmJob:
    """The one that has not ended, else the last that has; a later one waits for an earlier one's end."""
    by_age = sorted(jobs, key=lambda job: int(job.id))
    return next((job for job in by_age if job.state is not InstanceState.ENDED), by_age[-1])


def _foreign(job: SlurmJob, nodes: Mapping[str, SlurmNode]) -> Iterator[CloudInstance]:
    """What a job of others has on these nodes. One that waits has nothing."""
    if job.state is InstanceState.ENDED:
        return
    share = math.ceil(job.cores / max(1, job.node_count))
    for name in job.nodes:
        if name in nodes:
            cores = min(share, nodes[name].total)
            own_id = job.id if job.node_count <= 1 else f"{job.id}:{name}"
            yield CloudInstance(own_id, None, job.state, f"{cores} CPUs", cores, (name,))
