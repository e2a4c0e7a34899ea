"""The own load of a cloud as its journal tells it, as a trace: to play, or to predict from."""

from __future__ import annotations

from broker.contract import Event, EventKind, Lease, LeaseState
from cloudsim.model.requests import Kind
from cloudsim.model.reserved_ids import is_block
from cloudsim.traces.trace import Trace

_ENDED = frozenset({LeaseState.COMPLETED, LeaseState.CANCELLED, LeaseState.FAILED})


class OwnLoad:
    """Folds events of one cloud, in order. turned_away: requests that found no room, which a trace has no
    place for. Blocks of headroom and room that was freed are nobody's load and left out."""

    def __init__(self) -> None:
        self.turned_away = 0
        self._started: dict[str, Lease] = {}  # in order of start
        self._ended_s: dict[str, float] = {}
        self._latest_s = 0.0

    def note(self, event: Event) -> None:
        """The next entry of the journal."""
        self._latest_s = max(self._latest_s, event.at_s)
        self.turned_away += event.kind is EventKind.TURNED_AWAY
        lease = event.lease
        if lease is None or lease.kind is not Kind.ON_DEMAND or is_block(lease.id):
            return
        if event.kind is EventKind.ADMITTED:
            self._started[lease.id] = lease
        elif lease.state in _ENDED and lease.ended_at_s is not None and lease.id in self._started:
            self._ended_s[lease.id] = lease.ended_at_s

    @property
    def running(self) -> int:
        """How many have not ended."""
        return len(self._started) - len(self._ended_s)

    def trace(self, name: str) -> Trace:
        """Instances by start. Those that run end with the latest event, right-censored."""
        leases = list(self._started.values())
        return Trace.checked(
            name,
            [lease.id for lease in leases],
            [lease.starts_at_s for lease in leases],
            [self._ended_s.get(lease.id, max(self._latest_s, lease.starts_at_s)) for lease in leases],
            [lease.cores for lease in leases],
            right_censored=[lease.id not in self._ended_s for lease in leases],
        )
