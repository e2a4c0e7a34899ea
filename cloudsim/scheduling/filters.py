"""Filters: which nodes a request may go to at all, whoever runs there. Room is tested apart (``fit.py``).

A filter returns one boolean a node, or None when it has nothing against any node. Each has a name, under
which a refusal says how many nodes it took out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.cloud.inventory import Inventory
from cloudsim.model.requests import Request, Spread

Nodes = NDArray[np.bool_]


class Filter(NamedTuple):
    """passes: bool (nodes,), or None for all of them."""

    name: str
    passes: Callable[[Inventory, Request], Nodes | None]


def open_nodes(inventory: Inventory, _request: Request) -> Nodes | None:
    """Nodes that are not cordoned or drained."""
    return ~inventory.closed if inventory.any_closed else None


def labelled(inventory: Inventory, request: Request) -> Nodes | None:
    """Nodes that have all labels asked for (host aggregates, node selectors)."""
    return inventory.labelled(request.labels) if request.labels else None


def together(inventory: Inventory, request: Request) -> Nodes | None:
    """Affinity: the node of those of its group that run; every node when none does."""
    return _of_group(inventory, request, Spread.TOGETHER)


def apart(inventory: Inventory, request: Request) -> Nodes | None:
    """Anti-affinity: nodes on which nobody of its group runs."""
    others = _of_group(inventory, request, Spread.APART)
    return None if others is None else ~others


def _of_group(inventory: Inventory, request: Request, spread: Spread) -> Nodes | None:
    if request.group is None or request.spread is not spread:
        return None
    nodes = inventory.nodes_of_group(request.group)
    if not nodes:
        return None
    passed = np.zeros(len(inventory.node_cores), np.bool_)
    passed[nodes] = True
    return passed


OPEN = Filter("cordon", open_nodes)
LABELS = Filter("labels", labelled)
AFFINITY = Filter("affinity", together)
ANTI_AFFINITY = Filter("anti_affinity", apart)

ALL = (OPEN, LABELS, AFFINITY, ANTI_AFFINITY)
#: How a refusal names the test of room.
ROOM = "room"
