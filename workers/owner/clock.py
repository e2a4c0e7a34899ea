"""The time of a cloud that runs in wall time: an anchor and a speed.

While a process lives its clock is the monotonic one, so that a jump of the machine's wall clock moves
nothing. Only the step from one process to the next has to rely on the wall clock, and believes it within
bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import structlog

#: An owner that was away for longer, or seems to have been, goes on from where it was.
LONGEST_ABSENCE_S = 3600.0
#: The two clocks of a machine drift apart by far less between two looks. NTP sets smaller steps right.
JUMP_S = 5.0

log = structlog.get_logger(__name__)


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
    log.warning(
        "wall clock not believed: going on from the latest known time",
        latest_s=latest_s,
        off_by_s=(expected_s - latest_s) / speed,
    )
    return latest_s


class JumpWatch:
    """Tells people when this machine's wall clock jumps. Nothing here is timed by it: the sample of such a
    moment is set aside, and the next one is compared with what the clock shows from then on."""

    def __init__(self) -> None:
        self._last: tuple[float, datetime] | None = None

    def look(self, monotonic_s: float, wall: datetime) -> float | None:
        """By how many seconds the wall clock jumped since the last look; None for a small step or none."""
        last, self._last = self._last, (monotonic_s, wall)
        if last is None:
            return None
        jump_s = (wall - last[1]).total_seconds() - (monotonic_s - last[0])
        if abs(jump_s) <= JUMP_S:
            return None
        log.warning("the wall clock jumped; nothing is timed by it", by_s=jump_s)
        return jump_s
