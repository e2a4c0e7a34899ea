"""The best sufficient set of victims on a node, and what it costs on each of thousands of nodes, compiled.

``cover.py`` defines the best set. Both searches go depth first through the instances that free something of
what is missing, the cheapest first, with branch and bound: a branch that cannot be better than the best known
set of the node, or would cost more than that of the nodes before it, is cut off (docs/design/preemption.md
"The rule", key 2).

One instance *dominates* a later one if it frees at least as much of what is missing. A victim of the best set
stands there beside all that dominate it, or could be swapped for one of them. So of equal flavours only
counts are tried, and an instance whose dominators free enough by themselves is no candidate.

numba compiles on first use and caches on disk.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.errors import SpecError
from cloudsim.model.jit import compiled

#: The cost of a node where not even all victims free enough.
INFEASIBLE: Final = 2**62

#: The steps of a search (some milliseconds), and for costs the candidates of a node, beyond which it is not
#: settled.
MOST_STEPS: Final = 50_000
MOST_CANDIDATES: Final = 64

#: The steps of a search for the best set without the bounds that take longer to prepare than most searches.
_EASY_STEPS: Final = 200

#: The states that a longer one remembers, a power of two.
_MEMORY_SIZE: Final = 16_384

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


def check_fault(fault: int) -> None:
    """Raise SpecError for a fault that ``search_nodes`` found; it names the array."""
    if fault:
        field, message = _FAULTS[fault]
        raise SpecError(message, field=field)


@compiled
def _glance(
    request: NDArray[np.int64],
    free: NDArray[np.int64],
    slots: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    nodes: NDArray[np.int64],
    greatest_freed: NDArray[np.int64],
    bounds: NDArray[np.int64],
    exact: NDArray[np.bool_],
) -> int:
    """Write a bound of the cost on each node, and whether it is exact. Returns the first fault.

    Victims are no fewer than if each freed the most of all, and cost no less than as many of the cheapest
    on the node.
    """
    prices = np.empty(slots.shape[1], np.int64)
    for index in range(len(nodes)):
        node, fewest, kept, cheapest = nodes[index], 1, 0, -1
        if not 0 <= node < len(slots):
            return _NOT_A_NODE
        for resource in range(len(request)):
            need = request[resource] - free[resource, node]
            if need > greatest_freed[resource] * fewest:
                fewest = (need + greatest_freed[resource] - 1) // greatest_freed[resource]
        for slot in range(slots.shape[1]):
            row = slots[node, slot]
            if row == -1:
                continue
            if not 0 <= row < len(cost):
                return _NOT_A_ROW
            if not 0 <= cost[row] <= MOST:
                return _NOT_A_COST
            if kept < fewest:
                kept += 1
            elif cost[row] >= prices[fewest - 1]:
                continue
            place = kept - 1
            while place and prices[place - 1] > cost[row]:
                prices[place] = prices[place - 1]
                place -= 1
            prices[place] = cost[row]
            cheapest = row if place == 0 else cheapest
        exact[index] = kept > 0
        bounds[index] = prices[:fewest].sum() if kept == fewest else INFEASIBLE
        for resource in range(len(request)):
            need = request[resource] - free[resource, node]
            exact[index] = exact[index] and freed[cheapest, resource] >= need
    return _NO_FAULT


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
def search_nodes(
    request: NDArray[np.int64],
    free: NDArray[np.int64],
    slots: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    nodes: NDArray[np.int64],
    greatest_freed: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
    """Return the least cost of a sufficient set of victims on each of ``nodes``, and whether it is settled.

    A cost is exact where it is the least of all settled ones, ties included; 0 where the request fits without
    victims; INFEASIBLE where not even all victims help, and only there. Elsewhere it is a bound: more than
    the least of all settled ones, and no more than the true cost. Nodes with more than MOST_CANDIDATES useful
    candidates or MOST_STEPS steps are not settled: there the cost is a lower bound, and ``cover.py`` finds
    the true one.

    With ``greatest_freed``, nodes whose cheapest instances already cost more than the best node are not
    looked at further. Their bounds are lower, and a node where not even all victims help can have one.

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
        (some,), the nodes in the order in which they are searched.
    greatest_freed
        (resources,), at least the most that one instance frees, and at least 1; or (0,). All arrays are
        int64, in C order.

    Returns
    -------
    costs, settled, fault
        int64 and bool (some,); and the first fault of the arrays, for ``check_fault``.
    """
    resources, width = len(request), slots.shape[1]
    costs, settled = np.empty(len(nodes), np.int64), np.ones(len(nodes), np.bool_)
    gives, prices = np.empty((width, resources), np.int64), np.empty(width, np.int64)
    sums, greatest = np.empty((width + 1, resources), np.int64), np.empty((width + 1, resources), np.int64)
    needs, taken = np.empty((width + 1, resources), np.int64), np.empty(width, np.int64)
    dominators, heads = np.empty(width, np.uint64), np.zeros(width + 1, np.int64)
    best, quick, exact = INFEASIBLE, len(greatest_freed) > 0, np.zeros(len(nodes), np.bool_)
    fault = (
        _glance(request, free, slots, freed, cost, nodes, greatest_freed, costs, exact)
        if quick
        else _NO_FAULT
    )
    if fault:
        return costs, settled, fault
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
        if quick and (exact[index] or costs[index] > best):
            best = min(best, costs[index])
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


class _Search(NamedTuple):
    """The search for the best set on a node with ``width`` instances.

    Candidates have places from 0 on, in the order of their keys; a path of the search has depths. A key
    consists of the parts that sets are compared by before ranks: cost, instances and freed amounts.

    Attributes
    ----------
    row
        int64[width], row of the candidate.
    gives
        int64[width, resources], what it frees, capped by what is missing on the node.
    sums, greatest
        int64[width + 1, resources], the sum and the greatest of what it and all later ones give.
    heads
        int64[width + 1], the cost of all earlier candidates.
    digit
        int64[width], its bit in sets of candidates; the lowest rank has the highest.
    dominators
        uint64[width, words], the set of candidates that dominate it.
    needs
        int64[width + 1, resources], what is missing, by depth.
    keys
        int64[width + 1, 2 + resources], the key of the path, by depth.
    best, best_key
        uint64[words], the best known set, and int64[2 + resources], its key.
    """

    row: NDArray[np.int64]
    gives: NDArray[np.int64]
    sums: NDArray[np.int64]
    greatest: NDArray[np.int64]
    heads: NDArray[np.int64]
    digit: NDArray[np.int64]
    dominators: NDArray[np.uint64]
    needs: NDArray[np.int64]
    keys: NDArray[np.int64]
    best: NDArray[np.uint64]
    best_key: NDArray[np.int64]


@compiled
def _new_search(deficit: NDArray[np.int64], width: int) -> _Search:
    resources, words = len(deficit), (width + 63) // 64
    search = _Search(
        np.empty(width, np.int64),
        np.empty((width, resources), np.int64),
        np.empty((width + 1, resources), np.int64),
        np.empty((width + 1, resources), np.int64),
        np.zeros(width + 1, np.int64),
        np.empty(width, np.int64),
        np.zeros((width, words), np.uint64),
        np.empty((width + 1, resources), np.int64),
        np.zeros((width + 1, 2 + resources), np.int64),
        np.zeros(words, np.uint64),
        np.zeros(2 + resources, np.int64),
    )
    for resource in range(resources):
        search.needs[0, resource] = max(deficit[resource], 0)
    return search


class _Memory(NamedTuple):
    """States that a search has met.

    state: int64[size, 1 + resources], place and needs. key, path: those of the path that met it.
    """

    state: NDArray[np.int64]
    key: NDArray[np.int64]
    path: NDArray[np.uint64]


@compiled
def _new_memory(search: _Search, size: int) -> _Memory:
    return _Memory(
        np.full((size, 1 + search.needs.shape[1]), -1),
        np.empty((size, len(search.best_key)), np.int64),
        np.empty((size, len(search.best)), np.uint64),
    )


@compiled
def _is_better(
    key: NDArray[np.int64],
    members: NDArray[np.uint64],
    other_key: NDArray[np.int64],
    others: NDArray[np.uint64],
) -> bool:
    """Return True if one set is better than another: its key is smaller, or equal and its ranks are lower."""
    for part in range(len(key)):
        if key[part] != other_key[part]:
            return bool(key[part] < other_key[part])
    for word in range(len(members) - 1, -1, -1):
        if members[word] != others[word]:
            return bool(members[word] > others[word])
    return False


@compiled
def _goes_first(
    row: int, other: int, freed: NDArray[np.int64], cost: NDArray[np.int64], number: NDArray[np.int64]
) -> bool:
    """Return True if the key of one row is less than that of another one."""
    if cost[row] != cost[other]:
        return bool(cost[row] < cost[other])
    for resource in range(freed.shape[1]):
        if freed[row, resource] != freed[other, resource]:
            return bool(freed[row, resource] < freed[other, resource])
    return bool(number[row] > number[other])


@compiled
def _sort(
    search: _Search,
    rows: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    number: NDArray[np.int64],
) -> int:
    """Write the rows that free something of what is missing, in order of their keys. Returns how many."""
    needs, order, count = search.needs, search.row, 0
    for slot in range(len(rows)):
        row = rows[slot]
        if row == -1:
            continue
        helps = False
        for resource in range(needs.shape[1]):
            helps |= freed[row, resource] > 0 and needs[0, resource] > 0
        if not helps:
            continue
        place = count
        while place:
            other = order[place - 1]
            # The cost decides nearly always; the call takes longer.
            if cost[row] > cost[other] or not _goes_first(row, other, freed, cost, number):
                break
            order[place] = other
            place -= 1
        order[place] = row
        count += 1
    return count


@compiled
def _drop_dominated(
    search: _Search, count: int, freed: NDArray[np.int64], cost: NDArray[np.int64], number: NDArray[np.int64]
) -> int:
    """Drop the rows whose dominators free enough, and write all about those that stay. Returns how many."""
    row, gives, heads, digit = search.row, search.gives, search.heads, search.digit
    needs, dominators = search.needs, search.dominators
    resources, stay = gives.shape[1], 0
    ranks, covered = np.zeros(count, np.int64), np.empty(resources, np.int64)
    for place in range(count):
        for other in range(place):
            older = number[row[other]] < number[row[place]]
            ranks[place] += older
            ranks[other] += not older
    for place in range(count):
        for resource in range(resources):
            gives[stay, resource] = min(freed[row[place], resource], needs[0, resource])
            covered[resource] = 0
        for word in range(dominators.shape[1]):
            dominators[stay, word] = 0
        for other in range(stay):
            dominates = True
            for resource in range(resources):
                dominates &= gives[other, resource] >= gives[stay, resource]
            if dominates:
                dominators[stay, digit[other] >> 6] |= np.uint64(1) << np.uint64(digit[other] & 63)
                for resource in range(resources):
                    covered[resource] += gives[other, resource]
        enough = True
        for resource in range(resources):
            enough &= covered[resource] >= needs[0, resource]
        if not enough:
            row[stay], digit[stay] = row[place], ranks[place]
            heads[stay + 1] = heads[stay] + cost[row[place]]
            stay += 1
    return stay


@compiled
def _bounds(
    search: _Search, count: int, cost: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the Lagrangian bounds of costs: prices, (bounds, resources), and profits, (bounds, count + 1).

    Covering needs from some place on costs at least prices · needs - profits[place], whatever the prices.
    There is a bound by each resource alone, and one by all of them in equal shares. Each takes the price at
    which fractions of candidates would just cover the need.
    """
    row, gives, needs, resources = search.row, search.gives, search.needs, search.gives.shape[1]
    prices, profits = np.zeros((resources + 1, resources)), np.zeros((resources + 1, count + 1))
    worth, waiting = np.empty(count), np.empty(count, np.bool_)
    for bound in range(resources + 1):
        target = 0.0
        for resource in range(resources):
            if needs[0, resource] > 0 and bound in (resource, resources):
                prices[bound, resource] = 1.0 / needs[0, resource]
                target += 1.0
        for place in range(count):
            worth[place] = 0.0
            for resource in range(resources):
                worth[place] += prices[bound, resource] * gives[place, resource]
            waiting[place] = worth[place] > 0
        price = 0.0
        while target > 1e-9:
            cheapest = -1
            for place in range(count):
                if waiting[place] and (cheapest < 0 or cost[row[place]] / worth[place] < price):
                    cheapest, price = place, cost[row[place]] / worth[place]
            if cheapest < 0:
                break
            waiting[cheapest] = False
            target -= worth[cheapest]
        for resource in range(resources):
            prices[bound, resource] *= price
        for place in range(count - 1, -1, -1):
            profit = max(price * worth[place] - cost[row[place]], 0.0)
            profits[bound, place] = profits[bound, place + 1] + profit
    return prices, profits


