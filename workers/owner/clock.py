"""The time of a cloud: how it passes for the owner's decisions, and how it follows this machine's clocks.

Decisions (``advance``, ``step``): what happens before a command's place in time happens before the command.
Within one instant the order is that of docs/design/prediction.md: stops, own starts, spot starts. A command
that comes too late for its place happens at the next representable instant, so that the recorded history
replays to exactly what happened.

The process (``CloudClock``, ``resume_s``, ``JumpWatch``): in wall time a cloud has an anchor and a speed.
While a process lives its clock is the monotonic one, so that a jump of the machine's wall clock moves
nothing. Only the step from one process to the next relies on the wall clock, and believes it within bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

import structlog

from broker.contract import Command, EventKind, Lease
from broker.contract.convert import to_refusal_view
from cloudsim.cloud.cloud import AFTER_EVERYTHING
from cloudsim.cloud.renewals import renew
from cloudsim.history.event_log import PHASE_ON_DEMAND, PHASE_SPOT
from cloudsim.model.refusals import Refusal
from workers.owner.event_writer import EventWriter
from workers.owner.renewals import terms_of
from workers.owner.state import OwnerState

#: An owner that was away for longer, or seems to have been, goes on from where it was.
LONGEST_ABSENCE_S = 3600.0
#: The two clocks of a machine drift apart by far less between two looks. NTP sets smaller steps right.
JUMP_S = 5.0

log = structlog.get_logger(__name__)


def command_time_s(state: OwnerState, command: Command, now_s: float) -> float:
    """Return when a command is carried out, in seconds of the cloud's time.

    ``now_s`` is the cloud's time; in trace time the command's own time counts instead.
    """
    cloud = state.cloud
    if state.spec.trace_time:
        now_s = cloud.now_s if command.at_s is None else command.at_s
    return max(now_s, cloud.now_s)


def step(state: OwnerState, writer: EventWriter, at_s: float, phase: int) -> float:
    """Advance to the place in time of a start or stop that is about to be made, and return its time."""
    waited = (state.waited_s, PHASE_ON_DEMAND)
    if (at_s, phase) < max(state.place, waited):
        at_s = math.nextafter(at_s, math.inf)
    advance(state, writer, at_s, phase)
    while (at_s, phase) < state.place:  # blocks of headroom moved own starts past their instant
        latest_s, latest = state.place
        at_s = latest_s if phase >= latest else math.nextafter(latest_s, math.inf)
        advance(state, writer, at_s, phase)
    return at_s


def advance(state: OwnerState, writer: EventWriter, at_s: float, phase: int = PHASE_SPOT) -> None:
    """Let everything happen that comes before ``phase`` of the instant ``at_s``.

    Leases are renewed at the very times at which they are due, after everything else of that instant.
    """
    cloud, schedule = state.cloud, state.renewals
    while (due := schedule.next()) is not None and (due[0], PHASE_SPOT) <= (at_s, phase):
        writer.record(cloud.advance(due[0]))
        if schedule.next() == due:  # else it has ended
            _renew(state, writer, due[1], max(due[0], cloud.now_s))
    writer.record(cloud.advance(at_s, phase))


def _renew(state: OwnerState, writer: EventWriter, lease_id: str, now_s: float) -> None:
    """Promise a renewable lease more of what it wants, or warn its holder that there is no more now."""
    lease = state.answer_log.get(lease_id)
    assert isinstance(lease, Lease)
    terms = terms_of(lease)
    assert terms is not None
    changes = renew(state.cloud, lease.id, terms, now_s)
    if not isinstance(changes, Refusal):
        writer.record_extension(lease, changes)
    else:
        refusal = to_refusal_view(changes, cores=lease.cores, cloud_time_s=now_s)
        warned = lease.model_copy(update={"warned_at_s": now_s})
        writer.emit(EventKind.WARNED, now_s, lease=warned, refusal=refusal, cause=changes.reason.value)


def finish(state: OwnerState, writer: EventWriter) -> None:
    """Let time pass to the last end. Leases that want none are not renewed any more."""
    while (due := state.renewals.next(bounded=True)) is not None:
        advance(state, writer, due[0])
    writer.record(state.cloud.advance(*AFTER_EVERYTHING))


def renewal_table_due_s(state: OwnerState, at_s: float) -> float | None:
    """Return the refresh boundary whose table a renewal up to ``at_s`` must meet and that is not there yet.

    None if there is no such boundary, in seconds of the cloud's time. Where a renewal is due, the boundary
    that follows it counts, too: the lease may be due again before ``at_s``.
    """
    cloud = state.cloud
    due = state.renewals.next(bounded=at_s == math.inf)
    if due is None or due[0] > at_s:
        return None
    boundary_s = cloud.table_due_s(due[0])
    if boundary_s is None and cloud.table is not None:
        boundary_s = cloud.table.made_at_s + cloud.spec.refresh_s
    return None if boundary_s is None or boundary_s > at_s else boundary_s


@dataclass(frozen=True)
class CloudClock:
    """The clock of a cloud in wall time.

    It shows ``anchor_s`` (seconds of the cloud's time) when the monotonic clock shows ``anchor_monotonic_s``,
    and goes on from there by ``speed`` cloud seconds a second.
    """

    anchor_s: float
    anchor_monotonic_s: float
    speed: float

    def now_s(self, monotonic_s: float) -> float:
        """Return the cloud's time in seconds when the monotonic clock shows ``monotonic_s``."""
        return self.anchor_s + self.speed * max(0.0, monotonic_s - self.anchor_monotonic_s)


def resume_s(opened_s: float, opened_at: datetime, latest_s: float, now: datetime, speed: float) -> float:
    """Return the cloud's time in seconds at which the next owner goes on.

    It follows from the anchor of the last epoch (cloud time ``opened_s`` at ``opened_at``), the wall clock
    and the speed, as if no owner had been away. But time never goes back behind ``latest_s``, the latest that
    was written down, and after an absence that is too long to believe it goes on from there.
    """
    expected_s = opened_s + speed * (now - opened_at).total_seconds()
    if latest_s <= expected_s <= latest_s + speed * LONGEST_ABSENCE_S:
        return expected_s
    log.warning(
        "wall clock not believed: going on from the latest known time",
        latest_s=latest_s,
        off_by_s=(expected_s - latest_s) / speed,
    )
    return latest_s


class JumpWatch:
    """Logs jumps of this machine's wall clock, by which nothing here is timed.

    After a jump the next look is compared with what the clock shows since.
    """

    def __init__(self) -> None:
        self._last: tuple[float, datetime] | None = None

    def look(self, monotonic_s: float, wall: datetime) -> float | None:
        """Return by how many seconds the wall clock jumped since the last look; None for a small step."""
        last, self._last = self._last, (monotonic_s, wall)
        if last is None:
            return None
        jump_s = (wall - last[1]).total_seconds() - (monotonic_s - last[0])
        if abs(jump_s) <= JUMP_S:
            return None
        log.warning("the wall clock jumped; nothing is timed by it", by_s=jump_s)
        return jump_s
