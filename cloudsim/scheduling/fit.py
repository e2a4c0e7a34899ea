"""The one test of room, used when planning and again when committing."""

from __future__ import annotations

from collections.abc import Iterable
from operator import ge

import numpy as np
from numpy.typing import NDArray


def fits(free: Iterable[int], needed: Iterable[int]) -> bool:
    """Return whether the needed amount of each resource is free on one node; equal is enough."""
    return all(map(ge, free, needed))


def slots_of_nodes(free: NDArray[np.int64], needed: tuple[int, ...]) -> NDArray[np.int64]:
    """Return how many instances find room on each node, int64 (nodes,). free: (resources, nodes)."""
    quotients = [free[row] // need for row, need in enumerate(needed) if need]
    slots: NDArray[np.int64] = np.min(quotients, axis=0)
    return slots


def nodes_with_room(free: NDArray[np.int64], needed: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return ``fits`` for all nodes at once, bool (nodes,). free: (resources, nodes)."""
    passed: NDArray[np.bool_] = free[0] >= needed[0]
    for resource in range(1, len(needed)):
        if not passed[passed.argmax()]:
            break  # no node is left
        passed &= free[resource] >= needed[resource]
    return passed
