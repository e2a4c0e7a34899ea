"""Replay the history of a cloud on which all instances have one size, compiled: nodes do not matter.

There are two passes. ``play`` replays the history without a virtual instance, where the number of free slots
and the line of spot instances are the whole state. From what it wrote, ``follow`` and
``follow_always_youngest`` compute when every virtual instance dies, whatever the time of its birth
(docs/design/prediction.md "Fast"). A virtual instance takes a free slot, or the place of a spot instance
younger than itself, which is then called its *double*: nothing else ever differs between a replay with it and
one without.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.history.event_log import START_ON_DEMAND, START_SPOT, STOP
from cloudsim.model.jit import compiled

#: States of an instance.
UNKNOWN, ON_DEMAND, SPOT, GONE, STOPPED = 0, 1, 2, 3, 4

#: Faults of a history.
NO_FAULT, NOT_IN_ORDER, NOT_A_KIND, NOT_RISING, NOT_RUNNING, STOPS_TWICE = 0, 1, 2, 3, 4, 5

NOBODY = -1


class SpotQueue(NamedTuple):
    """Spot instances in order of start, some of which do not run any more; both columns have spare room.

    Attributes
    ----------
    number
        int64, instance numbers.
    start_s
        float64, seconds.
    """

    number: NDArray[np.int64]
    start_s: NDArray[np.float64]


class Births(NamedTuple):
    """Intervals of births with free slots, in order of time; all columns have spare room.

    Attributes
    ----------
    begin_s, until_s
        float64, seconds; the interval is [begin_s, until_s).
    free_slots
        int32, free slots at birth.
    end_s
        float64, seconds at which those born in it are evicted, NaN as long as they run.
    """

    begin_s: NDArray[np.float64]
    until_s: NDArray[np.float64]
    free_slots: NDArray[np.int32]
    end_s: NDArray[np.float64]


class Groups(NamedTuple):
    """Pending intervals as linked lists, one list for each double; NOBODY marks the end of a list.

    The list of spot instance n is at n + 1, that of intervals without a double at 0.

    Attributes
    ----------
    after
        int64, the interval that follows in its list.
    first, last
        int64, first and last interval of each list.
    """

    after: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


@compiled
def _running(number: NDArray[np.int64], waiting: int, state: NDArray[np.int8]) -> int:
    """Return the length of a line without the instances at its end that do not run any more."""
    while waiting and state[number[waiting - 1]] != SPOT:
        waiting -= 1
    return waiting


@compiled
def _fault_of_stop(state: NDArray[np.int8], instance: int, known: int) -> int:
    if not 0 <= instance < known or state[instance] == UNKNOWN:
        return NOT_RUNNING
    return STOPS_TWICE if state[instance] == STOPPED else NO_FAULT


@compiled
def play(
    times: NDArray[np.float64],
    kinds: NDArray[np.int8],
    instances: NDArray[np.int64],
    from_s: float,
    until_s: float,
    known: int,
    free: int,
    state: NDArray[np.int8],
    line: SpotQueue,
    waiting: int,
    free_slots: NDArray[np.int32],
    youngest_s: NDArray[np.float64],
    left_s: NDArray[np.float64],
) -> tuple[int, int, int, int, int]:
    """Replay events in [from_s, until_s) and check them.

    Returns
    -------
    tuple
        ``known``, ``free`` and ``waiting`` afterwards, the first fault, and its event.

    Parameters
    ----------
    known
        All instance numbers below have been given.
    free
        Free slots before the first event.
    state
        int8, state of each instance, by number; updated.
    line
        Running spot instances; updated.
    waiting
        Length of ``line``.
    free_slots
        int32[events + 1]; free slots before each event and after the last one are written.
    youngest_s
        float64[events]; where an on-demand request left no slot free, the start of the youngest running spot
        instance is written, -inf if none runs.
    left_s
        float64, by number; the time at which a running spot instance left is written.
    """
    number, start_s = line.number, line.start_s
    before_s = from_s
    for event in range(len(times)):
        free_slots[event] = free
        time, kind, instance = times[event], kinds[event], instances[event]
        if not before_s <= time < until_s:
            return known, free, waiting, NOT_IN_ORDER, event
        before_s = time
        if kind == STOP:
            fault = _fault_of_stop(state, instance, known)
            if fault:
                return known, free, waiting, fault, event
            free += state[instance] != GONE
            left_s[instance] = time if state[instance] == SPOT else left_s[instance]
            state[instance] = STOPPED
            continue
        if instance < known:
            return known, free, waiting, NOT_RISING, event
        known = instance + 1
        if kind == START_ON_DEMAND:
            state[instance] = ON_DEMAND
            full = free == 0
            free -= not full
            if free == 0:
                waiting = _running(number, waiting, state)
                if full and not waiting:
                    state[instance] = GONE
                elif full:
                    state[number[waiting - 1]] = GONE
                    left_s[number[waiting - 1]] = time
                    waiting = _running(number, waiting, state)
                youngest_s[event] = start_s[waiting - 1] if waiting else -np.inf
        elif kind == START_SPOT:
            state[instance] = SPOT if free else GONE
            if free:
                free -= 1
                number[waiting], start_s[waiting] = instance, time
                waiting += 1
        else:
            return known, free, waiting, NOT_A_KIND, event
    free_slots[len(times)] = free
    return known, free, waiting, NO_FAULT, len(times)


@compiled
def follow(
    times: NDArray[np.float64],
    kinds: NDArray[np.int8],
    free_slots: NDArray[np.int32],
    youngest_s: NDArray[np.float64],
    begin_s: float,
    births: Births,
    count: int,
    pending: NDArray[np.int64],
    waiting: int,
) -> tuple[int, int]:
    """Add an interval of ``births`` between any two events, and end those whose instances are evicted.

    A virtual instance dies at the first on-demand request after which nothing is free and no younger spot
    instance runs: until then there was a free slot or a double. Returns ``count`` and ``waiting`` afterwards.

    Parameters
    ----------
    begin_s
        Time of the event before the first one, in seconds.
    count
        Number of ``births``.
    pending
        int64, stack of the intervals whose instances still run.
    waiting
        Height of the stack.
    """
    begins_s, untils_s, slots, ends_s = births.begin_s, births.until_s, births.free_slots, births.end_s
    for event in range(len(times)):
        time = times[event]
        if time > begin_s:
            if free_slots[event] > 0:
                begins_s[count], untils_s[count], slots[count] = begin_s, time, free_slots[event]
                ends_s[count] = np.nan
                pending[waiting] = count
                count, waiting = count + 1, waiting + 1
            begin_s = time
        if kinds[event] == START_ON_DEMAND and free_slots[event + 1] == 0:
            youngest = youngest_s[event]
            # Born at the very time of a start it is the younger one.
            while waiting and begins_s[pending[waiting - 1]] >= youngest:
                waiting -= 1
                ends_s[pending[waiting]] = time
    return count, waiting


@compiled
def _end_list(groups: Groups, ended: int, time: float, ends_s: NDArray[np.float64]) -> None:
    """End all intervals of a list, and empty it."""
    interval = groups.first[ended]
    while interval != NOBODY:
        if np.isnan(ends_s[interval]):
            ends_s[interval] = time
        interval = groups.after[interval]
    groups.first[ended] = groups.last[ended] = NOBODY


@compiled
def _move_list(groups: Groups, source: int, target: int) -> None:
    """Append one list to another, and empty it."""
    if groups.first[source] == NOBODY:
        return
    if groups.first[target] == NOBODY:
        groups.first[target] = groups.first[source]
    else:
        groups.after[groups.last[target]] = groups.first[source]
    groups.last[target] = groups.last[source]
    groups.first[source] = groups.last[source] = NOBODY


@compiled
def follow_always_youngest(
    times: NDArray[np.float64],
    kinds: NDArray[np.int8],
    instances: NDArray[np.int64],
    free_slots: NDArray[np.int32],
    begin_s: float,
    births: Births,
    count: int,
    pending: NDArray[np.int64],
    waiting: int,
    groups: Groups,
) -> tuple[int, int]:
    """Do what ``follow`` does, for virtual instances that are evicted before any other (P2 §2.4).

    A virtual instance then dies at the first on-demand request that finds nothing free where it runs: without
    a double there is one slot less than without the virtual instance, with a double as many. A spot request
    that only the virtual instance keeps out becomes its double, until that request stops.
    """
    for event in range(len(times)):
        time, free = times[event], free_slots[event]
        if time > begin_s:
            if free > 0:
                births.begin_s[count], births.until_s[count] = begin_s, time
                births.free_slots[count], births.end_s[count] = free, np.nan
                groups.after[count] = groups.first[0]
                groups.first[0] = count
                if groups.last[0] == NOBODY:
                    groups.last[0] = count
                pending[waiting] = count
                count, waiting = count + 1, waiting + 1
            begin_s = time
        if kinds[event] == START_ON_DEMAND:
            if free == 1:
                _end_list(groups, 0, time, births.end_s)
            elif free == 0:
                for index in range(waiting):
                    if np.isnan(births.end_s[pending[index]]):
                        births.end_s[pending[index]] = time
                waiting = 0
        elif kinds[event] == START_SPOT:
            if free == 1:
                _move_list(groups, 0, instances[event] + 1)
        elif free_slots[event + 1] > free:
            _move_list(groups, instances[event] + 1, 0)
    return count, waiting