@compiled
def _met_better(
    memory: _Memory, place: int, needs: NDArray[np.int64], key: NDArray[np.int64], chosen: NDArray[np.uint64]
) -> bool:
    """Return True if a better path met the same needs at this place; remember this one otherwise."""
    state, index = memory.state, place
    for resource in range(len(needs)):
        index = (index * 1_000_003) ^ needs[resource]
    index = (index ^ (index >> 12)) & (_MEMORY_SIZE - 1)
    same = state[index, 0] == place
    for resource in range(len(needs)):
        same &= state[index, 1 + resource] == needs[resource]
    if same and not _is_better(key, chosen, memory.key[index], memory.path[index]):
        return True
    state[index, 0] = place
    for resource in range(len(needs)):
        state[index, 1 + resource] = needs[resource]
    for part in range(len(key)):
        memory.key[index, part] = key[part]
    for word in range(len(chosen)):
        memory.path[index, word] = chosen[word]
    return False


@compiled
def _run(
    search: _Search, count: int, freed: NDArray[np.int64], cost: NDArray[np.int64], most_steps: int
) -> bool:
    """Turn the best known set into the best one. Returns False if that takes more than ``most_steps``."""
    nothing = np.empty((0, 0), np.float64)
    if _walk(
        search, count, freed, cost, nothing, nothing, _new_memory(search, 0), min(most_steps, _EASY_STEPS)
    ):
        return True
    prices, profits = _bounds(search, count, cost)
    return _walk(search, count, freed, cost, prices, profits, _new_memory(search, _MEMORY_SIZE), most_steps)


