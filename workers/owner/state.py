"""The state of a cloud's owner, as the fold of its journal.

Every change is an event. A live owner lets its ``Cloud`` make the change and notes the event; recovery
applies the journal's events in order. Both end in the same state, because ``Cloud.apply`` and
``OwnerState.note`` are the only code that changes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from broker.contract import Answer, Done, Event, EventKind, Lease, LeaseGranted, LeaseState, RefusalView
from broker.contract.instances import InstanceCatalogue
from broker.contract.launch import Launch
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec, recorded_resources
from cloudsim.history.event_log import PHASE_ON_DEMAND, PHASE_SPOT, PHASE_STOP
from cloudsim.history.history import stop_phase
from cloudsim.model.changes import (
    Booked,
    Change,
    Cordoned,
    Noticed,
    Started,
    TurnedAway,
    Withdrawn,
    for_nobody,
)
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request
from cloudsim.model.reserved_ids import HEADROOM
from cloudsim.traces.trace import Trace
from workers.owner import convert
from workers.owner.answer_log import AnswerLog, Lapsed, Released
from workers.owner.catalogue import NoFlavour, fit_flavour
from workers.owner.overflow import OverflowOffers
from workers.owner.recorded_history import RecordedHistory
from workers.owner.renewals import RenewalSchedule

#: Events of leases that go on. ``_change_of`` knows those of them that change the cloud.
_CHANGES = frozenset(
    kind for kind in EventKind if kind.is_public and not kind.ends_lease and kind is not EventKind.ADMITTED
)
_BOOKINGS = frozenset({EventKind.BOOKED, EventKind.WITHDRAWN})
#: Number of commands that close or open nodes to remember. A repetition comes soon, when an answer was lost.
ORDERS_KEPT = 200


@dataclass(frozen=True)
class OwnerSpec:
    """Configures an owner and its cloud.

    trace_time: time moves with the commands' ``at_s`` only, and nothing expires. own_load: on-demand
    instances that the cloud starts by itself, until own_load_until_s. reservation_ttl_s: seconds after which
    a reservation that nobody confirms is given up. renewal_s: seconds for which a lease without a lifetime is
    promised at once. overflow: whether own requests that find no room are offered to the federation, as spot
    requests with overflow_sla. catalogue: returns what the instances of a real cloud may be; None for a
    simulated cloud, whose instances may be anything that fits a node.
    """

    cloud: CloudSpec
    trace_time: bool = False
    own_load: Trace | None = None
    own_load_until_s: float = math.inf
    reservation_ttl_s: float = 30.0
    renewal_s: float = 3600.0
    overflow: bool = False
    overflow_sla: float | None = None
    catalogue: Callable[[], InstanceCatalogue | None] | None = None

    @property
    def is_real(self) -> bool:
        """True if the leases of the cloud are instances of a real one, which has users of its own."""
        return self.catalogue is not None

    def fit(self, request: Request, launch: Launch | None) -> Request | NoFlavour:
        """Return a request for all that its instance takes; or why there is none, and the same in words."""
        if self.catalogue is not None:
            return fit_flavour(self.catalogue(), request, launch, self.cloud.details.resources[1:])
        if launch is not None:
            return NoFlavour(RefusalReason.NOT_ALLOWED, "the instances of a simulated cloud run nothing")
        return request


class OwnerState:
    """A cloud, the answers that were given about it, and counters. ``apply`` is recovery."""

    def __init__(self, spec: OwnerSpec):
        self.spec = spec
        self.cloud = Cloud(spec.cloud, spec.own_load, spec.own_load_until_s)
        self.history = RecordedHistory(recorded_resources(spec.cloud))
        self.cloud.history = self.history
        self.answer_log = AnswerLog()
        self.offers = OverflowOffers()
        self.renewals = RenewalSchedule()
        self.sequence = 0  # of the latest public event
        self.admitted = 0  # spot leases
        self.evicted = 0
        self.opened: Event | None = None  # the latest OPENED
        self.booked: dict[str, Lease] = {}  # on-demand that waits for room, the own load's too
        self.orders: dict[str, None] = {}  # ids of the latest commands that closed or opened nodes
        # A lapsed reservation that the entry before confirmed: the next entry tells its end.
        self._lapsed_confirmed: str | None = None
        # Place in time (seconds, phase) of the latest start or stop in the history.
        self.place = (0.0, PHASE_STOP)
        # Latest start of an instance that had waited for room; in the history it starts when it is booked.
        self.waited_s = 0.0

    def own_load_holds(self, instance_id: str) -> bool:
        """Return whether an id belongs to the own load or the headroom of this cloud.

        Nobody else may use it: ids of the own load count the place in it, those of the headroom come again.
        """
        cloud = self.spec.cloud.id
        if instance_id.startswith(f"{cloud}/{HEADROOM}"):
            return True
        return self.spec.own_load is not None and instance_id.startswith(f"{cloud}/own-")

    def known(self, entry_id: str, kind: Kind) -> Answer | None:
        """Return the answer that an id has already got, or None.

        Returns ``Done(found=False)`` for an id that means something else than an instance of that kind.
        """
        if self.own_load_holds(entry_id):
            return Done(found=False)
        match self.answer_log.get(entry_id):
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
        """Make a journal entry true again."""
        if event.kind is EventKind.CONSIDERED:
            self.cloud.recall_considered(event.considered)
        change = None if self._ends_lapsed(event) else _change(event)
        if change is not None:
            self.cloud.recall(change)
        self.cloud.now_s = max(self.cloud.now_s, event.at_s)
        self.note(event)

    def note(self, event: Event) -> None:
        """Make true what an entry changes beside the cloud itself."""
        if event.sequence is not None:
            assert event.sequence == self.sequence + 1, f"{event.sequence} follows {self.sequence}"
            self.sequence = event.sequence
        if event.kind.ends_lease:
            self._note_end(event)
        elif event.kind in _CHANGES:
            self._note_change(event)
        elif event.kind in _BOOKINGS:
            self._note_booking(event)
        else:
            self._note_other(event)

    def _ends_lapsed(self, event: Event) -> bool:
        """Return whether an entry tells the end of a lapsed reservation, which has happened before."""
        return event.kind.ends_lease and event.lease is not None and event.lease.id == self._lapsed_confirmed

    def _note_other(self, event: Event) -> None:
        match event:
            case Event(kind=EventKind.ADMITTED | EventKind.RESERVED as kind, lease=Lease() as lease):
                self._note_start(lease, confirmed=kind is EventKind.ADMITTED)
            case Event(kind=EventKind.RELEASED):
                self._note_released(event)
            case Event(kind=EventKind.DECLINED, attempt=str(attempt)) if event.refusal is not None:
                self.answer_log.refuse(attempt, event.refusal)
                if event.waits is not None:
                    self.cloud.contention.note_refusal(event.waits, event.at_s)
            case Event(kind=EventKind.TURNED_AWAY) if event.refusal is not None:
                self._note_place(event.at_s, PHASE_ON_DEMAND)
                instance = _turned_away_id(event)
                if not self.own_load_holds(instance):
                    self.answer_log.refuse(instance, event.refusal)
            case Event(kind=EventKind.OVERFLOW) if event.overflow is not None:
                self.offers.apply(event.overflow)
            case Event(kind=EventKind.OPENED):
                self.note_opening(event)
            case Event(kind=EventKind.CORDONED):
                self._note_order(event.attempt)  # the cloud knows its closed nodes
            case Event(kind=EventKind.TABLE | EventKind.CONSIDERED):
                pass  # the table itself is made again from the history; the cloud has noted the request
            case _:
                raise AssertionError(f"a {event.kind} event that lacks what it is about: {event}")

    def note_opening(self, event: Event) -> None:
        """Note that the cloud opened. What was recorded of a real cloud's users is past then."""
        self.opened = event
        if self.spec.is_real:  # its record may have grown since, as prices do
            self.cloud.end_own_load()

    def _note_released(self, event: Event) -> None:
        """Note the release of a reservation, of one that must never come, or the lapse of one."""
        lease, attempt = event.lease, event.attempt
        if lease is not None:
            self._note_stop(lease)
            self.renewals.note(lease)
        if attempt is not None:
            self.answer_log.release(attempt)
        else:
            assert lease is not None, f"an end of nothing: {event}"
            self.answer_log.lapse(lease)

    def _note_order(self, order: str | None) -> None:
        if order is not None:
            self.orders[order] = None
            if len(self.orders) > ORDERS_KEPT:
                del self.orders[next(iter(self.orders))]

    def _note_start(self, lease: Lease, *, confirmed: bool) -> None:
        if confirmed and isinstance(self.answer_log.get(lease.id), Lapsed):
            self.admitted += 1
            self._lapsed_confirmed = lease.id
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
            self.answer_log.put(lease)
            self.renewals.note(lease)

    def _note_change(self, event: Event) -> None:
        """Note a change of a lease that goes on."""
        assert event.lease is not None
        self.answer_log.put(event.lease)
        self.renewals.note(event.lease)
        if event.attempt is not None:
            self.answer_log.answer(event.attempt, event.lease)
        if event.lease.renewed_at_s == event.at_s:
            self.place = max(self.place, (event.at_s, PHASE_SPOT))

    def _note_booking(self, event: Event) -> None:
        lease = event.lease
        assert lease is not None
        if event.kind is EventKind.BOOKED:
            self._note_place(event.at_s, PHASE_ON_DEMAND)
            self.booked[lease.id] = lease
            if not self.own_load_holds(lease.id):
                self.answer_log.put(lease)
        else:
            self._note_stop(lease)
            del self.booked[lease.id]
            if not self.own_load_holds(lease.id):
                self.answer_log.end(lease)

    def _note_end(self, event: Event) -> None:
        assert event.lease is not None
        self.evicted += event.kind is EventKind.EVICTED
        if self._ends_lapsed(event):
            self.answer_log.confirm_lapsed(event.lease)
            self._lapsed_confirmed = None
            return
        self._note_stop(event.lease)
        self.renewals.note(event.lease)
        if not self.own_load_holds(event.lease.id):
            self.answer_log.end(event.lease)

    def _note_stop(self, lease: Lease) -> None:
        assert lease.ended_at_s is not None
        if lease.state is LeaseState.COMPLETED:
            self._note_place(lease.ended_at_s, stop_phase(lease.starts_at_s, lease.ended_at_s))
        elif lease.state is not LeaseState.EVICTED:
            self._note_place(lease.ended_at_s, PHASE_STOP)
        elif for_nobody(lease.cause):
            self.place = max(self.place, (lease.ended_at_s, PHASE_STOP))
        # Else it was evicted for a start: that start is its place, and the history does not hold the
        # eviction.

    def _note_place(self, at_s: float, phase: int) -> None:
        assert (at_s, phase) >= self.place, f"{(at_s, phase)} follows {self.place}"
        self.place = (at_s, phase)

    def validate(self) -> None:
        """Check all invariants; for tests and after recovery."""
        inventory = self.cloud.inventory
        inventory.validate()
        leases = self.answer_log.open_leases()
        booked = inventory.booked()
        instances = {
            instance.id: instance
            for instance in (*inventory, *booked)
            if not self.own_load_holds(instance.id)
        }
        leased = {lease.id: convert.instance_of(lease) for lease in leases}
        assert leased == instances, "leases are not what runs"
        assert tuple(convert.instance_of(lease) for lease in self.booked.values()) == booked
        assert all(lease.state is LeaseState.BOOKED for lease in self.booked.values())
        assert all(lease.state.is_open for lease in leases)
        assert self.cloud.now_s >= self.place[0]
        assert self.evicted <= self.sequence


