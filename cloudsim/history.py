"""A cloud's recorded history: who was admitted when, how large, and until when it was asked for."""

from __future__ import annotations

import heapq
import math

import numpy as np

from cloudsim.eventlog import (
    PHASE_ON_DEMAND,
    PHASE_SAME_INSTANT_STOP,
    PHASE_SPOT,
    PHASE_STOP,
    START_ON_DEMAND,
    START_SPOT,
    STOP,
    EventLog,
)
from cloudsim.requests import Instance, Kind


def stop_phase(start_s: float, stop_s: float) -> int:
    """When within its instant a stop happens: before the starts, unless the instance started in this very
    instant."""
    return PHASE_SAME_INSTANT_STOP if stop_s == start_s else PHASE_STOP


class History:
    """Admitted instances with their requested ends, cut into consecutive event logs for the predictor.

    No-guarantee spot instances leave no trace: they give way to all others, whose lifetimes therefore do not
    depend on them (PREDICTION.md "Beyond the papers" 6). An evicted instance keeps its requested end. Only an
    end that its user changes (a release, a stop by hand, an extension) is moved, and only to a time that has
    not been cut yet.
    """

    def __init__(self) -> None:
        self.cut_s = 0.0  # everything before has been handed out
        self.instances = 0
        # Time, kind, number, cores and requested end; not cut yet.
        self._starts: list[tuple[float, int, int, int, float]] = []
        self._stops: list[tuple[float, int, int, int]] = []  # heap of time, phase, number, cores
        self._stop_s: dict[int, float] = {}  # the valid one of an instance's stops

    def record_start(self, instance: Instance) -> None:
        """An admission. Numbers are dense and rise with time."""
        assert instance.number == self.instances, "history has a hole"
        self.instances += 1
        if instance.yields:
            return
        kind = START_SPOT if instance.kind is Kind.SPOT else START_ON_DEMAND
        # When an on-demand instance will stop is not for the predictor to know before it does.
        end_s = instance.end_s if kind == START_SPOT else math.inf
        self._starts.append((instance.start_s, kind, instance.number, instance.cores, end_s))
        self._expect_stop(instance, instance.end_s)

    def record_changed_stop(self, instance: Instance, stop_s: float) -> None:
        """The user ended the instance at ``stop_s`` instead of the requested end."""
        assert stop_s >= self.cut_s, "the past cannot be changed"
        if instance.yields:
            return
        self._expect_stop(instance, stop_s)

    def _expect_stop(self, instance: Instance, stop_s: float) -> None:
        self._stop_s[instance.number] = stop_s
        if math.isfinite(stop_s):
            phase = stop_phase(instance.start_s, stop_s)
            heapq.heappush(self._stops, (stop_s, phase, instance.number, instance.cores))

    def cut(self, until_s: float) -> EventLog:
        """Events in [previous cut, ``until_s``), in exact order; the next cut goes on from there."""
        assert until_s >= self.cut_s, "cuts go forward"
        count = next((i for i, start in enumerate(self._starts) if start[0] >= until_s), len(self._starts))
        events = [
            (time, PHASE_SPOT if kind == START_SPOT else PHASE_ON_DEMAND, number, kind, cores, end_s)
            for time, kind, number, cores, end_s in self._starts[:count]
        ]
        del self._starts[:count]
        while self._stops and self._stops[0][0] < until_s:
            stop_s, phase, number, cores = heapq.heappop(self._stops)
            if self._stop_s.get(number) == stop_s:  # else the stop was moved
                del self._stop_s[number]
                events.append((stop_s, phase, number, STOP, cores, stop_s))
        events.sort()
        self.cut_s = until_s
        return EventLog(
            np.array([event[0] for event in events], dtype=np.float64),
            np.array([event[3] for event in events], dtype=np.int8),
            np.array([event[2] for event in events], dtype=np.int64),
            np.array([event[4] for event in events], dtype=np.int64),
            np.array([event[5] for event in events], dtype=np.float64),
        )
