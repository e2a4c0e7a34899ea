"""What an owner decides, written down: changes of its cloud become journal entries, replies and offers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from broker.asked import needs_of
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
from cloudsim.requests import (
    Booked,
    Change,
    Cordoned,
    End,
    Ended,
    Instance,
    Kind,
    Noticed,
    Reason,
    Started,
    TurnedAway,
    Withdrawn,
)
from workers.owner import convert, overflow
from workers.owner.state import State

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


class EventWriter:
    """Notes events in the state and gathers the outcome of a step of the owner; ``begin`` starts the next."""

    def __init__(self, state: State, epoch: int):
        self._state, self._spec, self._epoch = state, state.spec, epoch
        self._now = ""
        self.outcome = Outcome()

    def begin(self, now: str) -> None:
        """A new step, at ``now`` (RFC 3339)."""
        self._now, self.outcome = now, Outcome()

    def record(
        self, changes: list[Change], by: str | None = None, *, order: str | None = None, offers: bool = True
    ) -> None:
        """Turns changes that the cloud has made into events. ``by``: who closes nodes, or opens them, by the
        command ``order``. ``offers`` False: what was turned away is not offered to the federation."""
        for change in changes:
            match change:
                case Started(instance):
                    assert instance.kind is Kind.ON_DEMAND
                    lease = convert.started(self._lease(instance), instance)
                    self.emit(EventKind.ADMITTED, instance.start_s, lease=lease)
                case Ended():
                    self._ended(change)
                case TurnedAway():
                    self._turned_away(change, offers=offers)
                case Noticed(instance, at_s, cause):
                    lease = self._lease(instance).model_copy(update={"evict_at_s": instance.evict_at_s})
                    self.emit(EventKind.NOTICED, at_s, lease=lease, cause=cause)
                case Booked(instance, at_s, starts_by_s):
                    lease = self.lease_of(instance, LeaseState.BOOKED)
                    lease = lease.model_copy(update={"starts_by_s": starts_by_s})
                    self.emit(EventKind.BOOKED, at_s, lease=lease)
                case Withdrawn(instance, at_s):
                    lease = convert.withdrawn(self._lease(instance), at_s)
                    self.emit(EventKind.WITHDRAWN, at_s, lease=lease)
                case Cordoned(nodes, closed, at_s):
                    told = {"nodes": nodes, "closed": closed, "attempt": order}
                    self.emit(EventKind.CORDONED, at_s, cause=by, **told)

    def _ended(self, change: Ended) -> None:
        """Of a reservation that nobody has confirmed it is not known whether it was to run: it lapses, and
        nobody hears of it (RELIABILITY.md I2)."""
        lease = self._lease(change.instance)
        lapses = lease.state is LeaseState.RESERVED
        kind = EventKind.RELEASED if lapses else _KIND_OF_END[change.how]
        self.emit(kind, change.at_s, lease=convert.ended(lease, change), cause=change.cause)

    def told_late(self, lease: Lease) -> None:
        """A lease that lapsed was to run: its holder hears now that it did, and how it ended."""
        how = convert.end_of(lease).how
        begun = {"state": LeaseState.RUNNING, "ended_at_s": None, "cause": None}
        now_s = self._state.cloud.now_s
        self.emit(EventKind.ADMITTED, now_s, lease=lease.model_copy(update=begun))
        self.emit(_KIND_OF_END[how], now_s, lease=lease, cause=lease.cause)

    def _lease(self, instance: Instance) -> Lease:
        """As it stands. Of the own load's instances nothing is kept once they run: all there is to say is in
        the instance."""
        entry = self._state.booked.get(instance.id) or self._state.book.get(instance.id)
        return entry if isinstance(entry, Lease) else self.lease_of(instance, LeaseState.RUNNING)

    def lease_of(self, instance: Instance, state: LeaseState, **promise: Any) -> Lease:
        """A lease that this epoch grants. ``promise``: the request and quote of a spot instance."""
        return convert.lease_of(instance, self._spec.cloud.id, self._epoch, state, **promise)

    def _turned_away(self, change: TurnedAway, *, offers: bool) -> None:
        request, detail = change.request, None
        # What is replayed before the cloud opens is past.
        offers = offers and self._spec.overflow and self._state.opened is not None
        if offers and change.refusal.reason is Reason.NO_CAPACITY:
            detail = _OFFERED if request.lifetime_s else _NO_LIFETIME
        self.emit(
            EventKind.TURNED_AWAY,
            change.at_s,
            refusal=refusal_view(change.refusal, detail),
            # A trace may hold lifetimes of 0, which nobody may ask for.
            request=OnDemandRequest(
                id=request.id,
                cores=request.cores,
                lifetime_s=request.lifetime_s or None,
                **needs_of(request),
            ),
        )
        if detail is _OFFERED and request.lifetime_s is not None:
            wanted = (request.id, request.cores, request.lifetime_s)
            self.emit_overflow(overflow.first_offer(*wanted, **needs_of(request)))

    def emit_overflow(self, state: OverflowState) -> None:
        """The next state of an offer, and what the federation must hear of it."""
        self.emit(EventKind.OVERFLOW, self._state.cloud.now_s, overflow=state)
        item = overflow.item(self._spec.cloud.id, state, self._spec.overflow_sla)
        if item is not None:
            self.outcome.overflow.append(item)

    def emit(self, kind: EventKind, at_s: float, **fields: Any) -> None:
        """Notes an event; a public one gets the next sequence number. What befalls a reservation is not
        public before it is confirmed."""
        lease: Lease | None = fields.get("lease")
        spot = lease is not None and lease.kind is Kind.SPOT and lease.state is not LeaseState.RESERVED
        public = kind in PUBLIC_KINDS and spot
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
