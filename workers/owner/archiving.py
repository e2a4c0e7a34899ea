"""Archiving of a journal: the archive is synced regularly, the journal in Redis cut behind a snapshot."""

from __future__ import annotations

import threading
import time

from broker.journal.archive import SYNC_S, Archive
from broker.settings import Settings
from workers.owner import snapshots
from workers.owner.ownership import OwnerLease
from workers.owner.snapshots import Snapshot

#: Seconds between two looks whether all files of the archive are there.
LOOK_S = 10.0


class Archiver:
    """Syncs the archive of one owner and stores its snapshots; without an archive nothing is ever cut."""

    def __init__(self, archive: Archive | None, lease: OwnerLease, settings: Settings):
        self._archive, self._lease, self._settings = archive, lease, settings
        self._look_s = time.monotonic() + LOOK_S

    def start(self, stopping: threading.Event) -> None:
        """Begin to sync, on a thread of its own, until ``stopping`` is set."""
        if self._archive is not None:
            arguments = (self._archive, stopping)
            threading.Thread(target=self._sync, args=arguments, name="archive", daemon=True).start()

    def _sync(self, archive: Archive, stopping: threading.Event) -> None:
        while not stopping.wait(SYNC_S):
            try:
                archive.sync()
            except OSError as error:
                self._lease.abandon_archive(error)

    def due(self, entries: int) -> bool:
        """Return whether a snapshot is due, ``entries`` after the last one."""
        return self._archive is not None and entries >= self._settings.snapshot_every

    def needs_mending(self, *, at_once: bool = False) -> bool:
        """Return whether the archive failed, or files of it are gone.

        It looks every ``LOOK_S`` seconds, or ``at_once``.
        """
        now_s = time.monotonic()
        if self._archive is None or (now_s < self._look_s and not at_once):
            return False
        self._look_s = now_s + LOOK_S
        return not self._archive.is_open or bool(self._archive.lost())

    def secure(self, snapshot: Snapshot) -> bytes | None:
        """Write a snapshot to the disk, with all entries up to it.

        Returns its bytes, or None if it could not be written.
        """
        assert self._archive is not None
        packed = snapshots.pack(snapshot)
        try:
            synced = self._archive.sync()
            if synced is None or synced.place < snapshot.head.after:
                return None
            self._archive.write_snapshot(packed)
        except OSError as error:
            self._lease.abandon_archive(error)
            return None
        return packed

    def close(self) -> None:
        """Close the archive; everything that was appended is then on the disk."""
        if self._archive is not None:
            try:
                self._archive.close()
            except OSError as error:
                self._lease.abandon_archive(error)
