"""The entries of a journal in Redis, and the snapshot from which a recovery begins."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import redis

from broker.contract import Lease, current_version
from broker.journal.hash_chain import BEGINNING, ChainedEntry
from broker.leases.store import lease_arguments
from broker.storage.keys import RedisKeys
from broker.storage.scripts import read_script
from cloudsim.model.requests import Kind

#: The numbers of journal entries and of public events that Redis keeps below the snapshot by default.
JOURNAL_KEPT, EVENTS_KEPT = 100_000, 200_000
_PAGE = 1_000


class NotWrittenError(Exception):
    """A script wrote nothing. ``fenced`` is True if another owner has opened a later epoch."""

    def __init__(self, why: str, *, fenced: bool = False):
        super().__init__(why)
        self.fenced = fenced


class JournalEntries:
    """Reads and writes the entries of one cloud.

    Every method may raise ``redis.RedisError`` and may then be called again.
    """

    def __init__(
        self, client: redis.Redis, keys: RedisKeys, cloud: str, *, speaks: Callable[[], int] = current_version
    ) -> None:
        self._redis, self._keys, self._cloud, self._speaks = client, keys, cloud, speaks
        self._restore = client.register_script(read_script("restore"))
        self._keep = client.register_script(read_script("keep"))

    # -- reading -----------------------------------------------------------------------------------------

    def after(self, entry: str = "0-0") -> Iterator[ChainedEntry]:
        """Yield the entries after an id (exclusive), to the present end."""
        stream = self._keys.journal(self._cloud)
        while page := cast("Any", self._redis.xrange(stream, f"({entry}", "+", _PAGE)):
            for item in page:
                yield _parse_entry(item)
            entry = page[-1][0].decode()

    def first(self) -> ChainedEntry | None:
        """Return the oldest entry that is kept, or None."""
        return next(self._one("xrange", "-", "+"), None)

    def head(self) -> ChainedEntry | None:
        """Return the newest entry, or None."""
        return next(self._one("xrevrange", "+", "-"), None)

    def get(self, entry: str) -> ChainedEntry | None:
        """Return the entry with an id, or None if it is not there."""
        return next(self._one("xrange", entry, entry), None)

    def _one(self, command: str, low: str, high: str) -> Iterator[ChainedEntry]:
        items: Any = getattr(self._redis, command)(self._keys.journal(self._cloud), low, high, 1)
        return map(_parse_entry, items)

    def ends(self) -> tuple[ChainedEntry | None, int]:
        """Return the newest entry and the newest public event's sequence (0 if none), read at one time."""
        with self._redis.pipeline() as pipeline:
            pipeline.xrevrange(self._keys.journal(self._cloud), count=1)
            pipeline.xrevrange(self._keys.events(self._cloud), count=1)
            head, event = pipeline.execute()
        sequence = int(event[0][0].partition(b"-")[2]) if event else 0
        return (_parse_entry(head[0]) if head else None), sequence

    def public(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the sequence and the JSON of the cloud's public events after a sequence."""
        stream = self._keys.events(self._cloud)
        while page := cast("Any", self._redis.xrange(stream, f"(0-{after}", "+", _PAGE)):
            for entry, fields in page:
                after = int(entry.partition(b"-")[2])
                yield after, fields.get(b"e", b"")

    def snapshot(self) -> bytes | None:
        """Return the snapshot that ``keep`` stored last, or None."""
        return cast("bytes | None", self._redis.get(self._keys.snapshot(self._cloud)))

    # -- writing -----------------------------------------------------------------------------------------

    def restore(
        self,
        token: str,
        epoch: int,
        before: str,
        entries: Sequence[ChainedEntry],
        leases: Iterable[Lease] = (),
        events_kept: int = EVENTS_KEPT,
    ) -> None:
        """Write entries again that Redis has lost, with their public events and the leases that they change.

        Parameters
        ----------
        token, epoch:
            Those of the owner. The epochs of the entries are earlier.
        before:
            The hash of the newest entry in Redis, which the first entry continues; ignored where the journal
            is empty.
        entries:
            The entries in order.
        leases:
            Further leases to be written as they are.
        events_kept:
            The number of public events that the merged stream keeps.

        Raises
        ------
        NotWrittenError
            When another owner has opened a later epoch, or Redis holds another history.
        """
        keys, cloud = self._keys, self._cloud
        arguments: list[str | bytes | int] = []
        latest = {lease.id: lease for lease in leases}
        for entry in entries:
            event = entry.event()
            sequence = "" if event.sequence is None else event.sequence
            arguments += [entry.id, entry.body, sequence, entry.hash]
            if event.lease is not None and event.lease.kind is Kind.SPOT:
                latest[event.lease.id] = event.lease
        speaks = self._speaks()
        for lease in latest.values():
            arguments += lease_arguments(lease, speaks)
        names = [
            *(keys.owner(cloud), keys.epoch(cloud), keys.journal(cloud), keys.events(cloud), keys.all_events),
            *(keys.running(cloud), keys.restored, *(keys.lease(cloud, lease) for lease in latest)),
        ]
        counts = [events_kept, len(entries), len(latest)]
        self._run(self._restore, names, [token, epoch, before, *counts, *arguments])

    def keep(
        self,
        token: str,
        epoch: int,
        snapshot: bytes,
        place: tuple[int, int],
        journal_kept: int = JOURNAL_KEPT,
        events_kept: int = EVENTS_KEPT,
    ) -> None:
        """Store a snapshot and remove older entries and public events beyond the numbers to keep.

        Parameters
        ----------
        token, epoch:
            Those of the owner.
        snapshot:
            The state after the entry at ``place``.
        place:
            Epoch and number of an entry. All entries up to it are in the archive.
        journal_kept, events_kept:
            The numbers of entries and of public events that stay, at least.

        Raises
        ------
        NotWrittenError
            When another owner has opened a later epoch.
        """
        keys, cloud = self._keys, self._cloud
        names = [keys.owner(cloud), keys.epoch(cloud), keys.journal(cloud), keys.events(cloud)]
        names.append(keys.snapshot(cloud))
        self._run(self._keep, names, [token, epoch, snapshot, *place, journal_kept, events_kept])

    def _run(self, script: Any, names: list[str], arguments: list[Any]) -> None:
        try:
            outcome = script(names, arguments)
        except redis.ResponseError as error:
            if str(error).startswith("BROKEN"):
                raise NotWrittenError(f"cloud {self._cloud}: {error}") from error
            raise
        if outcome == b"fenced":
            raise NotWrittenError(
                f"cloud {self._cloud}: epoch {arguments[1]} is over, another owner opened a later one",
                fenced=True,
            )


def sequence_of(body: bytes) -> int | None:
    """Return the sequence of a public event, None for another event.

    Raises
    ------
    ValueError
        When it is not JSON.
    """
    event = json.loads(body)
    sequence = event.get("sequence") if isinstance(event, dict) else None
    return sequence if isinstance(sequence, int) else None


def _parse_entry(item: tuple[bytes, dict[bytes, bytes]]) -> ChainedEntry:
    entry, fields = item
    return ChainedEntry(entry.decode(), fields.get(b"h", BEGINNING.encode()).decode(), fields.get(b"e", b""))
