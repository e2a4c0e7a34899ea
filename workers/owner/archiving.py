"""An owner's archive while it runs: synced every so often, and the journal in Redis cut behind a snapshot."""

from __future__ import annotations

import threading

import structlog

from broker.archive import SYNC_S, Archive
from broker.settings import Settings
from workers.owner import snapshots
from workers.owner.ownership import OwnerLease
from workers.owner.snapshots import Snapshot

log = structlog.get_logger(__name__)


class Archiver:
    """Of one owner; without an archive nothing is ever cut."""

    def __init__(self, archive: Archive | None, tenure: OwnerLease, settings: Settings):
        self._archive, self._tenure, self._settings = archive, tenure, settings

    def start(self, stopping: threading.Event) -> None:
        """Begins to sync."""
        if self._archive is not None:
            told = (self._archive, stopping)
            threading.Thread(target=self._sync, args=told, name="archive", daemon=True).start()

    def _sync(self, archive: Archive, stopping: threading.Event) -> None:
        while not stopping.wait(SYNC_S):
            try:
                archive.sync()
            except OSError as error:
                self._tenure.archive_failed(error)

    def due(self, entries: int) -> bool:
        """Whether there should be a snapshot after so many entries without one."""
        return self._archive is not None and entries >= self._settings.snapshot_every

    @property
    def lags(self) -> bool:
        """Whether the archive lacks entries: it was given up after an error, and is to be opened again."""
        return self._archive is not None and not self._archive.is_open

    def secure(self, snapshot: Snapshot) -> bytes | None:
        """A snapshot as bytes, on the disk with all entries up to it; None: it could not be written."""
        assert self._archive is not None
        packed = snapshots.pack(snapshot)
        try:
            synced = self._archive.sync()
            if synced is None or synced.place < snapshot.held.after:
                return None
            self._archive.write_snapshot(packed)
        except OSError as error:
            self._tenure.archive_failed(error)
            return None
        return packed

    def close(self) -> None:
        """What was appended is on the disk."""
        if self._archive is not None:
            try:
                self._archive.close()
            except OSError as error:
                self._tenure.archive_failed(error)
