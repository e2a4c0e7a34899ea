"""Requests, their answers and what changes in a cloud because of them: values, no behaviour.

Times are seconds of the cloud's own time. An unknown end is ``math.inf``.
"""

from __future__ import annotations

from dataclasses import dataclass

from cloudsim.model.requests import Amounts, Kind, Labels, Spread, promises


@dataclass(frozen=True, slots=True)
class Instance:
    """A running instance. ``number`` counts admissions of its cloud: the order of arrival, and the key of
    its history. ``sla`` and ``risk`` are what a spot instance was promised, and its own probability of
    eviction when it was."""

    id: str
    kind: Kind
    cores: int
    node: int
    start_s: float
    end_s: float  # requested end, inf if unknown
    number: int
    origin: str = ""
    sla: float | None = None
    risk: float | None = None
    free_slots: int | None = None  # of its size when it was admitted: the condition that its risk is read in
    amounts: Amounts = ()
    group: str | None = None
    labels: Labels = frozenset()  # as its request's: where a replay may place it
    spread: Spread | None = None
    evict_at_s: float | None = None  # it was given notice and leaves then at the latest
    pool: int | None = None  # that it was sold from
    renewed_at_s: float | None = None  # it counts as started then, where its cloud's line-up renews

    @property
    def promised(self) -> bool:
        """False for on-demand and no-guarantee spot instances."""
        return promises(self.kind, self.sla)

    @property
    def yields(self) -> bool:
        """Whether it is a spot instance without a guarantee, which gives way to all others."""
        return self.kind is Kind.SPOT and not self.promised

    @property
    def arrival(self) -> tuple[float, int]:
        """Its place in the order of arrival: when it started or was renewed, then its number."""
        return (self.start_s if self.renewed_at_s is None else self.renewed_at_s), self.number


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an instance goes and who has to make room for it, in the order of the line-up.

    waits: for instances that were given notice already. proven: False when a cheaper set of victims may
    exist, because the search was cut short.
    """

    node: int
    victims: tuple[Instance, ...] = ()
    waits: bool = False
    proven: bool = True


@dataclass(frozen=True, slots=True)
class Quote:
    """What a cloud would promise now. Estimates are None where no guarantee was asked and no table exists."""

    cloud: str
    cores: int
    free_slots: int
    eviction_probability: float | None
    survives_s: float | None  # the longest lifetime that keeps the asked SLA
    table_version: str | None
    table_made_at_s: float | None
    pool: int | None = None
