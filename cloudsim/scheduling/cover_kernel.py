"""The cost of the cheapest sufficient set of victims on each of thousands of nodes, compiled.

The reference is ``cover.py``, which names the victims, and only for the chosen node. The search is depth
first, the cheapest instance first, with branch and bound: a branch that would cost more than the best set of
this node or of the nodes before it is cut off (PREEMPTION.md "The rule", key 2).

numba compiles on first use and caches on disk.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.errors import SpecError
from cloudsim.model.jit import compiled

#: The cost of a node where not even all victims free enough.
INFEASIBLE: Final = 2**62

#: The candidates of a node, and the steps of its search (some 0.5 ms), beyond which it stays unsolved.
MOST_CANDIDATES: Final = 64
MOST_STEPS: Final = 50_000

#: The number of instances on a node up to which all sets are enumerated, in some microseconds.
FEW: Final = 8

#: The most that an instance frees of a resource, or costs: sums over a node's instances do not overflow.
MOST: Final = 2**50

#: Faults of the arrays.
_NO_FAULT, _NOT_A_NODE, _NOT_A_ROW, _NOT_FREED, _NOT_A_COST = 0, 1, 2, 3, 4
_FAULTS: Final = {
    _NOT_A_NODE: ("nodes", "a node that does not exist"),
    _NOT_A_ROW: ("slots", "a row that does not exist; -1 is for none"),
    _NOT_FREED: ("freed", f"what a victim frees is from 0 to {MOST}"),
    _NOT_A_COST: ("cost", f"a cost is from 0 to {MOST}"),
}


def least_costs(
    request: NDArray[np.int64],
    free: NDArray[np.int64],
    slots: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    nodes: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the least cost of a sufficient set of victims on each of ``nodes``, and whether it is settled.

    A cost is exact where it is the least of all settled ones, ties included; 0 where the request fits without
    victims; INFEASIBLE where not even all victims help, and only there. Elsewhere it is a bound: more than
    the least of all settled ones, and no more than the true cost. Nodes with more than MOST_CANDIDATES useful
    candidates or MOST_STEPS steps are not settled: there the cost is a lower bound, and ``cover.py`` finds
    the true one.

    Parameters
    ----------
    request
        (resources,), the amounts that are needed.
    free
        (resources, all nodes), the amounts that are free while all instances run.
    slots
        (all nodes, width), rows of the spot instances of a node in any order and place, -1 for none.
    freed, cost
        (rows, resources) and (rows,), of each instance.
    nodes
        (some,), the nodes in the order in which they are searched. All arrays are int64, in C order.

    Returns
    -------
    costs, settled
        int64 and bool (some,).

    Raises
    ------
    SpecError
        When an array has another shape or a wrong value; it names the array.
    """
    _check(request, free, slots, freed, cost, nodes)
    costs, settled, fault = _least_costs(request, free, slots, freed, cost, nodes)
    if fault:
        field, message = _FAULTS[fault]
        raise SpecError(message, field=field)
    return costs, settled


def _check(
    request: NDArray[np.int64],
    free: NDArray[np.int64],
    slots: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    nodes: NDArray[np.int64],
) -> None:
    """Check shapes and types; the kernel checks numbers where it reads them."""
    for field, array, dimensions in (
        ("request", request, 1),
        ("free", free, 2),
        ("slots", slots, 2),
        ("freed", freed, 2),
        ("cost", cost, 1),
        ("nodes", nodes, 1),
    ):
        if array.dtype != np.int64 or array.ndim != dimensions or not array.flags.c_contiguous:
            raise SpecError(f"an int64 array of {dimensions} dimensions in C order", field=field)
    if not len(request) == len(free) == freed.shape[1]:
        raise SpecError("as many resources as in the request", field="free" if freed.size else "freed")
    if len(slots) != free.shape[1]:
        raise SpecError(f"a row for each of {free.shape[1]} nodes", field="slots")
    if len(cost) != len(freed):
        raise SpecError(f"a cost for each of {len(freed)} rows", field="cost")


