"""Weighers: one number for each node, larger is better. They return arrays and change nothing.

``pipeline.py`` alone normalises, multiplies, sums and breaks ties (by node order). No weigher at all is
first-fit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.requests import Request
from cloudsim.scheduling.inventory import Inventory

Weigher = Callable[[Inventory, Request], NDArray[np.float64]]


def fewest_free_cores(inventory: Inventory, _request: Request) -> NDArray[np.float64]:
    """Prefer the fullest node that still has room (best fit)."""
    return -inventory.free.astype(np.float64)


def most_free_cores(inventory: Inventory, _request: Request) -> NDArray[np.float64]:
    """Prefer the emptiest node (worst fit: spreads the load)."""
    return inventory.free.astype(np.float64)


def last_nodes(inventory: Inventory, _request: Request) -> NDArray[np.float64]:
    """Prefer the last node that has room (last fit)."""
    return np.arange(len(inventory.node_cores), dtype=np.float64)
