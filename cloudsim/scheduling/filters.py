"""Filters: one boolean a node. A node stays in the running when every filter of the line-up says yes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cloudsim.inventory import Inventory
from cloudsim.requests import Request

Filter = Callable[[Inventory, Request], NDArray[np.bool_]]


def has_room(inventory: Inventory, request: Request) -> NDArray[np.bool_]:
    """Nodes with enough free cores. The vector form of ``fit.fits``."""
    return inventory.free >= request.cores
