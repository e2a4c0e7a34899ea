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


class Reason(StrEnum):
    """Why a request was refused, in order of precedence: the first that applies is the one reported."""

    TOO_LARGE = "too_large"  # larger than any node
    NO_SUCH_NODE = "no_such_node"  # filters (labels, affinity, cordon) leave no node
    NO_CAPACITY = "no_capacity"  # no free slot (on-demand: not even after evicting every spot instance)
    NO_TABLE = "no_table"  # no quantile table yet, or none of this size
    NO_EVIDENCE = "no_evidence"  # nothing was followed up as long as this lifetime
    RISK_TOO_HIGH = "risk_too_high"  # probability of eviction before the lifetime exceeds the SLA
    UNREACHABLE = "unreachable"  # the cloud does not answer; nothing is known about it
    NOT_A_TARGET = "not_a_target"  # the requester asked for other clouds only
    ENDED = "ended"  # an extension of what does not run any more
    NOTICED = "noticed"  # an extension of what was told to leave
    OVER_SPOT_CAP = "over_spot_cap"  # its origin would hold more spot cores on this cloud than it may
    QUOTA_EXCEEDED = "quota_exceeded"  # the requester's member would hold more spot than it may
    OVER_FAIR_SHARE = "over_fair_share"  # its origin has its share of this cloud, and others wait for theirs
    NOT_DISCLOSED = "not_disclosed"  # the cloud says too little of its lifetimes to promise any
    NO_SUCH_PRODUCT = "no_such_product"  # the cloud sells no such pool, or nothing that lasts so long


class Spread(StrEnum):
    """Where the instances of one group go."""

    TOGETHER = "together"  # affinity: all on one node
    APART = "apart"  # anti-affinity: each on a node of its own


#: A cloud sells at most so many (``cloudsim.pools``).
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
    pool: int | None = None  # of a cloud that sells pools (``cloudsim.pools``); None: any

    @property
    def promised(self) -> bool:
        """Whether it asks for a promise at all."""
        return promises(self.kind, self.sla)


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """Who refused, why, whether evicting someone would help, and what would be accepted instead."""

    cloud: str
    reason: Reason
    eviction_would_help: bool = False
    free_slots: int | None = None
    eviction_probability: float | None = None  # the SLA at which this lifetime would be accepted
    survives_s: float | None = None  # the lifetime that would be accepted at this SLA
    table_version: str | None = None
    table_made_at_s: float | None = None
    removed: tuple[tuple[str, int], ...] = ()  # by filter: nodes that it took out of those that were left


class End(StrEnum):
    """How an instance ends. It ends exactly once."""

    COMPLETED = "completed"
    EVICTED = "evicted"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Started:
    """An instance was placed."""

    instance: Instance


@dataclass(frozen=True, slots=True)
class Ended:
    """An instance left its node. ``cause`` is the id of the request that needed the cores, or who asked."""

    instance: Instance
    at_s: float
    how: End
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """A request of the cloud's own load was refused."""

    request: Request
    at_s: float
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Extended:
    """A running spot instance was promised a later end. ``instance``: as it is from now on, with the ``sla``
    and ``risk`` of the time from ``at_s`` to that end."""

    instance: Instance
    at_s: float
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Noticed:
    """A running spot instance was told to leave. ``instance``: with its ``evict_at_s``. ``cause``: the id of
    the request that needs its room, or who drains the node."""

    instance: Instance
    at_s: float
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Booked:
    """An on-demand instance has its node, and starts when those have left that were given notice.

    ``instance``: as if it started now; its lifetime counts from its true start, at the latest
    ``starts_by_s``."""

    instance: Instance
    at_s: float
    starts_by_s: float


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A booked on-demand instance is not wanted any more. Notices that were given for it stand."""

    instance: Instance
    at_s: float


@dataclass(frozen=True, slots=True)
class Cordoned:
    """Nodes take no new instances any more (``closed``), or do again. None: all nodes."""

    nodes: tuple[int, ...] | None
    closed: bool
    at_s: float


Change = Started | Ended | TurnedAway | Extended | Noticed | Booked | Withdrawn | Cordoned
