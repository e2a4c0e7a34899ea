"""Orders in which spot instances leave, and what it costs that they leave.

``victims.py`` holds the two algorithms over them. Whatever the policy, instances without a guarantee go
before those that were promised something (P2 §3.6).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from cloudsim.model.instances import Instance
from cloudsim.scheduling.inventory import Inventory

# -- orders: first to leave first ----------------------------------------------------------------------------

#: An order may be lazy: its consumer stops as soon as there is room.
Order = Callable[[Inventory], Iterable[Instance]]


def youngest_first(inventory: Inventory) -> Iterator[Instance]:
    """Yield the latest start first, then the latest arrival (P1 §II-C: the least work is lost)."""
    # The inventory's order is that of starts, and of renewals where they count: nothing needs sorting.
    if inventory.any_yields:
        yield from (spot for spot in inventory.youngest_spot() if spot.yields and spot.evict_at_s is None)
    yield from (spot for spot in inventory.youngest_spot() if not spot.yields and spot.evict_at_s is None)


def oldest_first(inventory: Inventory) -> Iterator[Instance]:
    """Yield the earliest start first, then the earliest arrival: everybody gets a turn."""
    running = [spot for spot in inventory.spot() if spot.evict_at_s is None]
    yielding = (spot for spot in running if spot.yields)
    return itertools.chain(yielding, (spot for spot in running if not spot.yields))


def random_order(inventory: Inventory) -> list[Instance]:
    """Return an order that is drawn once for each instance, from its number: every replay draws the same."""
    return sorted(
        (spot for spot in inventory.spot() if spot.evict_at_s is None),
        key=lambda spot: (not spot.yields, _mixed(spot.number), spot.number),
    )


def upper_pools_first(inventory: Inventory) -> list[Instance]:
    """Return pool 0 first, and in each pool the youngest first (P3 §3.1 "LIFO-Pools")."""
    return sorted(
        (spot for spot in inventory.youngest_spot() if spot.evict_at_s is None),
        key=lambda spot: (not spot.yields, spot.pool or 0),
    )


@dataclass(frozen=True)
class ByKey:
    """An order by a key: the least key leaves first, of equals the youngest or the ``oldest``.

    key: returns the keys of instances from their cores and their SLAs, numbers or arrays; None for one key
    for all. The scheduler and the compiled replay evaluate it alike.
    """

    key: Callable[[Any, Any], Any] | None = None
    oldest: bool = False

    def __call__(self, inventory: Inventory) -> Iterable[Instance]:
        """Return the spot instances that may be evicted, in this order."""
        if self.key is None:
            return oldest_first(inventory) if self.oldest else youngest_first(inventory)
        by_age = inventory.spot() if self.oldest else inventory.youngest_spot()
        key = self.key
        return sorted(
            (spot for spot in by_age if spot.evict_at_s is None),
            key=lambda spot: (not spot.yields, key(spot.cores, spot.sla if spot.promised else 1.0)),
        )


_WORD = (1 << 64) - 1


def _mixed(number: int) -> int:
    """Mix a number by the finaliser of SplitMix64: neighbours end far apart."""
    number = (number + 0x9E3779B97F4A7C15) & _WORD
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _WORD
    return number ^ (number >> 31)


# -- costs: what is lost when an instance leaves -------------------------------------------------------------

_HOUR_S: Final = 3600.0
#: An SLA of 0 is never earned back; this stands for it, and sums of it stay exact.
_NEVER_EARNED: Final = 1e6


class Cost(NamedTuple):
    """The weights of what is lost when an instance leaves; its cost is their sum.

    instance: of each one that leaves. partial_hour_s: of each second since its last full hour, work that
    nobody pays for (P5 Algorithm 4). core_s: of each core-second that it ran. promise: of each promise that
    must be made and kept to earn back the broken one, 1 / SLA; 0 where nothing was promised.
    """

    instance: float = 0.0
    partial_hour_s: float = 0.0
    core_s: float = 0.0
    promise: float = 0.0

    @property
    def changes(self) -> bool:
        """True if the cost of an instance changes while it runs."""
        return self.partial_hour_s != 0.0 or self.core_s != 0.0


def cost_of(cost: Cost, run_s: Any, cores: Any, sla: Any) -> Any:
    """Return what is lost when an instance leaves after ``run_s`` seconds.

    The scheduler calls it with one column for all instances, the compiled replay with the numbers of one:
    both decide by the same formula.

    Parameters
    ----------
    cost
        The weights.
    run_s, cores, sla
        Numbers, or arrays of one shape. An SLA of 1 stands for no promise.

    Returns
    -------
    float or float64 array
        0 or more, as long as no weight is negative.
    """
    lost = cost.instance + 0.0 * run_s
    if cost.partial_hour_s != 0.0:
        rest_s = run_s - _HOUR_S * np.floor(run_s / _HOUR_S)  # ten times as fast as np.mod
        lost = lost + cost.partial_hour_s * np.maximum(rest_s, 0.0)  # the quotient may have been rounded up
    if cost.core_s != 0.0:
        lost = lost + cost.core_s * (run_s * cores)
    if cost.promise != 0.0:
        kept = np.minimum(1.0 / np.maximum(sla, 1e-12), _NEVER_EARNED)
        lost = lost + cost.promise * (kept * (sla < 1.0))
    return lost
