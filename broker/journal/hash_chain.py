"""The hash chain of a journal, in which every entry vouches for all entries before it.

The hash of an entry is the SHA-256 of the hash before it, its own id and its bytes. The chain goes on from
epoch to epoch. It begins with an empty hash: at a cloud's first entry, or at the first one after those that
an older spotfed wrote, which have none. It has no key: it reveals what was lost, changed or written on
another history, but not a writer who replaced the whole of it (docs/design/reliability.md "Journal").
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from broker.contract import Event, read_message

#: The hash before the first entry.
BEGINNING = ""


@dataclass(frozen=True, slots=True)
class ChainedEntry:
    """A journal entry.

    Attributes
    ----------
    id:
        ``<epoch>-<number>``.
    hash:
        Its hash in hexadecimal digits; empty without a chain.
    body:
        The JSON of its event, byte for byte.
    """

    id: str
    hash: str
    body: bytes

    @property
    def place(self) -> tuple[int, int]:
        """The epoch and the number of the entry, which order all entries."""
        return parse_entry_id(self.id)

    def event(self) -> Event:
        """Parse the event.

        Raises
        ------
        pydantic.ValidationError
            When it is not an event of this version or an older one.
        """
        return read_message(Event, self.body)

    def continues(self, before: str) -> bool:
        """Return True if its hash follows from the hash ``before`` it."""
        return self.hash == hash_entry(before, self.id, self.body)


def parse_entry_id(entry_id: str) -> tuple[int, int]:
    """Return the epoch and the number of an entry."""
    epoch, _, number = entry_id.partition("-")
    return int(epoch), int(number)


def hash_entry(before: str, entry_id: str, body: bytes) -> str:
    """Return the hash of an entry that follows the hash ``before``."""
    return hashlib.sha256(b"%s %s " % (before.encode(), entry_id.encode()) + body).hexdigest()
