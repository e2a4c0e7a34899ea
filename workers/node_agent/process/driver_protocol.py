"""What every driver does: run pieces of work on the instances of one cloud, and keep states of them.

A driver holds what it was told to start until it is told to forget it, across ends of its own process. All
calls may be made again, and from several threads; calls about work that is not held do nothing.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from broker.jobs.models import Usage, Work


class DriverError(Exception):
    """It cannot be done; the message says why, for the user of the job."""


class StopCause(StrEnum):
    """Why a driver ended work that had not ended by itself."""

    EVICTED = "evicted"
    SAVED = "saved"
    STOPPED = "stopped"
    TOO_LARGE = "too-large"  # in memory


@dataclass(frozen=True)
class RunningWork:
    """started_at: when its command began, seconds since 1970; None: it is being restored.

    noticed_at: when it was warned.
    """

    started_at: float | None
    usage: Usage
    noticed_at: float | None = None


@dataclass(frozen=True)
class EndedWork:
    """code: as a shell tells it, 128 and the signal's number where one ended it; None: see ``why``.

    cause: what the driver ended it for; None: nothing, it ended by itself.
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
    """A state that was kept whole. number: from 1 on, within its work. at: what was done until then is in it.

    last: it was kept to end the work, so there is nothing to come.
    """

    number: int
    at: float
    gb: float
    last: bool = False


class WorkDriver(Protocol):
    """Runs commands. What it raises are DriverErrors."""

    def held(self) -> list[str]:
        """Ids of all work that was started and not forgotten."""

    def start(self, work: Work) -> None:
        """Starts it, with the state that it is to be restored from; what was started before is not again."""

    def notice(self, work: str) -> None:
        """Warns it, once: SIGTERM to its processes."""

    def keep(self, work: str, abandon: threading.Event, *, last: bool = False) -> StoredCheckpoint:
        """Keeps its state as it is now, by its save command where it has one; the last two stay.

        Nothing is kept if ``abandon`` is set on the way: that too is a DriverError.
        """

    def last_kept(self, work: str) -> StoredCheckpoint | None:
        """The newest state of it that was kept whole."""

    def stop(self, work: str, cause: StopCause) -> None:
        """Kills all its processes at once. The first cause stays."""

    def look(self, work: str) -> RunningWork | EndedWork | None:
        """How it stands; None: it is not held."""

    def written(self, work: str) -> int:
        """How many bytes it has written to standard output and error."""

    def log(self, work: str, most_bytes: int) -> tuple[int, bytes]:
        """The end of what it wrote, and how many bytes it had written before that."""

    def forget(self, work: str) -> None:
        """Kills what is left of it and frees what it had; states that were kept stay."""
