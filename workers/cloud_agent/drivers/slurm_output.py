"""Parse what Slurm's programs print (pure).

Users choose the names and comments of their jobs, which may contain line ends. So output that is read line by
line never includes what other users wrote.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from workers.cloud_agent.drivers.base import InstanceError, InstanceState

#: Fields of ``squeue --Format`` that no user writes, in the order of ``SlurmJob``.
JOB_FIELDS: tuple[str, ...] = (
    "JobID",
    "State",
    "NumCPUs",
    "NumNodes",
    "Partition",
    "NodeList",
    "PreemptTime",
)
JOB_FIELDS += ("EndTime", "SubmitTime", "Reason")
#: Fields of ``squeue --Format`` for the driver's own jobs.
COMMENT_FIELDS = ("JobID", "Comment")
_COMMENT_HEADER = "JOBID|COMMENT|"
#: Format of ``sinfo --Node``: node, partition, CPUs as allocated/idle/other/total, memory and disk in MB,
#: generic resources, features.
NODE_FORMAT = "%N|%R|%C|%m|%d|%G|%f"

_STATES = {
    **dict.fromkeys(
        ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"), InstanceState.STARTING
    ),
    **dict.fromkeys(("RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"), InstanceState.RUNNING),
    **dict.fromkeys(("COMPLETING", "STAGE_OUT"), InstanceState.ENDING),
}
_NOTHING = frozenset(("", "None", "N/A", "(null)", "NONE", "Unknown"))
#: Reasons of jobs that only wait for room.
_WAITS_FOR_ROOM = frozenset(("None", "Resources", "Priority"))
_RANGES = re.compile(r"\[([^\]]*)\]")


@dataclass(frozen=True)
class SlurmJob:
    """A job, or an element of a job array.

    word: Slurm's name of its state. ``*_at``: seconds since 1970. reason: why it waits, or failed.
    """

    id: str
    word: str
    cores: int
    node_count: int
    partitions: frozenset[str]
    nodes: tuple[str, ...]
    preempted_at: float | None
    ends_at: float | None
    submitted_at: float | None
    reason: str | None

    @property
    def state(self) -> InstanceState:
        """The state of the job as an instance; an unknown word counts as ended."""
        return _STATES.get(self.word, InstanceState.ENDED)

    @property
    def waits_for_room(self) -> bool:
        """True if only missing room keeps the job from running."""
        return self.word == "PENDING" and (self.reason or "None") in _WAITS_FOR_ROOM


@dataclass(frozen=True)
class SlurmNode:
    """A node, its partitions and its CPUs.

    gres: the amounts of its generic resources, by name and by name and type (``gpu``, ``gpu:a100``).
    """

    name: str
    partitions: frozenset[str]
    idle: int
    total: int
    memory_mb: int = 0
    disk_mb: int = 0
    gres: Mapping[str, int] = field(default_factory=dict)
    features: frozenset[str] = frozenset()


def parse_jobs(text: str) -> list[SlurmJob]:
    """Parse the output of ``squeue`` with JOB_FIELDS, each followed by a bar.

    Raises
    ------
    InstanceError
        When a line is not a job.
    """
    return [_job(line) for line in text.splitlines() if line.strip()]


def parse_comments(text: str) -> Iterator[tuple[str, str]]:
    """Yield job ids and comments from the output of ``squeue`` with COMMENT_FIELDS and its header.

    Line ends within comments give lines of their own, which are skipped.

    Raises
    ------
    InstanceError
        When the header is not the expected one.
    """
    header, *lines = text.splitlines() or [""]
    if header != _COMMENT_HEADER:
        raise InstanceError(f"squeue printed something else than comments: {header[:200]!r}")
    for line in lines:
        job, bar, comment = line.partition("|")
        if bar and job.isascii() and job.isdigit():
            yield job, comment.removesuffix("|")


def parse_nodes(text: str) -> dict[str, SlurmNode]:
    """Parse the output of ``sinfo`` with NODE_FORMAT, which has a line for each partition of a node.

    Raises
    ------
    InstanceError
        When a line is not a node.
    """
    nodes: dict[str, SlurmNode] = {}
    for line in text.split():
        try:
            name, partition, cpus, memory, disk, gres, features = line.split("|")
            _, idle, _, total = map(int, cpus.split("/"))
            has = int(memory.rstrip("+")), int(disk.rstrip("+")), _gres(gres), _features(features)
        except ValueError as error:
            raise InstanceError(f"sinfo printed something else than nodes: {line[:200]!r}") from error
        partitions = nodes[name].partitions if name in nodes else frozenset()
        nodes[name] = SlurmNode(name, partitions | {partition}, idle, total, *has)
    return nodes


def _gres(text: str) -> Mapping[str, int]:
    """Parse the generic resources of a node: ``gpu:a100:2(S:0-1),fpga:1``. A count may end in K, M or G."""
    amounts: Counter[str] = Counter()
    for part in [] if text in _NOTHING else re.sub(r"\([^)]*\)", "", text).split(","):
        *names, count = part.split(":")
        number = int(count.rstrip("KMG")) * {"K": 2**10, "M": 2**20, "G": 2**30}.get(count[-1], 1)
        for depth in range(len(names)):
            amounts[":".join(names[: depth + 1])] += number
    return amounts


def _features(text: str) -> frozenset[str]:
    return frozenset() if text in _NOTHING else frozenset(text.split(","))


def expand_node_list(nodes: str) -> tuple[str, ...]:
    """Expand Slurm's short form of a list of nodes: ``n[1-3,07],m`` is n1, n2, n3, n07, m."""
    return tuple(name for part in _parts(nodes) for name in _expanded(part))


def _job(line: str) -> SlurmJob:
    fields = [field.strip() for field in line.split("|")]
    try:
        job, word, cores, count, partitions, nodes, preempted, ends, submitted, reason, *_ = fields
        return SlurmJob(
            job,
            word,
            int(cores),
            int(count),
            frozenset(partitions.split(",")),
            () if nodes in _NOTHING else expand_node_list(nodes),
            _time(preempted),
            _time(ends),
            _time(submitted),
            None if reason in _NOTHING else reason,
        )
    except ValueError as error:
        raise InstanceError(f"squeue printed something else than jobs: {line[:200]!r}") from error


def _time(text: str) -> float | None:
    return None if text in _NOTHING else float(text)


def _parts(nodes: str) -> Iterable[str]:
    """Split a list of nodes at the commas outside brackets."""
    return [part for part in re.split(r",(?![^\[]*\])", nodes) if part]


def _expanded(part: str) -> Iterator[str]:
    ranges = _RANGES.search(part)
    if ranges is None:
        yield part
        return
    for numbers in ranges[1].split(","):
        first, _, last = numbers.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield from _expanded(f"{part[: ranges.start()]}{number:0{len(first)}}{part[ranges.end() :]}")
