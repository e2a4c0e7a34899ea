"""Leases: what a cloud has promised about one instance, and the ids of the attempts that obtained them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from broker.contract.fields import CloudId, Cores, Id, Message
from broker.contract.version import since
from cloudsim.model.requests import Kind, Spread


class LeaseState(StrEnum):
    """The state of a lease. It ends exactly once, in one of the four states that are not open.

    A running lease that was given notice stays ``running`` and has an ``evict_at_s``.
    """

    BOOKED = (
        "booked"  # on-demand: it has its node, and starts when the instances under notice there have left
    )
    RESERVED = "reserved"  # room is held for it until the broker confirms or releases it
    RUNNING = "running"
    COMPLETED = "completed"  # it reached its end
    EVICTED = "evicted"  # its cloud took the room back
    CANCELLED = "cancelled"  # its holder gave it back
    FAILED = "failed"  # its cloud could not run it

    @property
    def is_open(self) -> bool:
        """True until the lease has ended."""
        return self in (LeaseState.BOOKED, LeaseState.RESERVED, LeaseState.RUNNING)


class Lease(Message):
    """The promise about an instance.

    Attributes
    ----------
    id:
        The id of the attempt that obtained it, ``<request>.<attempt>``.
    number:
        The position of the instance in its cloud's order of admission.
    fence:
        The epoch of the owner that granted it.
    free_slots:
        The number of free slots under which it was admitted.
    promised_sla, eviction_probability, table_version:
        What is promised for the time from ``promised_at_s`` (null: its start) to ``ends_at_s``. An extension
        replaces them; earlier promises are in the earlier events.
    renewal_s:
        The length of one renewal of a lease without a lifetime. It is renewed until its holder is warned at
        ``warned_at_s`` that it cannot be.
    evict_at_s:
        The latest time at which an instance under notice leaves.
    starts_by_s:
        The latest start of an on-demand instance that waits, or had to wait, for room. While it is booked,
        ``starts_at_s`` and ``ends_at_s`` are those of a start at the time of booking.
    amounts, labels, group, spread:
        The needs of its request beside cores.
    pool:
        The spot pool from which it was sold.
    renewed_at_s:
        In clouds where an extended lease counts as the newest: the time of its latest extension.
    """

    id: Id
    request: Id
    cloud: CloudId
    origin: CloudId
    kind: Kind
    cores: Cores
    node: int
    starts_at_s: float
    ends_at_s: float | None  # None: until it is stopped
    promised_sla: float | None
    eviction_probability: float | None
    table_version: str | None
    fence: int
    number: int
    state: LeaseState
    ended_at_s: float | None = None
    cause: str | None = None
    free_slots: int | None = None
    promised_at_s: float | None = None
    extensions: int = 0
    renewal_s: float | None = None
    warned_at_s: float | None = None
    evict_at_s: float | None = None
    starts_by_s: float | None = None
    amounts: dict[str, int] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    group: str | None = None
    spread: Spread | None = None
    pool: int | None = since(3)
    renewed_at_s: float | None = since(3)


def format_attempt_id(request: str, number: int) -> str:
    """Return the id of a request's attempt, which becomes the id of its lease."""
    return f"{request}.{number}"


def parse_attempt_id(attempt: str) -> tuple[str, str]:
    """Return the request of an attempt, and the attempt's number as text."""
    request, _, number = attempt.rpartition(".")
    return request, number
