"""What an owner remembers of the ids it was ever told: leases open and ended, refusals, tombstones.

Every command can come twice, late, or in the wrong order; the book is why the second one gets the first one's
answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.contract import Lease, LeaseState, RefusalView

#: Closed entries that are kept, oldest forgotten first. A command may be late by minutes; this is hours of a
#: busy cloud.
KEPT_CLOSED = 100_000

OPEN_STATES = frozenset({LeaseState.BOOKED, LeaseState.RESERVED, LeaseState.RUNNING})


@dataclass(frozen=True, slots=True)
class Released:
    """The broker decided against this attempt. ``held`` False: before its reservation came (a tombstone)."""

    held: bool


Entry = Lease | RefusalView | Released


class Book:
    """Entries by id. Spot attempts and own users' instances share one name space: that of instances."""

    def __init__(self, kept_closed: int = KEPT_CLOSED) -> None:
        self._kept_closed = kept_closed
        self._open: dict[str, Lease] = {}
        self._closed: dict[str, Entry] = {}  # in order of closing

    def get(self, entry_id: str) -> Entry | None:
        """What is known of that id, or None."""
        return self._open.get(entry_id) or self._closed.get(entry_id)

    def open_leases(self) -> tuple[Lease, ...]:
        """Leases that have not ended, in order of admission."""
        return tuple(self._open.values())

    def reserved(self) -> tuple[str, ...]:
        """Ids of the reservations that nobody has confirmed yet."""
        return tuple(lease.id for lease in self._open.values() if lease.state is LeaseState.RESERVED)

    def put(self, lease: Lease) -> None:
        """A new lease, or the next state of an open one."""
        assert lease.state in OPEN_STATES
        assert lease.id not in self._closed, f"{lease.id} has ended: {self._closed[lease.id]}"
        self._open[lease.id] = lease

    def answer(self, entry_id: str, lease: Lease) -> None:
        """What was answered to an extension, under the name of it."""
        self._close(entry_id, lease)

    def end(self, lease: Lease) -> None:
        """The end of an open lease; there is exactly one."""
        assert lease.state not in OPEN_STATES
        assert lease.id in self._open, f"{lease.id} ends but is not open"
        del self._open[lease.id]
        self._close(lease.id, lease)

    def refuse(self, entry_id: str, refusal: RefusalView) -> None:
        """A reservation that was declined, or an own request that was turned away."""
        assert entry_id not in self._open
        self._close(entry_id, refusal)

    def release(self, attempt: str) -> None:
        """The reservation is gone, or must never come."""
        self._close(attempt, Released(held=self._open.pop(attempt, None) is not None))

    def _close(self, entry_id: str, entry: Entry) -> None:
        self._closed[entry_id] = entry
        if len(self._closed) > self._kept_closed:
            del self._closed[next(iter(self._closed))]
