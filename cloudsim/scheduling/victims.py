"""Victim selection: take spot instances in the line-up's order until one node has room, then spare the
unneeded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from cloudsim.inventory import Inventory
from cloudsim.requests import Instance, Placement
from cloudsim.scheduling.fit import fits


def select_victims(inventory: Inventory, in_order: Iterable[Instance], cores: int) -> Placement | None:
    """The node that is first to have room when instances are marked ``in_order``, and who must leave it.

    Marks go per node over the whole cloud; the first node that would have room is taken. Of its marked
    instances those that turn out not to be needed are spared, in the same order. None when not even
    evicting all of them helps. (PREDICTION.md, "Eviction, line-up youngest-job-first".)
    """
    marked: defaultdict[int, list[Instance]] = defaultdict(list)
    room: dict[int, int] = {}  # free plus marked cores, of nodes that have a mark
    for instance in in_order:
        node = instance.node
        marked[node].append(instance)
        room[node] = room.get(node, int(inventory.free[node])) + instance.cores
        if fits(room[node], cores):
            return Placement(node, _needed(marked[node], room[node], cores))
    return None


def _needed(marked: list[Instance], room: int, cores: int) -> tuple[Instance, ...]:
    victims = []
    for instance in marked:
        if fits(room - instance.cores, cores):
            room -= instance.cores
        else:
            victims.append(instance)
    return tuple(victims)
