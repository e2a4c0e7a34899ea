"""Events: the entries of a cloud's journal, of which the public ones are published."""

from __future__ import annotations

from typing import Literal

from broker.contract.fields import CloudId, Message
from broker.contract.leases import Lease
from broker.contract.replies import OverflowState, QuoteView, RefusalView
from broker.contract.requests import OnDemandRequest
from broker.contract.version import since, written_version
from cloudsim.model.codes import Added, Code

#: How a kind of event is shown: the dashboard's badges have these names.
Tone = Literal["good", "bad", "warn", "busy", "idle", "none"]


class EventKind(Code):
    """The kind of a journal entry. Entries that are not public are the owner's own book-keeping."""

    def __init__(self, _code: str, text: str = "", tone: Tone | None = None, ends_lease: bool = False):
        #: The event in words. The reference reads it from here.
        self.text = text
        #: How people are shown a public event. None: events of this kind are not public.
        self.tone = tone
        #: True if a lease that was confirmed ends with this event.
        self.ends_lease = ends_lease

    ADMITTED = "admitted", "the lease was confirmed, and runs: its first event", "busy"
    EVICTED = "evicted", "its cloud took the room back", "bad", True
    COMPLETED = "completed", "the lease reached its end", "good", True
    CANCELLED = "cancelled", "its holder gave it back", "none", True
    FAILED = "failed", "its cloud could not run it", "bad", True
    EXTENDED = "extended", "the lease was promised a later end", "good"
    WARNED = "warned", "the lease is not renewed; unless a later try succeeds, it ends as planned", "warn"
    OFFERED = "offered", "what other clouds would promise instead", "idle"
    NOTICED = "noticed", "the lease must leave by its `evict_at_s`", "warn"
    OPENED = "opened", "a new epoch: another owner process took over"
    RESERVED = "reserved", "room is held for an attempt until the broker decides"
    RELEASED = (
        "released",
        "a reservation ended before it was confirmed: the broker decided against it, or it lapsed",
    )
    DECLINED = "declined", "a reservation was refused; kept so that the same command gets the same answer"
    TURNED_AWAY = "turned_away", "an own on-demand request was refused"
    BOOKED = "booked", "an own on-demand request has its node, and waits for its victims to leave"
    WITHDRAWN = "withdrawn", "its user gave a booked request up"
    CORDONED = "cordoned", "nodes were closed for new instances, or opened again"
    TABLE = "table", "a new quantile table is in use"
    OVERFLOW = "overflow", "the state of an own request that was offered to the federation changed"
    CONSIDERED = (
        Added("considered", 4, "table"),
        "a request was weighed in population mode, which learns from it",
    )

    @property
    def is_public(self) -> bool:
        """True if events of this kind are published where they concern a spot lease."""
        return self.tone is not None


class Event(Message):
    """A journal entry.

    Public events of spot leases carry ``sequence``, which counts them without gaps per cloud. The first event
    of a lease is its admission, the last one its end. A reservation is public once it is confirmed. If it had
    lapsed before (``released`` without an ``attempt``), its admission and its end are published then.
    """

    version: int = written_version()
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
    considered: tuple[float, float, float] | None = since(4)  # considered: SLA, risk, lifetime in seconds
    waits: CloudId | None = since(3)  # declined, where shares are fair: the origin that waits for room
