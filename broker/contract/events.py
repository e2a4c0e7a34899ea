"""Events: the entries of a cloud's journal, of which the public ones are published."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from broker.contract.fields import CloudId, Cores, Id, Message
from broker.contract.leases import Lease
from broker.contract.replies import QuoteView, RefusalView
from broker.contract.requests import Needs, OnDemandRequest
from broker.contract.version import VERSION, since


class EventKind(StrEnum):
    """The kind of a journal entry. Entries that are not public are the owner's own book-keeping."""

    ADMITTED = "admitted"  # the lease was confirmed, and runs: its first event
    EVICTED = "evicted"  # its cloud took the room back
    COMPLETED = "completed"  # it reached its end
    CANCELLED = "cancelled"  # its holder gave it back
    FAILED = "failed"  # its cloud could not run it
    EXTENDED = "extended"  # the lease was promised a later end
    WARNED = "warned"  # the lease cannot be renewed: it ends at its end
    OFFERED = "offered"  # what other clouds would promise instead
    NOTICED = "noticed"  # the lease must leave at its evict_at_s
    OPENED = "opened"  # a new epoch: another owner process took over
    RESERVED = "reserved"  # room is held for an attempt until the broker decides
    RELEASED = (
        "released"  # the reservation ended before it was confirmed: the broker released it, or it lapsed
    )
    DECLINED = "declined"  # a reservation was refused; kept so that the same command gets the same answer
    TURNED_AWAY = "turned_away"  # an on-demand request of the cloud's own users was refused
    BOOKED = "booked"  # an on-demand request has its node, and waits for the instances that leave it
    WITHDRAWN = "withdrawn"  # its user gave up a booked instance
    CORDONED = "cordoned"  # nodes were closed to new instances, or opened again
    TABLE = "table"  # a new quantile table is in use
    OVERFLOW = "overflow"  # the state of an own request that was offered to the federation

    @property
    def ends_lease(self) -> bool:
        """True if a lease that was confirmed ends with this event."""
        return self in (EventKind.EVICTED, EventKind.COMPLETED, EventKind.CANCELLED, EventKind.FAILED)

    @property
    def is_public(self) -> bool:
        """True if events of this kind are published where they concern a spot lease."""
        return self.ends_lease or self in (
            EventKind.ADMITTED, EventKind.EXTENDED, EventKind.WARNED, EventKind.OFFERED, EventKind.NOTICED
        )  # fmt: skip


class OverflowState(Needs):
    """The state of an own on-demand request that its cloud turned away and offered to the federation.

    Attributes
    ----------
    attempt:
        The number of the latest offer.
    remaining_s:
        The lifetime that is still wanted, in seconds.
    ends_at_s:
        The time of the own cloud at which the present lease fulfils the request.
    avoid:
        The cloud that has just evicted it.
    """

    instance: Id
    attempt: int
    state: Literal["offered", "placed", "refused", "completed", "stopped"]
    cores: Cores
    remaining_s: float
    ends_at_s: float | None = None
    lease: Id | None = None
    cloud: CloudId | None = None
    avoid: CloudId | None = None


class Event(Message):
    """A journal entry.

    Public events of spot leases carry ``sequence``, which counts them without gaps per cloud. The first event
    of a lease is its admission, the last one its end. A reservation is public once it is confirmed. If it had
    lapsed before (``released`` without an ``attempt``), its admission and its end are published then.
    """

    version: int = VERSION
    cloud: CloudId
    kind: EventKind
    at_s: float
    at: str
    sequence: int | None = None
    lease: Lease | None = None
    cause: str | None = None
    attempt: str | None = (
        None  # released, declined: the attempt; extended: the extension; cordoned: the command
    )
    refusal: RefusalView | None = None  # declined, turned_away, warned
    offers: tuple[QuoteView, ...] = ()  # offered
    request: OnDemandRequest | None = None  # turned_away
    overflow: OverflowState | None = None  # overflow
    nodes: tuple[int, ...] | None = None  # cordoned; None: all
    closed: bool | None = None  # cordoned
    table_version: str | None = None
    table_made_at_s: float | None = None
    waits: CloudId | None = since(3)  # declined, where shares are fair: the origin that waits for room