@compiled
def _walk(
    search: _Search,
    count: int,
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    prices: NDArray[np.float64],
    profits: NDArray[np.float64],
    memory: _Memory,
    steps: int,
) -> bool:
    """Go through all sets but those that cannot be better than the best known one. Returns if it ended."""
    row, gives, sums, greatest, heads = search.row, search.gives, search.sums, search.greatest, search.heads
    digit, dominators, needs, keys = search.digit, search.dominators, search.needs, search.keys
    best, best_key = search.best, search.best_key
    path, chosen = np.empty(count, np.int64), np.zeros(len(best), np.uint64)
    depth, place, resources = 0, 0, gives.shape[1]
    for _ in range(steps):
        fewest = _fewest(needs[depth], sums[place], greatest[place]) if place < count else 0
        # ``fewest`` candidates cost at least as much as the next ``fewest``.
        if (
            fewest == 0
            or place + fewest > count
            or _hopeless(keys[depth], needs[depth], fewest, heads[place + fewest] - heads[place], best_key)
            or (
                len(prices) > 0
                and (
                    _too_dear(needs[depth], prices, profits[:, place], best_key[0] - keys[depth, 0])
                    or _met_better(memory, place, needs[depth], keys[depth], chosen)
                )
            )
        ):
            # No set from here on: go back, and leave out the candidate taken last.
            if depth == 0:
                return True
            depth -= 1
            place = path[depth]
            chosen[digit[place] >> 6] ^= np.uint64(1) << np.uint64(digit[place] & 63)
            place += 1
            continue
        beside = True
        for word in range(len(chosen)):
            beside &= dominators[place, word] & ~chosen[word] == 0
        if not beside:
            place += 1
            continue
        missing = False
        for resource in range(resources):
            left = max(needs[depth, resource] - gives[place, resource], 0)
            needs[depth + 1, resource] = left
            missing |= left > 0
            keys[depth + 1, 2 + resource] = keys[depth, 2 + resource] + freed[row[place], resource]
        keys[depth + 1, 0] = keys[depth, 0] + cost[row[place]]
        keys[depth + 1, 1] = depth + 1
        chosen[digit[place] >> 6] ^= np.uint64(1) << np.uint64(digit[place] & 63)
        path[depth] = place
        depth += 1
        place += 1
        if missing:
            continue
        if _is_better(keys[depth], chosen, best_key, best):
            for part in range(len(best_key)):
                best_key[part] = keys[depth, part]
            for word in range(len(best)):
                best[word] = chosen[word]
        place = count  # with a later one instead, the set is no better
    return False


