"""The cheapest spot instances to evict from one node, exactly: a minimum-cost covering knapsack.

docs/design/preemption.md "The rule", "Victim search". The best set of victims frees enough and has the least
of, in this
order: total cost; instances; freed resources, compared one by one (cores first); ranks, compared from the
lowest. The freed amount of a resource is its surplus but for a constant, so comparing one is comparing the
other, and no resource has to be weighed against another.

``cover_kernel`` searches; a solver takes the few nodes where that takes too many steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.errors import SpecError

#: The steps of the search before it leaves the node to the solver: some 50 ms.
MOST_STEPS = 250_000

#: The nodes of the solver's search tree, for each of its problems.
MOST_NODES = 2_000

#: The ranks that the solver decides on at a time: their weights are powers of two, which must not be lost in
#: its tolerance of 1e-6.
_RANKS_AT_A_TIME = 16

#: The largest sum that the solver's floating point distinguishes from the next; 1,000 victims of an hour
#: each, in thousandths of a second, stay below.
_MOST_DISTINCT = 2**32

#: Sums of costs and of amounts stay below, so that whole numbers of 64 bits hold them.
_MOST_SUM = 2**62


@dataclass(frozen=True, slots=True)
class Cover:
    """A set of victims that free enough, none of them superfluous.

    chosen: rows of the candidates, ascending by rank. cost: the sum of theirs. proven_optimal: False if there
    may be a better set.
    """

    chosen: tuple[int, ...]
    cost: int
    proven_optimal: bool


def cheapest_cover(
    deficit: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    rank: NDArray[np.int64],
    *,
    most_steps: int = MOST_STEPS,
    most_nodes: int = MOST_NODES,
) -> Cover | None:
    """Return the best sufficient set of victims; None if not even all of them free enough.

    The order of the candidates does not matter; the module's docstring defines the best set. Beyond
    ``most_steps`` of the search ``scipy.optimize.milp`` solves the problem, with ``most_nodes`` nodes for
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
    from cloudsim.scheduling.cover_kernel import best_cover, candidates

    _check(deficit, freed, cost, rank)
    if np.any(freed.sum(axis=0) < deficit):
        return None
    rows = np.arange(len(cost))
    # The kernel compiles anew for arrays of other types or strides.
    deficit, freed, cost, number = (
        np.ascontiguousarray(array, np.int64) for array in (deficit, freed, cost, -rank)
    )
    chosen, total, proven = best_cover(deficit, rows, freed, cost, number, most_steps)
    if not proven:
        rows = candidates(deficit, rows, freed, cost, number)
        best, proven = _solve(deficit, freed[rows], cost[rows], rank[rows], np.isin(rows, chosen), most_nodes)
        chosen = rows[best]
        chosen, total = chosen[np.argsort(rank[chosen])], int(cost[chosen].sum())
    return Cover(tuple(chosen.tolist()), total, proven)


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
    for field, array in (("freed", freed), ("cost", cost)):
        if array.min(initial=0) < 0:
            raise SpecError("no victim's is less than nothing", field=field)
        if int(array.max(initial=0)) * count >= _MOST_SUM:
            raise SpecError(f"the sum over {count} victims has to stay below {_MOST_SUM}", field=field)
    if len(set(rank.tolist())) != count:
        raise SpecError("no two candidates have the same rank", field="rank")


def _solve(
    deficit: NDArray[np.int64],
    freed: NDArray[np.int64],
    cost: NDArray[np.int64],
    rank: NDArray[np.int64],
    best: NDArray[np.bool_],
    most_nodes: int,
) -> tuple[NDArray[np.bool_], bool]:
    """Return the best set that the solver finds, and whether it is proven best.

    The candidates are in order of their keys, ``best`` is any sufficient set. The parts of the key are
    minimised one after the other, each keeping the optima of those before it. The search is limited by nodes
    of its tree, never by time: a replay gives the same answer on a slow machine. The solver computes in
    floating point; its sets are checked, and its bounds compared, in whole numbers.
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
    except ImportError:
        return best, False
    needs = deficit[deficit > 0]
    gives = np.minimum(freed[:, deficit > 0], needs)
    units = np.gcd(np.gcd.reduce(gives, axis=0), needs)
    kept: list[Any] = [LinearConstraint((gives // units).T, lb=needs // units)]
    objectives = _objectives(freed, cost, rank)
    for weights in objectives:
        answer = milp(
            weights,
            integrality=np.ones(len(weights)),
            bounds=Bounds(0, 1),
            constraints=kept,
            options={"node_limit": most_nodes, "mip_rel_gap": 0.0},
        )
        if answer.x is None:
            return best, False
        chosen = _without_superfluous(needs, gives, answer.x > 0.5)
        if np.all(gives[chosen].sum(axis=0) >= needs):
            best = min(best, chosen, key=lambda some: [int(part[some].sum()) for part in objectives])
        value = int(weights[best].sum())
        distinct = np.abs(weights).sum(dtype=np.float64) <= _MOST_DISTINCT
        if answer.status != 0 or value - answer.mip_dual_bound > 0.5 or not distinct:
            return best, False
        kept.append(LinearConstraint(weights, ub=value))
    return best, True


def _without_superfluous(
    needs: NDArray[np.int64], gives: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return a set without superfluous victims; the dearest are dropped first."""
    staying = chosen.copy()
    for place in np.flatnonzero(chosen)[::-1]:
        staying[place] = np.any(gives[staying].sum(axis=0) - gives[place] < needs)
    return staying


def _objectives(
    freed: NDArray[np.int64], cost: NDArray[np.int64], rank: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """Return the parts of the key, the first to be minimised first, each as a weight of each candidate."""
    objectives = [part // max(np.gcd.reduce(part), 1) for part in (cost, np.ones_like(cost), *freed.T)]
    by_rank = np.argsort(rank)
    for start in range(0, len(rank), _RANKS_AT_A_TIME):
        numbers = by_rank[start : start + _RANKS_AT_A_TIME]
        weights = np.zeros(len(rank), np.int64)
        weights[numbers] = -(1 << np.arange(_RANKS_AT_A_TIME - 1, -1, -1))[: len(numbers)]
        objectives.append(weights)
    return objectives