@compiled
def _gather(
    row_of: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    needs: NDArray[np.int64],
    gives: NDArray[np.int64],
    prices: NDArray[np.int64],
) -> tuple[int, int]:
    """Collect the instances of a node that free a missing resource. Returns their number and the first fault.

    Writes what each of them gives, capped by ``needs``, and its price, the cheapest first.
    """
    count = 0
    for slot in range(len(row_of)):
        row = row_of[slot]
        if row == -1:
            continue
        if not 0 <= row < len(cost):
            return count, _NOT_A_ROW
        price = cost[row]
        if not 0 <= price <= MOST:
            return count, _NOT_A_COST
        helps = False
        for resource in range(len(needs)):
            amount = freed[row, resource]
            if not 0 <= amount <= MOST:
                return count, _NOT_FREED
            helps |= amount > 0 and needs[resource] > 0
        if not helps:
            continue
        place = count
        while place and prices[place - 1] > price:
            prices[place] = prices[place - 1]
            for resource in range(len(needs)):
                gives[place, resource] = gives[place - 1, resource]
            place -= 1
        prices[place] = price
        for resource in range(len(needs)):
            gives[place, resource] = min(freed[row, resource], needs[resource])
        count += 1
    return count, _NO_FAULT


@compiled
def _sum_up(
    gives: NDArray[np.int64], count: int, sums: NDArray[np.int64], greatest: NDArray[np.int64]
) -> None:
    """Write, for each candidate, the sum and the greatest of what it and all later ones give."""
    for resource in range(gives.shape[1]):
        sums[count, resource] = greatest[count, resource] = 0
        for place in range(count - 1, -1, -1):
            amount = gives[place, resource]
            sums[place, resource] = sums[place + 1, resource] + amount
            greatest[place, resource] = max(greatest[place + 1, resource], amount)


@compiled
def _dominate(gives: NDArray[np.int64], count: int, dominators: NDArray[np.uint64]) -> None:
    """Write for each candidate, as bits, the earlier ones that give at least as much.

    There is a cheapest set that has all of these if it has the candidate.
    """
    for place in range(count):
        bits = np.uint64(0)
        for other in range(place):
            least = True
            for resource in range(gives.shape[1]):
                least &= gives[other, resource] >= gives[place, resource]
            if least:
                bits |= np.uint64(1) << np.uint64(other)
        dominators[place] = bits


@compiled
def _fewest(needs: NDArray[np.int64], sums: NDArray[np.int64], greatest: NDArray[np.int64]) -> int:
    """Return the least number of candidates that can cover ``needs``; 0 if all of them do not.

    The bound goes by the greatest amount of each resource.
    """
    fewest = 1
    for resource in range(len(needs)):
        need = needs[resource]
        if need > sums[resource]:
            return 0
        if need > greatest[resource] * fewest:
            fewest = (need + greatest[resource] - 1) // greatest[resource]
    return fewest


@compiled
def _search(
    gives: NDArray[np.int64],
    prices: NDArray[np.int64],
    heads: NDArray[np.int64],
    count: int,
    sums: NDArray[np.int64],
    greatest: NDArray[np.int64],
    dominators: NDArray[np.uint64],
    limit: int,
    needs: NDArray[np.int64],
    taken: NDArray[np.int64],
) -> tuple[int, bool]:
    """Return the cost of the cheapest sufficient set below ``limit``, else ``limit``; and whether it ended.

    heads: the sum of the prices before each candidate. needs: a row for each depth, the first one given.
    taken: room for the candidates of a path.
    """
    depth, place, spent, chosen = 0, 0, 0, np.uint64(0)
    for _ in range(MOST_STEPS):
        fewest = 0
        if place < count and spent + prices[place] < limit:
            fewest = _fewest(needs[depth], sums[place], greatest[place])
        # ``fewest`` candidates cost at least as much as the next ``fewest``.
        if fewest == 0 or place + fewest > count or spent + heads[place + fewest] - heads[place] >= limit:
            # No set from here on: go back, and leave out the candidate taken last.
            if depth == 0:
                return limit, True
            depth -= 1
            place = taken[depth]
            spent -= prices[place]
            chosen ^= np.uint64(1) << np.uint64(place)
            place += 1
            continue
        if dominators[place] & ~chosen:
            place += 1
            continue
        missing = False
        for resource in range(needs.shape[1]):
            left = max(needs[depth, resource] - gives[place, resource], 0)
            needs[depth + 1, resource] = left
            missing |= left > 0
        if not missing:
            limit = spent + prices[place]
            continue  # those to come cost no less, and are cut off
        taken[depth] = place
        spent += prices[place]
        chosen |= np.uint64(1) << np.uint64(place)
        depth += 1
        place += 1
    return limit, False