@compiled
def _hopeless(
    key: NDArray[np.int64], needs: NDArray[np.int64], fewest: int, cost: int, best: NDArray[np.int64]
) -> bool:
    """Return True if no set from here on can be the best: it needs ``fewest`` more for ``cost`` or more."""
    if key[0] + cost != best[0]:
        return bool(key[0] + cost > best[0])
    if key[1] + fewest != best[1]:
        return bool(key[1] + fewest > best[1])
    return bool(key[2] + needs[0] > best[2])


@compiled
def _too_dear(
    needs: NDArray[np.int64], prices: NDArray[np.float64], profits: NDArray[np.float64], most: int
) -> bool:
    """Return True if by a bound what is missing costs more than ``most``."""
    for bound in range(len(prices)):
        least = 0.0
        for resource in range(len(needs)):
            least += prices[bound, resource] * needs[resource]
        # Within the error of floating point nothing is cut off.
        if least - profits[bound] > most + 1e-9 * least:
            return True
    return False


@compiled
def _prepare(
    deficit: NDArray[np.int64],
    rows: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    number: NDArray[np.int64],
) -> tuple[_Search, int]:
    """Return the search of a node for the best set, and how many candidates it has."""
    search = _new_search(deficit, len(rows))
    count = _sort(search, rows, freed, cost, number)
    count = _drop_dominated(search, count, freed, cost, number)
    _sum_up(search.gives, count, search.sums, search.greatest)
    return search, count


