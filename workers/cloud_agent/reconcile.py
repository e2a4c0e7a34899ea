"""Decide what to do about one instance, from what the cloud lists and what its owner shows (pure).

Unknown is not ended: a listing that failed says nothing, and one that lacks an instance says little. Times
are seconds of a clock that never jumps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from broker.contract import Lease, LeaseState
from workers.cloud_agent.drivers.base import CloudInstance, InstanceState

#: Seconds for which a lease that is not shown is looked for before its instance is ended.
UNKNOWN_S = 30.0
#: Seconds for which an instance must be missing, in two listings, to be gone; more if a listing lacks all.
MISSING_S, ALL_MISSING_S = 10.0, 60.0
#: Seconds after which an instance that was asked for and is not listed is asked for again.
UNLISTED_S = 60.0
#: Seconds that an instance may take to run, and that its cloud may have no room for it.
START_LIMIT_S, NO_ROOM_S = 600.0, 120.0
#: Seconds between two tries to start an instance.
AGAIN_S = 10.0
#: Seconds between two tries to end an instance, whose room is needed.
END_AGAIN_S = 2.0
#: Seconds for which an instance may outlive the order to end it, before it counts as used.
STUCK_S = 120.0
#: Seconds for which a cloud's API may not answer, before no more leases are sent there.
SILENT_S = 60.0
#: Seconds between two tries to count a foreign instance that has no room in its owner's books.
RECOUNT_S = 30.0


class InstanceStep(StrEnum):
    """The next step for an instance.

    EVICTED and FAILED report the lease's end to its owner, LEAVING that its cloud gave notice. ARRIVE and
    DEPART tell the owner of a foreign instance. FORGET means that nothing is left to be done.
    """

    WAIT = "wait"
    START = "start"
    NOTICE = "notice"
    END = "end"
    EVICTED = "evicted"
    FAILED = "failed"
    LEAVING = "leaving"
    FORGET = "forget"
    ARRIVE = "arrive"
    DEPART = "depart"


@dataclass(frozen=True)
class InstanceDecision:
    """A step, and the reason where it ends a lease."""

    step: InstanceStep
    why: str = ""


_WAIT = InstanceDecision(InstanceStep.WAIT)


@dataclass(frozen=True)
class Absence:
    """Successive listings that lacked an instance which had been listed: the times of the first and the last.

    While no listing comes, an instance is not missing for longer.
    """

    first_s: float
    last_s: float

    def extended(self, now_s: float) -> Absence:
        """Return the absence with one more listing."""
        return Absence(self.first_s, now_s)

    def is_gone(self, limit_s: float) -> bool:
        """Return True if the absence has lasted for ``limit_s``, so that the instance counts as gone."""
        return self.last_s - self.first_s >= limit_s


@dataclass(frozen=True)
class InstanceHistory:
    """The steps so far of the instance of a lease.

    asked_s: when it was first asked for. tried_s, retry_s: the last try, and the earliest next one if it
    failed. no_room_s: since when the cloud has had no room. why: the cloud's message. listed, ran: True once
    the cloud has listed it, or listed it as running. again: True if it was asked for again after it was
    listed as ended. missing: its current absence from the listings. noticed: True once it was given notice.
    leaves_at: the end, in seconds since 1970, that its cloud announced and its owner was told of. ending_s,
    ended_s: when its end was first ordered, and last carried out. end_retry_s: the earliest next try of that.
    unknown_s: since when its owner has not shown the lease.
    """

    asked_s: float | None = None
    tried_s: float | None = None
    retry_s: float | None = None
    no_room_s: float | None = None
    why: str = ""
    listed: bool = False
    ran: bool = False
    again: bool = False
    missing: Absence | None = None
    noticed: bool = False
    leaves_at: float | None = None
    ending_s: float | None = None
    ended_s: float | None = None
    end_retry_s: float | None = None
    unknown_s: float | None = None


def decide_lease(
    lease: Lease | None,
    instance: CloudInstance | None,
    history: InstanceHistory,
    now_s: float,
    limit_s: float,
) -> InstanceDecision:
    """Decide the next step for the instance of a lease.

    Parameters
    ----------
    lease:
        The lease as its owner shows it; None if it shows none.
    instance:
        The instance as it was last listed; None if it was not.
    limit_s:
        Seconds for which a listed instance may be missing before it counts as gone.
    """
    is_awaited = lease is None and (history.unknown_s is None or now_s - history.unknown_s < UNKNOWN_S)
    if is_awaited or (lease is not None and lease.state in (LeaseState.RESERVED, LeaseState.BOOKED)):
        return _WAIT
    if lease is None or not lease.state.is_open:
        return _after_end(instance, history, now_s)
    return _running(lease, instance, history, now_s, limit_s)


def _running(
    lease: Lease, instance: CloudInstance | None, history: InstanceHistory, now_s: float, limit_s: float
) -> InstanceDecision:
    if instance is None:
        return _unlisted(history, now_s, limit_s)
    if instance.state is InstanceState.ENDED:
        return _ended(instance, history, now_s)
    if instance.ends_at is not None and instance.ends_at != history.leaves_at:
        return InstanceDecision(InstanceStep.LEAVING, instance.why or "its cloud gave notice")
    if instance.state is InstanceState.ENDING:
        return _WAIT
    if (
        instance.state is InstanceState.STARTING
        and history.asked_s is not None
        and now_s - history.asked_s > START_LIMIT_S
    ):
        return InstanceDecision(InstanceStep.FAILED, f"it does not run after {START_LIMIT_S:.0f} s")
    return (
        InstanceDecision(InstanceStep.NOTICE)
        if lease.evict_at_s is not None and not history.noticed
        else _WAIT
    )


def _after_end(instance: CloudInstance | None, history: InstanceHistory, now_s: float) -> InstanceDecision:
    """Decide the next step for an instance whose lease has ended."""
    if history.end_retry_s is not None and now_s < history.end_retry_s:
        return _WAIT
    if history.ended_s is None:
        gone = instance is None or instance.state is InstanceState.ENDED
        return InstanceDecision(InstanceStep.FORGET if gone and history.asked_s is None else InstanceStep.END)
    if now_s - history.ended_s < AGAIN_S:
        return _WAIT
    is_listed = instance is not None and instance.state in (InstanceState.STARTING, InstanceState.RUNNING)
    return InstanceDecision(InstanceStep.END if is_listed else InstanceStep.FORGET)


def is_stuck(instance: CloudInstance, history: InstanceHistory, now_s: float) -> bool:
    """Return True if the instance of an ended lease still takes its room although it was to end long ago."""
    waited_s = 0.0 if history.ending_s is None else now_s - history.ending_s
    return waited_s > STUCK_S and instance.state is not InstanceState.ENDED


def _unlisted(history: InstanceHistory, now_s: float, limit_s: float) -> InstanceDecision:
    if history.asked_s is None:
        return InstanceDecision(InstanceStep.START)
    if history.retry_s is not None and _lacks_room(history, now_s):
        return InstanceDecision(InstanceStep.FAILED, f"no room for it: {history.why}")
    if history.retry_s is not None:
        return InstanceDecision(InstanceStep.START) if now_s >= history.retry_s else _WAIT
    if history.listed:
        gone = history.missing is not None and history.missing.is_gone(limit_s)
        return (
            InstanceDecision(InstanceStep.EVICTED, "the cloud does not list it any more") if gone else _WAIT
        )
    if now_s - history.asked_s > START_LIMIT_S:
        return InstanceDecision(
            InstanceStep.FAILED, f"the cloud does not list it after {START_LIMIT_S:.0f} s"
        )
    return (
        InstanceDecision(InstanceStep.START)
        if history.tried_s is None or now_s - history.tried_s >= UNLISTED_S
        else _WAIT
    )


def _lacks_room(history: InstanceHistory, now_s: float) -> bool:
    """Return True if the cloud has had no room for long enough."""
    return history.no_room_s is not None and now_s - history.no_room_s >= NO_ROOM_S


def _ended(instance: CloudInstance, history: InstanceHistory, now_s: float) -> InstanceDecision:
    why = instance.why or "the cloud ended it"
    if history.ran:
        return InstanceDecision(InstanceStep.EVICTED, why)
    if _lacks_room(history, now_s):
        return InstanceDecision(InstanceStep.FAILED, f"no room for it: {history.why}")
    if history.retry_s is not None:
        return InstanceDecision(InstanceStep.START) if now_s >= history.retry_s else _WAIT
    if not history.again or instance.no_room_at is not None:
        return InstanceDecision(InstanceStep.START)  # the driver then says what is wrong with it
    return (
        InstanceDecision(InstanceStep.FAILED, why)
        if history.tried_s is None or now_s - history.tried_s >= AGAIN_S
        else _WAIT
    )


@dataclass(frozen=True)
class ForeignHistory:
    """The steps so far of an instance that the cloud's own users started.

    counted: True while it has room in the owner's books. retry_s: the earliest next try to count it.
    """

    counted: bool = False
    retry_s: float | None = None
    missing: Absence | None = None


def decide_foreign(
    instance: CloudInstance | None, history: ForeignHistory | None, now_s: float, limit_s: float
) -> InstanceDecision:
    """Decide the next step for a foreign instance. ``history``: None if it is new.

    An instance that the cloud lists as ending still takes its room.
    """
    if instance is None:
        gone = history is not None and history.missing is not None and history.missing.is_gone(limit_s)
        return InstanceDecision(InstanceStep.DEPART) if gone else _WAIT
    if instance.state is InstanceState.ENDED:
        return _WAIT if history is None else InstanceDecision(InstanceStep.DEPART)
    if history is None:
        return InstanceDecision(InstanceStep.ARRIVE)
    due = not history.counted and (history.retry_s is None or now_s >= history.retry_s)
    return InstanceDecision(InstanceStep.ARRIVE) if due else _WAIT
