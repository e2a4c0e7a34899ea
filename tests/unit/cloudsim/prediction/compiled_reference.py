"""The plain replay once more, compiled: for comparisons with tens of thousands of samples.

It follows reference/youngest_first.py step by step and shares no code with the kernel: no slot numbers, no
chunks, no index, no
replays that go on for others. tests/deep/acceptance/test_compiled_reference.py holds it against the plain
reference itself.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from cloudsim.history.event_log import EventLog
from tests.support.reference.youngest_first import ReferenceSample

_STOP, _ON_DEMAND, _SPOT = 0, 1, 2
_NOWHERE = -1


@numba.njit(cache=True)
def _evict(free, where, size, line, started, cores):
    """ReferenceCloud._evict_for: the node on which ``cores`` have room afterwards, or -1."""
    marked_cores = np.zeros(len(free), np.int64)
    place, last = _NOWHERE, started
    while place == _NOWHERE and last > 0:
        last -= 1
        at = where[line[last]]
        if at != _NOWHERE:
            marked_cores[at] += size[line[last]]
            if free[at] + marked_cores[at] >= cores:
                place = at
    if place == _NOWHERE:
        return place
    victims_cores = marked_cores[place]
    for index in range(started - 1, last - 1, -1):  # youngest first
        one = line[index]
        if where[one] != place:
            continue
        if free[place] + victims_cores - size[one] >= cores:
            victims_cores -= size[one]  # spared
        else:
            where[one] = -2  # a victim; its cores are given back below
    for index in range(last, started):
        if where[line[index]] == -2:
            where[line[index]] = _NOWHERE
            free[place] += size[line[index]]
    return place


@numba.njit(cache=True)
def _replay(node_cores, time_s, kind, instance, cores, until_s, virtual_cores, birth_s):
    """free_slots (0: no sample), seconds, evicted. ``instance``: numbered from 0 without gaps."""
    free = node_cores.copy()
    virtual = instance.max() + 1 if len(instance) else 0
    where = np.full(virtual + 1, _NOWHERE)
    size = np.zeros(virtual + 1, np.int64)
    line = np.empty(virtual + 1, np.int64)  # spot instances as they were placed, which is oldest first
    started = 0
    free_slots = 0
    size[virtual] = virtual_cores
    for event in range(len(time_s) + 1):
        over = event == len(time_s) or time_s[event] >= until_s
        if free_slots == 0 and (over or time_s[event] > birth_s):
            for node in range(len(free)):
                free_slots += free[node] // virtual_cores
            if free_slots == 0:
                return 0, 0.0, False
            for node in range(len(free)):
                if free[node] >= virtual_cores:
                    free[node] -= virtual_cores
                    where[virtual] = node
                    break
            line[started] = virtual
            started += 1
        if over:
            break
        one = instance[event]
        if kind[event] == _STOP:
            if where[one] != _NOWHERE:
                free[where[one]] += size[one]
                where[one] = _NOWHERE
            continue
        place = _NOWHERE
        for node in range(len(free)):
            if free[node] >= cores[event]:
                place = node
                break
        if place == _NOWHERE and kind[event] == _ON_DEMAND:
            place = _evict(free, where, size, line, started, cores[event])
        if place != _NOWHERE:
            free[place] -= cores[event]
            where[one], size[one] = place, cores[event]
            if kind[event] == _SPOT:
                line[started] = one
                started += 1
        if free_slots and where[virtual] == _NOWHERE:
            return free_slots, time_s[event] - birth_s, True
    return free_slots, until_s - birth_s, False


class CompiledReference:
    """Replay one history again and again, as the plain reference does."""

    def __init__(self, node_cores: tuple[int, ...], events: EventLog):
        self._nodes: NDArray[np.int64] = np.array(node_cores, np.int64)
        self._events = events
        self._instance: NDArray[np.int64] = np.unique(events.instance, return_inverse=True)[1].astype(
            np.int64
        )

    def replay(self, until_s: float, cores: int, birth_s: float) -> ReferenceSample | None:
        """Replay one birth; see ``reference.youngest_first.replay``."""
        log = self._events
        free_slots, duration_s, evicted = _replay(
            self._nodes, log.time_s, log.kind, self._instance, log.cores, until_s, cores, birth_s
        )
        return ReferenceSample(int(free_slots), float(duration_s), bool(evicted)) if free_slots else None