@compiled
def candidates(
    deficit: NDArray[np.int64],
    rows: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    number: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the rows that can be in the best set, in the order of their keys; see ``best_cover``."""
    search, count = _prepare(deficit, rows, freed, cost, number)
    return search.row[:count]


@compiled
def _best_alone(
    deficit: NDArray[np.int64],
    rows: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    number: NDArray[np.int64],
) -> int:
    """Return the row that is the best set by itself; -1 if that takes a search.

    It has the first key of all that help. With others victims are more, and cost no less.
    """
    first = -1
    for slot in range(len(rows)):
        row = rows[slot]
        if row == -1 or (first != -1 and not _goes_first(row, first, freed, cost, number)):
            continue
        for resource in range(len(deficit)):
            if deficit[resource] > 0 and freed[row, resource] > 0:
                first = row
    for resource in range(len(deficit)):
        if first != -1 and freed[first, resource] < deficit[resource]:
            first = -1
    return first


@compiled
def best_cover(
    deficit: NDArray[np.int64],
    rows: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    number: NDArray[np.int64],
    most_steps: int,
) -> tuple[NDArray[np.int64], int, bool]:
    """Return the best sufficient set of victims of a node, its cost, and whether it is settled: proven best.

    Beyond ``most_steps`` it is the best set found, none of it superfluous. If not even all ``rows`` suffice,
    it is empty, the cost -1 and nothing settled.

    Parameters
    ----------
    deficit
        int64[resources], what is missing on the node.
    rows
        int64, rows of the instances on the node in any order, -1 for none.
    freed
        int64[all rows, resources], at least 0; sums do not overflow.
    cost, number
        int64[all rows]; the larger number has the lower rank.

    Returns
    -------
    chosen, cost, settled
        int64, the rows of the set, lowest rank first; int; bool.
    """
    alone = _best_alone(deficit, rows, freed, cost, number)
    if alone != -1:
        return np.full(1, alone), cost[alone], True
    search, count = _prepare(deficit, rows, freed, cost, number)
    row, digit, best = search.row, search.digit, search.best
    if _fewest(search.needs[0], search.sums[0], search.greatest[0]) == 0:
        return row[:0], -1, False
    _start(search, count, freed, cost)
    settled = count == 0 or _run(search, count, freed, cost, most_steps)
    chosen, size = np.empty(count, np.int64), 0
    for place in range(count):
        if best[digit[place] >> 6] >> np.uint64(digit[place] & 63) & np.uint64(1):
            at = size
            while at and number[chosen[at - 1]] < number[row[place]]:
                chosen[at] = chosen[at - 1]
                at -= 1
            chosen[at] = row[place]
            size += 1
    return chosen[:size], search.best_key[0], settled


@compiled
def _start(search: _Search, count: int, freed: NDArray[np.int64], cost: NDArray[np.int64]) -> None:
    """Make a greedy set the best known one: candidates by their cost for the share they cover.

    Those that turn out superfluous are spared, the dearest first.
    """
    row, gives, needs, digit = search.row, search.gives, search.needs, search.digit
    best, best_key, resources = search.best, search.best_key, search.gives.shape[1]
    taken, covered = np.zeros(count, np.bool_), np.zeros(resources, np.int64)
    missing = count > 0
    while missing:
        cheapest, least = -1, np.inf
        for place in range(count):
            share = 0.0
            for resource in range(resources):
                left = needs[0, resource] - covered[resource]
                if left > 0:
                    share += min(gives[place, resource], left) / needs[0, resource]
            if share > 0.0 and not taken[place] and cost[row[place]] / share < least:
                cheapest, least = place, cost[row[place]] / share
        taken[cheapest] = True
        missing = False
        for resource in range(resources):
            covered[resource] += gives[cheapest, resource]
            missing |= covered[resource] < needs[0, resource]
    for place in range(count - 1, -1, -1):
        superfluous = taken[place]
        for resource in range(resources):
            superfluous &= covered[resource] - gives[place, resource] >= needs[0, resource]
        if superfluous:
            for resource in range(resources):
                covered[resource] -= gives[place, resource]
        elif taken[place]:
            best[digit[place] >> 6] |= np.uint64(1) << np.uint64(digit[place] & 63)
            best_key[0] += cost[row[place]]
            best_key[1] += 1
            for resource in range(resources):
                best_key[2 + resource] += freed[row[place], resource]