def _change(event: Event) -> Change | None:
    """Return the change of the cloud that an entry records, or None."""
    lease = event.lease
    if event.kind is EventKind.TURNED_AWAY:
        assert event.request is not None
        assert event.refusal is not None
        request = Request(
            _turned_away_id(event), Kind.ON_DEMAND, event.request.cores, event.request.lifetime_s
        )
        return TurnedAway(request, event.at_s, Refusal(event.cloud, event.refusal.reason))
    if event.kind is EventKind.CORDONED:
        assert event.closed is not None
        return Cordoned(event.nodes, event.closed, event.at_s)
    return None if lease is None else _change_of(event, lease)


def _change_of(event: Event, lease: Lease) -> Change | None:
    """Return the change of the cloud that an entry about a lease records, or None."""
    if event.kind.ends_lease or event.kind is EventKind.RELEASED:
        return convert.end_of(lease)
    if event.kind is EventKind.EXTENDED:
        return convert.extension_of(lease, event.cause)
    if event.kind in _CHANGES and event.kind is not EventKind.NOTICED:
        return None
    return _start_of(event, lease)


def _start_of(event: Event, lease: Lease) -> Change | None:
    """Return the change that takes an instance a step onto its node, or off it; None for a confirmation."""
    instance = convert.instance_of(lease)
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


def _turned_away_id(event: Event) -> str:
    assert event.request is not None
    assert event.request.id is not None
    return event.request.id
