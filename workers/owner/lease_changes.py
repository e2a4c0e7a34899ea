"""Changes of spot leases that holders, the broker or the cloud ask for: a later end, or the end.

Each function carries out one command at ``at_s`` (seconds of the cloud's time), and lets the time before it
pass first.
"""

from __future__ import annotations

from broker.contract import (
    Acknowledge,
    Answer,
    Cancel,
    Done,
    EventKind,
    Extend,
    Gone,
    Lease,
    LeaseGranted,
    LeaseState,
    Migrate,
    RefusalView,
    Release,
)
from broker.contract.convert import to_refusal_view
from cloudsim.history.event_log import PHASE_ON_DEMAND, PHASE_STOP
from cloudsim.model.changes import TAKEN, End, Ended
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind
from workers.owner import clock, convert
from workers.owner.answer_log import Released
from workers.owner.event_writer import EventWriter
from workers.owner.state import OwnerState

# -- later ends ----------------------------------------------------------------------------------------------


def recall_extension(state: OwnerState, command: Extend) -> Answer | None:
    """Return the answer that the same extension has got before, or None."""
    match state.answer_log.get(_extension_id(command)):
        case Lease() as lease:
            return LeaseGranted(lease=lease)
        case RefusalView() as refusal:
            return refusal
    return None


def extend(state: OwnerState, writer: EventWriter, command: Extend, at_s: float) -> Answer:
    """Give a running spot lease a later end, if its risk until then is within the SLA."""
    clock.advance(state, writer, at_s)
    lease, now_s = state.answer_log.get(command.lease), state.cloud.now_s
    if not isinstance(lease, Lease) or lease.kind is not Kind.SPOT or lease.state is LeaseState.RESERVED:
        return Done(found=False)
    if _lasts_until(lease, command.until_s):
        return LeaseGranted(lease=lease)
    changes = state.cloud.extend(command.lease, command.until_s, now_s, command.sla, "holder")
    if isinstance(changes, Refusal):
        refusal = to_refusal_view(changes, cores=lease.cores, cloud_time_s=now_s)
        writer.emit(EventKind.DECLINED, now_s, attempt=_extension_id(command), refusal=refusal)
        return refusal
    return LeaseGranted(lease=writer.record_extension(lease, changes, _extension_id(command)))


def _lasts_until(lease: Lease, until_s: float) -> bool:
    """Return whether a lease is, or was, granted until that time anyway."""
    return lease.ends_at_s is not None and until_s <= lease.ends_at_s


def _extension_id(command: Extend) -> str:
    return f"{command.lease}#{command.extension}"  # no id of an instance looks like this


def recall_migration_offers(state: OwnerState, command: Migrate) -> Answer | None:
    """Return the answer to offers for a lease whose holder has got some before, or None."""
    return None if state.answer_log.get(_migration_id(command)) is None else Done()


def announce_migration_offers(
    state: OwnerState, writer: EventWriter, command: Migrate, at_s: float
) -> Answer:
    """Tell the holder of a lease that is not renewed what other clouds would promise, once a lease."""
    clock.advance(state, writer, at_s)
    lease = state.answer_log.get(command.lease)
    if not isinstance(lease, Lease) or lease.ended_at_s is not None or lease.warned_at_s is None:
        return Done(found=False)
    writer.emit(
        EventKind.OFFERED,
        state.cloud.now_s,
        lease=lease,
        attempt=_migration_id(command),
        offers=command.offers,
    )
    return Done()


def _migration_id(command: Migrate) -> str:
    return f"{command.lease}#migrate"


# -- ends ----------------------------------------------------------------------------------------------------


def cancel(state: OwnerState, writer: EventWriter, command: Cancel, at_s: float) -> Answer:
    """End a spot lease because its holder, or the broker for it, asks for it."""
    return stop(state, writer, command.lease, Kind.SPOT, at_s, command.by)


