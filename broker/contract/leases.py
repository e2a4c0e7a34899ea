"""Leases: what a cloud has promised about one instance, and the ids of the attempts that obtained them."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from broker.contract.field_docs import describe_fields
from broker.contract.fields import CloudId, Cores, Id, Message
from broker.contract.launch import Launch
from broker.contract.version import since
from cloudsim.model.codes import Code
from cloudsim.model.requests import Kind, Spread

#: The version of the contract in which a lease may be spread over nodes. In a federation that speaks an
#: earlier one an owner places no gang, because its journal could not say where the gang is.
GANGS_SINCE = 4


class LeaseState(Code):
    """The state of a lease. It ends exactly once, in one of the four states that are not open.

    A running lease that was given notice stays ``running`` and has an ``evict_at_s``.
    """

    def __init__(self, _code: str, is_open: bool = False):
        #: True until the lease has ended.
        self.is_open = is_open

    # An on-demand lease that has its node, and starts when the instances under notice there have left.
    BOOKED = "booked", True
    RESERVED = "reserved", True  # room is held for it until the broker confirms or releases it
    RUNNING = "running", True
    COMPLETED = "completed"  # it reached its end
    EVICTED = "evicted"  # its cloud took the room back
    CANCELLED = "cancelled"  # its holder gave it back
    FAILED = "failed"  # its cloud could not run it


class Lease(Message):
    """The promise about an instance."""

    model_config = ConfigDict(json_schema_extra=describe_fields)

    id: Id
    """The id of the attempt that obtained it, ``<request>.<attempt>``."""
    request: Id
    cloud: CloudId
    origin: CloudId
    kind: Kind
    cores: Cores
    node: int
    starts_at_s: float
    ends_at_s: float | None
    """Its end; null: it runs until it is stopped."""
    promised_sla: float | None
    """The SLA that is promised from ``promised_at_s`` to ``ends_at_s``; earlier promises are in earlier
    events."""
    eviction_probability: float | None
    """The estimated risk of eviction in that time."""
    table_version: str | None
    """The quantile table that the estimate is from."""
    fence: int
    """The epoch of the owner that granted it."""
    number: int
    """Its position in its cloud's order of admission."""
    state: LeaseState
    ended_at_s: float | None = None
    cause: str | None = None
    free_slots: int | None = None
    """The number of free slots under which it was admitted."""
    promised_at_s: float | None = None
    """The time of its latest extension; null: it was promised when it started."""
    extensions: int = 0
    renewal_s: float | None = None
    """The length of a renewal, for a lease without a lifetime: it is renewed while its SLA can be kept."""
    warned_at_s: float | None = None
    """The time of the latest renewal that was refused; null once it is extended again."""
    evict_at_s: float | None = None
    """The latest time at which it leaves, once it was given notice."""
    starts_by_s: float | None = None
    """The latest start of an on-demand instance that waits, or had to wait, for room.

    While it is booked, ``starts_at_s`` and ``ends_at_s`` are those of a start at the time of booking.
    """
    amounts: dict[str, int] = Field(default_factory=dict)
    """The amounts of resources beside cores."""
    labels: dict[str, str] = Field(default_factory=dict)
    group: str | None = None
    spread: Spread | None = None
    pool: int | None = since(3)
    """The spot pool from which it was sold."""
    renewed_at_s: float | None = since(3)
    """The time of its latest extension, in clouds where an extended lease counts as the newest."""
    parts: tuple[tuple[int, int], ...] = since(GANGS_SINCE, ())
    """The nodes of an on-demand lease that is spread over nodes (a gang), each with its cores there, ``node``
    first; empty for a lease on one node."""
    wanted_until_s: float | None = since(4)
    """The end that a renewable request wants; it is promised until ``ends_at_s``, and renewed before that."""
    launch: Launch | None = since(4)
    """What its holder lets it run, without the secrets."""


def format_attempt_id(request: str, number: int) -> str:
    """Return the id of a request's attempt, which becomes the id of its lease."""
    return f"{request}.{number}"


def parse_attempt_id(attempt: str) -> tuple[str, str]:
    """Return the request of an attempt, and the attempt's number as text."""
    request, _, number = attempt.rpartition(".")
    return request, number
