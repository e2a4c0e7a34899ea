"""The driver that runs leases as preemptible jobs of a Slurm cluster, by sbatch, squeue, sinfo and scancel.

The cloud is what the nodes of a partition leave to others: jobs of higher partitions preempt the jobs of
leases (Lopez Garcia et al., "Preemptible instances", Section 5.1). Slurm does that by itself, with
PreemptType=preempt/partition_prio and PreemptMode=CANCEL of the spot partition. The driver reports it, and
all other jobs as foreign instances. A partition whose jobs share no node (OverSubscribe=EXCLUSIVE, for
parallel jobs that use the interconnect) needs nothing more: its jobs take all cores of their nodes.

The job of a lease has the comment ``spotfed:<prefix>:<cloud>:<lease>``, which counts only for jobs of this
driver's user, and a name of its own with the dependency "singleton", so that only one runs at a time whoever
submits them. Tried with Slurm 22.05.
"""

from __future__ import annotations

import math
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints
from pydantic import field_validator as checked

from broker.contract.launch import Launch, Word, find_word
from broker.doctor.check import CheckResult, failure, ok
from cloudsim.model.flavours import CloudFlavour
from workers.cloud_agent.drivers.base import (
    DISK,
    GPUS,
    MEMORY,
    AllowOptions,
    BesideFile,
    CloudHost,
    CloudInstance,
    CommonOptions,
    Cores,
    DesiredInstance,
    Duration,
    InstanceError,
    InstanceState,
    NoRoomError,
    RefusedError,
    make_flavour,
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

#: Parts of sbatch's messages about faults that may be gone the next time.
_AWAY: tuple[str, ...] = (
    "unable to contact",
    "timed out",
    "connection refused",
    "zero bytes",
    "temporarily",
    "try again",
)

_AWAY += ("munge", "authentication", "socket")


#: Seconds before its time limit at which Slurm sends a job SIGTERM.
_WARNING_S = 60

_LONGEST_NAME = 255

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


#: A name of a partition, an account and the like, which can neither end an option nor begin another.
SlurmName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=100)]


#: A generic resource, perhaps with its type: ``gpu``, ``gpu:a100``.
GresName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+(:[A-Za-z0-9_.-]+)?$", max_length=100)]


class SlurmOptions(CommonOptions):
    """Options of the driver "slurm".

    partition, qos, account: those of the jobs of leases; the partition's nodes are the cloud. constraint: a
    constraint on their nodes. script: what each job runs. gres: Slurm's name of a resource that leases name
    (memory_mb and disk_gb need none). time_limit: in Slurm's notation; None for the partition's.
    patience_s: seconds that a job may wait for room before it counts as ended. programs: the directory of
    sbatch and the others, None to search the PATH. config: Slurm's configuration file, None for its default.
    output: the file that jobs write to, on their nodes. on_demand_partition, on_demand_qos: those of the jobs
    of on-demand that is sold, which nothing may preempt.
    """

    runs_scripts: ClassVar[bool] = True
    export: ClassVar[str] = "`sacct --allusers --parsable2`"
    driver: Literal["slurm"]
    partition: SlurmName
    script: BesideFile
    qos: SlurmName | None = None
    on_demand_partition: SlurmName | None = None
    on_demand_qos: SlurmName | None = None
    account: SlurmName | None = None
    constraint: Word | None = None
    gres: dict[str, GresName] = Field(default_factory=lambda: {GPUS: "gpu"})
    time_limit: Annotated[str, StringConstraints(pattern=r"^(UNLIMITED|[0-9]+([:-][0-9]+){0,3})$")] | None = (
        None
    )
    patience_s: Duration = Field(60.0, alias="patience", ge=1, le=3600)
    programs: Path | None = Field(None, strict=False)
    config: BesideFile | None = None
    output: Annotated[str, StringConstraints(pattern=r"^/", max_length=1000)] = "/dev/null"
    sizes: dict[Cores, Word] = Field(default_factory=dict)

    @property
    def selling_fault(self) -> tuple[str, str] | None:
        """The partition of what is sold, if it is missing: jobs of the other one are preempted."""
        if self.on_demand_partition is not None:
            return None
        return "on_demand_partition", "is missing: name a partition whose jobs nothing preempts, to sell them"

    @checked("sizes", "foreign_sizes")
    @classmethod
    def _any_size(cls, sizes: dict[Any, Any]) -> dict[Any, Any]:
        if sizes:
            raise ValueError("Slurm takes and tells numbers of cores: leave it out")
        return sizes

    @checked("allow")
    @classmethod
    def _of_scripts(cls, allow: AllowOptions) -> AllowOptions:
        for name in ("sizes", "networks", "security_groups", "tags"):
            if getattr(allow, name):
                raise ValueError(f"jobs have no {name.replace('_', ' ')}: leave {name} out")
        if allow.prefix is not None and not _is_script(allow.prefix):
            raise ValueError("prefix begins the script of a job: let it begin with #!")
        return allow

    @checked("programs")
    @classmethod
    def _with_programs(cls, path: Path | None) -> Path | None:
        if path is not None and not (path / "sbatch").is_file():
            raise ValueError(f"there is no sbatch in {path}")
        return path


