"""Requests, their answers and what changes in a cloud because of them: values, no behaviour.

Times are seconds of the cloud's own time. An unknown end is ``math.inf``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RefusalReason(StrEnum):
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


@dataclass(frozen=True, slots=True)
class Refusal:
    """Who refused, why, whether evicting someone would help, and what would be accepted instead."""

    cloud: str
    reason: RefusalReason
    eviction_would_help: bool = False
    free_slots: int | None = None
    eviction_probability: float | None = None  # the SLA at which this lifetime would be accepted
    survives_s: float | None = None  # the lifetime that would be accepted at this SLA
    table_version: str | None = None
    table_made_at_s: float | None = None
    removed: tuple[tuple[str, int], ...] = ()  # by filter: nodes that it took out of those that were left
