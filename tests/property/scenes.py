"""Random clouds at one moment, small enough to try every set of victims, and requests that meet them."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.instances import Instance
from cloudsim.model.nodes import NodeDetails
from cloudsim.model.requests import Kind, Request, Spread
from cloudsim.scheduling.inventory import Inventory

FURTHER = ("disk_gb", "memory_mb")
NORTH = frozenset({("zone", "north")})


class Scene(NamedTuple):
    """A cloud at a time, and who is given notice or books after everybody was placed."""

    node_cores: tuple[int, ...]
    details: NodeDetails
    placed: list[Instance]
    noticed: list[Instance]
    booked: list[Instance]
    closed: tuple[int, ...]
    now_s: float

    def inventory(self) -> Inventory:
        inventory = Inventory(self.node_cores, self.details)
        for instance in self.placed:
            inventory.place(instance)
        for instance in self.noticed:
            inventory.replace(instance)
        for instance in self.booked:
            inventory.book(instance)
        inventory.close(self.closed, closed=True)
        return inventory


def some(generator: np.random.Generator, room: Iterable[int], names: Iterable[str], most: int = 5) -> Any:
    """Cores and further amounts that fit into ``room``; None if there is not even a core."""
    cores, *others = room
    if cores < 1:
        return None
    amounts = [
        (name, amount)
        for name, free in zip(names, others, strict=True)
        if (amount := int(generator.integers(0, min(free, most) + 1)))
    ]
    return int(generator.integers(1, min(cores, most) + 1)), tuple(amounts)


def room_now(
    idle: NDArray[np.int64], leaving: list[NDArray[np.int64]], booked: list[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """What can be taken on a node without anybody who waits starting later than without.

    leaving: what those free who were told to leave, first to leave first. booked: what those need who wait,
    first to start first.
    """
    room = idle
    for count in range(1, len(booked) + 1):
        needed = np.sum(booked[:count], axis=0)
        after = [idle + np.sum(leaving[:left], axis=0) - needed for left in range(len(leaving) + 1)]
        room = np.minimum(room, next(left for left in after if (left >= 0).all()))
    return room


def random_scene(generator: np.random.Generator) -> Scene:
    """Small amounts, few start times and few SLAs, so that there are many ties."""
    nodes = int(generator.integers(1, 5))
    names = FURTHER[: int(generator.integers(0, 3))]
    node_cores = tuple(generator.integers(3, 10, nodes).tolist())
    amounts = tuple((name, tuple(generator.integers(2, 10, nodes).tolist())) for name in names)
    labels = tuple(NORTH if generator.random() < 0.7 else frozenset() for _ in range(nodes))
    details = NodeDetails(amounts, labels)
    scene = Scene(node_cores, details, [], [], [], (), 60_000.0)
    inventory, start_s = scene.inventory(), 0.0
    for number in range(int(generator.integers(0, 16))):
        node = int(generator.integers(nodes))
        size = some(generator, inventory.idle[:, node].tolist(), names, 4)
        start_s += float(generator.choice([0, 0, 600, 1_800, 3_601.5]))
        if size is None:
            continue
        kind = Kind.SPOT if generator.random() < 0.8 else Kind.ON_DEMAND
        slas = [None, None, 1.0, 0.5, 0.05, 0.05, 0.0]
        sla = slas[generator.integers(len(slas))] if kind is Kind.SPOT else None
        group = "g" if generator.random() < 0.1 else None
        instance = Instance(
            f"i{number}",
            kind,
            size[0],
            node,
            start_s,
            math.inf,
            number,
            sla=sla,
            amounts=size[1],
            group=group,
        )
        inventory.place(instance)
        scene.placed.append(instance)
    for spot in inventory.spot():
        if generator.random() < 0.15:
            scene.noticed.append(replace(spot, evict_at_s=scene.now_s + 60 * int(generator.integers(1, 4))))
            inventory.replace(scene.noticed[-1])
    for number in range(int(generator.integers(0, 3))):
        node = int(generator.integers(nodes))
        size = some(generator, inventory.room_soon()[:, node].tolist(), names)
        if size is not None:
            who = Instance(
                f"b{number}", Kind.ON_DEMAND, size[0], node, scene.now_s, math.inf, 90, amounts=size[1]
            )
            inventory.book(who)
            scene.booked.append(who)
    return scene._replace(closed=tuple(node for node in range(nodes) if generator.random() < 0.15))


def random_request(generator: np.random.Generator, scene: Scene) -> Request:
    node = int(generator.integers(len(scene.node_cores)))
    whole = [scene.node_cores[node], *(of_nodes[node] for _, of_nodes in scene.details.amounts)]
    room = whole if generator.random() < 0.95 else [10] * len(whole)  # more than any node has
    size = some(generator, room, scene.details.resources[1:], 9)
    kind = Kind.ON_DEMAND if generator.random() < 0.6 else Kind.SPOT
    slas = [None, 0.05, 0.05, 0.5]
    return Request(
        f"r{generator.integers(1000)}",
        kind,
        size[0],
        60.0,
        sla=slas[generator.integers(len(slas))] if kind is Kind.SPOT else None,
        amounts=size[1],
        labels=NORTH if generator.random() < 0.3 else frozenset(),
        group="g" if generator.random() < 0.3 else None,
        spread=Spread.APART if generator.random() < 0.8 else Spread.TOGETHER,
    )
