"""Export of the own load in a cloud's journal as a trace, to be replayed or to predict from."""

from __future__ import annotations

from broker.contract import Event, EventKind, Lease
from cloudsim.model.requests import Kind
from cloudsim.model.reserved_ids import is_block
from cloudsim.traces.trace import Trace


class OwnLoad:
    """Collects the on-demand instances of one cloud from its events, in order.

    Blocks of headroom and freed room are no load and are left out. ``turned_away`` counts requests that found
    no room, for which a trace has no place.
    """

    def __init__(self) -> None:
        self.turned_away = 0
        self._started: dict[str, Lease] = {}  # in order of start
        self._ended_s: dict[str, float] = {}
        self._latest_s = 0.0

    def note(self, event: Event) -> None:
        """Take the next event of the journal."""
        self._latest_s = max(self._latest_s, event.at_s)
        self.turned_away += event.kind is EventKind.TURNED_AWAY
        lease = event.lease
        if lease is None or lease.kind is not Kind.ON_DEMAND or is_block(lease.id):
            return
        if event.kind is EventKind.ADMITTED:
            self._started[lease.id] = lease
        elif not lease.state.is_open and lease.ended_at_s is not None and lease.id in self._started:
            self._ended_s[lease.id] = lease.ended_at_s

    @property
    def running(self) -> int:
        """The number of instances that have not ended."""
        return len(self._started) - len(self._ended_s)

    def trace(self, name: str) -> Trace:
        """Return the instances by start; those that run end with the latest event, right-censored."""
        leases = list(self._started.values())
        return Trace.checked(
            name,
            [lease.id for lease in leases],
            [lease.starts_at_s for lease in leases],
            [self._ended_s.get(lease.id, max(self._latest_s, lease.starts_at_s)) for lease in leases],
            [lease.cores for lease in leases],
            right_censored=[lease.id not in self._ended_s for lease in leases],
            parallel=[bool(lease.parts) for lease in leases],
        )
