"""Decide what to do about one piece of work, from what was asked for and how its lease stands (pure).

Unknown is not evicted: while nobody can say how a lease stands, its work goes on. A lease that is not shown
is looked for some time before its work is ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from broker.contract import Lease, LeaseState
from broker.jobs.models import Work

#: Seconds for which a lease that is not shown is looked for.
UNKNOWN_S = 30.0


class WorkStep(StrEnum):
    """The next step for a piece of work.

    WAIT does not start it, and lets it go on if it runs. NOTICE lets it run, and tells it to leave soon.
    """

    WAIT = "wait"
    RUN = "run"
    NOTICE = "notice"
    EVICT = "evict"
    SAVE = "save"
    STOP = "stop"


@dataclass(frozen=True)
class WorkDecision:
    """A step, the reason for an eviction, and the time of eviction (in the cloud's time) for a notice."""

    step: WorkStep
    why: str | None = None
    evict_at_s: float | None = None


def decide_step(work: Work, lease: Lease | None, missing_s: float) -> WorkDecision:
    """Decide the next step.

    Parameters
    ----------
    lease:
        The lease as its cloud shows it; None if it has shown none for ``missing_s``.
    """
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
    """Return why the instance no longer exists, None if it may well exist."""
    if not work.spot:
        return None
    if lease is None:
        return None if missing_s < UNKNOWN_S else f"{work.cloud} shows no lease {work.instance}"
    if lease.state.is_open:
        return None
    return f"its lease was {lease.state}{': ' if lease.cause else ''}{lease.cause or ''}"
