"""Sample the time until eviction for every time of birth, on clouds where all instances have one size.

No birth is drawn at random: all births between two events share their fate, and are one interval sample.
There is no sampling error, and an event costs next to nothing (docs/design/prediction.md "Fast", "Uniform
sizes").
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cloudsim.history.event_log import START_ON_DEMAND, START_SPOT, STOP, EventLog, check_columns, log_fault
from cloudsim.prediction.ages import OnDemandRuns
from cloudsim.prediction.samplers.replay import SamplerSpec, check_boundary, check_share
from cloudsim.prediction.samples import Samples

#: Events that are played and then followed at a time: few enough that what is written stays in the cache.
_EVENTS_AT_A_TIME = 8192

_NOBODY = -1

Number = TypeVar("Number", bound=np.generic)


class _Spots(NamedTuple):
    """Spot instances that started: number, start and requested end in seconds."""

    number: NDArray[np.int64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]


class UniformSampler:
    """Samples all births of virtual instances of a size; the interface is that of ``ReplaySampler``.

    The work is not worth splitting: share 0 returns all samples, other shares none. ``seed``, ``births`` and
    ``horizon_s`` of the spec are ignored: every birth counts, and tables cut their curves at the rule's
    horizon.

    Attributes
    ----------
    until_s
        The boundary fed last, in seconds.
    """

    def __init__(self, spec: SamplerSpec, cores: int, share: int = 0, shares: int = 1):
        check_share(cores, share, shares)
        self.spec, self.cores, self.share, self.shares = spec, int(cores), share, shares
        self.until_s = 0.0
        # The replay without virtual instances: free slots, what became of each instance, running spot.
        self._free = sum(node // self.cores for node in spec.node_cores)
        self._known = 0
        self._state = np.empty(0, np.int8)
        self._spot, self._spot_start_s = np.empty(0, np.int64), np.empty(0, np.float64)
        # Intervals of births; end_s is NaN as long as those born in it run, and ``_pending`` has their rows.
        self._birth_s, self._born_until_s = np.empty(0, np.float64), np.empty(0, np.float64)
        self._free_slots, self._end_s = np.empty(0, np.int32), np.empty(0, np.float64)
        self._pending = np.empty(0, np.int64)
        self._begin_s = 0.0  # since then births belong to the next interval
        # Spot instances for the rule's release horizons: number, start and requested end; by number, when
        # they left (inf while they run).
        self._spots = _Spots(np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, np.float64))
        self._left_s = np.empty(0, np.float64)
        # On-demand instances, for the same rules: number and start; by number, when anything stopped.
        self._own, self._own_start_s = np.empty(0, np.int64), np.empty(0, np.float64)
        self._stop_s = np.empty(0, np.float64)
        # Lists of pending intervals, when the virtual instance is always the youngest.
        self._after = np.empty(0, np.int64)
        self._first, self._last = np.full(1, _NOBODY), np.full(1, _NOBODY)

    def feed(self, events: EventLog, until_s: float) -> None:
        """Go on with the history up to, not including, ``until_s``.

        A refused feed changes nothing.

        Parameters
        ----------
        events
            Events in [previous ``until_s``, ``until_s``), all of this size, going on where the last feed
            ended.
        until_s
            The new boundary in seconds.

        Raises
        ------
        SpecError
            When the boundary goes back.
        InputError
            When the events are out of order or of another size.
        """
        check_boundary(self.until_s, until_s)
        check_columns(events)
        if not np.all(events.cores == self.cores):
            raise log_fault(f"all instances of a uniform history have {self.cores} cores")
        if self.share == 0 and len(events):
            self._feed(events, until_s)
        self.until_s = until_s

    def samples(self) -> Samples:
        """Return all intervals of births up to ``until_s``.

        Intervals whose instances still run are right-censored.
        """
        if self.share:
            return Samples.empty(self.cores, self.until_s)
        room = self._free > 0 and self.until_s > self._begin_s
        birth_s, born_until_s = self._birth_s, self._born_until_s
        free_slots, end_s = self._free_slots, self._end_s
        if room:  # born since the last event
            birth_s, born_until_s = np.append(birth_s, self._begin_s), np.append(born_until_s, self.until_s)
            free_slots, end_s = np.append(free_slots, np.int32(self._free)), np.append(end_s, np.nan)
        running = np.isnan(end_s)
        return Samples(
            self.cores,
            self.until_s,
            0,
            np.arange(len(birth_s)),
            birth_s,
            free_slots,
            np.where(running, self.until_s, end_s) - birth_s + self.spec.grace_s,
            ~running,
            born_until_s - birth_s,
            self._releases((birth_s + born_until_s) / 2),
            OnDemandRuns(self._own_start_s, self._stop_s[self._own]),
        )

    def _releases(self, at_s: NDArray[np.float64]) -> NDArray[np.int32]:
        """Count the spot instances running at these times that are to end within each release horizon.

        An instance counts from its start, or from a horizon before its requested end, until it leaves.
        """
        from cloudsim.prediction.kernels import uniform as kernel

        left_s = self._left_s[self._spots.number]
        ran = np.isfinite(left_s) | (self._state[self._spots.number] == kernel.SPOT)
        columns = []
        for horizon_s in self.spec.release_horizons_s:
            from_s = np.maximum(self._spots.start_s, self._spots.end_s - horizon_s)
            counts = ran & (from_s < left_s)
            begun = np.searchsorted(np.sort(from_s[counts]), at_s, side="right")
            over = np.searchsorted(np.sort(left_s[counts]), at_s, side="right")
            columns.append((begun - over).astype(np.int32))
        return np.stack(columns, axis=1) if columns else np.empty((len(at_s), 0), np.int32)

    def _feed(self, events: EventLog, until_s: float) -> None:
        """Play and follow the events on copies, which are kept if there was no fault."""
        from cloudsim.prediction.kernels import uniform as kernel

        count = len(events)
        times = np.ascontiguousarray(events.time_s, np.float64)
        kinds = np.ascontiguousarray(events.kind, np.int8)
        instances = np.ascontiguousarray(events.instance, np.int64)
        numbers = max(self._known, int(instances.max()) + 1)
        state = _grow(self._state, numbers - len(self._state), kernel.UNKNOWN)
        left_s = _grow(self._left_s, numbers - len(self._left_s))
        left_s[len(self._left_s) :] = np.inf
        running = state[self._spot] == kernel.SPOT
        spots = int(np.count_nonzero(kinds == START_SPOT))
        line = kernel.SpotQueue(_grow(self._spot[running], spots), _grow(self._spot_start_s[running], spots))
        births = kernel.Births(
            _grow(self._birth_s, count),
            _grow(self._born_until_s, count),
            _grow(self._free_slots, count),
            _grow(self._end_s, count),
        )
        pending = _grow(self._pending, count)
        always_youngest = self.spec.always_youngest
        lists = numbers + 1 - len(self._first) if always_youngest else 0
        groups = kernel.Groups(
            _grow(self._after, count if always_youngest else 0),
            _grow(self._first, lists, _NOBODY),
            _grow(self._last, lists, _NOBODY),
        )
        known, free, in_line = self._known, self._free, int(np.count_nonzero(running))
        born, waiting, begin_s = len(self._birth_s), len(self._pending), self._begin_s
        free_slots = np.empty(min(count, _EVENTS_AT_A_TIME) + 1, np.int32)
        youngest_s = np.empty(len(free_slots), np.float64)
        before_s = self.until_s
        for first in range(0, count, _EVENTS_AT_A_TIME):
            part = slice(first, first + _EVENTS_AT_A_TIME)
            known, free, in_line, fault, event = kernel.play(
                times[part], kinds[part], instances[part], before_s, until_s, known, free, state, line,
                in_line, free_slots, youngest_s, left_s,
            )  # fmt: skip
            if fault:
                raise log_fault(_fault_text(fault, first + event, times, instances))
            if always_youngest:
                born, waiting = kernel.follow_always_youngest(
                    times[part], kinds[part], instances[part], free_slots, begin_s, births, born,
                    pending, waiting, groups,
                )  # fmt: skip
            else:
                born, waiting = kernel.follow(
                    times[part], kinds[part], free_slots, youngest_s, begin_s, births, born, pending, waiting
                )
            before_s = begin_s = float(times[part][-1])
        self._known, self._free, self._state, self._left_s = known, free, state, left_s
        if self.spec.release_horizons_s:
            started = kinds == START_SPOT
            new = _Spots(instances[started], times[started], events.end_s[started])
            self._spots = _Spots(*(np.concatenate(pair) for pair in zip(self._spots, new, strict=True)))
            # History holds what was admitted: all of its on-demand instances were placed.
            own, stops = kinds == START_ON_DEMAND, kinds == STOP
            self._own = np.append(self._own, instances[own])
            self._own_start_s = np.append(self._own_start_s, times[own])
            self._stop_s = _grow(self._stop_s, numbers - len(self._stop_s), np.inf)
            self._stop_s[instances[stops]] = times[stops]
        self._spot, self._spot_start_s = line.number[:in_line], line.start_s[:in_line]
        self._birth_s, self._born_until_s = births.begin_s[:born], births.until_s[:born]
        self._free_slots, self._end_s = births.free_slots[:born], births.end_s[:born]
        self._pending, self._begin_s = pending[:waiting], begin_s
        self._after, self._first, self._last = groups.after[:born], groups.first, groups.last


def _grow(column: NDArray[Number], room: int, filled: float | None = None) -> NDArray[Number]:
    """Return a copy with room for this many values more."""
    grown = np.empty(len(column) + room, column.dtype)
    grown[: len(column)] = column
    if filled is not None:
        grown[len(column) :] = filled
    return grown


def _fault_text(fault: int, event: int, times: NDArray[np.float64], instances: NDArray[np.int64]) -> str:
    from cloudsim.prediction.kernels import uniform as kernel

    instance = f"event {event}, instance {instances[event]}"
    return {
        kernel.NOT_IN_ORDER: f"event {event} at {times[event]} s is out of order or beyond the boundary",
        kernel.NOT_A_KIND: f"event {event} is no STOP, START_ON_DEMAND or START_SPOT",
        kernel.NOT_RISING: f"{instance}: numbers rise with starts",
        kernel.NOT_RUNNING: f"{instance}: stops but does not run",
        kernel.STOPS_TWICE: f"{instance}: stops twice",
    }[fault]
