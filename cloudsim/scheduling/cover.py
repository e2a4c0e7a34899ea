"""The cheapest spot instances to evict from one node, exactly: a minimum-cost covering knapsack.

PREEMPTION.md "The rule", "Victim search". The best set of victims frees enough and has the least of, in this
order: total cost; instances; freed resources, compared one by one (cores first); ranks, compared from the
lowest. The freed amount of a resource is its surplus but for a constant, so comparing one is comparing the
other, and no resource has to be weighed against another.

All of these add up over the victims. The ranks do as well: write a set as a binary number in which the lowest
rank is the highest digit; of two sets of equally many victims, the greater number has the lower ranks. So one
whole number, the *key*, ranks every victim and every set, and less is better (Python's integers have no
limit).

One candidate *dominates* another if it has the lesser key and frees at least as much of what is missing. A
victim of the best set stands there beside all that dominate it, or could be swapped for one of them. Of equal
flavours hence only the cheapest can be in it, and a victim whose dominators free enough by themselves cannot.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.errors import SpecError

#: The partial sets that the exact search examines before it leaves the node to the solver: some 50 ms.
MOST_LABELS = 20_000

#: The nodes of the solver's search tree, for each of its problems.
MOST_NODES = 2_000

#: The ranks that the solver decides on at a time: their weights are powers of two, which must not be lost in
#: its tolerance of 1e-6.
_RANKS_AT_A_TIME = 16


#: The largest sum that the solver's floating point distinguishes from the next; 1,000 victims of an hour
#: each, in thousandths of a second, stay below.
_MOST_DISTINCT = 2**32


@dataclass(frozen=True, slots=True)
class Cover:
    """A set of victims that free enough, none of them superfluous.

    chosen: rows of the candidates, ascending by rank. cost: the sum of theirs. proven_optimal: False if there
    may be a better set.
    """

    chosen: tuple[int, ...]
    cost: int
    proven_optimal: bool


class _Victim(NamedTuple):
    """A candidate that can be in the best set.

    freed: the amount that it frees of each resource. gives: the amount of each missing resource, capped by
    what is missing. digit: a power of two, the greater the lower its rank. dominators: the sum of the digits
    of all that dominate it.
    """

    row: int
    cost: int
    freed: tuple[int, ...]
    gives: tuple[int, ...]
    key: int
    digit: int
    dominators: int


class _Search(NamedTuple):
    """The search for the best set of victims on one node.

    needs: the missing amount of each resource that is missing. victims: by key. cost_digit: a cost of 1 in a
    key; all that stands below it in a key is less.
    """

    needs: tuple[int, ...]
    victims: list[_Victim]
    cost_digit: int

    def victims_of(self, key: int) -> list[_Victim]:
        """Return the set that has this key."""
        return [victim for victim in self.victims if -key & victim.digit]


def cheapest_cover(
    deficit: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    rank: NDArray[np.int64],
    *,
    most_labels: int = MOST_LABELS,
    most_nodes: int = MOST_NODES,
) -> Cover | None:
    """Return the best sufficient set of victims; None if not even all of them free enough.

    The order of the candidates does not matter; the module's docstring defines the best set. Beyond
    ``most_labels`` partial sets ``scipy.optimize.milp`` solves the problem, with ``most_nodes`` nodes for
    each of its parts. Where it proves nothing, or is not installed (extra ``solvers``), the best known set is
    returned, not proven optimal.

    Parameters
    ----------
    deficit
        int64 (resources,), the missing amounts; 0 or less where nothing is missing.
    freed
        int64 (candidates, resources), at least 0.
    cost
        int64 (candidates,), at least 0.
    rank
        int64 (candidates,), all different; the lower rank goes first.

    Raises
    ------
    SpecError
        When an array has another shape or a wrong value; it names the array.
    """
    _check(deficit, freed, cost, rank)
    search = _prepare(deficit, freed, cost, rank)
    if search is None:
        return None
    key = _greedy_key(search)
    exact = _best_key(search, key, most_labels)
    if exact is None:
        key, proven = _solve(search, key, most_nodes)
    else:
        key, proven = exact, True
    chosen = sorted(search.victims_of(key), key=lambda victim: -victim.digit)
    return Cover(tuple(victim.row for victim in chosen), sum(victim.cost for victim in chosen), proven)


def _check(
    deficit: NDArray[np.int64], freed: NDArray[np.int64], cost: NDArray[np.int64], rank: NDArray[np.int64]
) -> None:
    if deficit.ndim != 1 or deficit.dtype.kind != "i":
        raise SpecError(f"one whole number a resource, not {deficit.dtype}", field="deficit")
    count = len(freed)
    for field, array, shape in (
        ("freed", freed, (count, len(deficit))),
        ("cost", cost, (count,)),
        ("rank", rank, (count,)),
    ):
        if array.shape != shape or array.dtype.kind != "i":
            raise SpecError(
                f"whole numbers of shape {shape}, not {array.dtype} of {array.shape}", field=field
            )
    if count and freed.min(initial=0) < 0:
        raise SpecError("no victim frees less than nothing", field="freed")
    if count and cost.min() < 0:
        raise SpecError("no victim costs less than nothing", field="cost")
    if len(set(rank.tolist())) != count:
        raise SpecError("no two candidates have the same rank", field="rank")


def _prepare(
    deficit: NDArray[np.int64], freed: NDArray[np.int64], cost: NDArray[np.int64], rank: NDArray[np.int64]
) -> _Search | None:
    """Find the candidates that can be in the best set, by key. None if no set is sufficient."""
    missing = np.flatnonzero(deficit > 0)
    needs = deficit[missing]
    gives = np.minimum(freed[:, missing], needs)
    if np.any(gives.sum(axis=0) < needs):
        return None
    helps = np.flatnonzero(gives.any(axis=1))
    columns = (freed[helps, resource] for resource in reversed(range(len(deficit))))
    rows = helps[np.lexsort((rank[helps], *columns, cost[helps]))]
    gives = gives[rows]
    # [a, b]: b has the lesser key and gives at least as much.
    dominated = np.tri(len(rows), k=-1, dtype=np.bool_)
    for column in gives.T:
        dominated &= column[:, None] <= column
    possible = np.flatnonzero(np.any(dominated @ gives < needs, axis=1))
    rows, gives, dominated = rows[possible], gives[possible], dominated[np.ix_(possible, possible)]
    return _with_keys(needs, rows, gives, dominated, freed[rows], cost[rows], rank[rows])


def _with_keys(
    needs: NDArray[np.int64],
    rows: NDArray[np.int64],
    gives: NDArray[np.int64],
    dominated: NDArray[np.bool_],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    rank: NDArray[np.int64],
) -> _Search:
    """Give each candidate its key.

    A key is a whole number: cost, instances and freed amounts, each with room for its sum, minus the digit of
    the rank.
    """
    count = len(rows)
    digits = [0] * count
    for place, index in enumerate(np.argsort(rank).tolist()):
        digits[index] = 1 << (count - 1 - place)
    freed_by = [tuple(row) for row in freed.tolist()]
    widths = [sum(column).bit_length() for column in zip(*freed_by, strict=True)]
    victims = []
    for index, (row, price, frees) in enumerate(zip(rows.tolist(), cost.tolist(), freed_by, strict=True)):
        key = (price << count.bit_length()) + 1
        for amount, width in zip(frees, widths, strict=True):
            key = (key << width) + amount
        dominators = sum(digits[other] for other in np.flatnonzero(dominated[index]).tolist())
        victims.append(
            _Victim(
                row,
                price,
                frees,
                tuple(gives[index].tolist()),
                (key << count) - digits[index],
                digits[index],
                dominators,
            )
        )
    return _Search(tuple(needs.tolist()), victims, 1 << (count.bit_length() + sum(widths) + count))


def _left(needs: tuple[int, ...], gives: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([need - give if need > give else 0 for need, give in zip(needs, gives, strict=True)])


def _key_without_superfluous(search: _Search, chosen: Iterable[_Victim]) -> int:
    """Return the key of a sufficient set without superfluous victims; the dearest are dropped first."""
    staying = sorted(chosen, key=lambda victim: victim.key)
    for victim in reversed(staying.copy()):
        others = [other for other in staying if other is not victim]
        if _suffices(search, others):
            staying = others
    return sum(victim.key for victim in staying)


def _suffices(search: _Search, chosen: list[_Victim]) -> bool:
    return all(
        sum(victim.gives[resource] for victim in chosen) >= need for resource, need in enumerate(search.needs)
    )


def _greedy_key(search: _Search) -> int:
    """Return the key of the sufficient set that takes victims by their cost for the share they cover."""
    needs, waiting, chosen = search.needs, list(search.victims), []
    while any(needs):
        best, best_price = waiting[0], math.inf
        for victim in waiting:
            share = sum(
                min(give, need) / whole
                for give, need, whole in zip(victim.gives, needs, search.needs, strict=True)
            )
            if share > 0 and victim.cost / share < best_price:
                best, best_price = victim, victim.cost / share
        waiting.remove(best)
        chosen.append(best)
        needs = _left(needs, best.gives)
    return _key_without_superfluous(search, chosen)


class _Bound(NamedTuple):
    """The Lagrangian bound of a cost, for a price of each resource.

    Covering ``needs`` by victims from number ``first`` on costs at least (prices · needs - profits[first]) /
    scale.
    """

    prices: tuple[int, ...]
    scale: int
    profits: list[int]


def _bounds(search: _Search) -> list[_Bound]:
    """Return a bound by each missing resource alone, and one by all of them in equal shares.

    Each takes the price at which fractions of victims would just cover the need.
    """
    needs, victims = search.needs, search.victims
    directions = [tuple(int(this == other) for other in range(len(needs))) for this in range(len(needs))]
    if len(needs) > 1:
        whole = math.lcm(*needs)
        directions.append(tuple(whole // need for need in needs))
    bounds = []
    for weights in directions:
        worths = [_dot(weights, victim.gives) for victim in victims]
        helping = sorted(
            (victim.cost / worth, victim.cost, worth)
            for victim, worth in zip(victims, worths, strict=True)
            if worth
        )
        covered = itertools.accumulate(worth for _, _, worth in helping)
        target = _dot(weights, needs)
        price, scale = next(
            (price, worth)
            for (_, price, worth), total in zip(helping, covered, strict=True)
            if total >= target
        )
        profits = [0]
        for victim, worth in zip(reversed(victims), reversed(worths), strict=True):
            profits.append(profits[-1] + max(price * worth - scale * victim.cost, 0))
        bounds.append(_Bound(tuple(price * weight for weight in weights), scale, profits[::-1]))
    return bounds


def _dot(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    return sum(map(operator.mul, left, right))


def _best_key(search: _Search, best: int, most_labels: int) -> int | None:
    """Return the least key of a sufficient set, given that of any; None beyond ``most_labels``.

    Dynamic programming over the amounts that are still missing, with one label, the least key, for each.
    Victims that are alike meet in the same few labels, as if counts of flavours were enumerated. Labels that
    the remaining victims cannot complete, or only for more than the best known set costs, are dropped.
    """
    bounds = _bounds(search)
    remaining = [sum(column) for column in zip(*(v.gives for v in search.victims), strict=True)]
    labels, seen = {search.needs: 0}, 0
    for number, victim in enumerate(search.victims):
        seen += len(labels)
        if seen > most_labels:
            return None
        following: dict[tuple[int, ...], int] = {}
        here = [(bound.prices, bound.scale, bound.profits[number]) for bound in bounds]
        most = best // search.cost_digit
        for needs, key in labels.items():
            if any(map(operator.gt, needs, remaining)):
                continue
            left = most - key // search.cost_digit
            if any(_dot(prices, needs) - profit > scale * left for prices, scale, profit in here):
                continue
            if following.get(needs, best) >= key:
                following[needs] = key
            with_it = key + victim.key
            if with_it >= best or -key & victim.dominators != victim.dominators:
                continue
            after = _left(needs, victim.gives)
            if not any(after):
                best = with_it
            elif following.get(after, best) > with_it:
                following[after] = with_it
        labels = following
        remaining = list(map(operator.sub, remaining, victim.gives))
    return best


def _solve(search: _Search, best: int, most_nodes: int) -> tuple[int, bool]:
    """Return the least key of a sufficient set that the solver finds, and whether it is proven least.

    The parts of the key are minimised one after the other, each keeping the optima of those before it. The
    search is limited by nodes of its tree, never by time: a replay gives the same answer on a slow machine.
    The solver computes in floating point; its sets are checked, and its bounds compared, in whole numbers.
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
    except ImportError:
        return best, False
    gives = np.array([victim.gives for victim in search.victims])
    units = np.gcd(np.gcd.reduce(gives, axis=0), search.needs)
    kept: list[Any] = [LinearConstraint((gives // units).T, lb=search.needs // units)]
    for weights in _objectives(search):
        answer = milp(
            weights,
            integrality=np.ones(len(weights)),
            bounds=Bounds(0, 1),
            constraints=kept,
            options={"node_limit": most_nodes, "mip_rel_gap": 0.0},
        )
        if answer.x is None:
            return best, False
        chosen = [victim for victim, share in zip(search.victims, answer.x, strict=True) if share > 0.5]
        if _suffices(search, chosen):
            best = min(best, _key_without_superfluous(search, chosen))
        value = sum(
            int(weight)
            for weight, victim in zip(weights, search.victims, strict=True)
            if -best & victim.digit
        )
        distinct = np.abs(weights).sum(dtype=np.float64) <= _MOST_DISTINCT
        if answer.status != 0 or value - answer.mip_dual_bound > 0.5 or not distinct:
            return best, False
        kept.append(LinearConstraint(weights, ub=value))
    return best, True


def _objectives(search: _Search) -> Iterator[NDArray[np.int64]]:
    """Yield the parts of the key that are minimised in this order, each as a weight of each victim."""
    victims = search.victims
    for part in zip(*((victim.cost, 1, *victim.freed) for victim in victims), strict=True):
        yield np.array(part) // max(math.gcd(*part), 1)
    by_rank = sorted(range(len(victims)), key=lambda number: -victims[number].digit)
    for start in range(0, len(victims), _RANKS_AT_A_TIME):
        weights = np.zeros(len(victims), np.int64)
        for place, number in enumerate(by_rank[start : start + _RANKS_AT_A_TIME], start=1):
            weights[number] = -(1 << (_RANKS_AT_A_TIME - place))
        yield weights
