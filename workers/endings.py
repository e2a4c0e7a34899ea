"""Leases that end because somebody says so, and what is answered to whoever ends one."""

from __future__ import annotations

from broker.contract import Acknowledge, Answer, Done, EventKind, Gone, Lease, LeaseGranted, LeaseState
from cloudsim.model.changes import TAKEN
from cloudsim.history.event_log import PHASE_ON_DEMAND, PHASE_STOP
from cloudsim.model.changes import End, Ended
from cloudsim.model.requests import Kind
from workers import views
from workers.book import Released
from workers.passage import Passage
from workers.recorder import Recorder
from workers.state import State


class Endings:
    """The part of an owner that ends leases for others. What time brings is ``Passage``."""

    def __init__(self, state: State, recorder: Recorder, passage: Passage):
        self._state, self._recorder, self._passage = state, recorder, passage

    def stop(self, lease_id: str, kind: Kind, at_s: float, cause: str, how: End = End.CANCELLED) -> Answer:
        """Ends a running or booked instance, as whoever holds it wants; an ended one stays as it ended."""
        at_s = self._passage.step(at_s, PHASE_STOP)
        cloud, events = self._state.cloud, self._recorder.outcome.events
        instance = cloud.inventory.get(lease_id) or cloud.inventory.waiting(lease_id)
        if instance is not None and instance.kind is kind:
            before = len(events)
            self._recorder.record(cloud.end(lease_id, at_s, how, cause))
            lease = events[before].lease  # those that it makes room for come after it
            assert lease is not None
            return LeaseGranted(lease=lease)
        return self._as_it_is(lease_id, kind)

    def gone(self, command: Gone, at_s: float) -> Answer:
        """Ends a lease whose instance is not there any more. What was not confirmed yet lapses."""
        how = End(command.how)
        cause = f"{TAKEN}{command.why}" if how is End.EVICTED else command.why
        return self.stop(command.lease, Kind.SPOT, at_s, cause, how)

    def acknowledge(self, command: Acknowledge, at_s: float) -> Answer:
        """Lets an instance go that was told to leave. One that was not told stays, as it then is."""
        at_s = self._passage.step(at_s, PHASE_ON_DEMAND)
        self._recorder.record(self._state.cloud.acknowledge(command.lease, at_s))
        return self._as_it_is(command.lease, Kind.SPOT)

    def release(self, attempt: str, at_s: float) -> Answer:
        """The broker decided against an attempt, whether its reservation came or not."""
        entry = self._state.book.get(attempt)
        if entry is None and not self._state.own_load_holds(attempt):
            self._passage.advance(at_s)
            self._recorder.emit(EventKind.RELEASED, self._state.cloud.now_s, attempt=attempt)  # a tombstone
            return Done(found=False)
        if isinstance(entry, Released):
            return Done(found=entry.held)
        reserved = isinstance(entry, Lease) and entry.state is LeaseState.RESERVED
        if reserved and self.end_reservation(attempt, at_s):
            return Done()
        return self.stop(attempt, Kind.SPOT, at_s, "released")

    def expire(self, attempt: str, at_s: float) -> None:
        """Takes an instance off its node that nobody confirmed in time, unless its time came before."""
        at_s = self._passage.step(at_s, PHASE_STOP)
        self._recorder.record(self._state.cloud.end(attempt, at_s, End.CANCELLED, "expired"))

    def end_reservation(self, attempt: str, at_s: float, cause: str = "released") -> bool:
        """Takes an instance off its node that the broker gave up; False when its time came before."""
        at_s = self._passage.step(at_s, PHASE_STOP)
        lease = self._state.book.get(attempt)
        if not isinstance(lease, Lease):
            return False
        changes = self._state.cloud.end(attempt, at_s, End.CANCELLED, cause)
        if not changes:
            return False
        change, *starts = changes
        assert isinstance(change, Ended)
        lease = views.ended(lease, change)
        self._recorder.emit(EventKind.RELEASED, at_s, lease=lease, attempt=attempt, cause=cause)
        self._recorder.record(starts)
        return True

    def _as_it_is(self, lease_id: str, kind: Kind) -> Answer:
        known = self._state.known(lease_id, kind)
        return known if isinstance(known, LeaseGranted) else Done(found=False)
