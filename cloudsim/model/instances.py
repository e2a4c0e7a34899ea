"""Instances, where they are placed, and the quotes that come before them: values, no behaviour.

Times are seconds of the cloud's own time. An unknown end is ``math.inf``.
"""

from __future__ import annotations

from dataclasses import dataclass

from cloudsim.model.requests import Amounts, Kind, Labels, Spread, promises

#: Nodes, each with the cores on it.
Parts = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance that runs on a node, or is booked to run there.

    end_s: the requested end, inf if unknown. number: counts the admissions of its cloud; the order of arrival
    and the key of its history. sla: the promise to a spot instance. risk: its own probability of eviction
    when that was promised. free_slots: free slots of its size when it was admitted, the condition in which
    its risk is read. amounts: what it needs beside cores. labels, group, spread: those of its request.
    evict_at_s: it is under notice and leaves then at the latest. pool: the pool that it was sold from.
    renewed_at_s: it counts as started then, where its cloud's line-up renews. parts: the nodes of a gang,
    each with the cores on it, ``node`` first; empty for an instance that is no gang. A gang takes as many
    numbers as it has cores.
    """

    id: str
    kind: Kind
    cores: int
    node: int
    start_s: float
    end_s: float
    number: int
    origin: str = ""
    sla: float | None = None
    risk: float | None = None
    free_slots: int | None = None
    amounts: Amounts = ()
    group: str | None = None
    labels: Labels = frozenset()
    spread: Spread | None = None
    evict_at_s: float | None = None
    pool: int | None = None
    renewed_at_s: float | None = None
    parts: Parts = ()

    @property
    def members(self) -> int:
        """The number of instances that the history holds of it: one for each core of a gang."""
        return self.cores if self.parts else 1

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that it is on."""
        return tuple(node for node, _ in self.parts) or (self.node,)

    @property
    def promised(self) -> bool:
        """True if it was promised something: not for on-demand, nor for spot without a guarantee."""
        return promises(self.kind, self.sla)

    @property
    def yields(self) -> bool:
        """True for a spot instance without a guarantee, which gives way to all others."""
        return self.kind is Kind.SPOT and not promises(self.kind, self.sla)

    @property
    def arrival(self) -> tuple[float, int]:
        """The place in the order of arrival: when it started or was renewed, then its number."""
        return (self.start_s if self.renewed_at_s is None else self.renewed_at_s), self.number


@dataclass(frozen=True, slots=True)
class Placement:
    """The node that an instance goes to, and the victims that make room for it, in the line-up's order.

    waits: True if it waits for instances that are under notice already. proven: False when a cheaper set of
    victims may exist, because the search was cut short. parts: see ``Instance``.
    """

    node: int
    victims: tuple[Instance, ...] = ()
    waits: bool = False
    proven: bool = True
    parts: Parts = ()


@dataclass(frozen=True, slots=True)
class Quote:
    """The promise that a cloud would make now. Estimates are None where no guarantee was asked.

    survives_s: the longest lifetime in seconds that keeps the requested SLA. table_made_at_s: the cloud's
    time when the table was made. pool: the pool that the instance would be sold from.
    """

    cloud: str
    cores: int
    free_slots: int
    eviction_probability: float | None
    survives_s: float | None
    table_version: str | None
    table_made_at_s: float | None
    pool: int | None = None
