"""The interface of drivers, which run pieces of work on the instances of one cloud.

A driver keeps work from its start until it is told to forget it, across restarts of its own process. All
calls may be repeated, and made from several threads; calls about unknown work do nothing.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from broker.jobs.models import Usage, Work


class DriverError(Exception):
    """The driver cannot do it; the message tells the user of the job why."""


class StopCause(StrEnum):
    """Reasons for which a driver ends work."""

    EVICTED = "evicted"
    SAVED = "saved"
    STOPPED = "stopped"
    TOO_LARGE = "too-large"  # in memory
    TOO_MUCH_DISK = "too-much-disk"
    DISK_FULL = "disk-full"  # and it used most of it


@dataclass(frozen=True)
class RunningWork:
    """Work that has not ended.

    started_at: when its command began, in seconds since 1970; None while it is being restored. noticed_at:
    when it was warned.
    """

    started_at: float | None
    usage: Usage
    noticed_at: float | None = None


@dataclass(frozen=True)
class EndedWork:
    """Work that has ended.

    code: the exit status as a shell gives it, 128 and the signal's number where a signal ended it; None if
    ``why`` says more. at: when it ended, in seconds since 1970. cause: why the driver ended it; None if it
    ended by itself.
    """

    code: int | None
    at: float
    started_at: float | None
    usage: Usage
    noticed_at: float | None = None
    cause: StopCause | None = None
    why: str | None = None


@dataclass(frozen=True)
class StoredCheckpoint:
    """A complete checkpoint of a piece of work.

    number: from 1, within its work. at: it contains the work done until then. last: True if it was saved to
    end the work, so that none will follow.
    """

    number: int
    at: float
    gb: float
    last: bool = False


class WorkDriver(Protocol):
    """Runs commands. Its methods raise only DriverError."""

    def list_work(self) -> list[str]:
        """Return the ids of all work that was started and not forgotten."""

    def start(self, work: Work) -> None:
        """Start the work, from the checkpoint that it names, unless it was started before."""

    def give_notice(self, work: str) -> None:
        """Warn the work once, by SIGTERM to its processes."""

    def save_checkpoint(self, work: str, abandon: threading.Event, *, last: bool = False) -> StoredCheckpoint:
        """Save a checkpoint of the work, by its save command if it has one; the last two are kept.

        Raises
        ------
        DriverError
            When it cannot be saved, or ``abandon`` is set meanwhile.
        """

    def last_checkpoint(self, work: str) -> StoredCheckpoint | None:
        """Return the newest complete checkpoint of the work, None if there is none."""

    def stop(self, work: str, cause: StopCause) -> None:
        """Kill all its processes at once. The first cause is the one that counts."""

    def inspect(self, work: str) -> RunningWork | EndedWork | None:
        """Return how the work stands, None if it is unknown."""

    def written_bytes(self, work: str) -> int:
        """Return how many bytes the work has written to standard output and error."""

    def read_log(self, work: str, most_bytes: int) -> tuple[int, bytes]:
        """Return the end of its output, after the number of bytes that come before it."""

    def forget(self, work: str) -> None:
        """Kill what is left of the work and free its resources; its checkpoints stay."""
