"""The time of a cloud that runs in wall time: an anchor and a speed.

While a process lives its clock is the monotonic one, so that a jump of the machine's wall clock moves
nothing. Only the step from one process to the next has to rely on the wall clock, and believes it within
bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

#: An owner that was away for longer, or seems to have been, goes on from where it was.
LONGEST_ABSENCE_S = 3600.0


@dataclass(frozen=True)
class CloudClock:
    """Cloud time ``anchor_s`` at ``anchor_monotonic_s``, and ``speed`` cloud seconds a second from there."""

    anchor_s: float
    anchor_monotonic_s: float
    speed: float

    def now_s(self, monotonic_s: float) -> float:
        """The cloud's time."""
        return self.anchor_s + self.speed * max(0.0, monotonic_s - self.anchor_monotonic_s)


def resume_s(opened_s: float, opened_at: datetime, latest_s: float, now: datetime, speed: float) -> float:
    """The cloud's time at which the next owner goes on.

    It is that of the last epoch's anchor (cloud time ``opened_s`` at ``opened_at``) and the wall clock, as if
    nobody had been away. But time never goes back behind ``latest_s``, the latest that was written down, and
    after an absence that is too long to believe it goes on from there.
    """
    expected_s = opened_s + speed * (now - opened_at).total_seconds()
    if latest_s <= expected_s <= latest_s + speed * LONGEST_ABSENCE_S:
        return expected_s
    return latest_s
