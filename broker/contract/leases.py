"""What an owner answers: leases, quotes, refusals, reports. ``broker.contract`` gives all of it on."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from broker.contract.fields import CloudId, Cores, Id, Message
from broker.contract.version import since
from cloudsim.model.requests import Kind, Spread


class LeaseState(StrEnum):
    """Where a lease is in its life. The last four are ends, and there is exactly one. A running one whose
    ``evict_at_s`` is set was told to leave."""

    BOOKED = "booked"  # on-demand: it has its node, and starts when those have left who were told to
    RESERVED = "reserved"  # room is held for it, until the broker confirms or releases it
    RUNNING = "running"
    COMPLETED = "completed"  # it reached its end
    EVICTED = "evicted"  # its cloud took the room back
    CANCELLED = "cancelled"  # its holder gave it back
    FAILED = "failed"  # its cloud could not run it


#: The ends of a lease.
ENDS = frozenset({LeaseState.COMPLETED, LeaseState.EVICTED, LeaseState.CANCELLED, LeaseState.FAILED})


class Lease(Message):
    """The promise about an instance. ``id`` is that of the attempt that got it: ``<request>.<attempt>``.

    ``number`` is the instance's order of admission in its cloud, ``fence`` the epoch of the owner that
    granted it, ``free_slots`` the condition in which it was admitted. Of an extended lease ``promised_sla``,
    ``eviction_probability`` and ``table_version`` are those of the time from ``promised_at_s`` (null: since
    it started) to ``ends_at_s``; what was promised before is in the events before. ``renewal_s``: it has no
    lifetime, and is renewed for so long at a time until its holder was warned, at ``warned_at_s``.
    ``evict_at_s``: it was given notice, and leaves then at the latest. ``starts_by_s``: an on-demand instance
    that waits for room, or had to, starts then at the latest; while it is booked ``starts_at_s`` and
    ``ends_at_s`` are as if it had started when it was booked. ``amounts``: of resources beside cores; with
    ``labels``, ``group`` and ``spread`` as they were asked for. ``pool``: that it was sold from.
    ``renewed_at_s``: where extended leases count as the newest, since when it does.
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
    """The id of an attempt, which becomes that of its lease."""
    return f"{request}.{number}"


def parse_attempt_id(attempt: str) -> tuple[str, str]:
    """Its request and its number."""
    request, _, number = attempt.rpartition(".")
    return request, number
