"""The scheduler: filter → weigh → place, else (on-demand only) select victims. Plans, changes nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloudsim.inventory import Inventory
from cloudsim.requests import Kind, Placement, Reason, Request
from cloudsim.scheduling.lineups import LineUp
from cloudsim.scheduling.victims import select_victims


def plan(inventory: Inventory, request: Request, lineup: LineUp) -> Placement | Reason:
    """Where the request goes, and at whose expense; or why it goes nowhere.

    Spot requests only take free room. On-demand requests evict when nothing is free (P1 §II-A).
    """
    if request.cores > inventory.largest_node:
        return Reason.TOO_LARGE
    passed = np.ones(len(inventory.node_cores), dtype=np.bool_)
    for node_filter in lineup.filters:
        passed &= node_filter(inventory, request)
    if passed.any():
        return Placement(_best_node(passed, inventory, request, lineup))
    if request.kind is Kind.ON_DEMAND:
        return select_victims(inventory, request.cores, lineup.eviction_order) or Reason.NO_CAPACITY
    return Reason.NO_CAPACITY


def _best_node(passed: NDArray[np.bool_], inventory: Inventory, request: Request, lineup: LineUp) -> int:
    if not lineup.weighers:
        return int(passed.argmax())  # first fit by node order
    candidates = np.flatnonzero(passed)
    score = np.zeros(len(candidates))
    for weigher, factor in lineup.weighers:
        weights = weigher(inventory, request)[candidates]
        spread = weights.max() - weights.min()
        if spread > 0:
            score += factor * (weights - weights.min()) / spread
    return int(candidates[score.argmax()])  # argmax takes the first of equals: node order
