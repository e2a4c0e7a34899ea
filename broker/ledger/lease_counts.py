"""Counts how many spot leases of a cloud began and how they ended, with and without a promise.

The counts are folded from the cloud's public events beside its ledger, which is about promises only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from broker.contract import Event, EventKind, Lease
from broker.leases.store import MISPLACED
from cloudsim.model.changes import DRAIN, TAKEN
from cloudsim.model.requests import promises


@dataclass
class LeaseCounts:
    """Counts of leases since the first event that is kept.

    admitted: by whether anything was promised. ended: by that, and by how they ended. evicted: by that, and
    by the cause: ``drain``, ``taken`` (a real cloud took the instance back by itself) or ``demand`` (a
    request of higher priority needed the room). misplaced: how many of the cancelled ones ended because their
    request ran elsewhere (``broker.leases.store.is_misplaced``).
    """

    admitted: Counter[bool] = field(default_factory=Counter)
    ended: Counter[tuple[bool, str]] = field(default_factory=Counter)
    evicted: Counter[tuple[bool, str]] = field(default_factory=Counter)
    misplaced: int = 0

    def note(self, event: Event, lease: Lease) -> None:
        """Count the next public event, which is about ``lease``."""
        promised = promises(lease.kind, lease.promised_sla)
        if event.kind is EventKind.ADMITTED:
            self.admitted[promised] += 1
        elif event.kind.ends_lease:
            self.ended[promised, event.kind.value] += 1
            self.misplaced += event.cause == MISPLACED
            if event.kind is EventKind.EVICTED:
                self.evicted[promised, cause_of(event)] += 1


def cause_of(event: Event) -> str:
    """Return the kind of cause of an eviction: drain, taken or demand."""
    cause = event.cause or ""
    if cause.startswith(DRAIN):
        return "drain"
    return "taken" if cause.startswith(TAKEN) else "demand"
