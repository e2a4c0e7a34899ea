"""Victim policies: which node makes room for a request, and which instances leave it.

There are two algorithms. ``InOrder`` takes instances in an order until one node has room, then spares the
unneeded. ``Cheapest`` finds the node and the set of victims that cost least (docs/design/preemption.md "The
rule"). Both plan only. A policy is one value, which the scheduler calls and which the compiled replay reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.instances import Instance, Placement
from cloudsim.model.requests import Kind, Request
from cloudsim.scheduling.cover import Cover, cheapest_cover
from cloudsim.scheduling.eviction import Cost, Order
from cloudsim.scheduling.fit import fits
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.spot_columns import NOBODY

_ALL_NODES = np.empty(0, np.bool_)


class PlacementRequest(NamedTuple):
    """A request that finds no room.

    needed: the amount of each resource. room: int64 (resources, nodes), free without any eviction. allowed:
    bool (nodes,), the nodes that the request may go to; None for all. now_s: the cloud's time in seconds.
    only_least: True if of several nodes only those of the least cost are in question.
    """

    request: Request
    needed: tuple[int, ...]
    room: NDArray[np.int64]
    allowed: NDArray[np.bool_] | None
    now_s: float
    only_least: bool = False

    @property
    def only_yielding(self) -> bool:
        """True if only instances without a promise may leave: spot displaces no other spot (P2 §3.6)."""
        return self.request.kind is Kind.SPOT


#: Chooses one of some nodes, int64 (some,); the second array holds the cost of the victims on each.
Choose = Callable[[NDArray[np.int64], NDArray[np.int64]], int]
VictimPolicy = Callable[[Inventory, PlacementRequest, Choose], Placement | None]


@dataclass(frozen=True)
class InOrder:
    """Takes the node that is first to have room when instances are marked in ``order``.

    Marks go per node over the whole cloud. Of the marked instances of the node taken those that turn out not
    to be needed are spared, in the same order, or the last first (``sparing_last``). No placement when not
    even evicting all of them helps (docs/design/prediction.md "The method"). The compiled
    replay knows orders ``ByKey`` and the random one; with another one a table takes long.
    """

    order: Order
    sparing_last: bool = False

    def __call__(self, inventory: Inventory, wanted: PlacementRequest, _choose: Choose) -> Placement | None:
        """Return the node and the victims; None when no eviction makes room."""
        marked: defaultdict[int, list[Instance]] = defaultdict(list)
        room: dict[int, list[int]] = {}  # free and marked room, of nodes that have a mark
        for instance in self.order(inventory):
            node = instance.node
            if wanted.only_yielding and not instance.yields:
                continue
            if wanted.allowed is not None and not wanted.allowed[node]:
                continue
            marked[node].append(instance)
            before = room[node] if node in room else wanted.room[:, node].tolist()
            room[node] = [
                free + freed for free, freed in zip(before, inventory.needed(instance), strict=True)
            ]
            if fits(room[node], wanted.needed):
                if self.sparing_last:
                    spared_last = _needed(inventory, marked[node][::-1], room[node], wanted.needed)
                    return Placement(node, spared_last[::-1])
                return Placement(node, _needed(inventory, marked[node], room[node], wanted.needed))
        return None


def _needed(
    inventory: Inventory, marked: list[Instance], room: list[int], needed: tuple[int, ...]
) -> tuple[Instance, ...]:
    victims = []
    for instance in marked:
        without = [free - freed for free, freed in zip(room, inventory.needed(instance), strict=True)]
        if fits(without, needed):
            room = without
        else:
            victims.append(instance)
    return tuple(victims)


@dataclass(frozen=True)
class Cheapest:
    """Takes the node whose victims cost least in all; of equals the one that the weighers prefer.

    Only when instances without a guarantee do not suffice anywhere are others looked at. Ties between sets of
    victims of one node: see ``cover.cheapest_cover``. No placement when not even evicting all of them helps.
    """

    cost: Cost

    def __call__(self, inventory: Inventory, wanted: PlacementRequest, choose: Choose) -> Placement | None:
        """Return the node and the victims; None when no eviction makes room."""
        spots = inventory.spots
        if not len(spots):
            return None
        placement = None
        if inventory.any_yields:
            slots = spots.slots
            if not inventory.all_yield:
                yields = np.append(spots.sla >= 1.0, False)  # the last one is met by slot -1
                slots = np.where(yields[slots], slots, NOBODY)
            placement = _cheapest(inventory, wanted, choose, self.cost, slots)
        if placement is None and not wanted.only_yielding:
            placement = _cheapest(inventory, wanted, choose, self.cost, spots.slots)
        return placement


def _cheapest(
    inventory: Inventory, wanted: PlacementRequest, choose: Choose, cost: Cost, slots: NDArray[np.int64]
) -> Placement | None:
    """Find the cheapest victims among the instances in ``slots``."""
    from cloudsim.scheduling import victims_kernel as kernel

    spots, needed = inventory.spots, np.array(wanted.needed, np.int64)
    columns = len(spots.instances), spots.start_s, spots.sla, spots.amounts
    allowed = _ALL_NODES if wanted.allowed is None else wanted.allowed
    found, victims, fault = kernel.cheapest_nodes(
        tuple(cost),
        wanted.now_s,
        needed,
        wanted.room,
        allowed,
        wanted.only_least,
        slots,
        *columns,
        spots.number,
    )
    kernel.check_fault(fault)
    if not found.size:
        return None
    nodes, least = found[0], found[1]
    if len(victims):
        node = choose(nodes, least)
        if node == nodes[0]:
            return Placement(node, spots.instances_in(victims.tolist()))
    costs = kernel.cost_of_rows(tuple(cost), wanted.now_s, *columns)
    proven = True
    for place in np.flatnonzero(found[2] == 0).tolist():
        cover = _cover(inventory, needed, wanted.room, costs, slots, int(nodes[place]))
        least[place], proven = cover.cost, proven and cover.proven_optimal
    node = choose(nodes, least)
    cover = _cover(inventory, needed, wanted.room, costs, slots, node)
    return Placement(node, spots.instances_in(cover.chosen), proven=proven and cover.proven_optimal)


def _cover(
    inventory: Inventory,
    needed: NDArray[np.int64],
    room: NDArray[np.int64],
    costs: NDArray[np.int64],
    slots: NDArray[np.int64],
    node: int,
) -> Cover:
    """Find the instances that should leave one node, as rows of the inventory's spots."""
    from cloudsim.scheduling.victims_kernel import best_victims

    amounts, number = inventory.spots.amounts, inventory.spots.number
    chosen, cost, settled = best_victims(node, needed, room, slots, costs, amounts, number)
    if settled:
        return Cover(tuple(chosen.tolist()), cost, proven_optimal=True)
    rows = slots[node][slots[node] != NOBODY]
    # Numbers rise with starts: the youngest has the lowest rank.
    cover = cheapest_cover(needed - room[:, node], amounts[rows], costs[rows], -number[rows])
    assert cover is not None, "a node passed where evicting everybody does not suffice"
    return Cover(tuple(rows[list(cover.chosen)].tolist()), cover.cost, cover.proven_optimal)
