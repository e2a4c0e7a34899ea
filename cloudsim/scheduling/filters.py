"""Filters: the nodes that a request may go to, whatever runs there. Room is tested apart (``fit.py``).

A filter returns one boolean for each node, or None when all nodes pass. Refusals say under its name how many
nodes it took out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.requests import Request, Spread
from cloudsim.scheduling.inventory import Inventory

Nodes = NDArray[np.bool_]


class Filter(NamedTuple):
    """A named filter. passes: returns bool (nodes,), or None when all nodes pass."""

    name: str
    passes: Callable[[Inventory, Request], Nodes | None]


def open_nodes(inventory: Inventory, _request: Request) -> Nodes | None:
    """Pass nodes that are not closed by cordon or drain."""
    return ~inventory.closed if inventory.any_closed else None


def labelled(inventory: Inventory, request: Request) -> Nodes | None:
    """Pass nodes that have all requested labels (host aggregates, node selectors)."""
    return inventory.labelled(request.labels) if request.labels else None


def together(inventory: Inventory, request: Request) -> Nodes | None:
    """Pass the node on which the request's group runs; every node when it does not run yet (affinity)."""
    return _of_group(inventory, request, Spread.TOGETHER)


def apart(inventory: Inventory, request: Request) -> Nodes | None:
    """Pass nodes on which no instance of the request's group runs (anti-affinity)."""
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
#: The name of the test of room in refusals.
ROOM = "room"
