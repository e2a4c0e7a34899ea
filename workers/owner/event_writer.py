"""Writes down what an owner decides: changes of its cloud become journal entries, replies and offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.contract import (
    Event,
    EventKind,
    Launch,
    Lease,
    LeaseState,
    OnDemandRequest,
    OverflowState,
    OverflowTerms,
    Reply,
)
from broker.contract.convert import to_needs_fields, to_refusal_view
from cloudsim.model.changes import (
    Booked,
    Change,
    Cordoned,
    End,
    Ended,
    Extended,
    Noticed,
    Started,
    TurnedAway,
    Withdrawn,
)
from cloudsim.model.instances import Instance
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Kind
from workers.owner import convert, overflow
from workers.owner.state import OwnerState

_KIND_OF_END = {
    End.COMPLETED: EventKind.COMPLETED,
    End.EVICTED: EventKind.EVICTED,
    End.CANCELLED: EventKind.CANCELLED,
    End.FAILED: EventKind.FAILED,
}
_NO_LIFETIME = "not offered to the federation: a spot request needs a lifetime, and this one names none"
_OFFERED = "offered to the federation as a spot request"


@dataclass
class Decisions:
    """The outcome of some commands, in order, to be committed together.

    events: entries for the journal. replies: (reply stream, reply). overflow: entries for the overflow
    stream.
    """

    events: list[Event] = field(default_factory=list)
    replies: list[tuple[str, Reply]] = field(default_factory=list)
    overflow: list[dict[str, Any]] = field(default_factory=list)

    @property
    def leases(self) -> list[Lease]:
        """Spot leases that changed, as they are now."""
        changed = {
            event.lease.id: event.lease
            for event in self.events
            if event.lease and event.lease.kind is Kind.SPOT
        }
        return list(changed.values())

    def __bool__(self) -> bool:
        return bool(self.events or self.replies or self.overflow)

    def extend(self, other: Decisions) -> None:
        """Add the decisions that followed."""
        self.events += other.events
        self.replies += other.replies
        self.overflow += other.overflow


class EventWriter:
    """Notes events in the state, and gathers the decisions of one step of the owner.

    ``begin`` starts the next step.
    """

    def __init__(self, state: OwnerState, epoch: int):
        self._state, self._spec, self._epoch = state, state.spec, epoch
        self._now = ""
        self.decisions = Decisions()

    def begin(self, now: str) -> None:
        """Start a new step, at ``now`` (RFC 3339)."""
        self._now, self.decisions = now, Decisions()

    def record(
        self,
        changes: list[Change],
        by: str | None = None,
        *,
        order: str | None = None,
        offers: bool = True,
        terms: OverflowTerms | None = None,
        launches: Mapping[str, Launch | None] | None = None,
    ) -> None:
        """Turn changes that the cloud has made into events.

        by: who closes or opens nodes. order: id of the command that closes or opens them. offers: whether
        requests that were turned away may be offered to the federation. terms: what is offered then; None:
        what was turned away. launches: what the on-demand instances that start run, by id.
        """
        launches = launches or {}
        for change in changes:
            match change:
                case Started(instance):
                    assert instance.kind is Kind.ON_DEMAND
                    lease = convert.started(self._lease(instance), instance)
                    if (launch := launches.get(instance.id)) is not None:
                        lease = lease.model_copy(update={"launch": launch})
                    self.emit(EventKind.ADMITTED, instance.start_s, lease=lease)
                case Ended():
                    self._record_end(change)
                case TurnedAway():
                    self._record_turned_away(change, offers=offers, terms=terms)
                case Noticed(instance, at_s, cause):
                    lease = self._lease(instance).model_copy(update={"evict_at_s": instance.evict_at_s})
                    self.emit(EventKind.NOTICED, at_s, lease=lease, cause=cause)
                case Booked(instance, at_s, starts_by_s):
                    lease = self.lease_of(instance, LeaseState.BOOKED)
                    update = {"starts_by_s": starts_by_s, "launch": launches.get(instance.id)}
                    lease = lease.model_copy(update=update)
                    self.emit(EventKind.BOOKED, at_s, lease=lease)
                case Withdrawn(instance, at_s):
                    lease = convert.withdrawn(self._lease(instance), at_s)
                    self.emit(EventKind.WITHDRAWN, at_s, lease=lease)
                case Cordoned(nodes, closed, at_s):
                    self.emit(EventKind.CORDONED, at_s, cause=by, nodes=nodes, closed=closed, attempt=order)

    def _record_end(self, change: Ended) -> None:
        lease = self._lease(change.instance)
        kind = _kind_of_end(lease, change.how)
        self.emit(kind, change.at_s, lease=convert.ended(lease, change), cause=change.cause)

    def record_extension(self, lease: Lease, changes: list[Change], attempt: str | None = None) -> Lease:
        """Write that the cloud has extended a lease, and return the lease with its later end.

        ``attempt`` is the id under which the answer is kept; None for a renewal, which nobody asked for.
        """
        (change,) = changes
        assert isinstance(change, Extended)
        table = self._state.cloud.table
        longer = convert.extended(lease, change, table.version if table else None)
        self.emit(EventKind.EXTENDED, change.at_s, lease=longer, attempt=attempt, cause=change.cause)
        return longer

    def tell_lapsed(self, lease: Lease) -> None:
        """Write the public events of a lapsed lease that was to run: it was admitted, and how it ended."""
        how = convert.end_of(lease).how
        begun = {"state": LeaseState.RUNNING, "ended_at_s": None, "cause": None}
        now_s = self._state.cloud.now_s
        self.emit(EventKind.ADMITTED, now_s, lease=lease.model_copy(update=begun))
        self.emit(_KIND_OF_END[how], now_s, lease=lease, cause=lease.cause)

    def _lease(self, instance: Instance) -> Lease:
        """Return the lease of an instance as it stands.

        Nothing is kept of the own load's instances once they run; their lease follows from the instance.
        """
        entry = self._state.booked.get(instance.id) or self._state.answer_log.get(instance.id)
        return entry if isinstance(entry, Lease) else self.lease_of(instance, LeaseState.RUNNING)

    def lease_of(self, instance: Instance, state: LeaseState, **promise: Any) -> Lease:
        """Return a lease that this epoch grants. ``promise``: the request and quote of a spot instance."""
        return convert.lease_of(instance, self._spec.cloud.id, self._epoch, state, **promise)

    def _record_turned_away(
        self, change: TurnedAway, *, offers: bool, terms: OverflowTerms | None = None
    ) -> None:
        request, detail = change.request, None
        # Own load that is replayed before the cloud first opens is past.
        offers = offers and self._spec.overflow and self._state.opened is not None
        if offers and change.refusal.reason is RefusalReason.NO_CAPACITY:
            detail = _OFFERED if request.lifetime_s else _NO_LIFETIME
        self.emit(
            EventKind.TURNED_AWAY,
            change.at_s,
            refusal=to_refusal_view(change.refusal, detail),
            # A trace may hold lifetimes of 0, which nobody may ask for.
            request=OnDemandRequest(
                id=request.id,
                cores=request.cores,
                lifetime_s=request.lifetime_s or None,
                **to_needs_fields(request),
            ),
        )
        if detail is _OFFERED and request.lifetime_s is not None:
            needs = to_needs_fields(request)
            lifetime_s, launch = request.lifetime_s, None
            if terms is not None:
                needs, lifetime_s, launch = terms.dump_needs(), terms.lifetime_s, terms.launch
            self.emit_overflow(
                overflow.first_offer(request.id, request.cores, lifetime_s, launch=launch, **needs)
            )

    def emit_overflow(self, state: OverflowState) -> None:
        """Write the next state of an offer, and what the federation must hear of it."""
        self.emit(EventKind.OVERFLOW, self._state.cloud.now_s, overflow=state)
        entry = overflow.stream_entry(self._spec.cloud.id, state, self._spec.overflow_sla)
        if entry is not None:
            self.decisions.overflow.append(entry)

    def emit(self, kind: EventKind, at_s: float, **fields: Any) -> None:
        """Note an event; a public one gets the next sequence number."""
        public = _is_public(kind, fields.get("lease"))
        event = Event(
            cloud=self._spec.cloud.id,
            kind=kind,
            at_s=at_s,
            at=self._now,
            sequence=self._state.sequence + 1 if public else None,
            **fields,
        )
        self._state.note(event)
        self.decisions.events.append(event)


def _is_public(kind: EventKind, lease: Lease | None) -> bool:
    """Return whether an event is published: one of a spot lease that is not a mere reservation."""
    if lease is None or lease.kind is not Kind.SPOT or lease.state is LeaseState.RESERVED:
        return False
    return kind.is_public


def _kind_of_end(lease: Lease, how: End) -> EventKind:
    """Return the kind of the event that tells an end. ``lease``: as it was before.

    A reservation lapses, without a public event: before it is confirmed, nobody knows whether it was to run
    (docs/design/reliability.md "Invariants", I2).
    """
    return EventKind.RELEASED if lease.state is LeaseState.RESERVED else _KIND_OF_END[how]
