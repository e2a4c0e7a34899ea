"""How many spot leases of a cloud began and how they ended, with and without a promise: a fold of its public
events beside its ledger (``broker.ledger.ledger``), which is about promises only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from broker.contract import Event, EventKind, Lease
from cloudsim.model.requests import promises

#: As in ``cloudsim.cloud.cloud_state``, which is heavy to import; a test keeps them equal.
DRAIN, TAKEN = "drain by ", "taken back: "


@dataclass
class LeaseCounts:
    """Counts since the first event that is kept.

    admitted: by whether anything was promised. ended: by that and how. evicted: by that and why: ``drain``,
    ``taken`` (a real cloud took the instance back by itself) or ``demand`` (somebody who goes first needed
    the room).
    """

    admitted: Counter[bool] = field(default_factory=Counter)
    ended: Counter[tuple[bool, str]] = field(default_factory=Counter)
    evicted: Counter[tuple[bool, str]] = field(default_factory=Counter)

    def note(self, event: Event, lease: Lease) -> None:
        """The next public event."""
        promised = promises(lease.kind, lease.promised_sla)
        if event.kind is EventKind.ADMITTED:
            self.admitted[promised] += 1
        elif event.kind.ends_lease:
            self.ended[promised, event.kind.value] += 1
            if event.kind is EventKind.EVICTED:
                self.evicted[promised, cause_of(event)] += 1


def cause_of(event: Event) -> str:
    """The class of causes that an eviction belongs to."""
    cause = event.cause or ""
    if cause.startswith(DRAIN):
        return "drain"
    return "taken" if cause.startswith(TAKEN) else "demand"
