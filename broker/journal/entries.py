"""A journal's entries as they are in Redis, the snapshot that recovery begins with, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import redis

from broker.contract import Lease, current_version
from broker.journal.hash_chain import BEGINNING, Entry
from broker.leases.store import lease_arguments
from broker.storage.keys import RedisKeys
from broker.storage.scripts import read_script
from cloudsim.model.requests import Kind

#: How many entries of a journal, and public events, Redis keeps below the snapshot unless told otherwise.
JOURNAL_KEPT, EVENTS_KEPT = 100_000, 200_000
_PAGE = 1_000


class NotWrittenError(Exception):
    """A script wrote nothing. ``fenced``: because another owner has opened a later epoch."""

    def __init__(self, why: str, *, fenced: bool = False):
        super().__init__(why)
        self.fenced = fenced


class JournalEntries:
    """One cloud's. Methods may raise `redis.RedisError` and may then be called again."""

    def __init__(
        self, client: redis.Redis, keys: RedisKeys, cloud: str, *, speaks: Callable[[], int] = current_version
    ) -> None:
        self._redis, self._keys, self._cloud, self._speaks = client, keys, cloud, speaks
        self._restore = client.register_script(read_script("restore"))
        self._keep = client.register_script(read_script("keep"))

    # -- reading -----------------------------------------------------------------------------------------

    def after(self, entry: str = "0-0") -> Iterator[Entry]:
        """Those after an id (exclusive), to the present end."""
        stream = self._keys.journal(self._cloud)
        while page := cast("Any", self._redis.xrange(stream, f"({entry}", "+", _PAGE)):
            for found in page:
                yield _entry(found)
            entry = page[-1][0].decode()

    def first(self) -> Entry | None:
        """The oldest that is kept."""
        return next(self._few("xrange", "-", "+"), None)

    def head(self) -> Entry | None:
        """The newest."""
        return next(self._few("xrevrange", "+", "-"), None)

    def get(self, entry: str) -> Entry | None:
        """The one of that id, if it is there."""
        return next(self._few("xrange", entry, entry), None)

    def _few(self, command: str, low: str, high: str) -> Iterator[Entry]:
        found: Any = getattr(self._redis, command)(self._keys.journal(self._cloud), low, high, 1)
        return map(_entry, found)

    def ends(self) -> tuple[Entry | None, int]:
        """The newest entry, and the sequence of the newest public event (0: there is none), at one time."""
        with self._redis.pipeline() as pipeline:
            pipeline.xrevrange(self._keys.journal(self._cloud), count=1)
            pipeline.xrevrange(self._keys.events(self._cloud), count=1)
            head, event = pipeline.execute()
        sequence = int(event[0][0].partition(b"-")[2]) if event else 0
        return (_entry(head[0]) if head else None), sequence

    def public(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Sequence and JSON of the cloud's public events after a sequence."""
        stream = self._keys.events(self._cloud)
        while page := cast("Any", self._redis.xrange(stream, f"(0-{after}", "+", _PAGE)):
            for entry, fields in page:
                after = int(entry.partition(b"-")[2])
                yield after, fields.get(b"e", b"")

    def snapshot(self) -> bytes | None:
        """What `keep` stored last."""
        return cast("bytes | None", self._redis.get(self._keys.snapshot(self._cloud)))

    # -- writing -----------------------------------------------------------------------------------------

    def restore(
        self,
        token: str,
        epoch: int,
        before: str,
        entries: Sequence[Entry],
        leases: Iterable[Lease] = (),
        events_kept: int = EVENTS_KEPT,
    ) -> None:
        """Writes entries again that Redis has lost, their public events and the leases that they change.

        Args:
            token: of the owner.
            epoch: of the owner; those of the entries are earlier.
            before: hash of the newest entry in Redis, which the first one continues; does not matter where
                the journal is empty.
            entries: in order.
            leases: further ones that are to be shown as they are.
            events_kept: by the merged stream.

        Raises:
            NotWritten: another owner has opened a later epoch, or Redis holds another history.
        """
        keys, cloud = self._keys, self._cloud
        told: list[str | bytes | int] = []
        shown = {lease.id: lease for lease in leases}
        for entry in entries:
            event = entry.event()
            told += [entry.id, entry.body, "" if event.sequence is None else event.sequence, entry.hash]
            if event.lease is not None and event.lease.kind is Kind.SPOT:
                shown[event.lease.id] = event.lease
        speaks = self._speaks()
        for lease in shown.values():
            told += lease_arguments(lease, speaks)
        names = [
            *(keys.owner(cloud), keys.epoch(cloud), keys.journal(cloud), keys.events(cloud), keys.all_events),
            *(keys.running(cloud), *(keys.lease(cloud, lease) for lease in shown)),
        ]
        counts = [events_kept, len(entries), len(shown)]
        self._run(self._restore, names, [token, epoch, before, *counts, *told])

    def keep(
        self,
        token: str,
        epoch: int,
        snapshot: bytes,
        place: tuple[int, int],
        journal_kept: int = JOURNAL_KEPT,
        events_kept: int = EVENTS_KEPT,
    ) -> None:
        """Stores a snapshot, and takes away what is older than it and than so many entries and public events.

        Args:
            token: of the owner.
            epoch: of the owner.
            snapshot: of the state after the entry at ``place``.
            place: epoch and number. The entries up to it are in the archive.
            journal_kept: entries that stay, at least.
            events_kept: public events that stay, at least.

        Raises:
            NotWritten: another owner has opened a later epoch.
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
    """The number of a public event. Raises ValueError for what is no event."""
    found = json.loads(body)
    sequence = found.get("sequence") if isinstance(found, dict) else None
    return sequence if isinstance(sequence, int) else None


def _entry(found: tuple[bytes, dict[bytes, bytes]]) -> Entry:
    entry, fields = found
    return Entry(entry.decode(), fields.get(b"h", BEGINNING.encode()).decode(), fields.get(b"e", b""))
