"""Later ends for leases: those that a holder asks for, and the renewals of leases without a lifetime."""

from __future__ import annotations

from broker.contract import (
    Answer,
    Done,
    EventKind,
    Extend,
    Lease,
    LeaseGranted,
    LeaseState,
    Migrate,
    RefusalView,
)
from broker.views import refusal_view
from cloudsim.requests import Change, Extended, Kind, Refusal
from workers.owner import convert
from workers.owner.event_writer import EventWriter
from workers.owner.renewals import may_wait, renew
from workers.owner.state import State


class Extensions:
    """The part of an owner that extends leases. Time has been let pass before it is called."""

    def __init__(self, state: State, recorder: EventWriter):
        self._state, self._recorder = state, recorder

    def extend(self, command: Extend) -> Answer:
        """A later end for a lease that runs. Once answered, the same wish gets the same answer."""
        book, cloud = self._state.book, self._state.cloud
        wish = f"{command.lease}#{command.extension}"  # no id of an instance looks like this
        match book.get(wish):
            case Lease() as granted:
                return LeaseGranted(lease=granted)
            case RefusalView() as declined:
                return declined
        lease, now_s = book.get(command.lease), cloud.now_s
        if not isinstance(lease, Lease) or lease.kind is not Kind.SPOT or lease.state is LeaseState.RESERVED:
            return Done(found=False)
        if lease.ends_at_s is not None and command.until_s <= lease.ends_at_s:
            return LeaseGranted(lease=lease)  # it has that already, or had it to its end
        changes = cloud.extend(command.lease, command.until_s, now_s, command.sla, "holder")
        if isinstance(changes, Refusal):
            refusal = refusal_view(changes, cores=lease.cores, cloud_time_s=now_s)
            self._recorder.emit(EventKind.DECLINED, now_s, attempt=wish, refusal=refusal)
            return refusal
        return LeaseGranted(lease=self._extended(lease, changes, wish))

    def renew(self, lease_id: str, now_s: float) -> None:
        """A further period for a lease without a lifetime, or a warning that there is none."""
        lease = self._state.book.get(lease_id)
        assert isinstance(lease, Lease)
        changes = renew(self._state.cloud, lease, now_s)
        if not isinstance(changes, Refusal):
            self._extended(lease, changes, None)
        elif not (may_wait(changes) and self._state.renewals.postpone(lease, now_s)):
            refusal = refusal_view(changes, cores=lease.cores, cloud_time_s=now_s)
            warned = lease.model_copy(update={"warned_at_s": now_s})
            self._recorder.emit(
                EventKind.WARNED, now_s, lease=warned, refusal=refusal, cause=changes.reason.value
            )

    def offered(self, command: Migrate) -> Answer:
        """The holder of a lease that is not renewed hears what other clouds would promise; once."""
        lease, news = self._state.book.get(command.lease), f"{command.lease}#migrate"
        if self._state.book.get(news) is not None:
            return Done()
        if not isinstance(lease, Lease) or lease.ended_at_s is not None or lease.warned_at_s is None:
            return Done(found=False)
        now_s = self._state.cloud.now_s
        self._recorder.emit(EventKind.OFFERED, now_s, lease=lease, attempt=news, offers=command.offers)
        return Done()

    def _extended(self, lease: Lease, changes: list[Change], wish: str | None) -> Lease:
        (change,) = changes
        assert isinstance(change, Extended)
        table = self._state.cloud.table
        longer = convert.extended(lease, change, table.version if table else None)
        self._recorder.emit(EventKind.EXTENDED, change.at_s, lease=longer, attempt=wish, cause=change.cause)
        return longer
