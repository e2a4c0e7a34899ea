"""Choose victims, and the node that has room then, compiled: ``scheduling/victims.py`` within one replay.

``scheduling/cover_kernel.py`` searches costs and victims. If it leaves a node unsettled (more than 64 useful
instances on it, or a search cut short), the pipeline goes on with ``cover.py``; here the lower bound of its
cost and the best set found stand.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.jit import compiled
from cloudsim.prediction.kernels.line_up_replays import (
    BY_COST,
    EMPTIEST,
    FULLEST,
    LAST,
    OLDEST,
    RANDOM,
    LineUpSpotLine,
    Replay,
    Rules,
    Virtual,
)
from cloudsim.prediction.kernels.youngest_first import EVICTED, NOWHERE
from cloudsim.scheduling.cover_kernel import MOST_STEPS, best_cover, search_nodes
from cloudsim.scheduling.victims_kernel import cost_in_thousandths


@compiled
def _virtual_first(
    rules: Rules, line: LineUpSpotLine, place: int, replay: Replay, virtual: Virtual, later: bool
) -> bool:
    """Return whether the virtual instance leaves before another one."""
    if rules.order == RANDOM:
        return bool(replay.draw < (line.later_draw[place] if later else line.draw[place]))
    if len(line.key) > 0 and virtual.key != line.key[place]:
        return bool(virtual.key < line.key[place])
    younger = bool(line.ordinal[place] < replay.rank)
    return not younger if rules.order == OLDEST else younger


@compiled
def _next(order: NDArray[np.int64], at: int, line: LineUpSpotLine, replay: Replay, later: bool) -> int:
    """Return the next place in an order, from ``at`` on, whose instance runs.

    Instances that started after the virtual instance are in a random order of their own: ``later`` chooses
    it.
    """
    halved = len(line.later_order) > 0
    while at < len(order):
        place = order[at]
        if replay.node[line.slot[place]] != NOWHERE and (
            not halved or (line.ordinal[place] >= replay.rank) == later
        ):
            return at
        at += 1
    return at


@compiled
def _mark(
    rules: Rules,
    line: LineUpSpotLine,
    replay: Replay,
    virtual: Virtual,
    needs: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    room: NDArray[np.int64],
    marked: NDArray[np.int64],
) -> tuple[int, int]:
    """Mark running spot instances in the line-up's order until a node has room.

    Returns that node, NOWHERE if there is none, and how many were ``marked``; the virtual instance has the
    last place. ``room`` becomes what there is without the marked instances.
    """
    waiting, count, first, second = replay.virtual_node != NOWHERE, 0, 0, 0
    virtual_place = len(line.slot)
    while True:
        first = _next(line.order, first, line, replay, False)
        second = _next(line.later_order, second, line, replay, True)
        place, later = NOWHERE, False
        if first < len(line.order):
            place = line.order[first]
        if second < len(line.later_order):
            other = line.later_order[second]
            if place == NOWHERE or line.later_draw[other] < line.draw[place]:
                place, later = other, True
        if place == NOWHERE and not waiting:
            return NOWHERE, count
        if waiting and (place == NOWHERE or _virtual_first(rules, line, place, replay, virtual, later)):
            waiting = False
            place, node = virtual_place, replay.virtual_node
        else:
            node = int(replay.node[line.slot[place]])
            if later:
                second += 1
            else:
                first += 1
        if len(allowed) > 0 and not allowed[node]:
            continue
        marked[count] = place
        count += 1
        enough = True
        for resource in range(len(needs)):
            room[resource, node] += line.amounts[place, resource]
            enough &= room[resource, node] >= needs[resource]
        if enough:
            return node, count


@compiled
def _evict(line: LineUpSpotLine, replay: Replay, place: int) -> bool:
    """Remove an instance from its node, or return True if it is the virtual one."""
    if place == len(line.slot):
        return True
    slot = line.slot[place]
    node = replay.node[slot]
    replay.node[slot] = NOWHERE
    replay.free[node] += line.amounts[place, 0]
    for resource in range(len(replay.further)):
        replay.further[resource, node] += line.amounts[place, resource + 1]
    return False


@compiled
def _in_order(
    rules: Rules,
    line: LineUpSpotLine,
    replay: Replay,
    virtual: Virtual,
    needs: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    room: NDArray[np.int64],
) -> int:
    """Choose a node as ``scheduling.victims.InOrder`` does: the one that has room first.

    Returns the node after its superfluous victims were spared, NOWHERE if no node gets room, or EVICTED if
    the virtual instance must leave: its replay ends there and is left half done.
    """
    marked = np.empty(len(line.slot) + 1, np.int64)
    taken, count = _mark(rules, line, replay, virtual, needs, allowed, room, marked)
    if taken == NOWHERE:
        return NOWHERE
    for index in range(count):
        place = marked[index]
        where = replay.virtual_node if place == len(line.slot) else int(replay.node[line.slot[place]])
        if where != taken:
            continue
        spared = True
        for resource in range(len(needs)):
            spared &= room[resource, taken] - line.amounts[place, resource] >= needs[resource]
        if spared:
            for resource in range(len(needs)):
                room[resource, taken] -= line.amounts[place, resource]
        elif _evict(line, replay, place):
            return EVICTED
    return taken


@compiled
def _on_nodes(
    rules: Rules, line: LineUpSpotLine, replay: Replay, virtual: Virtual, now_s: float, nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the running spot instances, int64[nodes, width], -1 for none; and their costs."""
    count = np.zeros(nodes, np.int64)
    virtual_place = len(line.slot)
    for place in range(virtual_place):
        node = replay.node[line.slot[place]]
        if node != NOWHERE:
            count[node] += 1
    if replay.virtual_node != NOWHERE:
        count[replay.virtual_node] += 1
    width = 0
    for node in range(nodes):
        width = max(width, count[node])
        count[node] = 0
    slots = np.empty((nodes, width), np.int64)
    for node in range(nodes):
        for index in range(width):
            slots[node, index] = -1
    costs = np.zeros(virtual_place + 1, np.int64)
    for place in range(virtual_place + 1):
        if place < virtual_place:
            node = int(replay.node[line.slot[place]])
            start_s, sla = line.start_s[place], line.sla[place]
        else:
            node, start_s, sla = replay.virtual_node, replay.birth_s, virtual.sla
        if node != NOWHERE:
            slots[node, count[node]] = place
            count[node] += 1
            costs[place] = cost_in_thousandths(rules.cost, now_s - start_s, line.amounts[place, 0], sla)
    return slots, costs


