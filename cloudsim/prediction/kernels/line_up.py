"""Replays of a cloud's history under any line-up, compiled: ``kernel.py`` for all but youngest-job-first.

A replay is what it is there: free cores by node and node by slot number; beside them free amounts of further
resources. Placement is that of ``scheduling/pipeline.py``, and victims (``lineup_victims.py``) are those of
``scheduling/victims.py``, ties included. ``lineup_twin.py`` runs the pipeline itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloudsim.history.event_log import NO_GROUP, NO_SPREAD, RENEWAL, START_ON_DEMAND, STOP, TOGETHER
from cloudsim.jit import compiled
from cloudsim.prediction.history_chunks import Events
from cloudsim.prediction.kernels.line_up_replays import (
    EMPTIEST,
    FIRST,
    FULLEST,
    EventDetails,
    ExtraResources,
    LineUpSpotLine,
    Replay,
    Rules,
    Virtual,
)
from cloudsim.prediction.kernels.line_up_victims import make_room
from cloudsim.prediction.kernels.replays import Replays
from cloudsim.prediction.kernels.youngest_first import EVICTED, NOWHERE


@compiled
def _place(
    free: NDArray[np.int32],
    further: NDArray[np.int64],
    cores: int,
    needs: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    weigher: int,
) -> int:
    """The node with room that the weigher prefers, the first of equals; NOWHERE if none has room.

    allowed: empty for all nodes.
    """
    found, best = NOWHERE, 0
    for node in range(len(free)):
        if free[node] < cores or (len(allowed) > 0 and not allowed[node]):
            continue
        room = True
        for resource in range(len(needs)):
            room &= further[resource, node] >= needs[resource]
        if not room:
            continue
        if weigher == FIRST:
            return node
        worth = node
        if weigher == FULLEST:
            worth = -free[node]
        elif weigher == EMPTIEST:
            worth = free[node]
        if found == NOWHERE or worth > best:
            found, best = node, worth
    return found


@compiled
def _allow(told: EventDetails, event: int, node: NDArray[np.int16], found: NDArray[np.bool_]) -> None:
    """Writes which nodes an event's instance may go to."""
    group, spread = told.group[event], told.spread[event]
    mask = told.masks[told.labels[event]]
    for place in range(len(found)):
        found[place] = mask[place]
    if group == NO_GROUP or spread == NO_SPREAD:
        return
    with_group, anybody = np.zeros(len(found), np.bool_), False
    for slot in range(len(told.slot_group)):
        if told.slot_group[slot] == group and node[slot] != NOWHERE:
            with_group[node[slot]] = anybody = True
    if spread == TOGETHER and not anybody:
        return
    for place in range(len(found)):
        found[place] &= with_group[place] == (spread == TOGETHER)


