"""Replay a cloud's history under any line-up, compiled; ``youngest_first`` is faster where it applies.

A replay holds free cores by node and node by slot number, as there, and free amounts of further resources.
Placement is that of ``scheduling/pipeline.py``, and victims (``line_up_victims``) are those of
``scheduling/victims.py``, ties included. ``reference/line_up.py`` runs the pipeline itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloudsim.history.event_log import NO_GROUP, NO_SPREAD, RENEWAL, START_ON_DEMAND, STOP, TOGETHER
from cloudsim.model.jit import compiled
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
    """Return the node with room that the weigher prefers, the first of equals; NOWHERE if none has room.

    Parameters
    ----------
    allowed
        bool[nodes], or empty for all nodes.
    """
    chosen, best = NOWHERE, 0
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
        if chosen == NOWHERE or worth > best:
            chosen, best = node, worth
    return chosen


@compiled
def _allow(details: EventDetails, event: int, node: NDArray[np.int16], allowed: NDArray[np.bool_]) -> None:
    """Write which nodes an event's instance may go to."""
    group, spread = details.group[event], details.spread[event]
    mask = details.masks[details.labels[event]]
    for place in range(len(allowed)):
        allowed[place] = mask[place]
    if group == NO_GROUP or spread == NO_SPREAD:
        return
    with_group, any_member = np.zeros(len(allowed), np.bool_), False
    for slot in range(len(details.slot_group)):
        if details.slot_group[slot] == group and node[slot] != NOWHERE:
            with_group[node[slot]] = any_member = True
    if spread == TOGETHER and not any_member:
        return
    for place in range(len(allowed)):
        allowed[place] &= with_group[place] == (spread == TOGETHER)


@compiled
def _slots_on(replay: Replay, node: int, virtual: Virtual) -> int:
    """Return the free slots of the virtual instance's flavour on a node."""
    slots = int(replay.free[node] // virtual.cores)
    for resource in range(len(virtual.further)):
        if virtual.further[resource] > 0:
            slots = min(slots, int(replay.further[resource, node] // virtual.further[resource]))
    return slots


@compiled
def _count(replay: Replay, virtual: Virtual, by_node: NDArray[np.int64]) -> int:
    """Return the free slots of all nodes, and write them by node."""
    slots = 0
    for node in range(len(by_node)):
        by_node[node] = _slots_on(replay, node, virtual)
        slots += int(by_node[node])
    return slots


@compiled
def _recount(replay: Replay, virtual: Virtual, by_node: NDArray[np.int64], touched: int) -> int:
    """Return how many more free slots there are after an event, which changes one node at most."""
    if touched == NOWHERE:
        return 0
    before, by_node[touched] = by_node[touched], _slots_on(replay, touched, virtual)
    return int(by_node[touched] - before)


@compiled
def _bear(
    rules: Rules, replay: Replay, virtual: Virtual, replays: Replays, more: ExtraResources, row: int
) -> None:
    """Copy the state of a replay into a row, and add the virtual instance, for which there is room."""
    free, further, node = replays.free[row], more.further[row], replays.node[row]
    for place in range(len(free)):
        free[place] = replay.free[place]
        for resource in range(len(further)):
            further[resource, place] = replay.further[resource, place]
    for slot in range(len(node)):
        node[slot] = replay.node[slot]
    chosen = _place(free, further, virtual.cores, virtual.further, np.empty(0, np.bool_), rules.spot_weigher)
    free[chosen] -= virtual.cores
    for resource in range(len(virtual.further)):
        further[resource, chosen] -= virtual.further[resource]
    replays.virtual_node[row] = chosen


@compiled
def advance(
    rules: Rules,
    events: Events,
    line: LineUpSpotLine,
    details: EventDetails,
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
    """Run the replays ``rows`` through a chunk, each through its own range of events, one after the other.

    All of it is a single function with a loop in it, because each further one would take ten seconds to
    compile.

    Parameters
    ----------
    line
        Spot instances of the chunk.
    details
        What the chunk's events need beside cores.
    virtual
        The virtual instance.
    rows
        int64[replays], rows of ``replays`` and ``more`` to run.
    begin, end
        int64[replays]; each replay runs through events ``begin`` to ``end - 1``.
    evicted_by
        int64[replays]; the event that evicted the virtual instance is written, or -1.
    born, born_more
        Rows in which replays with a virtual instance start.
    born_rows
        int64[replays] or empty: each starts from the state of one of ``rows`` after its events.
    free_slots
        int32; free slots of the flavour are written before each event and after the last one, unless it is
        empty.
    """
    kinds, slots, cores_of, further_of = events.kind, events.slot, events.cores, details.further
    labels, spread = details.labels, details.spread
    nodes, resources = replays.free.shape[1], more.further.shape[1]
    scratch = np.empty(nodes, np.bool_)
    anywhere = np.empty(0, np.bool_)
    counting = len(free_slots) > 0
    by_node = np.zeros(nodes, np.int64)
    for index in range(len(rows)):
        row = rows[index]
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
            free_slots[begin[index]] = _count(replay, virtual, by_node)
        evicted_by[index] = NOWHERE
        for event in range(begin[index], end[index]):
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
                    _allow(details, event, node, scratch)
                    allowed = scratch
                weigher = rules.weigher if on_demand else rules.spot_weigher
                touched = _place(free, further, cores, further_of[slot], allowed, weigher)
                if touched == NOWHERE and on_demand:
                    touched = make_room(
                        rules, line, cores, further_of[slot], allowed, replay, virtual, details.time_s[event]
                    )
                if touched == EVICTED:
                    evicted_by[index] = event
                    break
                node[slot] = touched
                sign = -1
            if touched != NOWHERE:
                free[touched] += sign * cores
                for resource in range(resources):
                    further[resource, touched] += sign * further_of[slot, resource]
            if counting:
                free_slots[event + 1] = free_slots[event] + _recount(replay, virtual, by_node, touched)
        if index < len(born_rows):
            _bear(rules, replay, virtual, born, born_more, born_rows[index])
