"""The cheapest victims of all nodes, compiled: what ``victims.Cheapest`` asks in one call.

numba compiles on first use and caches on disk.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.jit import compiled
from cloudsim.scheduling.cover_kernel import (
    INFEASIBLE,
    MOST_STEPS,
    best_cover,
    check_fault,
    search_nodes,
)
from cloudsim.scheduling.eviction import Cost, cost_of

__all__ = ["best_victims", "cheapest_nodes", "check_fault", "cost_in_thousandths", "cost_of_rows"]

#: Costs are whole thousandths, so that sums are exact and ties are ties.
_THOUSANDTHS: Final = 1000.0

_cost_of = compiled(cost_of)


@compiled
def cost_in_thousandths(cost: Cost, run_s: float, cores: int, sla: float) -> int:
    """Return what it costs that an instance leaves (``eviction.cost_of``), in thousandths."""
    return int(np.rint(_cost_of(cost, run_s, cores, sla) * _THOUSANDTHS))


@compiled
def cost_of_rows(
    weights: tuple[float, ...],
    now_s: float,
    rows: int,
    start_s: NDArray[np.float64],
    sla: NDArray[np.float64],
    amounts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the cost of each of the first rows of ``SpotColumns``, int64 (rows,). weights: a ``Cost``."""
    costs = np.empty(rows, np.int64)
    for row in range(rows):
        costs[row] = cost_in_thousandths(Cost(*weights), now_s - start_s[row], amounts[row, 0], sla[row])
    return costs


@compiled
def best_victims(
    node: int,
    needed: NDArray[np.int64],
    room: NDArray[np.int64],
    slots: NDArray[np.int64],
    costs: NDArray[np.int64],
    amounts: NDArray[np.int64],
    number: NDArray[np.int64],
) -> tuple[NDArray[np.int64], int, bool]:
    """Return the best victims on a node, as ``best_cover`` does."""
    deficit = np.empty_like(needed)
    for resource in range(len(needed)):
        deficit[resource] = needed[resource] - room[resource, node]
    return best_cover(deficit, slots[node], amounts, costs, number, MOST_STEPS)


@compiled
def cheapest_nodes(
    weights: tuple[float, ...],
    now_s: float,
    needed: NDArray[np.int64],
    room: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    only_least: bool,
    slots: NDArray[np.int64],
    rows: int,
    start_s: NDArray[np.float64],
    sla: NDArray[np.float64],
    amounts: NDArray[np.int64],
    number: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the nodes where evictions make room, and what the victims on each of them cost.

    A call takes longer with named tuples, and with each array that it returns.

    Parameters
    ----------
    weights, now_s
        The weights of a ``Cost``, and the cloud's time in seconds.
    needed, room
        int64 (resources,) and (resources, nodes), what a request needs and what is free without evictions.
    allowed
        bool (nodes,), the nodes that the request may go to; empty for all.
    only_least
        Return only the nodes of the least cost, unless one of the nodes is not settled.
    slots
        int64 (nodes, width), the rows of the instances that may leave, -1 for none.
    rows, start_s, sla, amounts, number
        How many rows of ``SpotColumns`` were ever used, and columns of it.

    Returns
    -------
    found
        int64 (3, some), the nodes, ascending; their costs as in ``search_nodes``; and 1 for a settled one.
    victims
        int64, rows of the best victims on the first of the nodes of the least cost; empty if these were not
        singled out, or the victims are not settled.
    fault
        The first fault of the arrays, for ``check_fault``.
    """
    costs, greatest_freed = cost_of_rows(weights, now_s, rows, start_s, sla, amounts), np.empty_like(needed)
    for resource in range(len(needed)):
        greatest = 1
        for row in range(rows):
            greatest = max(greatest, amounts[row, resource])
        greatest_freed[resource] = greatest
    nodes = np.flatnonzero(allowed) if len(allowed) > 0 else np.arange(room.shape[1])
    least, settled, fault = search_nodes(
        needed, room, slots, amounts, costs, nodes, greatest_freed if only_least else greatest_freed[:0]
    )
    if fault:
        return np.empty((3, 0), np.int64), nodes[:0], fault
    most, all_settled = INFEASIBLE - 1, True
    for index in range(len(nodes)):
        all_settled &= settled[index]
    if only_least and all_settled:
        for index in range(len(nodes)):
            most = min(most, least[index])
    count, found = 0, np.empty((3, len(nodes)), np.int64)
    for index in range(len(nodes)):
        if least[index] <= most:
            found[0, count], found[1, count], found[2, count] = nodes[index], least[index], settled[index]
            count += 1
    victims = nodes[:0]
    if count and only_least and all_settled:
        victims, _, proven = best_victims(found[0, 0], needed, room, slots, costs, amounts, number)
        if not proven:
            victims = nodes[:0]
    return found[:, :count], victims, fault
