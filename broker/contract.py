"""Everything that crosses a process boundary, defined once: frozen, versioned, JSON only.

Three groups: what a user sends (``SpotRequest`` and the others of ``broker.asked``), what the broker tells an
owner (``Command``) and hears back (``Reply`` and the others of ``broker.answers``), and what an owner makes
known (``Event`` in its journal, ``Advert``, ``CloudInfo``).

A field that a later version adds is declared with ``since``, see ``broker.versions``.
Times named ``*_s`` are seconds of the cloud's own time; timestamps (``at``) are RFC 3339 in UTC.
"""

# ruff: noqa: PLC0414  (what a user sends and an owner answers is given on)
from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from broker.answers import ENDS as ENDS
from broker.answers import Answer as Answer
from broker.answers import CounterOffers as CounterOffers
from broker.answers import Done as Done
from broker.answers import DrainReport as DrainReport
from broker.answers import Lease as Lease
from broker.answers import LeaseGranted as LeaseGranted
from broker.answers import LeasesGranted as LeasesGranted
from broker.answers import LeaseState as LeaseState
from broker.answers import Leaving as Leaving
from broker.answers import QuoteView as QuoteView
from broker.answers import RefusalView as RefusalView
from broker.answers import Reply as Reply
from broker.answers import SizeOffer as SizeOffer
from broker.answers import Staying as Staying
from broker.answers import replies as replies
from broker.asked import CloudId as CloudId
from broker.asked import Cores as Cores
from broker.asked import ExtensionRequest as ExtensionRequest
from broker.asked import Id as Id
from broker.asked import Labels as Labels
from broker.asked import LivingSeconds as LivingSeconds
from broker.asked import Message as Message
from broker.asked import Name as Name
from broker.asked import Needs as Needs
from broker.asked import OnDemandRequest as OnDemandRequest
from broker.asked import OnDemandRequests as OnDemandRequests
from broker.asked import Probability as Probability
from broker.asked import QuoteRequest as QuoteRequest
from broker.asked import Resources as Resources
from broker.asked import Seconds as Seconds
from broker.asked import SpotNeeds as SpotNeeds
from broker.asked import SpotRequest as SpotRequest
from broker.known import Advert as Advert
from broker.known import CloudInfo as CloudInfo
from broker.known import DisclosureLevel as DisclosureLevel
from broker.known import NodeKind as NodeKind
from broker.known import Room as Room
from broker.tracing import RequestId
from broker.versions import VERSION as VERSION
from broker.versions import since as since

#: Numbers of nodes, from 0 in the order of the cloud's nodes.
NodeNumber = Annotated[int, Field(ge=0, lt=100_000)]
Nodes = Annotated[tuple[NodeNumber, ...], Field(min_length=1, max_length=100_000)]


# -- what the broker tells an owner --------------------------------------------------------------------------


class _Command(Message):
    """``id``: handling the same id twice gives the same answer. ``reply_to``: name of the asker's reply
    stream."""

    version: int = VERSION
    id: Annotated[str, StringConstraints(min_length=1, max_length=400)]
    reply_to: Annotated[str, StringConstraints(max_length=200)] | None = None
    at_s: Seconds | None = None  # trace time; None in wall time
    trace: RequestId | None = since(3)  # of the API call behind it and those that come with it, for logs


class Ask(_Command, SpotNeeds):
    """Quote only; no side effects. ``other_sizes``: tell what would be promised of the other sizes too."""

    kind: Literal["quote"] = "quote"
    request: Id
    origin: CloudId
    cores: Cores
    lifetime_s: Seconds | None
    sla: Probability | None
    other_sizes: bool = False


class Reserve(_Command, SpotNeeds):
    """Admit and hold until confirmed, released, or the reservation expires. ``attempt`` becomes the
    lease's id."""

    kind: Literal["reserve"] = "reserve"
    attempt: Id
    request: Id
    origin: CloudId
    cores: Cores
    lifetime_s: Seconds | None
    sla: Probability | None


class Confirm(_Command):
    """The broker decided for this attempt: the lease runs."""

    kind: Literal["confirm"] = "confirm"
    attempt: Id


class Release(_Command):
    """The broker decided against this attempt. Leaves a tombstone if it overtakes the reservation."""

    kind: Literal["release"] = "release"
    attempt: Id


class Cancel(_Command):
    """The lease's holder ends it."""

    kind: Literal["cancel"] = "cancel"
    lease: Id
    by: str


class Extend(_Command):
    """The lease's holder wants a later end. ``extension`` names the wish: the same one, the same answer.
    ``sla`` None: the lease's own."""

    kind: Literal["extend"] = "extend"
    lease: Id
    extension: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    until_s: Seconds
    sla: Probability | None = None


