"""Recovery of an owner: journal, archive and snapshots are reconciled, and folded into its state.

Redis may have come back without its last entries, or with none: what the archive has beyond them is written
back. The archive may lack what was committed just before a crash, or while another machine ran the owner:
that is taken from the journal. Where both went on from one point, each with entries of its own, they cannot
be joined again: the journal counts, and the log names the entries that only the archive has
(``spotfed journal verify`` finds them too).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

import structlog

from broker.contract import Event
from broker.journal.archive import Archive, ArchiveError
from broker.journal.entries import EVENTS_KEPT, JOURNAL_KEPT, NotWrittenError, sequence_of
from broker.journal.hash_chain import BEGINNING, ChainedEntry, parse_entry_id
from broker.journal.journal import FencedError, Journal, JournalError
from cloudsim.model.requests import Kind
from workers.owner import snapshots
from workers.owner.owner import Owner
from workers.owner.snapshots import Snapshot, SnapshotError, SnapshotHead
from workers.owner.state import OwnerSpec, OwnerState

_BATCH = 500
#: Entries that a standby copies between two looks at the owner's lease.
_COPIED = 20_000

Item = TypeVar("Item")

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Recovered:
    """A recovered owner, the last entry of its journal, and how many entries were folded."""

    owner: Owner
    last_id: str
    last_hash: str
    folded: int


class Recovery:
    """Recovers the owner of one cloud, for a process that holds its lease.

    ``archive`` is that of its journal, if there is one.
    """

    def __init__(
        self,
        journal: Journal,
        archive: Archive | None,
        journal_kept: int = JOURNAL_KEPT,
        events_kept: int = EVENTS_KEPT,
    ):
        self._journal, self._archive = journal, archive
        self._journal_kept, self._events_kept = journal_kept, events_kept
        self._last_id, self._last_hash, self._folded = "0-0", BEGINNING, 0
        self._first_id = ""  # of the journal, when its snapshot was copied last

    def run(self, spec: OwnerSpec, token: str, epoch: int) -> Recovered:
        """Return the recovered owner. Raises JournalError, Fenced, redis.RedisError; may be called again."""
        try:
            self._reconcile(token, epoch)
            owner = self._fold(spec, epoch)
            if self._archive is not None:
                self._restore_leases(token, epoch, owner.state)
        except NotWrittenError as error:
            raise (FencedError if error.fenced else JournalError)(str(error)) from error
        except ArchiveError as error:
            raise JournalError(f"cloud {self._journal.cloud}: {error}") from error
        return Recovered(owner, self._last_id, self._last_hash, self._folded)

    def read(self, spec: OwnerSpec) -> Owner:
        """Return the owner as its journal has it, without a write. Raises JournalError, redis.RedisError."""
        try:
            return self._fold(spec, 0)
        except (ArchiveError, OSError) as error:
            raise JournalError(f"cloud {self._journal.cloud}: {error}") from error

    def _fold(self, spec: OwnerSpec, epoch: int) -> Owner:
        snapshot, state = self._snapshot(), None
        self._last_id, self._last_hash, self._folded = "0-0", BEGINNING, 0
        if snapshot is not None:
            state = snapshots.restored(spec, snapshot)
            self._last_id, self._last_hash = snapshot.head.id, snapshot.head.hash
        return Owner.recover(spec, epoch, self._events(whole=snapshot is None), state)

    # -- journal and archive -----------------------------------------------------------------------------

    def mend_archive(self, token: str, epoch: int) -> bool:
        """Open an archive again that failed, or whose files are gone, and give it what the journal has.

        Return False if it now lacks entries that are nowhere else, or still cannot be written. Raises
        JournalError, FencedError, redis.RedisError; may be called again.
        """
        archive, entries = self._archive, self._journal.entries
        assert archive is not None
        try:
            if lost := archive.lost():
                log.error("files of the archive are gone", cloud=self._journal.cloud, files=lost)
            self._reconcile(token, epoch)
            if not archive.is_open:
                return False
            if segments := [name for name in lost if name != "snapshot"]:
                archive.rebuild(segments, entries.after())
            if "snapshot" in lost and (snapshot := entries.snapshot()) is not None:
                archive.write_snapshot(snapshot)
            first = entries.first()
            if not segments or (first is not None and first.place <= parse_entry_id(segments[0])):
                return True
            log.error("entries of the journal are lost", cloud=self._journal.cloud, before=first and first.id)
        except NotWrittenError as error:
            raise (FencedError if error.fenced else JournalError)(str(error)) from error
        except (OSError, ArchiveError) as error:
            log.error("archive not usable", cloud=self._journal.cloud, why=str(error))  # noqa: TRY400
            archive.abandon()
        return False

    def copy_journal(self) -> None:
        """Give the archive what is new in the journal, with its snapshot, while another process is the owner.

        It stops after some entries, so that the owner's lease is looked at meanwhile. Raises ArchiveError,
        OSError, redis.RedisError; may be called again.
        """
        archive, entries = self._archive, self._journal.entries
        assert archive is not None
        if not archive.is_open:
            archive.open()
        last, first = archive.last, entries.first()
        if first is None:
            return
        # An archive must reach back to its snapshot. So one that begins late gets that of the journal, which
        # is replaced as the journal is cut.
        snapshot = entries.snapshot() if first.id != self._first_id else None
        is_behind = last is not None and first.place > last.place
        newer = entries.after("0-0" if last is None else last.id)
        entry = next(newer, None)
        if last is not None and entry is not None and entry.hash and not entry.continues(last.hash):
            if not is_behind:
                raise ArchiveError(f"journal entry {entry.id} does not continue {last.id} of the archive")
            log.warning("archive has a gap", cloud=self._journal.cloud, after=last.id, before=entry.id)
            archive.open()  # what fills the gap comes between two segments
        if entry is not None:
            self._add(islice(chain([entry], newer), _COPIED))
            archive.sync()
        if snapshot is not None and next(newer, None) is None:
            archive.write_snapshot(snapshot)
            self._first_id = first.id

    def _reconcile(self, token: str, epoch: int) -> None:
        """Give journal and archive each what only the other has."""
        archive, entries = self._archive, self._journal.entries
        if archive is None:
            return
        try:
            archive.open()
            head, last = entries.head(), archive.last
            if last is None:
                self._add(entries.after())
            elif head is None:
                self._write_back(token, epoch, "", self._tail(archive))
            elif head.place < last.place:
                if archive.get(head.id) == head:
                    self._write_back(token, epoch, head.hash, archive.entries(head.place))
                else:
                    self._log_fork(head, last)
            else:
                self._compare_last(last)
                self._add(entries.after(last.id))
        except OSError as error:
            log.error("archive not usable", cloud=self._journal.cloud, why=str(error))  # noqa: TRY400
            archive.abandon()

    def _compare_last(self, last: ChainedEntry) -> None:
        """Log which entries only the archive has, or which it will lack."""
        entries = self._journal.entries
        journaled, first = entries.get(last.id), entries.first()
        if journaled is None and first is not None and first.place > last.place:
            if not first.continues(last.hash):
                log.error("archive has a gap", cloud=self._journal.cloud, after=last.id, before=first.id)
        elif journaled != last:
            self._log_fork(journaled or last, last)

    def _log_fork(self, head: ChainedEntry, last: ChainedEntry) -> None:
        log.error(
            "entries are in the archive only: the journal went on without them",
            cloud=self._journal.cloud,
            journal=head.id,
            archive=last.id,
            directory=str(self._archive and self._archive.directory),
        )

    def _add(self, entries: Iterable[ChainedEntry]) -> None:
        assert self._archive is not None
        for batch in _batches(entries):
            self._archive.append(batch)

    def _write_back(self, token: str, epoch: int, before: str, entries: Iterable[ChainedEntry]) -> None:
        count, span = 0, {"cloud": self._journal.cloud}
        for batch in _batches(entries):
            self._journal.entries.restore(token, epoch, before, batch, events_kept=self._events_kept)
            before, count = batch[-1].hash, count + len(batch)
            span = {"first": batch[0].id, **span, "last": batch[-1].id}
        log.warning("redis had lost entries: written back", count=count, **span)

    def _restore_leases(self, token: str, epoch: int, state: OwnerState) -> None:
        """Write the open spot leases to Redis, which may have lost them."""
        leases = (lease for lease in state.answer_log.open_leases() if lease.kind is Kind.SPOT)
        for batch in _batches(leases):
            self._journal.entries.restore(token, epoch, BEGINNING, (), batch, self._events_kept)

    def _tail(self, archive: Archive) -> list[ChainedEntry]:
        """Return the entries that a journal keeps.

        They are the newest ones, all after the snapshot, and enough to find a public event to count from.
        """
        packed = archive.snapshot()
        try:
            snapshot_head = None if packed is None else snapshots.head_of(packed)
        except SnapshotError:
            snapshot_head = None  # then the whole archive is needed
        tail: list[ChainedEntry] = []
        counted = snapshot_head is None or not snapshot_head.sequence
        for entry in archive.backwards():
            enough = len(tail) >= self._journal_kept and counted
            if enough and snapshot_head is not None and entry.place < snapshot_head.after:
                break
            tail.append(entry)
            counted = counted or sequence_of(entry.body) is not None
        return tail[::-1]

    # -- the fold ----------------------------------------------------------------------------------------

    def _snapshot(self) -> Snapshot | None:
        """Return the latest snapshot that is part of the journal's history, or None."""
        usable: list[Snapshot] = []
        for packed in (self._journal.entries.snapshot(), self._archive.snapshot() if self._archive else None):
            if packed is None:
                continue
            try:
                if self._belongs(snapshots.head_of(packed)):
                    usable.append(snapshots.unpack(packed))
            except SnapshotError as error:
                log.warning("snapshot not used", cloud=self._journal.cloud, why=str(error))
        return max(usable, key=lambda snapshot: snapshot.head.after, default=None)

    def _belongs(self, head: SnapshotHead) -> bool:
        entry = self._journal.entries.get(head.id)
        if entry is not None:
            return entry.hash == head.hash
        first = self._journal.entries.first()
        return first is not None and first.place > head.after and first.continues(head.hash)

    def _events(self, *, whole: bool) -> Iterator[Event]:
        """Yield all events after the last known entry, and note which entry was the last."""
        entries = self._journal.entries.after(self._last_id)
        for entry in self._from_the_beginning(entries) if whole else entries:
            if entry.hash and not entry.continues(self._last_hash):
                raise JournalError(
                    f"cloud {self._journal.cloud}: journal entry {entry.id} does not continue "
                    f"{self._last_id}; see `spotfed journal verify`"
                )
            self._last_id, self._last_hash = entry.id, entry.hash
            self._folded += 1
            yield self._journal.event_of(entry)

    def _from_the_beginning(self, entries: Iterator[ChainedEntry]) -> Iterator[ChainedEntry]:
        """Yield all entries, those that were trimmed from the journal out of the archive."""
        first = next(entries, None)
        if first is None:
            return entries
        if first.place[1] == 1 and (not first.hash or first.continues(BEGINNING)):
            return chain([first], entries)
        archived = None if self._archive is None else next(self._archive.entries(), None)
        if self._archive is None or archived is None or archived.place >= first.place:
            raise JournalError(
                f"cloud {self._journal.cloud}: the journal begins with {first.id}, and neither a snapshot "
                "nor an archive on this machine says what was before: start the owner where its archive is"
            )
        log.warning("no snapshot: reading the whole archive", cloud=self._journal.cloud)
        before = (entry for entry in self._archive.entries() if entry.place < first.place)
        return chain(before, [first], entries)


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    left = iter(items)
    while batch := list(islice(left, _BATCH)):
        yield batch
