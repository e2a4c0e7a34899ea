"""The state of one cloud's owner, as the fold of its journal.

Whatever changes is an event first. A live owner lets its ``Cloud`` make the change and has the event noted;
recovery applies the journal's events in order. Both end in the same state, because ``Cloud.apply`` and
``State.note`` are the only code that changes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from broker.contract import Answer, Done, Event, EventKind, Lease, LeaseGranted, LeaseState, RefusalView
from cloudsim.cloud.cloud import Cloud
from cloudsim.model.changes import for_nobody
from cloudsim.cloud.headroom import HEADROOM
from cloudsim.cloud.spec import CloudSpec, recorded_resources
from cloudsim.history.event_log import PHASE_ON_DEMAND, PHASE_SPOT, PHASE_STOP
from cloudsim.history.history import stop_phase
from cloudsim.model.changes import Booked, Change, Cordoned, Noticed, Started, TurnedAway, Withdrawn
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind, Request
from cloudsim.traces.trace import Trace
from workers import views
from workers.book import OPEN_STATES, Book, Lapsed, Released
from workers.kept_history import KeptHistory
from workers.overflow import OverflowBook
from workers.renewals import Renewals

_ENDS = frozenset({EventKind.EVICTED, EventKind.COMPLETED, EventKind.CANCELLED, EventKind.FAILED})
_NEWS = frozenset({EventKind.EXTENDED, EventKind.WARNED, EventKind.OFFERED, EventKind.NOTICED})
_BOOKINGS = frozenset({EventKind.BOOKED, EventKind.WITHDRAWN})
#: Commands to close or open nodes. A repetition comes soon, from who did not hear the answer.
ORDERS_KEPT = 200


@dataclass(frozen=True)
class OwnerSpec:
    """What an owner is told about its cloud.

    trace_time: time moves with the commands' ``at_s`` only, and nothing expires. own_load: played by the
    cloud itself until own_load_until_s. renewal_s: for how long a lease without a lifetime is promised at
    once. overflow: own requests that find no room are offered to the
    federation as spot requests with overflow_sla.
    """

    cloud: CloudSpec
    trace_time: bool = False
    own_load: Trace | None = None
    own_load_until_s: float = math.inf
    reservation_ttl_s: float = 30.0
    renewal_s: float = 3600.0
    overflow: bool = False
    overflow_sla: float | None = None


class State:
    """A cloud, what was answered about it, and what was counted. ``apply`` is recovery."""

    def __init__(self, spec: OwnerSpec):
        self.spec = spec
        self.cloud = Cloud(spec.cloud, spec.own_load, spec.own_load_until_s)
        self.history = KeptHistory(recorded_resources(spec.cloud))
        self.cloud.history = self.history
        self.book = Book()
        self.offers = OverflowBook()
        self.renewals = Renewals()
        self.sequence = 0  # of the latest public event
        self.admitted = 0  # spot leases
        self.evicted = 0
        self.opened: Event | None = None  # the latest OPENED
        self.booked: dict[str, Lease] = {}  # on-demand that waits for room, the own load's too
        self.orders: dict[str, None] = {}  # ids of the latest commands that closed or opened nodes
        # A reservation that had lapsed and was confirmed in the entry before: its end is told next.
        self._told_late: str | None = None
        # Place in time (seconds, phase) of the latest start or stop in the history.
        self.place = (0.0, PHASE_STOP)
        # When the latest of those started that had waited; in the history they start when they are booked.
        self.waited_s = 0.0

    def own_load_holds(self, instance_id: str) -> bool:
        """Whether the id is one of the own load's, which count the place in it, or of the headroom's, which
        come again: nobody else may use them."""
        cloud = self.spec.cloud.id
        if instance_id.startswith(f"{cloud}/{HEADROOM}"):
            return True
        return self.spec.own_load is not None and instance_id.startswith(f"{cloud}/own-")

    def known(self, entry_id: str, kind: Kind) -> Answer | None:
        """The answer this id has already got; ``Done(found=False)`` for one that means something else."""
        if self.own_load_holds(entry_id):
            return Done(found=False)
        match self.book.get(entry_id):
            case None:
                return None
            case Lease() as lease:
                return LeaseGranted(lease=lease) if lease.kind is kind else Done(found=False)
            case RefusalView() as refusal:
                return refusal
            case Lapsed(lease):
                return LeaseGranted(lease=lease) if kind is Kind.SPOT else Done(found=False)
            case Released():
                return Done(found=False)

    def apply(self, event: Event) -> None:
        """Makes a journal entry true again."""
        change = None if self._is_told_late(event) else _change(event)
        if change is not None:
            self.cloud.apply(change)
        self.note(event)

    def note(self, event: Event) -> None:
        """What an entry changes beside the cloud itself."""
        if event.sequence is not None:
            assert event.sequence == self.sequence + 1, f"{event.sequence} follows {self.sequence}"
            self.sequence = event.sequence
        if event.kind in _ENDS:
            self._note_end(event)
        elif event.kind in _NEWS:
            self._note_news(event)
        elif event.kind in _BOOKINGS:
            self._note_booking(event)
        else:
            self._note_other(event)

    def _is_told_late(self, event: Event) -> bool:
        """The end of what had lapsed: it has happened before."""
        return event.kind in _ENDS and event.lease is not None and event.lease.id == self._told_late

    def _note_other(self, event: Event) -> None:
        match event:
            case Event(kind=EventKind.ADMITTED | EventKind.RESERVED as kind, lease=Lease() as lease):
                self._note_start(lease, confirmed=kind is EventKind.ADMITTED)
            case Event(kind=EventKind.RELEASED):
                self._note_released(event)
            case Event(kind=EventKind.DECLINED, attempt=str(attempt)) if event.refusal is not None:
                self.book.refuse(attempt, event.refusal)
                if event.waits is not None:
                    self.cloud.contention.note(event.waits, event.at_s)
            case Event(kind=EventKind.TURNED_AWAY) if event.refusal is not None:
                self._note_place(event.at_s, PHASE_ON_DEMAND)
                instance = _turned_away(event)
                if not self.own_load_holds(instance):
                    self.book.refuse(instance, event.refusal)
            case Event(kind=EventKind.OVERFLOW) if event.overflow is not None:
                self.offers.apply(event.overflow)
            case Event(kind=EventKind.OPENED):
                self.opened = event
            case Event(kind=EventKind.CORDONED):
                self._note_order(event.attempt)  # the cloud knows its closed nodes
            case Event(kind=EventKind.TABLE):
                pass  # the table itself is made again from the history
            case _:
                raise AssertionError(f"a {event.kind} event that lacks what it is about: {event}")

    def _note_released(self, event: Event) -> None:
        """Of a reservation, or of one that must never come."""
        lease, attempt = event.lease, event.attempt
        if lease is not None:
            self._note_stop(lease)
            self.renewals.note(lease)
        if attempt is not None:
            self.book.release(attempt)
        else:
            assert lease is not None, f"an end of nothing: {event}"
            self.book.lapse(lease)

    def _note_order(self, order: str | None) -> None:
        if order is not None:
            self.orders[order] = None
            if len(self.orders) > ORDERS_KEPT:
                del self.orders[next(iter(self.orders))]

    def _note_start(self, lease: Lease, *, confirmed: bool) -> None:
        if confirmed and isinstance(self.book.get(lease.id), Lapsed):
            self.admitted += 1
            self._told_late = lease.id
            return
        if self.booked.pop(lease.id, None) is not None:
            self.waited_s = lease.starts_at_s
        elif lease.kind is Kind.ON_DEMAND:
            self._note_place(lease.starts_at_s, PHASE_ON_DEMAND)
        elif confirmed:
            self.admitted += 1  # it has been running since it was reserved
        else:
            self._note_place(lease.starts_at_s, PHASE_SPOT)
        if not self.own_load_holds(lease.id):
            self.book.put(lease)
            self.renewals.note(lease)

    def _note_news(self, event: Event) -> None:
        """What becomes of a lease while it runs."""
        assert event.lease is not None
        self.book.put(event.lease)
        self.renewals.note(event.lease)
        if event.attempt is not None:
            self.book.answer(event.attempt, event.lease)
        if event.lease.renewed_at_s == event.at_s:
            self.place = max(self.place, (event.at_s, PHASE_SPOT))

    def _note_booking(self, event: Event) -> None:
        lease = event.lease
        assert lease is not None
        if event.kind is EventKind.BOOKED:
            self._note_place(event.at_s, PHASE_ON_DEMAND)
            self.booked[lease.id] = lease
            if not self.own_load_holds(lease.id):
                self.book.put(lease)
        else:
            self._note_stop(lease)
            del self.booked[lease.id]
            if not self.own_load_holds(lease.id):
                self.book.end(lease)

    def _note_end(self, event: Event) -> None:
        assert event.lease is not None
        self.evicted += event.kind is EventKind.EVICTED
        if self._is_told_late(event):
            self.book.confirm_lapsed(event.lease)
            self._told_late = None
            return
        self._note_stop(event.lease)
        self.renewals.note(event.lease)
        if not self.own_load_holds(event.lease.id):
            self.book.end(event.lease)

    def _note_stop(self, lease: Lease) -> None:
        assert lease.ended_at_s is not None
        if lease.state is LeaseState.COMPLETED:
            self._note_place(lease.ended_at_s, stop_phase(lease.starts_at_s, lease.ended_at_s))
        elif lease.state is not LeaseState.EVICTED:
            self._note_place(lease.ended_at_s, PHASE_STOP)
        elif for_nobody(lease.cause):
            self.place = max(self.place, (lease.ended_at_s, PHASE_STOP))
        # Else it is not in the history; its place is the start that caused it.

    def _note_place(self, at_s: float, phase: int) -> None:
        assert (at_s, phase) >= self.place, f"{(at_s, phase)} follows {self.place}"
        self.place = (at_s, phase)

    def validate(self) -> None:
        """Walks everything; for tests and after recovery."""
        inventory = self.cloud.inventory
        inventory.validate()
        leases = self.book.open_leases()
        booked = inventory.booked()
        there = (*inventory, *booked)
        held = {instance.id: instance for instance in there if not self.own_load_holds(instance.id)}
        assert {lease.id: views.instance_of(lease) for lease in leases} == held, "leases are not what runs"
        assert tuple(views.instance_of(lease) for lease in self.booked.values()) == booked
        assert all(lease.state is LeaseState.BOOKED for lease in self.booked.values())
        assert all(lease.state in OPEN_STATES for lease in leases)
        assert self.cloud.now_s >= self.place[0]
        assert self.evicted <= self.sequence


def _change(event: Event) -> Change | None:
    """The change of the cloud that an entry records, if any."""
    lease = event.lease
    if event.kind is EventKind.TURNED_AWAY:
        assert event.request is not None
        assert event.refusal is not None
        request = Request(_turned_away(event), Kind.ON_DEMAND, event.request.cores, event.request.lifetime_s)
        return TurnedAway(request, event.at_s, Refusal(event.cloud, event.refusal.reason))
    if event.kind is EventKind.CORDONED:
        assert event.closed is not None
        return Cordoned(event.nodes, event.closed, event.at_s)
    return None if lease is None else _change_of(event, lease)


def _change_of(event: Event, lease: Lease) -> Change | None:
    """Of an entry about a lease."""
    if event.kind in _ENDS or event.kind is EventKind.RELEASED:
        return views.end_of(lease)
    if event.kind is EventKind.EXTENDED:
        return views.extension_of(lease, event.cause)
    if event.kind in (EventKind.WARNED, EventKind.OFFERED):
        return None
    return _start_of(event, lease)


def _start_of(event: Event, lease: Lease) -> Change | None:
    """Of an entry that says how far an instance is on its way onto its node, or off it."""
    instance = views.instance_of(lease)
    match event.kind:
        case EventKind.NOTICED:
            return Noticed(instance, event.at_s, event.cause)
        case EventKind.BOOKED:
            assert lease.starts_by_s is not None
            return Booked(instance, event.at_s, lease.starts_by_s)
        case EventKind.WITHDRAWN:
            assert lease.ended_at_s is not None
            return Withdrawn(instance, lease.ended_at_s)
    confirmation = event.kind is EventKind.ADMITTED and lease.kind is Kind.SPOT
    return None if confirmation else Started(instance)


def _turned_away(event: Event) -> str:
    assert event.request is not None
    assert event.request.id is not None
    return event.request.id
