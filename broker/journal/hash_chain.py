"""The hash chain of a journal: every entry vouches for all before it.

The hash of an entry is the SHA-256 of the hash before it, its own id and its bytes. The chain goes on from
epoch to epoch. It begins with an empty hash: at a cloud's first entry, or at the first one after those that
an older spotfed wrote, which have none. It has no key: it finds what was lost, changed or written on another
history, not who could write all of it anew (RELIABILITY.md "Journal = outbox").
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from broker.contract import Event, read_message

#: Hash before the first entry.
BEGINNING = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A journal entry. ``id``: ``<epoch>-<number>``. ``hash``: hexadecimal, empty without a chain. ``body``:
    the JSON of an Event, byte for byte."""

    id: str
    hash: str
    body: bytes

    @property
    def place(self) -> tuple[int, int]:
        """Epoch and number."""
        return parse_entry_id(self.id)

    def event(self) -> Event:
        """What it says. Raises pydantic.ValidationError."""
        return read_message(Event, self.body)

    def continues(self, before: str) -> bool:
        """Whether its hash is what follows from the one before."""
        return self.hash == hash_entry(before, self.id, self.body)


def parse_entry_id(entry_id: str) -> tuple[int, int]:
    """Epoch and number of an entry."""
    epoch, _, number = entry_id.partition("-")
    return int(epoch), int(number)


def hash_entry(before: str, entry_id: str, body: bytes) -> str:
    """The hash of an entry."""
    return hashlib.sha256(b"%s %s " % (before.encode(), entry_id.encode()) + body).hexdigest()
