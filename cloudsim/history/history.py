"""The recorded history of a cloud: its admitted instances with their sizes and requested ends."""

from __future__ import annotations

import heapq
import math

import numpy as np

from cloudsim.history.event_log import (
    APART,
    NO_GROUP,
    NO_SPREAD,
    PHASE_ON_DEMAND,
    PHASE_SAME_INSTANT_STOP,
    PHASE_SPOT,
    PHASE_STOP,
    RENEWAL,
    START_ON_DEMAND,
    START_SPOT,
    STOP,
    TOGETHER,
    EventLog,
    StartDetails,
)
from cloudsim.model.instances import Instance
from cloudsim.model.requests import Kind, Labels, Spread


def stop_phase(start_s: float, stop_s: float) -> int:
    """Return the phase of a stop: before the starts, unless the instance started in this very instant."""
    return PHASE_SAME_INSTANT_STOP if stop_s == start_s else PHASE_STOP


class History:
    """Admitted instances with their requested ends, cut into consecutive event logs for the predictor.

    A gang is recorded as its members. Spot instances without a guarantee leave no trace: they give way to all
    others, whose lifetimes therefore do not depend on them (docs/design/prediction.md "Spot without a
    guarantee"). An evicted instance keeps its requested end. Only an end that its user changes (a release, a
    stop by hand, an extension) is moved, and only to a time that has not been cut yet. An extension does not
    change the recorded promise.

    resources: the names of further resources of the cloud; then starts are recorded in detail
    (``StartDetails``), also with (). None where only cores count.
    """

    def __init__(self, resources: tuple[str, ...] | None = None) -> None:
        self._details = None if resources is None else _Details(resources)
        self.cut_s = 0.0  # everything before has been handed out
        self.instances = 0
        # Time, kind, number, cores, requested end and number of members; not cut yet.
        self._starts: list[tuple[float, int, int, int, float, int]] = []
        # Heap of time, phase, number, cores and number of members.
        self._stops: list[tuple[float, int, int, int, int]] = []
        self._renewals: list[tuple[float, int, int]] = []  # time, number, cores; not cut yet
        self._stop_s: dict[int, float] = {}  # by instance, the stop that counts

    def record_start(self, instance: Instance) -> None:
        """Record an admission. Numbers are dense and rise with time."""
        assert instance.number == self.instances, "history has a hole"
        self.instances += instance.members
        if instance.yields:
            return
        kind = START_SPOT if instance.kind is Kind.SPOT else START_ON_DEMAND
        # The predictor must not know when an on-demand instance stops before it does.
        end_s = instance.end_s if kind == START_SPOT else math.inf
        self._starts.append(
            (instance.start_s, kind, instance.number, instance.cores, end_s, instance.members)
        )
        if self._details is not None:
            self._details.note_start(instance)
        self._expect_stop(instance, instance.end_s)

    def record_changed_stop(self, instance: Instance, stop_s: float) -> None:
        """Record that the user ended an instance at ``stop_s`` instead of the requested end."""
        assert stop_s >= self.cut_s, "the past cannot be changed"
        if instance.yields:
            return
        self._expect_stop(instance, stop_s)

    def record_renewal(self, instance: Instance, at_s: float) -> None:
        """Record that a spot instance counts as the newest from now on."""
        assert at_s >= self.cut_s, "the past cannot be changed"
        if not instance.yields:
            self._renewals.append((at_s, instance.number, instance.cores))

    def _expect_stop(self, instance: Instance, stop_s: float) -> None:
        self._stop_s[instance.number] = stop_s
        if math.isfinite(stop_s):
            phase = stop_phase(instance.start_s, stop_s)
            heapq.heappush(self._stops, (stop_s, phase, instance.number, instance.cores, instance.members))

    def cut(self, until_s: float) -> EventLog:
        """Return the events since the previous cut, before ``until_s``, in exact order."""
        assert until_s >= self.cut_s, "cuts go forward"
        count = next((i for i, start in enumerate(self._starts) if start[0] >= until_s), len(self._starts))
        events = [
            (time, PHASE_SPOT if kind == START_SPOT else PHASE_ON_DEMAND, number, kind, cores, end_s, members)
            for time, kind, number, cores, end_s, members in self._starts[:count]
        ]
        del self._starts[:count]
        events += [
            (time, PHASE_SPOT, number, RENEWAL, cores, math.inf, 1)
            for time, number, cores in self._renewals
            if time < until_s
        ]
        self._renewals = [renewal for renewal in self._renewals if renewal[0] >= until_s]
        while self._stops and self._stops[0][0] < until_s:
            stop_s, phase, number, cores, members = heapq.heappop(self._stops)
            if self._stop_s.get(number) == stop_s:  # else the stop was moved
                del self._stop_s[number]
                events.append((stop_s, phase, number, STOP, cores, stop_s, members))
        events.sort()
        self.cut_s = until_s
        started = [None if event[3] in (STOP, RENEWAL) else event[2] for event in events]
        log = EventLog(
            np.array([event[0] for event in events], dtype=np.float64),
            np.array([event[3] for event in events], dtype=np.int8),
            np.array([event[2] for event in events], dtype=np.int64),
            np.array([event[4] for event in events], dtype=np.int64),
            np.array([event[5] for event in events], dtype=np.float64),
            None if self._details is None else self._details.cut(started),
        )
        of_event = np.array([event[6] for event in events], dtype=np.int64)
        return log.by_member(of_event) if (of_event > 1).any() else log


_SPREADS = {None: NO_SPREAD, Spread.TOGETHER: TOGETHER, Spread.APART: APART}


class _Details:
    """The details of the starts that are not cut yet, by instance number."""

    def __init__(self, resources: tuple[str, ...]) -> None:
        self._resources = resources
        self._label_sets: dict[Labels, int] = {frozenset(): 0}
        self._groups: dict[str, int] = {}
        self._noted: dict[int, tuple[list[int], float, int, int, int]] = {}

    def note_start(self, instance: Instance) -> None:
        """Note the start of an instance."""
        amounts = dict(instance.amounts)
        group = NO_GROUP
        if instance.group is not None:
            group = self._groups.setdefault(instance.group, len(self._groups))
        self._noted[instance.number] = (
            [amounts.get(name, 0) for name in self._resources],
            instance.sla if instance.promised and instance.sla is not None else 1.0,
            self._label_sets.setdefault(instance.labels, len(self._label_sets)),
            group,
            _SPREADS[instance.spread],
        )

    def cut(self, started: list[int | None]) -> StartDetails:
        """Return the details of events. started: the number of the instance that starts, None for a stop."""
        of_stops = ([0] * len(self._resources), 1.0, 0, NO_GROUP, NO_SPREAD)
        rows = [of_stops if number is None else self._noted.pop(number) for number in started]
        amounts = np.array([row[0] for row in rows], dtype=np.int64)
        return StartDetails(
            self._resources,
            tuple(self._label_sets),
            amounts.reshape(len(rows), len(self._resources)),
            np.array([row[1] for row in rows], dtype=np.float64),
            np.array([row[2] for row in rows], dtype=np.int64),
            np.array([row[3] for row in rows], dtype=np.int64),
            np.array([row[4] for row in rows], dtype=np.int8),
        )
