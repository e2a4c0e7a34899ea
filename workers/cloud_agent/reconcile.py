"""What is to be done about one instance, from what the cloud lists and what its owner shows. Pure.

Unknown is not ended: a listing that failed says nothing, one that lacks an instance says little. Times are
seconds of a clock that never jumps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from broker.contract import Lease, LeaseState
from workers.cloud_agent.drivers.base import CloudInstance, InstanceState

#: So long a lease is looked for that is not shown, before its instance is ended.
UNKNOWN_S = 30.0
#: An instance is gone when it was missing so long, and in two listings; longer where a listing lacks all.
MISSING_S, ALL_MISSING_S = 10.0, 60.0
#: What was asked for and is not listed is asked for again.
UNLISTED_S = 60.0
#: The longest that an instance may take to run, and that a cloud may have no room for it.
START_LIMIT_S, NO_ROOM_S = 600.0, 120.0
#: Between two tries of the same.
AGAIN_S = 10.0
#: The same of an end: there is somebody who needs the room.
END_AGAIN_S = 2.0
#: Between two tries to count a foreign instance that has no room in its owner's books.
RECOUNT_S = 30.0


class InstanceStep(StrEnum):
    """EVICTED, FAILED: its lease's end is told to its owner. FORGET: nothing is left to be done."""

    WAIT = "wait"
    START = "start"
    NOTICE = "notice"
    END = "end"
    EVICTED = "evicted"
    FAILED = "failed"
    FORGET = "forget"
    ARRIVE = "arrive"
    DEPART = "depart"


@dataclass(frozen=True)
class InstanceDecision:
    """A step, and why where a lease ends."""

    step: InstanceStep
    why: str = ""


_WAIT = InstanceDecision(InstanceStep.WAIT)


@dataclass(frozen=True)
class Missing:
    """Listings in a row that lacked an instance which had been listed before: of when the first and the last
    are. While none comes, nothing is missing for longer."""

    first_s: float
    last_s: float

    def again(self, now_s: float) -> Missing:
        """One more."""
        return Missing(self.first_s, now_s)

    def is_gone(self, limit_s: float) -> bool:
        """Whether the instance counts as gone."""
        return self.last_s - self.first_s >= limit_s


@dataclass(frozen=True)
class TrackedInstance:
    """What an agent knows of a lease's instance.

    asked_s: when it was first asked for. tried_s, retry_s: when that was last tried, and when it may be
    again, where the cloud did not do it. no_room_s: since when the cloud has no room; why: in its words.
    listed, ran: whether it ever was. again: it was asked for once more after it had been listed as ended.
    ended_s: when its end was last done. end_retry_s: when that may be tried again. unknown_s: since when its
    lease is not shown.
    """

    asked_s: float | None = None
    tried_s: float | None = None
    retry_s: float | None = None
    no_room_s: float | None = None
    why: str = ""
    listed: bool = False
    ran: bool = False
    again: bool = False
    missing: Missing | None = None
    noticed: bool = False
    ended_s: float | None = None
    end_retry_s: float | None = None
    unknown_s: float | None = None


def decide(
    lease: Lease | None, instance: CloudInstance | None, kept: TrackedInstance, now_s: float, limit_s: float
) -> InstanceDecision:
    """``lease``: as its owner shows it. ``instance``: as it was last listed. ``limit_s``: how long one may be
    missing."""
    looked_for = lease is None and (kept.unknown_s is None or now_s - kept.unknown_s < UNKNOWN_S)
    if looked_for or (lease is not None and lease.state in (LeaseState.RESERVED, LeaseState.BOOKED)):
        return _WAIT
    if lease is None or not lease.state.is_open:
        return _over(instance, kept, now_s)
    return _running(lease, instance, kept, now_s, limit_s)


def _running(
    lease: Lease, instance: CloudInstance | None, kept: TrackedInstance, now_s: float, limit_s: float
) -> InstanceDecision:
    if instance is None:
        return _unlisted(kept, now_s, limit_s)
    if instance.state is InstanceState.ENDED:
        return _ended(instance, kept, now_s)
    if instance.state is InstanceState.ENDING:
        return _WAIT
    if (
        instance.state is InstanceState.STARTING
        and kept.asked_s is not None
        and now_s - kept.asked_s > START_LIMIT_S
    ):
        return InstanceDecision(InstanceStep.FAILED, f"it does not run after {START_LIMIT_S:.0f} s")
    return (
        InstanceDecision(InstanceStep.NOTICE) if lease.evict_at_s is not None and not kept.noticed else _WAIT
    )


