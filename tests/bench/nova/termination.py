"""The paper's choice of whom to end on a chosen host (Algorithm 5), in plain Python as its authors had it.

Two misprints are mended (docs/design/preemption.md "The rule"): what is free on the host counts, and enough
is ``>=``, not ``>``. All combinations are tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

PERIOD_S = 3600


@dataclass(frozen=True)
class Resident:
    """A preemptible instance that runs on a host."""

    uuid: str
    vcpus: int
    memory_mb: int
    run_time_s: float


def period_cost(residents: Iterable[Resident]) -> float:
    """Seconds begun of the last hour, summed: what a provider that bills whole hours loses (Algorithm 4)."""
    return sum(one.run_time_s % PERIOD_S for one in residents)


def select_victims(residents: Sequence[Resident], vcpus: int, memory_mb: int) -> tuple[Resident, ...] | None:
    """The cheapest set that frees so many vCPUs and MB, those short on the host; None when all are not
    enough.

    Of equally cheap sets the smallest is taken, then the first in the order of ``residents``.
    """
    best, best_cost = None, float("inf")
    for count in range(len(residents) + 1):
        for some in combinations(residents, count):
            if sum(one.vcpus for one in some) >= vcpus and sum(one.memory_mb for one in some) >= memory_mb:
                cost = period_cost(some)
                if cost < best_cost:
                    best, best_cost = some, cost
    return best
