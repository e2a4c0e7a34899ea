"""The scheduler: filter → weigh → place, else select victims. It plans and changes nothing.

docs/design/preemption.md "The rule": nodes where nobody has to leave come first; then the least cost of the
victims; then the weighers; then node order.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.instances import Instance, Placement
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Kind, Request, amounts_of_member
from cloudsim.scheduling import filters
from cloudsim.scheduling.fit import nodes_with_room, slots_of_nodes
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.lineups import LineUp, Ranking, Weighers
from cloudsim.scheduling.victims import PlacementRequest

_NodeNumbers = NDArray[np.int64]


def plan(
    inventory: Inventory, request: Request, lineup: LineUp, now_s: float = 0.0
) -> Placement | RefusalReason:
    """Return the node and the victims for a request, or the reason why it cannot be placed.

    Spot requests only take free room. On-demand requests evict when nothing is free (P1 §II-A). So does a
    spot request with a promise, but only instances without one (P2 §3.6). now_s: the cloud's time in seconds.
    """
    if inventory.lacks(request):
        return RefusalReason.TOO_LARGE
    allowed = allowed_nodes(inventory, request, lineup)
    if allowed is not None and not allowed.any():
        return RefusalReason.NO_SUCH_NODE
    if inventory.makes_gang(request):
        return _plan_gang(inventory, request, lineup, allowed, now_s)
    return _plan_one(inventory, request, lineup, allowed, now_s)


def _plan_one(
    inventory: Inventory, request: Request, lineup: LineUp, allowed: NDArray[np.bool_] | None, now_s: float
) -> Placement | RefusalReason:
    """Return the node and the victims for an instance that runs on one node."""
    needed = inventory.needed(request)
    node = _with_room(inventory, request, lineup, inventory.free_full, needed, allowed)
    if node is not None:
        return Placement(node)
    room = inventory.free_full
    if request.kind is Kind.ON_DEMAND:
        room = inventory.room_soon()
        if room is not inventory.free_full:
            node = _with_room(inventory, request, lineup, room, needed, allowed)
            if node is not None:
                return Placement(node, waits=True)
    elif not (request.promised and inventory.any_yields):
        return RefusalReason.NO_CAPACITY
    only_least = lineup.ranking is Ranking.LEXICOGRAPHIC
    wanted = PlacementRequest(request, needed, room, allowed, now_s, only_least)

    def choose(nodes: _NodeNumbers, costs: NDArray[np.int64]) -> int:
        return _best(inventory, request, lineup, nodes, costs)

    return lineup.victims(inventory, wanted, choose) or RefusalReason.NO_CAPACITY


def _plan_gang(
    inventory: Inventory, request: Request, lineup: LineUp, allowed: NDArray[np.bool_] | None, now_s: float
) -> Placement | RefusalReason:
    """Return the nodes and the victims for a gang, or the reason why it cannot be placed as a whole.

    Its members are instances of one core that are placed one after the other. Where nothing is weighed, all
    that fit on a node go there at once, which is the same.
    """
    of_member = inventory.needed_by_member(request)
    first_fit = not _weighers(lineup, request) and not lineup.draws
    slots = slots_of_nodes(inventory.free_full, of_member)
    if allowed is not None:
        slots[~allowed] = 0
    if first_fit and int(slots.sum()) >= request.cores:
        filled = np.minimum(slots, np.maximum(request.cores - (np.cumsum(slots) - slots), 0))
        nodes = np.flatnonzero(filled)
        parts = tuple(zip(nodes.tolist(), filled[nodes].tolist(), strict=True))
        return Placement(parts[0][0], parts=parts)
    member = replace(request, cores=1, amounts=amounts_of_member(request.amounts, request.cores))
    trial, cores_of = inventory.copy(), Counter[int]()
    victims: list[Instance] = []
    waits, proven = False, True
    while (left := request.cores - cores_of.total()) > 0:
        placement = _plan_one(trial, member, lineup, allowed, now_s)
        if isinstance(placement, RefusalReason):
            return placement
        for victim in placement.victims:
            trial.remove(victim.id)
        victims += placement.victims
        waits, proven = waits or placement.waits, proven and placement.proven
        node, count, at_once = placement.node, 1, not (placement.waits or placement.victims)
        if first_fit:
            room = trial.free_full if at_once else trial.room_soon()
            count = min(left, int(slots_of_nodes(room[:, node : node + 1], of_member)[0]))
        amounts = tuple((name, count * amount) for name, amount in member.amounts)
        part = Instance(f"{request.id} {left}", Kind.ON_DEMAND, count, node, now_s, now_s, 0, amounts=amounts)
        (trial.place if at_once else trial.book)(part)
        cores_of[node] += count
    parts = tuple(cores_of.items())
    return Placement(parts[0][0], tuple(victims), waits, proven, parts)


def warm_up(lineup: LineUp) -> None:
    """Load and compile what a line-up needs, by planning one eviction on a cloud of one core.

    It takes seconds on a machine that does it for the first time.
    """
    inventory = Inventory((1,))
    inventory.place(Instance("victim", Kind.SPOT, 1, 0, 0.0, 1.0, 0))
    plan(inventory, Request("request", Kind.ON_DEMAND, 1, None), lineup)


def explain(
    inventory: Inventory, request: Request, lineup: LineUp
) -> tuple[tuple[tuple[str, int], ...], bool]:
    """Explain why a request cannot be placed.

    Returns
    -------
    removed, would_help
        By filter, the number of nodes that it took out of those that were left; and whether there would be
        room if spot instances were evicted.
    """
    left = np.ones(len(inventory.node_cores), np.bool_)
    removed: list[tuple[str, int]] = []

    def note(name: str, passed: NDArray[np.bool_] | None) -> None:
        nonlocal left
        if passed is not None and (left & ~passed).any():
            removed.append((name, int((left & ~passed).sum())))
            left = left & passed

    for node_filter in lineup.filters:
        note(node_filter.name, node_filter.passes(inventory, request))
    if inventory.makes_gang(request):  # it needs room on several nodes: each lacks some of it
        note(filters.ROOM, np.zeros_like(left))
        soon = slots_of_nodes(inventory.free_normal, inventory.needed_by_member(request))
        return tuple(removed), int(soon[left].sum()) >= request.cores
    needed = inventory.needed(request)
    after = left & nodes_with_room(inventory.free_normal, needed)
    note(filters.ROOM, nodes_with_room(inventory.free_full, needed))
    return tuple(removed), bool(after.any()) and not inventory.lacks(request)


def allowed_nodes(inventory: Inventory, request: Request, lineup: LineUp) -> NDArray[np.bool_] | None:
    """Return the nodes that pass all filters, bool (nodes,); None when all nodes do."""
    allowed: NDArray[np.bool_] | None = None
    for node_filter in lineup.filters:
        passed = node_filter.passes(inventory, request)
        if passed is not None:
            allowed = passed if allowed is None else allowed & passed
    return allowed


def _with_room(
    inventory: Inventory,
    request: Request,
    lineup: LineUp,
    room: NDArray[np.int64],
    needed: tuple[int, ...],
    allowed: NDArray[np.bool_] | None,
) -> int | None:
    """Choose a node among those with room; None when there is none."""
    passed = nodes_with_room(room, needed)
    if allowed is not None:
        passed &= allowed
    if not _weighers(lineup, request) and not lineup.draws:
        first = int(passed.argmax())  # first fit by node order
        return first if passed[first] else None
    (nodes,) = passed.nonzero()
    return _best(inventory, request, lineup, nodes, None) if len(nodes) else None


def _weighers(lineup: LineUp, request: Request) -> Weighers:
    return lineup.spot_weighers if request.kind is Kind.SPOT else lineup.weighers


def _best(
    inventory: Inventory,
    request: Request,
    lineup: LineUp,
    nodes: _NodeNumbers,
    costs: NDArray[np.int64] | None,
) -> int:
    """Choose one of the nodes by cost and weighers; the first of those that remain, or one that is drawn."""
    if len(nodes) == 1:
        return int(nodes[0])
    weighers = _weighers(lineup, request)
    if lineup.ranking is Ranking.WEIGHTED:
        score = np.zeros(len(nodes))
        if costs is not None:
            score += lineup.cost_factor * _stretched(-costs.astype(np.float64))
        for weigher, factor in weighers:
            score += factor * _stretched(weigher(inventory, request)[nodes])
        nodes = nodes[score == score.max()]
    else:
        if costs is not None:
            nodes = nodes[costs == costs.min()]
        for weigher, _ in weighers:
            if len(nodes) > 1:
                weights = weigher(inventory, request)[nodes]
                nodes = nodes[weights == weights.max()]
    place = 0
    if lineup.draws:
        digest = hashlib.blake2b(request.id.encode(), digest_size=8).digest()
        place = int.from_bytes(digest) % len(nodes)
    return int(nodes[place])


def _stretched(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Stretch weights to 0..1; all 0 where all are equal."""
    low, high = weight.min(), weight.max()
    return (weight - low) / (high - low) if high > low else np.zeros(len(weight))