@compiled
def _least_costs(
    request: NDArray[np.int64],
    free: NDArray[np.int64],
    slots: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    nodes: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
    """Compute ``least_costs``; the third result is the first fault of the arrays."""
    resources, width = len(request), slots.shape[1]
    costs, settled = np.empty(len(nodes), np.int64), np.ones(len(nodes), np.bool_)
    gives, prices = np.empty((width, resources), np.int64), np.empty(width, np.int64)
    sums, greatest = np.empty((width + 1, resources), np.int64), np.empty((width + 1, resources), np.int64)
    needs, taken = np.empty((width + 1, resources), np.int64), np.empty(width, np.int64)
    dominators, heads = np.empty(width, np.uint64), np.zeros(width + 1, np.int64)
    best = INFEASIBLE
    for index in range(len(nodes)):
        node = nodes[index]
        if not 0 <= node < len(slots):
            return costs, settled, _NOT_A_NODE
        missing = False
        for resource in range(resources):
            needs[0, resource] = max(request[resource] - free[resource, node], 0)
            missing |= needs[0, resource] > 0
        if not missing:
            costs[index] = best = 0
            continue
        count, fault = _gather(slots[node], freed, cost, needs[0], gives, prices)
        if fault:
            return costs, settled, fault
        _sum_up(gives, count, sums, greatest)
        fewest = _fewest(needs[0], sums[0], greatest[0])
        if fewest == 0 or fewest > count:
            costs[index] = INFEASIBLE
            continue
        for place in range(count):
            heads[place + 1] = heads[place] + prices[place]
        bound = heads[fewest]
        if bound > best:
            costs[index] = bound
        elif count > MOST_CANDIDATES:
            costs[index], settled[index] = bound, False
        else:
            _dominate(gives, count, dominators)
            limit = min(best + 1, INFEASIBLE)
            least, ended = _search(
                gives, prices, heads, count, sums, greatest, dominators, limit, needs, taken
            )
            costs[index], settled[index] = least if ended else bound, ended
            best = min(best, costs[index]) if ended else best
    return costs, settled, _NO_FAULT


@compiled
def _youngest_first(row_of: NDArray[np.int64], number: NDArray[np.int64], rows: NDArray[np.int64]) -> int:
    """Write the rows of instances, the largest number first. Returns their number."""
    count = 0
    for slot in range(len(row_of)):
        row = row_of[slot]
        if row == -1:
            continue
        place = count
        while place and number[rows[place - 1]] < number[row]:
            rows[place] = rows[place - 1]
            place -= 1
        rows[place] = row
        count += 1
    return count


@compiled
def _less(some: NDArray[np.int64], others: NDArray[np.int64]) -> bool:
    for place in range(len(some)):
        if some[place] != others[place]:
            return bool(some[place] < others[place])
    return False


@compiled
def best_of_few(
    request: NDArray[np.int64],
    free: NDArray[np.int64],
    row_of: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    number: NDArray[np.int64],
) -> tuple[NDArray[np.int64], int]:
    """Return the best sufficient set of a node's instances by enumeration of all sets, at most ``FEW``.

    ``cover.py`` defines the best set; the larger number is the lower rank. request, free: (resources,).
    row_of: (width,), rows of the instances, -1 for none. freed: (rows, resources). cost, number: (rows,).
    Returns the rows of the set, lowest rank first, and its cost, -1 if no set is sufficient.
    """
    rows = np.empty(len(row_of), np.int64)
    count = _youngest_first(row_of, number, rows)
    # Scores of sets by their members as bits: cost, instances, freed amounts. Each adds a member to another.
    scores = np.zeros((1 << count, 2 + len(request)), np.int64)
    for place in range(count):
        row, bit = rows[count - 1 - place], 1 << place
        for others in range(bit):
            scores[bit + others, 0] = scores[others, 0] + cost[row]
            scores[bit + others, 1] = scores[others, 1] + 1
            for resource in range(len(request)):
                scores[bit + others, 2 + resource] = scores[others, 2 + resource] + freed[row, resource]
    best_bits = -1
    for bits in range(len(scores) - 1, -1, -1):  # of equals the lower ranks come first
        sufficient = True
        for resource in range(len(request)):
            sufficient &= free[resource] + scores[bits, 2 + resource] >= request[resource]
        if sufficient and (best_bits < 0 or _less(scores[bits], scores[best_bits])):
            best_bits = bits
    if best_bits < 0:
        return rows[:0], -1
    member, spent = 0, scores[best_bits, 0]
    for place in range(count):
        if best_bits >> (count - 1 - place) & 1:
            rows[member] = rows[place]
            member += 1
    return rows[:member], spent
