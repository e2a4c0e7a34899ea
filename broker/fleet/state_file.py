"""What a fleet's keeper remembers on disk, so that the next one goes on where it was killed."""

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

FleetName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]


class FleetError(Exception):
    """A fleet cannot be kept; the message says what to do."""


class FleetBusyError(FleetError):
    """Another keeper keeps it on this machine, the process of this id."""

    def __init__(self, name: str, pid: int | None):
        super().__init__(f"fleet {name} is kept by process {pid or 'unknown'} on this machine")
        self.pid = pid


def _token() -> str:
    return secrets.token_hex(3)


class SavedFleet(BaseModel):
    """asked: requests that were sent, or were about to be, and have no answer yet. next: the number of the
    next one; token: makes ids of this file differ from those of one that was lost. held: leases whose start
    the keeper has seen, and whose end it has not."""

    token: str = Field(default_factory=_token)
    next: int = 1
    asked: list[SpotRequest] = []
    held: list[str] = []


def prefix_of(name: str) -> str:
    """Ids of all requests of the fleet begin so."""
    return f"fleet/{name}/"


class FleetFile:
    """The file of one fleet; ``alone`` before anything else is called."""

    def __init__(self, directory: Path, name: str):
        self._name = name
        self._path = directory / "fleets" / f"{name}.json"
        self._lock = self._path.with_suffix(".lock")

    @contextmanager
    def alone(self) -> Iterator[SavedFleet]:
        """What was kept, for the only keeper on this machine. Raises BusyError, FleetError."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
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

    def save(self, kept: SavedFleet) -> None:
        """All or nothing."""
        draft = self._path.with_suffix(".new")
        draft.write_text(kept.model_dump_json(), encoding="utf-8")
        draft.replace(self._path)

    def forget(self) -> None:
        """Nothing is left of the fleet."""
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
        text = self._lock.read_text(encoding="utf-8")
        return int(text) if text.isdigit() else None
