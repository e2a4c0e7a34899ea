"""What the shim is told, and what it wrote: the files in the directory of a piece of work's state."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Task:
    """resume: run before the command. directory: where both run. cpus: of this machine. uid: of a user that
    is nobody else's; ``alone``: all its processes belong to the command. hidden: directories of which it sees
    only ``writes``. reads: None: all that its user may; else it reads there and in ``writes`` only."""

    command: tuple[str, ...]
    resume: tuple[str, ...] | None
    environment: dict[str, str]
    directory: str
    cpus: tuple[int, ...]
    memory_mb: int | None
    uid: int | None
    alone: bool
    hidden: tuple[str, ...]
    reads: tuple[str, ...] | None
    writes: tuple[str, ...]

    def write(self, state: Path) -> None:
        """Where the shim reads it."""
        write_json(state / "task.json", asdict(self))


@dataclass(frozen=True)
class TaskStart:
    """The processes of a task; ``ticks``: when they began. at: when its command did, seconds since 1970."""

    shim: int
    shim_ticks: int
    boot: str
    pid: int | None
    pid_ticks: int | None
    at: float | None


@dataclass(frozen=True)
class TaskOutcome:
    """How a task ended, see `workers.node_agent.process.driver_protocol.EndedWork`."""

    at: float
    code: int | None
    why: str | None
    cpu_s: float
    peak_memory_gb: float


def read_start(state: Path) -> TaskStart | None:
    """None: it never began."""
    found = read_json(state / "started.json")
    return None if found is None else TaskStart(**found)


def read_outcome(state: Path) -> TaskOutcome | None:
    """None: it has not ended."""
    found = read_json(state / "ended.json")
    return None if found is None else TaskOutcome(**found)


def shim_lives(state: Path) -> bool:
    """Whether there is a shim at work in that directory."""
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
    """None where there is no such file."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all, and on the disk."""
    draft = path.with_name(f".{path.name}.draft")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    fsync_directory(path.parent)


def fsync_directory(path: Path) -> None:
    """Its names reach the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def log_tail(state: Path, most_bytes: int) -> tuple[int, bytes]:
    """The end of the output, and how many bytes were written before it."""
    parts = sorted((int(path.name[4:]), path) for path in state.glob("log.*"))
    found = []
    for start, path in parts:
        with contextlib.suppress(FileNotFoundError):  # cut off meanwhile
            found.append((start, path.read_bytes()))
    if not found:
        return 0, b""
    text = b"".join(part for _, part in found)
    cut = max(0, len(text) - most_bytes)
    return found[0][0] + cut, text[cut:]


def log_end(state: Path) -> int:
    """How many bytes were written in all."""
    ends = [0]
    for path in state.glob("log.*"):
        with contextlib.suppress(FileNotFoundError):
            ends.append(int(path.name[4:]) + path.stat().st_size)
    return max(ends)