def _over(instance: CloudInstance | None, kept: TrackedInstance, now_s: float) -> InstanceDecision:
    """Its lease has ended."""
    if kept.end_retry_s is not None and now_s < kept.end_retry_s:
        return _WAIT
    if kept.ended_s is None:
        gone = instance is None or instance.state is InstanceState.ENDED
        return InstanceDecision(InstanceStep.FORGET if gone and kept.asked_s is None else InstanceStep.END)
    if now_s - kept.ended_s < AGAIN_S:
        return _WAIT
    there = instance is not None and instance.state in (InstanceState.STARTING, InstanceState.RUNNING)
    return InstanceDecision(InstanceStep.END if there else InstanceStep.FORGET)


def _unlisted(kept: TrackedInstance, now_s: float, limit_s: float) -> InstanceDecision:
    if kept.asked_s is None:
        return InstanceDecision(InstanceStep.START)
    if kept.no_room_s is not None and now_s - kept.no_room_s >= NO_ROOM_S:
        return InstanceDecision(InstanceStep.FAILED, f"no room for it: {kept.why}")
    if kept.retry_s is not None:
        return InstanceDecision(InstanceStep.START) if now_s >= kept.retry_s else _WAIT
    if kept.listed:
        gone = kept.missing is not None and kept.missing.is_gone(limit_s)
        return (
            InstanceDecision(InstanceStep.EVICTED, "the cloud does not list it any more") if gone else _WAIT
        )
    if now_s - kept.asked_s > START_LIMIT_S:
        return InstanceDecision(
            InstanceStep.FAILED, f"the cloud does not list it after {START_LIMIT_S:.0f} s"
        )
    return (
        InstanceDecision(InstanceStep.START)
        if kept.tried_s is None or now_s - kept.tried_s >= UNLISTED_S
        else _WAIT
    )


def _ended(instance: CloudInstance, kept: TrackedInstance, now_s: float) -> InstanceDecision:
    why = instance.why or "the cloud ended it"
    if kept.ran:
        return InstanceDecision(InstanceStep.EVICTED, why)
    if kept.no_room_s is not None and now_s - kept.no_room_s >= NO_ROOM_S:
        return InstanceDecision(InstanceStep.FAILED, f"no room for it: {kept.why}")
    if kept.retry_s is not None:
        return InstanceDecision(InstanceStep.START) if now_s >= kept.retry_s else _WAIT
    if not kept.again:
        return InstanceDecision(InstanceStep.START)  # a driver says then what is wrong with it
    return (
        InstanceDecision(InstanceStep.FAILED, why)
        if kept.tried_s is None or now_s - kept.tried_s >= AGAIN_S
        else _WAIT
    )


@dataclass(frozen=True)
class Foreign:
    """What an agent knows of an instance that its cloud's users started.

    counted: it has room in the owner's books. retry_s: when that may be tried again.
    """

    counted: bool = False
    retry_s: float | None = None
    missing: Missing | None = None


def decide_foreign(
    instance: CloudInstance | None, foreign: Foreign | None, now_s: float, limit_s: float
) -> InstanceDecision:
    """``foreign``: None where it is new. What is listed as ending still has its room."""
    if instance is None:
        gone = foreign is not None and foreign.missing is not None and foreign.missing.is_gone(limit_s)
        return InstanceDecision(InstanceStep.DEPART) if gone else _WAIT
    if instance.state is InstanceState.ENDED:
        return _WAIT if foreign is None else InstanceDecision(InstanceStep.DEPART)
    if foreign is None:
        return InstanceDecision(InstanceStep.ARRIVE)
    due = not foreign.counted and (foreign.retry_s is None or now_s >= foreign.retry_s)
    return InstanceDecision(InstanceStep.ARRIVE) if due else _WAIT
