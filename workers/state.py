"""The state of one cloud's owner, as the fold of its journal.

Whatever changes is an event first. A live owner lets its ``Cloud`` make the change and has the event noted;
recovery applies the journal's events in order. Both end in the same state, because ``Cloud.apply`` and
``State.note`` are the only code that changes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from broker.contract import Event, EventKind, Lease, LeaseState
from cloudsim.cloud import Cloud, CloudSpec
from cloudsim.eventlog import PHASE_ON_DEMAND, PHASE_SPOT, PHASE_STOP
from cloudsim.history import stop_phase
from cloudsim.requests import Change, Kind, Refusal, Request, Started, TurnedAway
from cloudsim.traces.trace import Trace
from workers import views
from workers.book import OPEN_STATES, Book
from workers.overflow import OverflowBook
from workers.renewals import Renewals

_ENDS = frozenset({EventKind.EVICTED, EventKind.COMPLETED, EventKind.CANCELLED, EventKind.FAILED})
_NEWS = frozenset({EventKind.EXTENDED, EventKind.WARNED, EventKind.OFFERED})


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
        self.book = Book()
        self.offers = OverflowBook()
        self.renewals = Renewals()
        self.sequence = 0  # of the latest public event
        self.admitted = 0  # spot leases
        self.evicted = 0
        self.opened: Event | None = None  # the latest OPENED
        self.place = (
            0.0,
            PHASE_STOP,
        )  # place in time (seconds, phase) of the latest start or stop in the history

    def own_load_holds(self, instance_id: str) -> bool:
        """Whether the id is one of the own load's: they count the place in it, nobody else may use them."""
        return self.spec.own_load is not None and instance_id.startswith(f"{self.spec.cloud.id}/own-")

    def apply(self, event: Event) -> None:
        """Makes a journal entry true again."""
        change = _change(event)
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
        else:
            self._note_other(event)

    def _note_other(self, event: Event) -> None:
        match event:
            case Event(kind=EventKind.ADMITTED | EventKind.RESERVED as kind, lease=Lease() as lease):
                self._note_start(lease, confirmed=kind is EventKind.ADMITTED)
            case Event(kind=EventKind.RELEASED, attempt=str(attempt)):
                if event.lease is not None:
                    self._note_stop(event.lease)
                    self.renewals.note(event.lease)
                self.book.release(attempt)
            case Event(kind=EventKind.DECLINED, attempt=str(attempt)) if event.refusal is not None:
                self.book.refuse(attempt, event.refusal)
            case Event(kind=EventKind.TURNED_AWAY) if event.refusal is not None:
                self._note_place(event.at_s, PHASE_ON_DEMAND)
                instance = _turned_away(event)
                if not self.own_load_holds(instance):
                    self.book.refuse(instance, event.refusal)
            case Event(kind=EventKind.OVERFLOW) if event.overflow is not None:
                self.offers.apply(event.overflow)
            case Event(kind=EventKind.OPENED):
                self.opened = event
            case Event(kind=EventKind.TABLE):
                pass  # the table itself is made again from the history
            case _:
                raise AssertionError(f"a {event.kind} event that lacks what it is about: {event}")

    def _note_start(self, lease: Lease, *, confirmed: bool) -> None:
        if lease.kind is Kind.ON_DEMAND:
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

    def _note_end(self, event: Event) -> None:
        assert event.lease is not None
        self.evicted += event.kind is EventKind.EVICTED
        self._note_stop(event.lease)
        self.renewals.note(event.lease)
        if not self.own_load_holds(event.lease.id):
            self.book.end(event.lease)

    def _note_stop(self, lease: Lease) -> None:
        assert lease.ended_at_s is not None
        if lease.state is LeaseState.COMPLETED:
            self._note_place(lease.ended_at_s, stop_phase(lease.starts_at_s, lease.ended_at_s))
        elif (
            lease.state is not LeaseState.EVICTED
        ):  # not in the history; its place is the start that caused it
            self._note_place(lease.ended_at_s, PHASE_STOP)

    def _note_place(self, at_s: float, phase: int) -> None:
        assert (at_s, phase) >= self.place, f"{(at_s, phase)} follows {self.place}"
        self.place = (at_s, phase)

    def validate(self) -> None:
        """Walks everything; for tests and after recovery."""
        inventory = self.cloud.inventory
        inventory.validate()
        leases = self.book.open_leases()
        running = {instance.id: instance for instance in inventory if not self.own_load_holds(instance.id)}
        assert {lease.id: views.instance_of(lease) for lease in leases} == running, "leases are not what runs"
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
    if lease is None:
        return None
    if event.kind in _ENDS or event.kind is EventKind.RELEASED:
        return views.end_of(lease)
    if event.kind is EventKind.EXTENDED:
        return views.extension_of(lease, event.cause)
    if event.kind in (EventKind.WARNED, EventKind.OFFERED):
        return None
    confirmation = event.kind is EventKind.ADMITTED and lease.kind is Kind.SPOT
    return None if confirmation else Started(views.instance_of(lease))


def _turned_away(event: Event) -> str:
    assert event.request is not None
    assert event.request.id is not None
    return event.request.id
