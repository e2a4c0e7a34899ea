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

    Spot requests only take free room. On-demand requests evict when nothing is free (P1 §II-A), and so does
    a spot request with a promise, but only instances without one (P2 §3.6).
    """
    if request.cores > inventory.largest_node:
        return Reason.TOO_LARGE
    first, *others = lineup.filters
    passed = first(inventory, request)
    for node_filter in others:
        passed = passed & node_filter(inventory, request)
    node = _best_node(passed, inventory, request, lineup)
    if passed[node]:
        return Placement(node)
    if request.kind is Kind.ON_DEMAND:
        may_leave = inventory.spot()
    elif request.promised:
        may_leave = tuple(instance for instance in inventory.spot() if instance.yields)
    else:
        return Reason.NO_CAPACITY
    victims = select_victims(inventory, lineup.eviction_order(may_leave), request.cores)
    return victims or Reason.NO_CAPACITY


def _best_node(passed: NDArray[np.bool_], inventory: Inventory, request: Request, lineup: LineUp) -> int:
    """The node to take, or any one when none passed."""
    weighers = lineup.spot_weighers if request.kind is Kind.SPOT else lineup.weighers
    first = int(passed.argmax())  # first fit by node order
    if not weighers or not passed[first]:
        return first
    candidates = np.flatnonzero(passed)
    score = np.zeros(len(candidates))
    for weigher, factor in weighers:
        weights = weigher(inventory, request)[candidates]
        spread = weights.max() - weights.min()
        if spread > 0:
            score += factor * (weights - weights.min()) / spread
    return int(candidates[score.argmax()])  # argmax takes the first of equals: node order
