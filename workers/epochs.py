"""The last epoch of a cloud that this machine opened, in a local file: a floor if Redis loses its count."""

from __future__ import annotations

import os
from pathlib import Path


class EpochFile:
    """One number in one file; it only grows."""

    def __init__(self, directory: Path, cloud: str):
        self._path = directory / cloud

    def read(self) -> int:
        """The last epoch, 0 if none was written."""
        try:
            return int(self._path.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return 0

    def write(self, epoch: int) -> None:
        """Returns when the number is on the disk."""
        if epoch <= self.read():
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(f".{os.getpid()}")
        with draft.open("w", encoding="ascii") as file:
            file.write(str(epoch))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
