"""Everything that crosses a process boundary, defined once: frozen, versioned, JSON only.

Three groups: what a user sends (``SpotRequest`` and the others of ``broker.asked``), what the broker tells an
owner (``Command``) and hears back (``Reply`` and the others of ``broker.answers``), and what an owner makes
known (``Event`` in its journal, ``Advert``, ``CloudInfo``).

A field that a later version adds is declared with ``since``, see ``broker.versions``.
Times named ``*_s`` are seconds of the cloud's own time; timestamps (``at``) are RFC 3339 in UTC.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from broker.contract.fields import CloudId, Cores, Id, Message
from broker.contract.leases import Lease
from broker.contract.replies import QuoteView, RefusalView
from broker.contract.requests import Needs, OnDemandRequest
from broker.contract.version import VERSION, since

# -- what an owner makes known -------------------------------------------------------------------------------


_NEWS = ("admitted", "extended", "warned", "offered", "noticed")

_PUBLIC = (*_NEWS, "evicted", "completed", "cancelled", "failed")


class EventKind(StrEnum):
    """What a journal entry says. The public ones are published; the others are the owner's own
    book-keeping."""

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
    RELEASED = "released"  # the broker decided against it, or it lapsed: it ended before it was confirmed
    DECLINED = "declined"  # a reservation was refused; kept so that the same command gets the same answer
    TURNED_AWAY = "turned_away"  # an own on-demand request was refused
    BOOKED = "booked"  # an own on-demand request has its node, and waits for those who leave it
    WITHDRAWN = "withdrawn"  # its user does not want it any more
    CORDONED = "cordoned"  # nodes take nobody new, or do again
    TABLE = "table"  # a new quantile table is in use
    OVERFLOW = "overflow"  # where an own request stands that was offered to the federation


PUBLIC_KINDS = frozenset(map(EventKind, _PUBLIC))


class OverflowState(Needs):
    """Where an own on-demand request stands that its cloud turned away and offered to the federation.

    ``attempt`` counts the offers. ``remaining_s`` is the lifetime that is still wanted, ``ends_at_s`` (the
    own cloud's time) when the present lease fulfils it. ``avoid`` is the cloud that has just evicted it.
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
    """A journal entry. Public events of spot leases carry ``sequence``, which counts them without gaps per
    cloud; the first of a lease is its admission, the last one its end. What befalls a reservation is public
    once that is confirmed: where it lapsed before (``released``, without an ``attempt``), both are told then.
    """

    version: int = VERSION
    cloud: CloudId
    kind: EventKind
    at_s: float
    at: str
    sequence: int | None = None
    lease: Lease | None = None
    cause: str | None = None
    attempt: str | None = None  # released, declined; extended: which wish it fulfils; cordoned: which command
    refusal: RefusalView | None = None  # declined, turned_away, warned
    offers: tuple[QuoteView, ...] = ()  # offered
    request: OnDemandRequest | None = None  # turned_away
    overflow: OverflowState | None = None  # overflow
    nodes: tuple[int, ...] | None = None  # cordoned; None: all
    closed: bool | None = None  # cordoned
    table_version: str | None = None
    table_made_at_s: float | None = None
    waits: CloudId | None = since(3)  # declined: the origin that waits for room, where shares are fair
