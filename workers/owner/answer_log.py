"""The answers an owner has given, by id: leases open and ended, refusals, tombstones.

Every command can come twice, late, or in the wrong order; thanks to the log the second one gets the answer of
the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from broker.contract import Lease, LeaseState, RefusalView, read_message

#: Number of closed entries that are kept; the oldest are forgotten first. A command may be late by minutes,
#: and these are hours of a busy cloud.
KEPT_CLOSED = 100_000


@dataclass(frozen=True, slots=True)
class Released:
    """An attempt that the broker decided against.

    ``held`` is False where that came before its reservation (a tombstone).
    """

    held: bool


@dataclass(frozen=True, slots=True)
class Lapsed:
    """A reservation that ended, as ``lease`` says, before the broker had confirmed or released it."""

    lease: Lease


LoggedAnswer = Lease | RefusalView | Released | Lapsed

#: First byte of a closed entry's text: what the entry is. A tombstone has nothing after it.
_LEASE, _REFUSAL, _HELD, _TOMBSTONE, _LAPSED = b"L", b"R", b"H", b"T", b"U"


class AnswerLog:
    """Keeps one entry for each id.

    Attempts at spot and own users' instances share one name space, that of instances.
    """

    def __init__(self, kept_closed: int = KEPT_CLOSED) -> None:
        self._kept_closed = kept_closed
        self._open: dict[str, Lease] = {}
        # In order of closing, as lines: they are many, seldom asked for, and go into snapshots as they are.
        self._closed: dict[str, bytes] = {}

    def get(self, entry_id: str) -> LoggedAnswer | None:
        """Return what is known of an id, or None."""
        lease = self._open.get(entry_id)
        if lease is not None:
            return lease
        line = self._closed.get(entry_id)
        return None if line is None else _entry(line)

    def closed_lines(self) -> list[bytes]:
        """Return the closed entries, each as a line: id in JSON, a tab, its text."""
        return list(self._closed.values())

    def restore(self, open_leases: Iterable[Lease], closed_lines: Iterable[bytes]) -> None:
        """Fill an empty log with the entries of a snapshot."""
        self._open = {lease.id: lease for lease in open_leases}
        for line in closed_lines:
            self._closed[json.loads(line.partition(b"\t")[0])] = line

    def open_leases(self) -> tuple[Lease, ...]:
        """Return the leases that have not ended, in order of admission."""
        return tuple(self._open.values())

    def reserved(self) -> tuple[str, ...]:
        """Return the ids of the reservations that nobody has confirmed yet."""
        return tuple(lease.id for lease in self._open.values() if lease.state is LeaseState.RESERVED)

    def put(self, lease: Lease) -> None:
        """Log a new lease, or the next state of an open one."""
        assert lease.state.is_open
        assert lease.id not in self._closed, f"{lease.id} has ended: {self._closed[lease.id]!r}"
        self._open[lease.id] = lease

    def answer(self, entry_id: str, lease: Lease) -> None:
        """Log the lease that was answered to a command of that id, an extension for example."""
        self._close(entry_id, lease)

    def end(self, lease: Lease) -> None:
        """Log the end of an open lease; there is exactly one."""
        assert not lease.state.is_open
        assert lease.id in self._open, f"{lease.id} ends but is not open"
        del self._open[lease.id]
        self._close(lease.id, lease)

    def lapse(self, lease: Lease) -> None:
        """Log the end of a reservation that the broker has neither confirmed nor released."""
        assert self._open[lease.id].state is LeaseState.RESERVED
        del self._open[lease.id]
        self._close(lease.id, Lapsed(lease))

    def confirm_lapsed(self, lease: Lease) -> None:
        """Log that a lapsed reservation was to run, and how it ended."""
        assert isinstance(self.get(lease.id), Lapsed)
        self._close(lease.id, lease)

    def refuse(self, entry_id: str, refusal: RefusalView) -> None:
        """Log a reservation that was declined, or an own request that was turned away."""
        assert entry_id not in self._open
        self._close(entry_id, refusal)

    def release(self, attempt: str) -> None:
        """Log that an attempt is given up: its reservation is gone, or must never come."""
        self._close(attempt, Released(held=self._open.pop(attempt, None) is not None))

    def _close(self, entry_id: str, entry: LoggedAnswer) -> None:
        self._closed[entry_id] = json.dumps(entry_id).encode() + b"\t" + _text(entry)
        if len(self._closed) > self._kept_closed:
            del self._closed[next(iter(self._closed))]


def _text(entry: LoggedAnswer) -> bytes:
    match entry:
        case Lease():
            return _LEASE + entry.model_dump_json().encode()
        case RefusalView():
            return _REFUSAL + entry.model_dump_json().encode()
        case Released(held):
            return _HELD if held else _TOMBSTONE
        case Lapsed(lease):
            return _LAPSED + lease.model_dump_json().encode()


def _entry(line: bytes) -> LoggedAnswer:
    text = line.partition(b"\t")[2]
    kind, rest = text[:1], text[1:]
    if kind == _LEASE:
        return read_message(Lease, rest)
    if kind == _LAPSED:
        return Lapsed(read_message(Lease, rest))
    return read_message(RefusalView, rest) if kind == _REFUSAL else Released(held=kind == _HELD)