@compiled
def _cheapest_node(
    rules: Rules, costs: NDArray[np.int64], nodes: NDArray[np.int64], free: NDArray[np.int32]
) -> int:
    """Return the best of some nodes by the victims' cost and the weigher (``pipeline._best``)."""
    worth = np.zeros(len(nodes))
    for index in range(len(nodes)):
        if rules.weigher == LAST:
            worth[index] = nodes[index]
        elif rules.weigher == FULLEST:
            worth[index] = -free[nodes[index]]
        elif rules.weigher == EMPTIEST:
            worth[index] = free[nodes[index]]
    score = np.empty(len(nodes))
    for index in range(len(nodes)):
        score[index] = -float(costs[index])
    if rules.weighted:
        _stretch(score)
        _stretch(worth)
        for index in range(len(nodes)):
            score[index] = rules.cost_factor * score[index] + rules.factor * worth[index]
            worth[index] = 0.0
    best = 0
    for index in range(1, len(nodes)):
        if score[index] > score[best] or (score[index] == score[best] and worth[index] > worth[best]):
            best = index
    return best


@compiled
def _stretch(weight: NDArray[np.float64]) -> None:
    """Stretch weights to 0..1; all become 0 if all are equal."""
    low, high = weight[0], weight[0]
    for index in range(1, len(weight)):
        low, high = min(low, weight[index]), max(high, weight[index])
    for index in range(len(weight)):
        weight[index] = (weight[index] - low) / (high - low) if high > low else 0.0


@compiled
def _cheapest(
    rules: Rules,
    line: LineUpSpotLine,
    replay: Replay,
    virtual: Virtual,
    needs: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    room: NDArray[np.int64],
    now_s: float,
) -> int:
    """``victims.Cheapest``; returns as ``_in_order``."""
    slots, costs = _on_nodes(rules, line, replay, virtual, now_s, len(replay.free))
    nodes = np.empty(len(replay.free), np.int64)
    count = 0
    for node in range(len(replay.free)):
        enough = len(allowed) == 0 or allowed[node]
        for resource in range(len(needs)):
            whole = room[resource, node]
            for index in range(slots.shape[1]):
                if slots[node, index] == -1:
                    break
                whole += line.amounts[slots[node, index], resource]
            enough &= whole >= needs[resource]
        if enough:
            nodes[count] = node
            count += 1
    if count == 0:
        return NOWHERE
    nodes = nodes[:count]
    least = search_nodes(needs, room, slots, line.amounts, costs, nodes, np.empty(0, np.int64))[0]
    index = _cheapest_node(rules, least, nodes, replay.free)
    taken = nodes[index]
    deficit = np.empty(len(needs), np.int64)
    for resource in range(len(needs)):
        deficit[resource] = needs[resource] - room[resource, taken]
    # Twice the ordinal: the virtual instance, the last place, comes between those before and after it.
    virtual_place = len(line.slot)
    number = np.empty(virtual_place + 1, np.int64)
    for place in slots[taken]:
        if place == virtual_place:
            number[place] = 2 * min(replay.rank, 2**61) - 1
        elif place != -1:
            number[place] = 2 * line.ordinal[place]
    chosen = best_cover(deficit, slots[taken], line.amounts, costs, number, MOST_STEPS)[0]
    for victim in chosen:
        if _evict(line, replay, victim):
            return EVICTED
    return int(taken)


@compiled
def make_room(
    rules: Rules,
    line: LineUpSpotLine,
    cores: int,
    needs_further: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    replay: Replay,
    virtual: Virtual,
    now_s: float,
) -> int:
    """Evict for an on-demand instance that fits nowhere; return its node, NOWHERE or EVICTED."""
    resources = len(needs_further) + 1
    needs = np.empty(resources, np.int64)
    needs[0] = cores
    room = np.empty((resources, len(replay.free)), np.int64)
    for node in range(len(replay.free)):
        room[0, node] = replay.free[node]
    for resource in range(len(needs_further)):
        needs[resource + 1] = needs_further[resource]
        for node in range(len(replay.free)):
            room[resource + 1, node] = replay.further[resource, node]
    if rules.order != BY_COST:
        return _in_order(rules, line, replay, virtual, needs, allowed, room)
    return _cheapest(rules, line, replay, virtual, needs, allowed, room, now_s)
