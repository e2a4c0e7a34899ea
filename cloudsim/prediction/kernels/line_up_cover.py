"""Choose the cheapest victims on a node, compiled: ``scheduling/cover.py`` within a replay.

The best sufficient set has the least of, in this order: total cost; instances; freed resources, compared one
by one; ranks, the youngest first. The search goes depth first through the candidates in the order of that
key. A candidate that frees no more than an earlier one is taken only beside it, so that of equal flavours
only counts are tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.jit import compiled
from cloudsim.scheduling.cover_kernel import MOST_CANDIDATES, MOST_STEPS
from cloudsim.scheduling.cover_kernel import _dominate as dominate
from cloudsim.scheduling.cover_kernel import _fewest as fewest_of
from cloudsim.scheduling.cover_kernel import _sum_up as sum_up


class CoverCandidates(NamedTuple):
    """Instances that free something of what is missing, best key first.

    Attributes
    ----------
    row
        int64[candidates], row of the instance.
    price
        int64[candidates], its cost.
    freed, gives
        int64[candidates, resources], what it frees; ``gives`` is capped by what is missing.
    age
        int64[candidates], less is older.
    """

    row: NDArray[np.int64]
    price: NDArray[np.int64]
    freed: NDArray[np.int64]
    gives: NDArray[np.int64]
    age: NDArray[np.int64]


@compiled
def _goes_first(candidates: CoverCandidates, one: int, other: int) -> bool:
    """Return True if the key of candidate ``one`` is less than that of ``other``."""
    if candidates.price[one] != candidates.price[other]:
        return bool(candidates.price[one] < candidates.price[other])
    for resource in range(candidates.freed.shape[1]):
        if candidates.freed[one, resource] != candidates.freed[other, resource]:
            return bool(candidates.freed[one, resource] < candidates.freed[other, resource])
    return bool(candidates.age[one] > candidates.age[other])


@compiled
def _gather(
    needs: NDArray[np.int64],
    rows: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    ordinal: NDArray[np.int64],
    rank: int,
) -> CoverCandidates:
    """Return the candidates in order of their keys."""
    width, resources = len(rows), len(needs)
    unsorted = CoverCandidates(
        np.empty(width, np.int64),
        np.empty(width, np.int64),
        np.empty((width, resources), np.int64),
        np.empty((width, resources), np.int64),
        np.empty(width, np.int64),
    )
    order = np.empty(width, np.int64)
    count = 0
    for slot in range(width):
        row = rows[slot]
        if row == -1:
            continue
        helps = False
        for resource in range(resources):
            unsorted.freed[count, resource] = freed[row, resource]
            unsorted.gives[count, resource] = min(freed[row, resource], needs[resource])
            helps |= unsorted.gives[count, resource] > 0
        if not helps:
            continue
        unsorted.row[count], unsorted.price[count] = row, cost[row]
        # Twice the ordinal: the virtual instance, the last row, comes between those before and after it.
        unsorted.age[count] = 2 * ordinal[row] if row < len(ordinal) else 2 * min(rank, 2**61) - 1
        place = count
        while place and _goes_first(unsorted, count, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = count
        count += 1
    candidates = CoverCandidates(
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty((count, resources), np.int64),
        np.empty((count, resources), np.int64),
        np.empty(count, np.int64),
    )
    for place in range(count):
        candidates.row[place] = unsorted.row[order[place]]
        candidates.price[place] = unsorted.price[order[place]]
        candidates.age[place] = unsorted.age[order[place]]
        for resource in range(resources):
            candidates.freed[place, resource] = unsorted.freed[order[place], resource]
            candidates.gives[place, resource] = unsorted.gives[order[place], resource]
    return candidates


@compiled
def _without_superfluous(needs: NDArray[np.int64], candidates: CoverCandidates) -> NDArray[np.bool_]:
    """Return a sufficient set: all but the candidates that the others make superfluous, the dearest first."""
    taken = np.ones(len(candidates.row), np.bool_)
    covered = np.zeros(len(needs), np.int64)
    for place in range(len(taken)):
        for resource in range(len(needs)):
            covered[resource] += candidates.gives[place, resource]
    for place in range(len(taken) - 1, -1, -1):
        superfluous = True
        for resource in range(len(needs)):
            superfluous &= covered[resource] - candidates.gives[place, resource] >= needs[resource]
        if superfluous:
            taken[place] = False
            for resource in range(len(needs)):
                covered[resource] -= candidates.gives[place, resource]
    return taken


@compiled
def best_cover(
    deficit: NDArray[np.int64],
    rows: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    ordinal: NDArray[np.int64],
    rank: int,
) -> NDArray[np.int64]:
    """Return the rows of the best sufficient set of victims, given that all of ``rows`` suffice.

    Beyond MOST_CANDIDATES or MOST_STEPS it is the best set that was found.

    Parameters
    ----------
    deficit
        int64[resources], what is missing on the node.
    rows
        int64, rows of instances on the node, -1 for none.
    freed
        int64[all rows, resources].
    cost
        int64[all rows].
    ordinal
        int64, by row, less is older; the virtual instance has the row after the last.
    rank
        The virtual instance is younger than all ordinals below.
    """
    needs = np.empty_like(deficit)
    for resource in range(len(needs)):
        needs[resource] = max(deficit[resource], 0)
    candidates = _gather(needs, rows, freed, cost, ordinal, rank)
    taken = _without_superfluous(needs, candidates)
    if len(taken) <= MOST_CANDIDATES:
        _improve(needs, candidates, taken)
    chosen, count = np.empty(len(taken), np.int64), 0
    for place in range(len(taken)):
        if taken[place]:
            chosen[count] = candidates.row[place]
            count += 1
    return chosen[:count]


@compiled
def _key(candidates: CoverCandidates, taken: NDArray[np.bool_], key: NDArray[np.int64]) -> None:
    """Write cost, instances and freed amounts of a set."""
    key[:] = 0
    for place in range(len(taken)):
        if taken[place]:
            key[0] += candidates.price[place]
            key[1] += 1
            for resource in range(len(key) - 2):
                key[resource + 2] += candidates.freed[place, resource]


@compiled
def _copy(values: NDArray[np.int64], to: NDArray[np.int64]) -> None:
    for index in range(len(values)):
        to[index] = values[index]


@compiled
def _younger(age: NDArray[np.int64], place: int) -> int:
    """Count the candidates that are younger than one of them."""
    younger = 0
    for other in range(len(age)):
        younger += age[other] > age[place]
    return younger


@compiled
def _descend(
    candidates: CoverCandidates, place: int, depth: int, needs: NDArray[np.int64], keys: NDArray[np.int64]
) -> bool:
    """Take a candidate too: write what is missing then, and the key, and return True if something is missing.

    Both are written at ``depth`` + 1.
    """
    missing = False
    for resource in range(needs.shape[1]):
        left = max(needs[depth, resource] - candidates.gives[place, resource], 0)
        needs[depth + 1, resource] = left
        missing |= left > 0
        keys[depth + 1, resource + 2] = keys[depth, resource + 2] + candidates.freed[place, resource]
    keys[depth + 1, 0] = keys[depth, 0] + candidates.price[place]
    keys[depth + 1, 1] = depth + 1
    return missing


@compiled
def _improve(needs_in: NDArray[np.int64], candidates: CoverCandidates, taken: NDArray[np.bool_]) -> None:
    """Turn ``taken``, any sufficient set, into the best one."""
    count, resources = candidates.gives.shape
    price, gives = candidates.price, candidates.gives
    sums, greatest = np.empty((count + 1, resources), np.int64), np.empty((count + 1, resources), np.int64)
    sum_up(gives, count, sums, greatest)
    dominators = np.empty(count, np.uint64)
    dominate(gives, count, dominators)
    digit = np.empty(count, np.uint64)  # the youngest has the highest
    for place in range(count):
        digit[place] = np.uint64(1) << np.uint64(63 - _younger(candidates.age, place))
    best, best_ranks = np.empty(resources + 2, np.int64), np.uint64(0)
    _key(candidates, taken, best)
    for place in range(count):
        if taken[place]:
            best_ranks |= digit[place]
    needs, keys = np.empty((count + 1, resources), np.int64), np.zeros((count + 1, resources + 2), np.int64)
    _copy(needs_in, needs[0])
    path = np.empty(count, np.int64)
    depth, place, chosen, ranks = 0, 0, np.uint64(0), np.uint64(0)
    for _ in range(MOST_STEPS):
        fewest = fewest_of(needs[depth], sums[place], greatest[place]) if place < count else 0
        if fewest == 0 or _hopeless(keys[depth], needs[depth], fewest, price[place], best):
            if depth == 0:
                return
            depth -= 1
            place = path[depth]
            chosen ^= np.uint64(1) << np.uint64(place)
            ranks ^= digit[place]
            place += 1
            continue
        if dominators[place] & ~chosen:
            place += 1
            continue
        if _descend(candidates, place, depth, needs, keys):
            path[depth] = place
            chosen |= np.uint64(1) << np.uint64(place)
            ranks |= digit[place]
            depth += 1
            place += 1
            continue
        if _better(keys[depth + 1], ranks | digit[place], best, best_ranks):
            _copy(keys[depth + 1], best)
            best_ranks = ranks | digit[place]
            for other in range(count):
                taken[other] = other == place or (chosen >> np.uint64(other)) & np.uint64(1) > 0
        place = count  # with a later one instead, the set is no better


@compiled
def _hopeless(
    key: NDArray[np.int64], needs: NDArray[np.int64], fewest: int, price: int, best: NDArray[np.int64]
) -> bool:
    """Return True if no set from here on can be the best.

    Parameters
    ----------
    fewest
        At least this many more candidates are needed.
    price
        Each of them costs at least this much.
    """
    cost = key[0] + fewest * price
    if cost != best[0]:
        return bool(cost > best[0])
    count = key[1] + fewest
    if count != best[1]:
        return bool(count > best[1])
    return bool(key[2] + needs[0] > best[2])


@compiled
def _better(key: NDArray[np.int64], ranks: np.uint64, best: NDArray[np.int64], best_ranks: np.uint64) -> bool:
    for part in range(len(key)):
        if key[part] != best[part]:
            return bool(key[part] < best[part])
    return bool(ranks > best_ranks)
