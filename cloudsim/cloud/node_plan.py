"""Other nodes for a cloud on which instances run.

A node is known by its number, counted through the groups of the specification. An instance stays on its
number; it is in the way of other nodes where that number is gone, has too little room, or lacks a label or
a resource that the instance needs. Blocks of headroom are never in the way: they move.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.instances import Instance
from cloudsim.scheduling.inventory import Inventory, Misfit, latest_start_s


@dataclass(frozen=True)
class NodePlan:
    """Steps by which a cloud goes on with other nodes.

    forgotten: nodes that are gone and were closed or open unlike nodes that are added; should they come back,
    they are new ones. blocks: of headroom, to be given up. misfits: what is in the way; the cloud must keep
    the nodes that it has.
    """

    forgotten: tuple[int, ...]
    blocks: tuple[Instance, ...]
    misfits: tuple[Misfit, ...]


def plan_nodes(
    inventory: Inventory, spec: CloudSpec, blocks: Iterable[Instance], starts_by_s: Mapping[str, float]
) -> NodePlan:
    """Plan the nodes of a specification for what runs.

    blocks: the blocks of headroom that run or wait. starts_by_s: when each booked instance must start at the
    latest, by its id.
    """
    count = len(spec.node_cores)
    unlike_new = np.flatnonzero(inventory.closed[count:] != inventory.closes_new) + count
    without, given_up = inventory.copy(), []
    nodes = {misfit.node for misfit in inventory.misfits(spec.node_cores, spec.details)}
    for block in blocks:
        if block.node in nodes:
            (without.remove if block.id in without else without.withdraw)(block.id)
            given_up.append(block)
    misfits = without.misfits(spec.node_cores, spec.details)
    if not misfits:
        misfits = tuple(_late(without.with_nodes(spec.node_cores, spec.details), starts_by_s))
    return NodePlan(tuple(unlike_new.tolist()), tuple(given_up), misfits)


def _late(inventory: Inventory, starts_by_s: Mapping[str, float]) -> Iterable[Misfit]:
    """Yield the booked instances that would start later than was promised. ``inventory`` is used up."""
    waiting = inventory.booked()
    for booked in waiting:
        inventory.withdraw(booked.id)
    for booked in waiting:
        if not inventory.has_room(booked) and latest_start_s(inventory, booked) > starts_by_s[booked.id]:
            yield Misfit(booked.node, "would have too little room for its start in time", (booked,))
        inventory.book(booked)
