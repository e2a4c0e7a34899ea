"""Read and write the files through which driver and shim talk, in the state directory of a piece of work."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_SMALL_FILE = 4_096


@dataclass(frozen=True)
class Task:
    """A task that the shim is to carry out.

    resume: runs before the command. directory: where both run. temporary: for its temporary files. cpus: CPUs
    of this machine. processes: how many it may have, threads included. uid: a user of its own. alone: True if
    all processes of that user belong to the command. namespaces: those that it has of its own, see
    `workers.node_agent.process.sandbox`. beside: the process whose namespaces it joins instead, and when that
    began. hidden: directories of which it sees only ``shown``. reads: None for all that its user may read;
    else it can read only there and in ``writes``. sockets: those that are refused, "local" or "all". keys:
    True if it may use keyrings of the kernel.
    """

    command: tuple[str, ...]
    resume: tuple[str, ...] | None
    environment: dict[str, str]
    directory: str
    temporary: str
    cpus: tuple[int, ...]
    memory_mb: int | None
    processes: int
    uid: int | None
    alone: bool
    namespaces: tuple[str, ...]
    beside: tuple[int, int] | None
    hidden: tuple[str, ...]
    shown: tuple[str, ...]
    reads: tuple[str, ...] | None
    writes: tuple[str, ...]
    sockets: str | None
    keys: bool

    def write(self, state: Path) -> None:
        """Write the task where the shim reads it."""
        write_json(state / "task.json", asdict(self))


@dataclass(frozen=True)
class TaskStart:
    """The processes of a task.

    ticks: when they began. at: when the command began, in seconds since 1970.
    """

    shim: int
    shim_ticks: int
    boot: str
    pid: int | None
    pid_ticks: int | None
    at: float | None


@dataclass(frozen=True)
class TaskOutcome:
    """The end of a task; see `workers.node_agent.process.driver_protocol.EndedWork`."""

    at: float
    code: int | None
    why: str | None
    cpu_s: float
    peak_memory_gb: float


def read_start(state: Path) -> TaskStart | None:
    """Return how the task began, None if it never did."""
    content = read_json(state / "started.json")
    return None if content is None else TaskStart(**content)


def read_outcome(state: Path) -> TaskOutcome | None:
    """Return how the task ended, None if it has not."""
    content = read_json(state / "ended.json")
    return None if content is None else TaskOutcome(**content)


def shim_lives(state: Path) -> bool:
    """Return True while a shim works in that directory."""
    try:
        descriptor = os.open(state / "lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON file, None if it does not exist."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return content


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file whole or not at all, and flush it to the disk.

    It is written over what ``reserve_file`` has written, so that a full disk has room for it.
    """
    draft = path.with_name(f".{path.name}.draft")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        json.dump(content, file)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    fsync_directory(path.parent)


def reserve_file(path: Path) -> None:
    """Reserve room for a small JSON file that is to be written when the disk may be full."""
    with os.fdopen(
        os.open(path.with_name(f".{path.name}.draft"), os.O_WRONLY | os.O_CREAT, 0o600), "w"
    ) as file:
        file.write(" " * _SMALL_FILE)
        file.flush()
        os.fsync(file.fileno())


def fsync_directory(path: Path) -> None:
    """Flush the names in a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def log_tail(state: Path, most_bytes: int) -> tuple[int, bytes]:
    """Return the end of the output, after the number of bytes that were written before it."""
    parts = sorted((int(path.name[4:]), path) for path in state.glob("log.*"))
    parts_read = []
    for start, path in parts:
        with contextlib.suppress(FileNotFoundError):  # cut off meanwhile
            parts_read.append((start, path.read_bytes()))
    if not parts_read:
        return 0, b""
    text = b"".join(part for _, part in parts_read)
    cut = max(0, len(text) - most_bytes)
    return parts_read[0][0] + cut, text[cut:]


def log_end(state: Path) -> int:
    """Return how many bytes were written in all."""
    ends = [0]
    for path in state.glob("log.*"):
        with contextlib.suppress(FileNotFoundError):
            ends.append(int(path.name[4:]) + path.stat().st_size)
    return max(ends)