def report_gone(state: OwnerState, writer: EventWriter, command: Gone, at_s: float) -> Answer:
    """End a lease whose instance is gone, or note when it will be; an unconfirmed reservation lapses."""
    how = End(command.how)
    cause = f"{TAKEN}{command.why}" if how is End.EVICTED else command.why
    if command.in_s is not None:
        clock.advance(state, writer, at_s)
        now_s = state.cloud.now_s
        writer.record(state.cloud.give_notice(command.lease, now_s, now_s + command.in_s, cause))
        return _lease_as_it_is(state, command.lease, Kind.SPOT)
    lease = state.answer_log.get(command.lease)
    if isinstance(lease, Lease) and lease.kind is Kind.ON_DEMAND and lease.origin != state.spec.cloud.id:
        # It was sold, and is never evicted.
        return stop(state, writer, command.lease, Kind.ON_DEMAND, at_s, command.why, End.FAILED)
    return stop(state, writer, command.lease, Kind.SPOT, at_s, cause, how)


def acknowledge(state: OwnerState, writer: EventWriter, command: Acknowledge, at_s: float) -> Answer:
    """Let an instance that is under notice leave now; a lease that is not under notice stays as it is."""
    at_s = clock.step(state, writer, at_s, PHASE_ON_DEMAND)
    writer.record(state.cloud.acknowledge(command.lease, at_s))
    return _lease_as_it_is(state, command.lease, Kind.SPOT)


def stop(
    state: OwnerState,
    writer: EventWriter,
    lease_id: str,
    kind: Kind,
    at_s: float,
    cause: str,
    how: End = End.CANCELLED,
) -> Answer:
    """End a running or booked instance of that kind; one that has ended stays as it ended."""
    at_s = clock.step(state, writer, at_s, PHASE_STOP)
    cloud, events = state.cloud, writer.decisions.events
    instance = cloud.inventory.get(lease_id) or cloud.inventory.waiting(lease_id)
    if instance is not None and instance.kind is kind:
        before = len(events)
        writer.record(cloud.end(lease_id, at_s, how, cause))
        lease = events[before].lease  # those that it makes room for come after it
        assert lease is not None
        return LeaseGranted(lease=lease)
    return _lease_as_it_is(state, lease_id, kind)


def recall_release(state: OwnerState, command: Release) -> Answer | None:
    """Return the answer to the release of an attempt that has been released before, or None."""
    entry = state.answer_log.get(command.attempt)
    return Done(found=entry.held) if isinstance(entry, Released) else None


def release(state: OwnerState, writer: EventWriter, command: Release, at_s: float) -> Answer:
    """Give up an attempt that the broker decided against, whether its reservation has come or not.

    For a reservation that has not come yet the journal gets a tombstone: should it come late, it is declined.
    """
    attempt = command.attempt
    entry = state.answer_log.get(attempt)
    if entry is None and not state.own_load_holds(attempt):
        clock.advance(state, writer, at_s)
        writer.emit(EventKind.RELEASED, state.cloud.now_s, attempt=attempt)  # a tombstone
        return Done(found=False)
    reserved = isinstance(entry, Lease) and entry.state is LeaseState.RESERVED
    if reserved and end_reservation(state, writer, attempt, at_s):
        return Done()
    return stop(state, writer, attempt, Kind.SPOT, at_s, "released")


def end_reservation(state: OwnerState, writer: EventWriter, attempt: str, at_s: float) -> bool:
    """Take a reserved instance that the broker gave up off its node; False if it has ended before."""
    at_s = clock.step(state, writer, at_s, PHASE_STOP)
    lease = state.answer_log.get(attempt)
    if not isinstance(lease, Lease):
        return False
    changes = state.cloud.end(attempt, at_s, End.CANCELLED, "released")
    if not changes:
        return False
    end, *starts = changes
    assert isinstance(end, Ended)
    lease = convert.ended(lease, end)
    writer.emit(EventKind.RELEASED, at_s, lease=lease, attempt=attempt, cause="released")
    writer.record(starts)
    return True


def expire(state: OwnerState, writer: EventWriter, attempt: str, at_s: float) -> None:
    """Take a reserved instance that nobody confirmed in time off its node, unless it has ended before."""
    at_s = clock.step(state, writer, at_s, PHASE_STOP)
    writer.record(state.cloud.end(attempt, at_s, End.CANCELLED, "expired"))


def _lease_as_it_is(state: OwnerState, lease_id: str, kind: Kind) -> Answer:
    known = state.known(lease_id, kind)
    return known if isinstance(known, LeaseGranted) else Done(found=False)
