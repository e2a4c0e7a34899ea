"""Requests, their answers and what changes in a cloud because of them: values, no behaviour.

Times are seconds of the cloud's own time. An unknown end is ``math.inf``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What an instance may do to others, and what may be done to it."""

    ON_DEMAND = "on_demand"  # placed if it fits after evictions; never evicted
    SPOT = "spot"  # placed only in free room; evicted when an on-demand request needs the cores


class Mode(StrEnum):
    """To whom the SLA is a promise."""

    STRICT = "strict"  # to each: the request's own risk is at most its SLA
    POPULATION = "population"  # to all: the mean risk of the admitted is at most their SLA


class Spread(StrEnum):
    """Where the instances of one group go."""

    TOGETHER = "together"  # affinity: all on one node
    APART = "apart"  # anti-affinity: each on a node of its own


#: A cloud sells at most so many (``cloudsim.admission.pools``).
MOST_POOLS = 16

#: Amounts of named resources beside cores, by name: ``(("disk_gb", 40), ("memory_mb", 4000))``.
Amounts = tuple[tuple[str, int], ...]

#: Labels of a node, or those that a node must have.
Labels = frozenset[tuple[str, str]]


def promises(kind: Kind, sla: float | None) -> bool:
    """Whether an SLA of a spot instance is a promise: None and 1 are none (P2 §3.6, "no guarantee")."""
    return kind is Kind.SPOT and sla is not None and sla < 1


@dataclass(frozen=True, slots=True)
class Request:
    """A wish for one instance. ``sla`` is the largest acceptable probability of eviction before
    ``lifetime_s``.

    spot: ``lifetime_s`` is the longest lifetime; ``sla`` None (or 1) asks for no guarantee, 0 only for
    zero risk. on-demand: ``sla`` is None; ``lifetime_s`` is None where the user will stop it by hand.
    """

    id: str
    kind: Kind
    cores: int
    lifetime_s: float | None
    sla: float | None = None
    origin: str = ""
    actual_lifetime_s: float | None = None  # its user will stop it then: known to a replay, to no decision
    amounts: Amounts = ()  # what it needs beside cores
    labels: Labels = frozenset()  # nodes that lack one of them will not do
    group: str | None = None  # instances that ``spread`` speaks of
    spread: Spread | None = None
    pool: int | None = None  # of a cloud that sells pools (``cloudsim.admission.pools``); None: any

    @property
    def promised(self) -> bool:
        """Whether it asks for a promise at all."""
        return promises(self.kind, self.sla)
