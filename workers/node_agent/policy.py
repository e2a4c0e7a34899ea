"""What is to be done about one piece of work, from what was asked for and what became of its lease.

Unknown is not evicted: while nobody can say how a lease stands, work goes on as it was, and a lease that is
not shown is looked for some time before its work is ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from broker.contract import Lease, LeaseState
from broker.jobs.models import Work

#: So long a lease is looked for that is not shown.
UNKNOWN_S = 30.0


class WorkStep(StrEnum):
    """WAIT: it is not started, and goes on where it was. NOTICE: it runs, and must leave soon."""

    WAIT = "wait"
    RUN = "run"
    NOTICE = "notice"
    EVICT = "evict"
    SAVE = "save"
    STOP = "stop"


@dataclass(frozen=True)
class WorkDecision:
    """A step; why: of an eviction. evict_at_s: of a notice, in the cloud's time."""

    step: WorkStep
    why: str | None = None
    evict_at_s: float | None = None


def decide(work: Work, lease: Lease | None, missing_s: float) -> WorkDecision:
    """``lease``: as its cloud shows it; None: it shows none, for ``missing_s`` now."""
    gone = _gone(work, lease, missing_s)
    if gone is not None:
        return WorkDecision(WorkStep.EVICT, gone)
    if work.wanted != "run" or not work.spot:
        return WorkDecision(WorkStep(work.wanted))
    if lease is None or lease.state is not LeaseState.RUNNING:
        return WorkDecision(WorkStep.WAIT)
    if lease.evict_at_s is not None:
        return WorkDecision(WorkStep.NOTICE, evict_at_s=lease.evict_at_s)
    return WorkDecision(WorkStep.RUN)


def _gone(work: Work, lease: Lease | None, missing_s: float) -> str | None:
    """Why its instance is no more; None: it may well be."""
    if not work.spot:
        return None
    if lease is None:
        return None if missing_s < UNKNOWN_S else f"{work.cloud} shows no lease {work.instance}"
    if lease.state.is_open:
        return None
    return f"its lease was {lease.state}{': ' if lease.cause else ''}{lease.cause or ''}"