class SlurmDriver:
    """Starts, lists and ends the jobs of leases on one cluster.

    Jobs get SPOTFED_LEASE, SPOTFED_CLOUD, SPOTFED_ORIGIN, SPOTFED_CORES and SPOTFED_USER_DATA in their
    environment, and nothing of this process's. Notice is a SIGTERM to their script. An ended job is listed
    until Slurm forgets it (MinJobAge, five minutes unless the cluster says otherwise).
    """

    def __init__(self, options: SlurmOptions, cloud: str):
        self._options, self.rules = options, options.rules
        self._cloud = cloud
        self._mark = f"spotfed:{options.prefix}:{cloud}:"
        self._starting = threading.Lock()

    def list_instances(self) -> list[CloudInstance]:
        """Return all jobs as instances.

        A foreign job on several nodes is one instance on each, with the same number of cores, rounded up.
        """
        nodes = self._nodes()
        jobs = self._jobs()
        leases = self._leases()  # after the jobs: none of them is new then
        jobs_of_lease: dict[str, list[SlurmJob]] = defaultdict(list)
        instances: list[CloudInstance] = []
        for job in jobs:
            if job.id in leases:
                jobs_of_lease[leases[job.id]].append(job)
            else:
                instances += _foreign(job, nodes)
        return instances + [
            self._instance(lease, _current_job(several)) for lease, several in jobs_of_lease.items()
        ]

    def list_flavours(self) -> list[CloudFlavour]:
        """Return the kinds of nodes of the partition, each by the name of one such node.

        A feature ``zone=north`` of a node is a label. Instances take as much of a node as they ask for.
        """
        kinds: dict[CloudFlavour, str] = {}
        for node in self._nodes().values():
            kinds.setdefault(replace(self._flavour(node), name=""), node.name)
        flavours = [replace(kind, name=name) for kind, name in kinds.items()]
        return sorted(flavours, key=lambda flavour: (flavour.cores, flavour.amounts, flavour.name))

    def start(self, desired: DesiredInstance) -> None:
        """Submit a job for the lease unless there is one, even an ended one.

        Two drivers that do so at once submit two jobs. Slurm lets one run at a time, and both drivers
        withdraw the later one.
        """
        if len(desired.lease) > _LONGEST_NAME:
            raise RefusedError(f"the lease's id is longer than {_LONGEST_NAME} characters")
        with self._starting:
            if self._jobs_of(desired.lease):
                return
            self._options.pick(self.list_flavours(), desired)
            self._check_room(desired)
            self._submit(desired)
            if later := sorted(self._jobs_of(desired.lease), key=int)[1:]:
                self._call("scancel", ["--quiet", *later])

    def give_notice(self, lease: str, leaves_at: float) -> bool:
        """Send SIGTERM to the script of the lease's job; False if none runs."""
        del leaves_at  # a signal cannot carry a time
        jobs = self._jobs_of(lease, "RUNNING")
        if jobs:
            self._call("scancel", ["--quiet", "--batch", "--signal=TERM", *jobs])
        return bool(jobs)

    def end(self, lease: str) -> None:
        """Kill the lease's job. Without the signal to its script it could stay for Slurm's KillWait."""
        if jobs := self._jobs_of(lease, "PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING"):
            with suppress(InstanceError):  # one that has just ended, or waits, takes no signal
                self._call("scancel", ["--quiet", "--batch", "--signal=KILL", *jobs])
            self._call("scancel", ["--quiet", *jobs])

    def check(self) -> Iterator[CheckResult]:
        """Yield whether Slurm would take a job of a lease, and whether it preempts it for own users."""
        try:
            self._submit(DesiredInstance("check.1", 1, "check"), "--test-only")
            yield ok(f"{self._options.partition} would take a job of a lease", name="job")
        except InstanceError as error:
            yield failure(str(error), "correct partition, account, qos or constraint", name="job")
        config = self._call("scontrol", ["show", "config"])
        preempts = re.search(r"^PreemptType\s*=\s*(\S+)", config, re.MULTILINE)
        if preempts is None or preempts[1] in ("preempt/none", "(null)"):
            yield failure(
                "jobs of leases keep their nodes when own users need them",
                "set PreemptType=preempt/partition_prio, and PreemptMode=CANCEL for the partition",
                name="preemption",
            )
        else:
            yield ok(preempts[1], name="preemption")

    def free_cores(self) -> int | None:
        """Return the idle CPUs of the partition's nodes, less those that jobs wait for."""
        nodes = self._nodes().values()
        partitions = frozenset(partition for node in nodes for partition in node.partitions)
        waiting = sum(job.cores for job in self._jobs() if job.waits_for_room and job.partitions & partitions)
        return max(0, sum(node.idle for node in nodes) - waiting)

    def list_hosts(self) -> list[CloudHost]:
        """Return no host: Slurm places jobs, and preempts by itself."""
        return []

    def count_free(self) -> dict[str, int]:
        """Return nothing: own users' jobs preempt, whatever is free."""
        return {}

    # -- Slurm's programs --------------------------------------------------------------------------------

    def _nodes(self) -> dict[str, SlurmNode]:
        """Return the partition's nodes.

        Raises
        ------
        RefusedError
            When there is no such partition.
        """
        every = parse_nodes(self._call("sinfo", ["--all", "--noheader", "--Node", f"--format={NODE_FORMAT}"]))
        nodes = {name: node for name, node in every.items() if self._options.partition in node.partitions}
        if not nodes:
            raise RefusedError(f"the cluster has no partition {self._options.partition} with nodes")
        return nodes

    def _jobs(self) -> list[SlurmJob]:
        return parse_jobs(self._squeue(JOB_FIELDS, "--noheader"))

    def _leases(self) -> dict[str, str]:
        """Return the leases by the ids of their jobs."""
        comments = parse_comments(self._squeue(COMMENT_FIELDS, "--me"))
        return {job: text.removeprefix(self._mark) for job, text in comments if text.startswith(self._mark)}

    def _jobs_of(self, lease: str, states: str = "all") -> list[str]:
        """Return the ids of the lease's jobs in these states."""
        output = self._squeue(COMMENT_FIELDS, "--me", f"--name={self._job_name(lease)}", states=states)
        return [job for job, comment in parse_comments(output) if comment == f"{self._mark}{lease}"]

    def _job_name(self, lease: str) -> str:
        """Return the name of the lease's jobs. Slurm takes a comma for the end of a name."""
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

    def _flavour(self, node: SlurmNode) -> CloudFlavour:
        amounts = {MEMORY: node.memory_mb, DISK: node.disk_mb // 1024}
        amounts |= {name: node.gres.get(gres, 0) for name, gres in self._options.gres.items()}
        labels = {
            (name, value) for name, bar, value in (each.partition("=") for each in node.features) if bar
        }
        return make_flavour(node.name, node.total, amounts, labels, is_divisible=True)

    def _check_room(self, desired: DesiredInstance) -> None:
        """Raise an error if the instance has no room now: Slurm would queue its job."""
        nodes = self._nodes().values()
        if desired.cores > max(node.idle for node in nodes):
            raise NoRoomError(f"no node of {self._options.partition} has {desired.cores} idle CPUs")

    def _submit(self, desired: DesiredInstance, *more: str) -> None:
        options, environment, is_spot = self._options, self._environment(desired), desired.is_preemptible
        arguments = [
            "--parsable",
            f"--partition={options.partition if is_spot else options.on_demand_partition}",
            f"--job-name={self._job_name(desired.lease)}",
            f"--comment={self._mark}{desired.lease}",
            "--dependency=singleton",
            "--no-requeue",
            "--nodes=1",
            "--ntasks=1",
            f"--cpus-per-task={desired.cores}",
            f"--signal=B:TERM@{_WARNING_S}",
            f"--output={options.output}",
            "--chdir=/",
            f"--export={','.join(environment)}",
            *(
                f"--{name}={value}"
                for name, value in {
                    "qos": options.qos if is_spot else options.on_demand_qos,
                    "account": options.account,
                    "constraint": self._constraint(desired.labels),
                    "time": options.time_limit,
                }.items()
                if value is not None
            ),
            *self._amounts(desired.amounts),
            *more,
        ]
        script = self._holders_script(desired.launch)
        if script is None:
            arguments.append(str(options.script))
        self._call("sbatch", arguments, environment, script)

    def _environment(self, desired: DesiredInstance) -> dict[str, str]:
        options, launch = self._options, desired.launch
        own = options.own_data_of(launch)
        told = {
            "SPOTFED_LEASE": desired.lease,
            "SPOTFED_CLOUD": self._cloud,
            "SPOTFED_ORIGIN": desired.origin,
            "SPOTFED_CORES": str(desired.cores),
            "SPOTFED_USER_DATA": options.user_data if own is None else None if _is_script(own) else own,
            "SPOTFED_IMAGE": None if launch.image is None else find_word(options.allow.images, launch.image),
            "SPOTFED_KEY": launch.key,
        }
        return {name: value for name, value in told.items() if value is not None}

    def _holders_script(self, launch: Launch) -> str | None:
        """Return the script of a job that runs its holder's script, None if it runs the file's.

        The holder's arguments and environment stand in it: sbatch itself must not see them as its own.
        """
        text = self._options.own_data_of(launch)
        if text is None or not _is_script(text):
            if launch.arguments or launch.environment:
                raise RefusedError("arguments and environment go with user data that is a script (#!)")
            return None
        lines = [self._options.allow.prefix or "#!/bin/sh"]
        lines += [
            f"export {name}={shlex.quote(value.get_secret_value())}"
            for name, value in launch.environment.items()
        ]
        arguments = " ".join(shlex.quote(argument.get_secret_value()) for argument in launch.arguments)
        lines += [
            "spotfed_script=$(mktemp) || exit 1",
            f'printf %s {shlex.quote(text)} >"$spotfed_script"',
            'chmod 700 "$spotfed_script"',
            f'exec "$spotfed_script" {arguments}',
        ]
        return "\n".join([*lines, ""])

    def _constraint(self, labels: Mapping[str, str]) -> str | None:
        """Return the constraint of a job's nodes: that of the file, and the lease's labels as features."""
        constraint, features = self._options.constraint, [f"{name}={value}" for name, value in labels.items()]
        if constraint is None or not features:
            return constraint or "&".join(features) or None
        return "&".join([f"({constraint})", *features])

    def _amounts(self, amounts: Mapping[str, int]) -> list[str]:
        """Return the options for amounts, all of which some node has."""
        gres = [
            f"{name}:{amounts[resource]}"
            for resource, name in self._options.gres.items()
            if amounts.get(resource)
        ]
        arguments = [f"--gres={','.join(gres)}"] if gres else []
        if MEMORY in amounts:
            arguments.append(f"--mem={amounts[MEMORY]}M")
        if DISK in amounts:
            arguments.append(f"--tmp={amounts[DISK]}G")
        return arguments

    def _call(
        self,
        program: str,
        arguments: Sequence[str],
        more: Mapping[str, str] | None = None,
        standard_input: str | None = None,
    ) -> str:
        """Run one of Slurm's programs and return its standard output.

        Raises
        ------
        InstanceError
            When it fails; RefusedError when it would fail again.
        """
        options = self._options
        path = options.programs / program if options.programs is not None else shutil.which(program)
        if path is None:
            raise RefusedError(f"{program} is not installed here: set the option programs to its directory")
        # Times in seconds since 1970, whatever the time zone; messages in English.
        environment = {"PATH": _PATH, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", **(more or {})}
        if options.config is not None:
            environment["SLURM_CONF"] = str(options.config)
        try:
            done = subprocess.run(  # noqa: S603  (Slurm's own programs)
                [str(path), *arguments],
                env=environment,
                input=standard_input or "",
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=options.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise InstanceError(f"{program} did not end within {options.timeout_s:g} s") from error
        except OSError as error:  # also when user data exceeds what an environment holds
            raise RefusedError(f"{program} cannot be run: {error}") from error
        if done.returncode == 0:
            return done.stdout
        message = " ".join(done.stderr.split())[:300] or f"exit code {done.returncode}"
        refused = message.startswith("sbatch: ") and not any(text in message.lower() for text in _AWAY)
        raise (RefusedError if refused else InstanceError)(f"{program}: {message}")


def _is_script(text: str) -> bool:
    return text.startswith("#!")


def _current_job(jobs: Sequence[SlurmJob]) -> SlurmJob:
    """Return the first job that has not ended, else the last one; later jobs wait for earlier ones."""
    by_age = sorted(jobs, key=lambda job: int(job.id))
    return next((job for job in by_age if job.state is not InstanceState.ENDED), by_age[-1])


def _foreign(job: SlurmJob, nodes: Mapping[str, SlurmNode]) -> Iterator[CloudInstance]:
    """Yield what another user's job has on these nodes. One that waits has nothing."""
    if job.state is InstanceState.ENDED:
        return
    share = math.ceil(job.cores / max(1, job.node_count))
    for name in job.nodes:
        if name in nodes:
            cores = min(share, nodes[name].total)
            own_id = job.id if job.node_count <= 1 else f"{job.id}:{name}"
            yield CloudInstance(own_id, None, job.state, f"{cores} CPUs", cores, (name,))
