"""Verification that a cloud's journal is whole, from its archive and Redis.

See docs/design/reliability.md "Invariants", I4, I5.

Nothing is changed. It is checked that ids rise, without gaps in an epoch; each entry continues the one before
by its hash; archive and journal say the same where they overlap and leave nothing out between; public events
are numbered without gaps; the public stream is the public events of the journal, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, takewhile

from broker.journal.archive import Archive
from broker.journal.entries import JournalEntries, sequence_of
from broker.journal.hash_chain import BEGINNING, ChainedEntry


@dataclass(frozen=True)
class JournalFinding:
    """The numbers of entries that were read of one cloud, and the first fault that was found.

    Attributes
    ----------
    archived, public:
        The entries from the archive, and the sequence of the latest public event.
    unchained:
        The number of entries of an older spotfed, without a hash.
    first, last:
        Ids of entries.
    since:
        True if the first entry is not the beginning of the cloud's history: earlier ones are not here.
    bad, why:
        The id of the faulty entry and the fault; None if there is none.
    """

    cloud: str
    entries: int
    archived: int
    public: int
    unchained: int
    first: str | None
    last: str | None
    since: bool
    bad: str | None = None
    why: str | None = None


class BrokenEntryError(Exception):
    """An entry is not what it should be."""

    def __init__(self, entry_id: str, why: str):
        super().__init__(f"{entry_id}: {why}")
        self.entry_id, self.why = entry_id, why


def verify_journal(cloud: str, entries: JournalEntries, archive: Archive) -> JournalFinding:
    """Walk through a cloud's journal once, up to its present end; its owner may go on meanwhile.

    Raises
    ------
    redis.RedisError
        When Redis is away.
    OSError
        When the archive cannot be read.
    ArchiveError
        When a file of the archive is damaged.
    """
    # In this order: the owner writes to Redis first, so Redis reaches as far as the archive did before.
    archived = archive.newest()
    head, sequence = entries.ends()
    end = max(entry.place if entry else (0, 0) for entry in (archived, head))
    public = takewhile(lambda event: event[0] <= sequence, entries.public())
    return verify_entries(
        cloud,
        takewhile(lambda entry: entry.place <= end, archive.entries()),
        takewhile(lambda entry: head is not None and entry.place <= head.place, entries.after()),
        public,
    )


def verify_entries(
    cloud: str,
    archived: Iterable[ChainedEntry],
    kept: Iterable[ChainedEntry],
    public: Iterable[tuple[int, bytes]],
) -> JournalFinding:
    """Verify entries of the archive and of Redis, and the public stream against them."""
    remaining = iter(public)
    oldest = next(remaining, None)
    walk = _Walk(0 if oldest is None else oldest[0])
    bad: BrokenEntryError | None = None
    try:
        for entry in _merge(archived, kept, walk):
            walk.step(entry)
        walk.compare(remaining if oldest is None else chain([oldest], remaining))
    except BrokenEntryError as error:
        bad = error
    return JournalFinding(
        cloud,
        walk.entries,
        walk.archived,
        walk.sequence or 0,
        walk.unchained,
        walk.first,
        walk.last.id if walk.last else None,
        walk.since,
        bad.entry_id if bad else None,
        bad.why if bad else None,
    )


class _Walk:
    """The state of a verification: the numbers of entries so far, the last one, the public events."""

    def __init__(self, public_from: int) -> None:
        self._public_from = public_from
        self.entries = self.archived = self.unchained = 0
        self.first: str | None = None
        self.last: ChainedEntry | None = None
        self.since = False
        self.sequence: int | None = None
        self._bodies: dict[int, bytes] = {}  # public events in order, those that Redis still has

    def step(self, entry: ChainedEntry) -> None:
        """Check the next entry.

        Raises
        ------
        BrokenEntryError
            When it does not continue the entries before it.
        """
        if self.last is None:
            self._begin(entry)
        else:
            self._follow(entry, self.last)
        self.entries += 1
        self.unchained += not entry.hash
        self.last = entry
        self._count(entry)

    def _begin(self, entry: ChainedEntry) -> None:
        self.first = entry.id
        self.since = entry.place[1] != 1 or not (not entry.hash or entry.continues(BEGINNING))

    def _follow(self, entry: ChainedEntry, last: ChainedEntry) -> None:
        (epoch, number), (epoch_before, number_before) = entry.place, last.place
        if epoch == epoch_before and number != number_before + 1:
            raise BrokenEntryError(entry.id, f"follows {last.id}: a gap in its epoch")
        if epoch != epoch_before and (epoch < epoch_before or number != 1):
            raise BrokenEntryError(entry.id, f"follows {last.id}: an epoch begins with 1")
        if last.hash and not entry.hash:
            raise BrokenEntryError(entry.id, f"has no hash, but {last.id} has one")
        if entry.hash and not entry.continues(last.hash):
            raise BrokenEntryError(entry.id, f"its hash does not continue that of {last.id}")

    def _count(self, entry: ChainedEntry) -> None:
        try:
            sequence = sequence_of(entry.body)
        except ValueError:
            raise BrokenEntryError(entry.id, "is no event") from None
        if sequence is None:
            return
        if self.sequence is None and not self.since and sequence != 1:
            raise BrokenEntryError(entry.id, f"public event {sequence}, expected 1")
        if self.sequence is not None and sequence != self.sequence + 1:
            raise BrokenEntryError(entry.id, f"public event {sequence}, expected {self.sequence + 1}")
        self.sequence = sequence
        if sequence >= self._public_from:
            self._bodies[sequence] = entry.body

    def compare(self, public: Iterable[tuple[int, bytes]]) -> None:
        """Compare the public stream, which may have lost its beginning but ends where the journal does.

        Raises
        ------
        BrokenEntryError
            When it is not the public events of the journal.
        """
        before: int | None = None
        for sequence, body in public:
            if before is not None and sequence != before + 1:
                raise BrokenEntryError(f"0-{sequence}", f"follows 0-{before} in the public stream: a gap")
            before = sequence
            expected = self._bodies.get(sequence)
            if expected is None and (not self._bodies or sequence > next(reversed(self._bodies))):
                raise BrokenEntryError(
                    f"0-{sequence}", "is in the public stream, and the journal has no such event"
                )
            if expected is not None and expected != body:
                raise BrokenEntryError(
                    f"0-{sequence}", "is another event in the public stream than in the journal"
                )
        if self.sequence is not None and before != self.sequence:
            raise BrokenEntryError(f"0-{self.sequence}", "is missing at the end of the public stream")


def _merge(
    archived: Iterable[ChainedEntry], kept: Iterable[ChainedEntry], walk: _Walk
) -> Iterator[ChainedEntry]:
    """Yield the entries of the archive, then those that only Redis has; common ones must be equal."""
    remaining = iter(kept)
    ahead, begun = next(remaining, None), False
    for entry in archived:
        walk.archived += 1
        if ahead is None:
            raise BrokenEntryError(
                entry.id, "is in the archive, and Redis has lost it: the owner writes it back"
            )
        if ahead.place < entry.place:
            raise BrokenEntryError(ahead.id, "is in the journal and not in the archive")
        yield entry
        if ahead.place == entry.place:
            if ahead != entry:
                raise BrokenEntryError(entry.id, "is another entry in the journal than in the archive")
            begun, ahead = True, next(remaining, None)
        elif begun:
            raise BrokenEntryError(entry.id, "is in the archive, and missing in the journal")
    if ahead is not None:
        yield ahead
        yield from remaining
