"""What an owner decides, written down: changes of its cloud become journal entries, replies and offers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from broker.contract import (
    PUBLIC_KINDS,
    Event,
    EventKind,
    Lease,
    LeaseState,
    OnDemandRequest,
    OverflowState,
    Reply,
)
from broker.views import refusal_view
from cloudsim.requests import Change, End, Ended, Instance, Kind, Reason, Started, TurnedAway
from workers import overflow, views
from workers.state import State

_KIND_OF_END = {
    End.COMPLETED: EventKind.COMPLETED,
    End.EVICTED: EventKind.EVICTED,
    End.CANCELLED: EventKind.CANCELLED,
    End.FAILED: EventKind.FAILED,
}
_NO_LIFETIME = "not offered to the federation: a spot request needs a lifetime, and this one names none"
_OFFERED = "offered to the federation as a spot request"


@dataclass
class Outcome:
    """What follows from commands, in order.

    events: entries for the journal. replies: (reply stream, reply). overflow: entries for the overflow
    stream.
    """

    events: list[Event] = field(default_factory=list)
    replies: list[tuple[str, Reply]] = field(default_factory=list)
    overflow: list[dict[str, Any]] = field(default_factory=list)

    @property
    def leases(self) -> list[Lease]:
        """Spot leases that changed, as they are now."""
        changed = {e.lease.id: e.lease for e in self.events if e.lease and e.lease.kind is Kind.SPOT}
        return list(changed.values())

    def __bool__(self) -> bool:
        return bool(self.events or self.replies or self.overflow)

    def extend(self, other: Outcome) -> None:
        """Adds what followed next."""
        self.events += other.events
        self.replies += other.replies
        self.overflow += other.overflow


class Recorder:
    """Notes events in the state and gathers the outcome of a step of the owner; ``begin`` starts the next."""

    def __init__(self, state: State, epoch: int):
        self._state, self._spec, self._epoch = state, state.spec, epoch
        self._now = ""
        self.outcome = Outcome()

    def begin(self, now: str) -> None:
        """A new step, at ``now`` (RFC 3339)."""
        self._now, self.outcome = now, Outcome()

    def record(self, changes: list[Change]) -> None:
        """Turns changes that the cloud has made into events."""
        for change in changes:
            match change:
                case Started(instance):
                    assert instance.kind is Kind.ON_DEMAND
                    lease = self.lease_of(instance, LeaseState.RUNNING)
                    self.emit(EventKind.ADMITTED, instance.start_s, lease=lease)
                case Ended(instance, at_s, how, cause):
                    entry = self._state.book.get(instance.id)
                    # Of the own load's instances nothing is kept: all there is to say is in the instance.
                    lease = entry if isinstance(entry, Lease) else self.lease_of(instance, LeaseState.RUNNING)
                    self.emit(_KIND_OF_END[how], at_s, lease=views.ended(lease, change), cause=cause)
                case TurnedAway():
                    self._turned_away(change)

    def lease_of(self, instance: Instance, state: LeaseState, **promise: Any) -> Lease:
        """A lease that this epoch grants. ``promise``: the request and quote of a spot instance."""
        return views.lease_of(instance, self._spec.cloud.id, self._epoch, state, **promise)

    def _turned_away(self, change: TurnedAway) -> None:
        request, detail = change.request, None
        # What is replayed before the cloud opens is past.
        offers = self._spec.overflow and self._state.opened is not None
        if offers and change.refusal.reason is Reason.NO_CAPACITY:
            detail = _OFFERED if request.lifetime_s else _NO_LIFETIME
        self.emit(
            EventKind.TURNED_AWAY,
            change.at_s,
            refusal=refusal_view(change.refusal, detail),
            # A trace may hold lifetimes of 0, which nobody may ask for.
            request=OnDemandRequest(
                id=request.id, cores=request.cores, lifetime_s=request.lifetime_s or None
            ),
        )
        if detail is _OFFERED and request.lifetime_s is not None:
            self.emit_overflow(overflow.first_offer(request.id, request.cores, request.lifetime_s))

    def emit_overflow(self, state: OverflowState) -> None:
        """The next state of an offer, and what the federation must hear of it."""
        self.emit(EventKind.OVERFLOW, self._state.cloud.now_s, overflow=state)
        item = overflow.item(self._spec.cloud.id, state, self._spec.overflow_sla)
        if item is not None:
            self.outcome.overflow.append(item)

    def emit(self, kind: EventKind, at_s: float, **fields: Any) -> None:
        """Notes an event; a public one gets the next sequence number."""
        lease: Lease | None = fields.get("lease")
        public = kind in PUBLIC_KINDS and lease is not None and lease.kind is Kind.SPOT
        event = Event(
            cloud=self._spec.cloud.id,
            kind=kind,
            at_s=at_s,
            at=self._now,
            sequence=self._state.sequence + 1 if public else None,
            **fields,
        )
        self._state.note(event)
        self.outcome.events.append(event)
