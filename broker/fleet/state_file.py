"""The file of a fleet, with which the next process goes on where this one was killed."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from broker.contract import SpotRequest
from broker.contract.launch import REVEAL
from broker.storage.private_files import write_private_file

FleetName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]


class FleetError(Exception):
    """A fleet cannot be kept; the message says what to do."""


class FleetBusyError(FleetError):
    """Another process on this machine keeps the fleet; ``pid`` is its id, if known."""

    def __init__(self, name: str, pid: int | None):
        super().__init__(f"fleet {name} is kept by process {pid or 'unknown'} on this machine")
        self.pid = pid


def _token() -> str:
    return secrets.token_hex(3)


class SavedFleet(BaseModel):
    """The content of a fleet's file.

    token: makes request ids differ from those of a file that was lost. next: number of the next request.
    asked: requests that were sent, or were about to be, and have no answer yet. held: ids of leases whose
    start was seen, and whose end was not.
    """

    token: str = Field(default_factory=_token)
    next: int = 1
    asked: list[SpotRequest] = []
    held: list[str] = []


def request_prefix(name: str) -> str:
    """Return the beginning of the ids of all requests of a fleet."""
    return f"fleet/{name}/"


class FleetFile:
    """Stores the state of one fleet; ``lock`` must be held for everything else."""

    def __init__(self, directory: Path, name: str):
        self._name = name
        self._path = directory / "fleets" / f"{name}.json"
        self._lock_path = self._path.with_suffix(".lock")

    @contextmanager
    def lock(self) -> Iterator[SavedFleet]:
        """Hold the lock of the fleet on this machine; yield what was saved.

        Raises
        ------
        FleetBusyError
            When another process holds the lock.
        FleetError
            When the file cannot be read.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FleetBusyError(self._name, self._pid()) from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield self._read()
        finally:
            os.close(descriptor)

    def save(self, fleet: SavedFleet) -> None:
        """Replace the file, which only its user can read: requests have the secrets of their launches."""
        write_private_file(self._path, fleet.model_dump_json(context=REVEAL))

    def delete(self) -> None:
        """Delete the file, once the fleet has no lease and no unanswered request."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> SavedFleet:
        try:
            return SavedFleet.model_validate_json(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return SavedFleet()
        except (OSError, ValidationError) as error:
            raise FleetError(
                f"{self._path} cannot be read: move it away, and the fleet is found by its leases ({error})"
            ) from error

    def _pid(self) -> int | None:
        text = self._lock_path.read_text(encoding="utf-8")
        return int(text) if text.isdigit() else None