class Acknowledge(_Command):
    """The holder of a lease that was given notice is done with it: it need not last until then."""

    kind: Literal["acknowledge"] = "acknowledge"
    lease: Id
    by: str


class Gone(_Command):
    """The instance of a lease is not there any more: the cloud took it back (``evicted``), or could not run
    it (``failed``). ``why``: in the cloud's words."""

    kind: Literal["gone"] = "gone"
    lease: Id
    how: Literal["evicted", "failed"]
    by: str
    why: Annotated[str, StringConstraints(max_length=500)]


class Migrate(_Command):
    """What other clouds would promise instead of a lease that is not renewed, best first."""

    kind: Literal["migrate"] = "migrate"
    lease: Id
    offers: tuple[QuoteView, ...]


class StartOnDemand(_Command, Needs):
    """A request of the cloud's own users. ``origin``: of another member, to whom the cloud sells."""

    kind: Literal["start_on_demand"] = "start_on_demand"
    instance: Id
    cores: Cores
    lifetime_s: LivingSeconds | None
    origin: CloudId | None = since(3)


class StartAll(_Command):
    """Requests of the cloud's own users, each with an id: all of them are placed, or none is."""

    kind: Literal["start_all"] = "start_all"
    requests: tuple[OnDemandRequest, ...]
    origin: CloudId | None = since(3)


class StopOnDemand(_Command):
    """A user of the cloud stops an on-demand instance. ``origin``: it must be of this one; None: whosever."""

    kind: Literal["stop_on_demand"] = "stop_on_demand"
    instance: Id
    origin: CloudId | None = since(3)


class Show(_Command):
    """How does an on-demand instance stand? No side effects. ``origin``: as when it is stopped."""

    kind: Literal["show"] = "show"
    instance: Id
    origin: CloudId | None = since(3)


class Drain(_Command):
    """Close nodes (None: all) for new instances and make their spot instances leave. ``dry_run``: only tell
    what would happen."""

    kind: Literal["drain"] = "drain"
    nodes: Nodes | None
    by: str
    dry_run: bool = False


class Reopen(_Command):
    """Nodes (None: all) take new instances again. Notices that were given stand."""

    kind: Literal["reopen"] = "reopen"
    nodes: Nodes | None
    by: str


class Overflow(_Command):
    """What became of an on-demand request that this cloud had to offer to the federation."""

    kind: Literal["overflow"] = "overflow"
    instance: Id
    outcome: Literal["placed", "refused", "evicted", "completed"]
    attempt: int | None = None  # which offer is meant; None: the latest
    lease: Id | None = None
    cloud: CloudId | None = None


class Tick(_Command):
    """The owner's own heartbeat, sent through its inbox: only who reads its inbox is alive."""

    kind: Literal["tick"] = "tick"


class Finish(_Command):
    """Trace time: let everything happen until the last instance has ended; then answer Done."""

    kind: Literal["finish"] = "finish"


_OfLease = Ask | Reserve | Confirm | Release | Cancel | Extend | Acknowledge | Gone | Migrate
_OfCloud = StartOnDemand | StartAll | StopOnDemand | Show | Drain | Reopen | Overflow | Tick | Finish
Command = Annotated[_OfLease | _OfCloud, Field(discriminator="kind")]
commands: TypeAdapter[list[Command]] = TypeAdapter(list[Command])  # an inbox entry carries a list


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


class Batch(Message):
    """A share of the samples of one flavour that a table needs; a Monte-Carlo worker makes it.

    ``chunks``: the first so many chunks of the history of that epoch. ``refresh`` names the table they are
    for. ``amounts``: of the flavour, beside ``cores``. ``node_resources``, ``node_labels``: what the nodes
    have beside cores, in their order; with ``lineup`` and ``grace_s`` they are the cloud's own.
    """

    version: int = VERSION
    cloud: CloudId
    epoch: int
    refresh: str
    chunks: Annotated[int, Field(ge=1)]
    cores: Cores
    share: Annotated[int, Field(ge=0)]
    shares: Annotated[int, Field(ge=1)]
    node_cores: tuple[Cores, ...]
    seed: int
    births: Annotated[int, Field(ge=1)]
    amounts: dict[str, int] = Field(default_factory=dict)
    node_resources: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    node_labels: tuple[dict[str, str], ...] = ()
    lineup: str = "youngest-job-first"
    grace_s: float = 0.0

    @property
    def result(self) -> str:
        """Names the flavour's part of the table, for the key of the samples."""
        flavour = "".join(f":{name}={self.amounts[name]}" for name in sorted(self.amounts))
        return self.refresh + flavour
