"""Who is evicted: the orders in which spot instances leave, and the costs of their leaving.

Orders and costs only; ``victims.py`` holds the two algorithms over them. Whatever the policy, instances
without a guarantee go before those that were promised something (P2 §3.6).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from cloudsim.cloud.inventory import Inventory
from cloudsim.cloud.spot_columns import SpotColumns
from cloudsim.model.instances import Instance

# -- orders: first to leave first ----------------------------------------------------------------------------

#: May be lazy: whoever takes from it stops when there is room.
Order = Callable[[Inventory], Iterable[Instance]]


def youngest_first(inventory: Inventory) -> Iterator[Instance]:
    """Latest start first, then latest arrival (P1 §II-C "Youngest-Job-First": the least work is lost)."""
    # The inventory's order is that of starts, and of renewals where they count: nothing needs sorting.
    if inventory.any_yields:
        yield from (one for one in inventory.youngest_spot() if one.yields and one.evict_at_s is None)
    yield from (one for one in inventory.youngest_spot() if not one.yields and one.evict_at_s is None)


def oldest_first(inventory: Inventory) -> Iterator[Instance]:
    """Earliest start first, then earliest arrival: everybody gets a turn."""
    running = [one for one in inventory.spot() if one.evict_at_s is None]
    return itertools.chain((one for one in running if one.yields), (one for one in running if not one.yields))


def random_order(inventory: Inventory) -> list[Instance]:
    """An order drawn once for each instance, from its number: the same in every replay of a cloud."""
    return sorted(
        (one for one in inventory.spot() if one.evict_at_s is None),
        key=lambda one: (not one.yields, _mixed(one.number), one.number),
    )


def weakest_promise_first(inventory: Inventory) -> list[Instance]:
    """Largest promised SLA (the likeliest eviction that was agreed to) first; youngest first among equals."""
    return sorted(
        (one for one in inventory.spot() if one.evict_at_s is None),
        key=lambda one: (one.yields, one.sla if one.promised else 1.0, one.start_s, one.number),
        reverse=True,
    )


def upper_pools_first(inventory: Inventory) -> list[Instance]:
    """Pool 0 first, the youngest of each pool first (002 §3.1 "LIFO-Pools")."""
    return sorted(
        (one for one in inventory.youngest_spot() if one.evict_at_s is None),
        key=lambda one: (not one.yields, one.pool or 0),
    )


_WORD = (1 << 64) - 1


def _mixed(number: int) -> int:
    """The finaliser of SplitMix64: neighbours end far apart."""
    number = (number + 0x9E3779B97F4A7C15) & _WORD
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _WORD
    return number ^ (number >> 31)


# -- costs: what is lost when one leaves ---------------------------------------------------------------------

#: Of all rows, at a time in seconds: float64 (rows,), 0 or more. What stands in free rows means nothing.
Cost = Callable[[SpotColumns, float], NDArray[np.float64]]


def partial_hour(spots: SpotColumns, now_s: float) -> NDArray[np.float64]:
    """Run time since the last full hour, in seconds: work that nobody pays for (004 Algorithm 4)."""
    run_s = now_s - spots.start_s
    rest_s = run_s - 3600.0 * np.floor(run_s / 3600.0)  # ten times as fast as np.mod
    return np.where(rest_s < 0.0, 0.0, rest_s)  # the quotient may have been rounded up


def lost_work(spots: SpotColumns, now_s: float) -> NDArray[np.float64]:
    """Core-seconds run so far."""
    return (now_s - spots.start_s) * spots.amounts[:, 0]


def each_the_same(spots: SpotColumns, _now_s: float) -> NDArray[np.float64]:
    """1: as few instances as possible leave."""
    return np.ones(len(spots.start_s))


#: An SLA of 0 is never earned back; this stands for it, and sums of it stay exact.
_NEVER_EARNED = 1e6


def broken_promises(spots: SpotColumns, _now_s: float) -> NDArray[np.float64]:
    """How many promises must be made and kept to earn back one that is broken: 1 / SLA; 0 where nothing was
    promised, so that whose promise is fulfilled or never was leaves first."""
    sla = spots.sla
    return np.where(sla >= 1.0, 0.0, np.minimum(1.0 / np.maximum(sla, 1e-12), _NEVER_EARNED))
