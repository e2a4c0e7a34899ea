"""Refusals: why a request is not admitted, and what would be accepted instead."""

from __future__ import annotations

from dataclasses import dataclass

from cloudsim.model.codes import Added, Code


class RefusalReason(Code):
    """The reasons of refusals, in order of precedence: the first one that applies is reported."""

    def __init__(self, _code: str, text: str = "", retryable: bool = False):
        #: The reason in words. The command line, the dashboard and the reference read it from here.
        self.text = text
        #: True if the answer is likely to change soon by itself: a table is missing, or the cloud is silent.
        self.retryable = retryable

    TOO_LARGE = "too_large", "larger than any of its nodes"
    #: Filters (labels, affinity, cordon) leave no node.
    NO_SUCH_NODE = "no_such_node", "no node has what was asked for"
    #: A real cloud has no flavour (instance type, kind of node) with these cores, resources and labels.
    NO_SUCH_FLAVOUR = Added("no_such_flavour", 4, "no_such_node"), "no flavour has what was asked for"
    #: The operator of a real cloud does not let holders choose this. Simulated clouds run nothing of theirs.
    NOT_ALLOWED = (
        Added("not_allowed", 4, "no_such_node"),
        "the cloud does not allow this image, flavour, key, network, tag or user data",
    )
    #: For an on-demand request: not even after the eviction of every spot instance.
    NO_CAPACITY = "no_capacity", "no free slot of this size"
    NO_TABLE = "no_table", "no quantile table of this size yet", True
    NO_EVIDENCE = "no_evidence", "the history is too short to promise this lifetime"
    RISK_TOO_HIGH = "risk_too_high", "the risk of eviction is above the SLA"
    UNREACHABLE = "unreachable", "the cloud does not answer", True
    NOT_A_TARGET = "not_a_target", "not among the clouds asked for"
    #: Answers the extension of a lease that does not run any more.
    ENDED = "ended", "the lease has ended"
    #: Answers the extension of a lease under notice.
    NOTICED = "noticed", "the lease is under notice"
    OVER_SPOT_CAP = "over_spot_cap", "the origin would hold more spot cores there than it may"
    QUOTA_EXCEEDED = "quota_exceeded", "the member would hold more spot than it may"
    OVER_FAIR_SHARE = "over_fair_share", "the origin holds its share of the cloud, and others wait for theirs"
    NOT_DISCLOSED = "not_disclosed", "the cloud discloses too little of its lifetimes to promise any"
    NO_SUCH_PRODUCT = "no_such_product", "the cloud sells no such pool, or no duration as long as this"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer that is no promise: who refused, why, and what would be accepted instead.

    eviction_would_help: True if there were room once spot instances are evicted. free_slots: room for
    instances of the request's size. eviction_probability: the SLA at which this lifetime would be accepted.
    survives_s: the lifetime in seconds that would be accepted at this SLA. table_version: the table that was
    read; table_made_at_s: the time of the cloud when it was made. removed: by filter, the number of nodes
    that it took out of those that were left.
    """

    cloud: str
    reason: RefusalReason
    eviction_would_help: bool = False
    free_slots: int | None = None
    eviction_probability: float | None = None
    survives_s: float | None = None
    table_version: str | None = None
    table_made_at_s: float | None = None
    removed: tuple[tuple[str, int], ...] = ()