@compiled
def _slots_on(replay: Replay, node: int, virtual: Virtual) -> int:
    """Free slots of the virtual instance's flavour on a node."""
    slots = int(replay.free[node] // virtual.cores)
    for resource in range(len(virtual.further)):
        if virtual.further[resource] > 0:
            slots = min(slots, int(replay.further[resource, node] // virtual.further[resource]))
    return slots


@compiled
def _count(replay: Replay, virtual: Virtual, by_node: NDArray[np.int64]) -> int:
    """Free slots in all; writes them by node."""
    slots = 0
    for node in range(len(by_node)):
        by_node[node] = _slots_on(replay, node, virtual)
        slots += int(by_node[node])
    return slots


@compiled
def _recount(replay: Replay, virtual: Virtual, by_node: NDArray[np.int64], touched: int) -> int:
    """How many free slots there are more after an event, which changes one node at most."""
    if touched == NOWHERE:
        return 0
    before, by_node[touched] = by_node[touched], _slots_on(replay, touched, virtual)
    return int(by_node[touched] - before)


@compiled
def _bear(
    rules: Rules, replay: Replay, virtual: Virtual, replays: Replays, more: ExtraResources, row: int
) -> None:
    """The state of a replay goes into a row, and the virtual instance joins it, for which there is room."""
    free, further, node = replays.free[row], more.further[row], replays.node[row]
    for place in range(len(free)):
        free[place] = replay.free[place]
        for resource in range(len(further)):
            further[resource, place] = replay.further[resource, place]
    for slot in range(len(node)):
        node[slot] = replay.node[slot]
    found = _place(free, further, virtual.cores, virtual.further, np.empty(0, np.bool_), rules.spot_weigher)
    free[found] -= virtual.cores
    for resource in range(len(virtual.further)):
        further[resource, found] -= virtual.further[resource]
    replays.virtual_node[row] = found


@compiled
def advance(
    rules: Rules,
    events: Events,
    line: LineUpSpotLine,
    told: EventDetails,
    virtual: Virtual,
    replays: Replays,
    more: ExtraResources,
    rows: NDArray[np.int64],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    evicted_by: NDArray[np.int64],
    born: Replays,
    born_more: ExtraResources,
    born_rows: NDArray[np.int64],
    free_slots: NDArray[np.int32],
) -> None:
    """Runs the replays ``rows`` through a chunk, each through its events begin to end - 1, one after the
    other.

    Writes the event that evicted the virtual instance, or -1, to ``evicted_by``. born_rows: in these rows of
    ``born`` replays with a virtual instance start, each from the state of one of ``rows`` after its events;
    as many or none. free_slots: the free slots of the flavour are written to it before each event and after
    the last one, if it has room for them.

    One function with a loop in it, for each further one would take ten seconds to compile.
    """
    kinds, slots, cores_of, further_of = events.kind, events.slot, events.cores, told.further
    labels, spread = told.labels, told.spread
    nodes, resources = replays.free.shape[1], more.further.shape[1]
    scratch = np.empty(nodes, np.bool_)
    anywhere = np.empty(0, np.bool_)
    counting = len(free_slots) > 0
    by_node = np.zeros(nodes, np.int64)
    for one in range(len(rows)):
        row = rows[one]
        replay = Replay(
            replays.free[row],
            more.further[row],
            replays.node[row],
            replays.virtual_node[row],
            replays.rank[row],
            more.birth_s[row],
            more.draw[row],
        )
        free, further, node = replay.free, replay.further, replay.node
        if counting:
            free_slots[begin[one]] = _count(replay, virtual, by_node)
        evicted_by[one] = NOWHERE
        for event in range(begin[one], end[one]):
            slot, cores = slots[event], cores_of[event]
            if kinds[event] == STOP or kinds[event] == RENEWAL:
                stops = kinds[event] == STOP  # a renewal is for the line to know
                touched = int(node[slot]) if stops else NOWHERE
                node[slot] = NOWHERE if stops else int(node[slot])
                sign = 1
            else:
                on_demand = kinds[event] == START_ON_DEMAND
                allowed = anywhere
                if labels[event] != 0 or spread[event] != NO_SPREAD:
                    _allow(told, event, node, scratch)
                    allowed = scratch
                weigher = rules.weigher if on_demand else rules.spot_weigher
                touched = _place(free, further, cores, further_of[slot], allowed, weigher)
                if touched == NOWHERE and on_demand:
                    touched = make_room(
                        rules, line, cores, further_of[slot], allowed, replay, virtual, told.time_s[event]
                    )
                if touched == EVICTED:
                    evicted_by[one] = event
                    break
                node[slot] = touched
                sign = -1
            if touched != NOWHERE:
                free[touched] += sign * cores
                for resource in range(resources):
                    further[resource, touched] += sign * further_of[slot, resource]
            if counting:
                free_slots[event + 1] = free_slots[event] + _recount(replay, virtual, by_node, touched)
        if one < len(born_rows):
            _bear(rules, replay, virtual, born, born_more, born_rows[one])
