"""Ownership of a cloud: the lease, the epoch, and the commits that both allow."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import redis
import structlog

from broker.contract import Advert, Reply
from broker.failpoints import Failpoint, failpoint
from broker.journal.archive import Archive, ArchiveError
from broker.journal.entries import NotWrittenError
from broker.journal.hash_chain import BEGINNING, ChainedEntry
from broker.journal.journal import Commit, FencedError, Journal, JournalError
from broker.settings import Settings
from broker.storage.outages import until_answered
from workers.owner.epoch_file import EpochFile
from workers.owner.event_writer import Decisions

log = structlog.get_logger(__name__)


class OwnerLease:
    """The lease that makes this process the owner of a cloud, and the only writer of its epoch."""

    def __init__(self, journal: Journal, ttl_s: float, epoch_directory: Path, archive: Archive | None = None):
        """Prepare the lease of ``ttl_s`` seconds; ``begin`` acquires it.

        epoch_directory: of the local files that remember the last epochs. archive: where to copy what is
        committed, if anywhere.
        """
        self._journal, self._ttl_s, self._archive = journal, ttl_s, archive
        self.token = f"{journal.cloud}-{uuid.uuid4()}"
        self._file = EpochFile(epoch_directory, journal.cloud)
        self._next = 1  # number of the next event in this epoch
        self._over = threading.Event()
        self.epoch = 0
        self.last_id, self.last_hash = "0-0", BEGINNING  # of the latest entry that the owner's state holds

    def begin(self, look: Callable[[], None] = lambda: None) -> bool:
        """Open the next epoch once no other process is the owner; ``keep`` must then keep the lease.

        ``look`` is called again and again while another one is. Returns whether one was.
        """
        archived_epoch, waiting = self._read_archived_epoch(), False
        while (epoch := until_answered(lambda: self._acquire(archived_epoch))) is None:
            if not waiting:
                waiting = True
                log.warning(
                    "another process owns this cloud; waiting for its lease", cloud=self._journal.cloud
                )
            look()
            time.sleep(self._ttl_s / 4)
        failpoint(Failpoint.OWNER_ACQUIRED)
        self.epoch = epoch
        self._file.write(epoch, self.token)
        return waiting

    def _acquire(self, archived_epoch: int) -> int | None:
        last = None if self._archive is None else self._archive.last
        floor = max(self._file.read(), archived_epoch, 0 if last is None else last.place[0])
        return self._journal.acquire(self.token, self._ttl_s, floor, self._file.dead())

    def _read_archived_epoch(self) -> int:
        if self._archive is not None:
            with suppress(OSError, ArchiveError):  # recovery says what is wrong with it
                archived = self._archive.newest()
                return archived.place[0] if archived else 0
        return 0

    def continue_after(self, last_id: str, last_hash: str) -> None:
        """Name the journal entry that the next commit continues."""
        self.last_id, self.last_hash = last_id, last_hash

    def keep(self, fenced: Callable[[FencedError], None]) -> None:
        """Renew the lease until ``end``, on a thread of its own; call ``fenced`` when it is lost."""
        while not self._over.wait(self._ttl_s / 3):
            try:
                self._journal.renew(self.token, self.epoch, self._ttl_s)
            except FencedError as error:
                if not self._over.is_set():
                    fenced(error)
                return
            except redis.RedisError as error:
                log.info("lease not renewed", cloud=self._journal.cloud, why=str(error))

    def end(self) -> None:
        """Give the lease up, so that the next owner need not wait."""
        self._over.set()
        try:
            self._journal.give_up(self.token, self.epoch)
        except redis.RedisError as error:
            log.info("lease left to run out", cloud=self._journal.cloud, why=str(error))

    def write(self, decisions: Decisions, cursor: str | None, advert: Advert | None) -> None:
        """Commit what the owner decided, waiting while Redis is away.

        cursor: the last inbox entry that the decisions complete. Raises Fenced and JournalError.
        """
        replies: defaultdict[str, list[Reply]] = defaultdict(list)
        for stream, reply in decisions.replies:
            replies[stream].append(reply)
        commit = Commit(
            epoch=self.epoch,
            token=self.token,
            ttl_s=self._ttl_s,
            first=self._next,
            events=decisions.events,
            cursor=cursor,
            replies=dict(replies),
            leases=decisions.leases,
            advert=advert,
            overflow=[json.dumps(item) for item in decisions.overflow],
            after=self.last_hash,
        )
        failpoint(Failpoint.OWNER_COMMITTING, (event.kind for event in decisions.events))
        until_answered(lambda: self._journal.commit(commit))
        failpoint(Failpoint.OWNER_COMMITTED, (event.kind for event in decisions.events))
        self._next += len(decisions.events)
        if entries := self._journal.link(commit):
            self.continue_after(entries[-1].id, entries[-1].hash)
            self._add_to_archive(entries)

    def _add_to_archive(self, entries: list[ChainedEntry]) -> None:
        archive = self._archive
        if archive is None or not archive.is_open:
            return
        try:
            archive.append(entries)
        except OSError as error:
            self.abandon_archive(error)

    def abandon_archive(self, error: OSError) -> None:
        """Stop writing to an archive that failed; the journal is not cut until it has caught up."""
        log.error("archive not written", cloud=self._journal.cloud, why=str(error))
        if self._archive is not None:
            self._archive.abandon()

    def cut(self, snapshot: bytes, place: tuple[int, int], settings: Settings) -> None:
        """Store a snapshot of the state after ``place``, and cut the journal behind it.

        Raises Fenced and JournalError.
        """
        kept = (settings.journal_kept, settings.events_kept)
        try:
            self._journal.entries.keep(self.token, self.epoch, snapshot, place, *kept)
        except NotWrittenError as error:
            raise (FencedError if error.fenced else JournalError)(str(error)) from error
