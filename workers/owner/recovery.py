"""The beginning of an owner: journal, archive and snapshots are made one, and folded into its state.

Redis may have come back without its last entries, or with none: what the archive has beyond them is written
back. The archive may lack what was committed just before a crash, or while another machine ran the owner:
that is taken from the journal. Where both went on from one point, each with entries of its own, nothing can
be put together again: the journal counts, and the entries that only the archive has are named in the log
(``spotfed journal verify`` finds them too).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

import structlog

from broker.archive import Archive, ArchiveError
from broker.chain import BEGINNING, Entry
from broker.contract import Event
from broker.entries import EVENTS_KEPT, JOURNAL_KEPT, NotWritten, sequence_of
from broker.journal import Fenced, Journal, JournalError
from cloudsim.requests import Kind
from workers.owner import snapshots
from workers.owner.owner import Owner
from workers.owner.snapshots import Held, Snapshot, SnapshotError
from workers.owner.state import OwnerSpec, OwnerState

_BATCH = 500

Item = TypeVar("Item")

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Recovered:
    """An owner, the entry its state ends with, and how many of them were folded."""

    owner: Owner
    last_id: str
    last_hash: str
    folded: int


class Recovery:
    """Of one cloud's owner, which holds the lease. ``archive`` None: there is none."""

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

    def run(self, spec: OwnerSpec, token: str, epoch: int) -> Recovered:
        """The owner. Raises JournalError, Fenced, redis.RedisError; may be called again."""
        try:
            self._reconcile(token, epoch)
            snapshot, state = self._snapshot(), None
            self._last_id, self._last_hash, self._folded = "0-0", BEGINNING, 0
            if snapshot is not None:
                state = snapshots.restored(spec, snapshot)
                self._last_id, self._last_hash = snapshot.held.id, snapshot.held.hash
            owner = Owner.recover(spec, epoch, self._events(whole=snapshot is None), state)
            if self._archive is not None:
                self._show(token, epoch, owner.state)
        except NotWritten as error:
            raise (Fenced if error.fenced else JournalError)(str(error)) from error
        except ArchiveError as error:
            raise JournalError(f"cloud {self._journal.cloud}: {error}") from error
        return Recovered(owner, self._last_id, self._last_hash, self._folded)

    # -- journal and archive -----------------------------------------------------------------------------

    def _reconcile(self, token: str, epoch: int) -> None:
        """Gives each what only the other has."""
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
                    self._forked(head, last)
            else:
                self._compare(last)
                self._add(entries.after(last.id))
        except OSError as error:
            log.error("archive not usable", cloud=self._journal.cloud, why=str(error))  # noqa: TRY400
            archive.abandon()

    def _compare(self, last: Entry) -> None:
        """Says what only the archive has, or what it will lack."""
        entries = self._journal.entries
        there, first = entries.get(last.id), entries.first()
        if there is None and first is not None and first.place > last.place:
            if not first.continues(last.hash):
                log.error("archive has a gap", cloud=self._journal.cloud, after=last.id, before=first.id)
        elif there != last:
            self._forked(there or last, last)

    def _forked(self, head: Entry, last: Entry) -> None:
        log.error(
            "entries are in the archive only: the journal went on without them",
            cloud=self._journal.cloud,
            journal=head.id,
            archive=last.id,
            directory=str(self._archive and self._archive.directory),
        )

    def _add(self, entries: Iterable[Entry]) -> None:
        assert self._archive is not None
        for batch in _batches(entries):
            self._archive.append(batch)

    def _write_back(self, token: str, epoch: int, before: str, entries: Iterable[Entry]) -> None:
        count, told = 0, {"cloud": self._journal.cloud}
        for batch in _batches(entries):
            self._journal.entries.restore(token, epoch, before, batch, events_kept=self._events_kept)
            before, count = batch[-1].hash, count + len(batch)
            told = {"first": batch[0].id, **told, "last": batch[-1].id}
        log.warning("redis had lost entries: written back", count=count, **told)

    def _show(self, token: str, epoch: int, state: OwnerState) -> None:
        """The leases that run, as they are: Redis may have lost them."""
        leases = (lease for lease in state.answer_log.open_leases() if lease.kind is Kind.SPOT)
        for batch in _batches(leases):
            self._journal.entries.restore(token, epoch, BEGINNING, (), batch, self._events_kept)

    def _tail(self, archive: Archive) -> list[Entry]:
        """What a journal keeps: the newest entries, all after the snapshot, a public event to count from."""
        packed = archive.snapshot()
        try:
            held = None if packed is None else snapshots.head_of(packed)
        except SnapshotError:
            held = None  # the whole archive is
        tail: list[Entry] = []
        counted = held is None or not held.sequence
        for entry in archive.backwards():
            if len(tail) >= self._journal_kept and counted and held is not None and entry.place < held.after:
                break
            tail.append(entry)
            counted = counted or sequence_of(entry.body) is not None
        return tail[::-1]

    # -- the fold ----------------------------------------------------------------------------------------

    def _snapshot(self) -> Snapshot | None:
        """The latest one that is part of the journal's history."""
        usable: list[Snapshot] = []
        for packed in (self._journal.entries.snapshot(), self._archive.snapshot() if self._archive else None):
            if packed is None:
                continue
            try:
                if self._belongs(snapshots.head_of(packed)):
                    usable.append(snapshots.unpack(packed))
            except SnapshotError as error:
                log.warning("snapshot not used", cloud=self._journal.cloud, why=str(error))
        return max(usable, key=lambda one: one.held.after, default=None)

    def _belongs(self, held: Held) -> bool:
        there = self._journal.entries.get(held.id)
        if there is not None:
            return there.hash == held.hash
        first = self._journal.entries.first()
        return first is not None and first.place > held.after and first.continues(held.hash)

    def _events(self, *, whole: bool) -> Iterator[Event]:
        """All events of the journal after the last one that is known; notes what the last one was."""
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

    def _from_the_beginning(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        """A journal that was trimmed goes on where the archive ends."""
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
