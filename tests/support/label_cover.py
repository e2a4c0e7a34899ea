"""The cheapest spot instances to evict from one node by labels: the reference of the compiled search.

``cloudsim.scheduling.cover`` defines the best set. All that sets are compared by adds up over the victims.
The ranks do as well: write a set as a binary number in which the lowest rank is the highest digit; of two
sets of equally many victims, the greater number has the lower ranks. So one whole number, the *key*, ranks
every victim and every set, and less is better (Python's integers have no limit).

One candidate *dominates* another if it has the lesser key and frees at least as much of what is missing. A
victim of the best set stands there beside all that dominate it, or could be swapped for one of them. Of equal
flavours hence only the cheapest can be in it, and a victim whose dominators free enough by themselves cannot.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.scheduling.cover import Cover


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


def cover_by_labels(
    deficit: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    rank: NDArray[np.int64],
    most_labels: int = 20_000,
) -> Cover | None:
    """Return the best sufficient set of victims; None if not even all of them free enough.

    Beyond ``most_labels`` partial sets it is a greedy set, not proven optimal.
    """
    search = _prepare(deficit, freed, cost, rank)
    if search is None:
        return None
    greedy = _greedy_key(search)
    exact = _best_key(search, greedy, most_labels)
    chosen = sorted(search.victims_of(greedy if exact is None else exact), key=lambda victim: -victim.digit)
    return Cover(
        tuple(victim.row for victim in chosen), sum(victim.cost for victim in chosen), exact is not None
    )


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
