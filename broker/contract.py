"""Everything that crosses a process boundary, defined once: frozen, versioned, JSON only.

Three groups: what a user sends (``SpotRequest`` and the others of ``broker.asked``), what the broker tells an
owner (``Command``) and hears back (``Reply``), and what an owner makes known (``Event`` in its journal,
``Advert``, ``CloudInfo``).

Times named ``*_s`` are seconds of the cloud's own time; timestamps (``at``) are RFC 3339 in UTC.
"""

# ruff: noqa: PLC0414  (what a user sends is given on)
from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from broker.asked import CloudId as CloudId
from broker.asked import Cores as Cores
from broker.asked import ExtensionRequest as ExtensionRequest
from broker.asked import Id as Id
from broker.asked import LivingSeconds as LivingSeconds
from broker.asked import Message as Message
from broker.asked import OnDemandRequest as OnDemandRequest
from broker.asked import Probability as Probability
from broker.asked import QuoteRequest as QuoteRequest
from broker.asked import Seconds as Seconds
from broker.asked import SpotRequest as SpotRequest
from cloudsim.requests import Kind, Mode, Reason

VERSION = 1


class LeaseState(StrEnum):
    """Where a lease is in its life. The last four are ends, and there is exactly one."""

    RESERVED = "reserved"
    RUNNING = "running"
    COMPLETED = "completed"
    EVICTED = "evicted"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Lease(Message):
    """The promise about an instance. ``id`` is that of the attempt that got it: ``<request>.<attempt>``.

    ``number`` is the instance's order of admission in its cloud, ``fence`` the epoch of the owner that
    granted it, ``free_slots`` the condition in which it was admitted. Of an extended lease ``promised_sla``,
    ``eviction_probability`` and ``table_version`` are those of the time from ``promised_at_s`` (null: since
    it started) to ``ends_at_s``; what was promised before is in the events before. ``renewal_s``: it has no
    lifetime, and is renewed for so long at a time until its holder was warned, at ``warned_at_s``.
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


class SizeOffer(Message):
    """The same lifetime and SLA at another size, see ``cloudsim.offers.SizeOffer``."""

    cores: int
    admitted: bool
    free_slots: int | None
    eviction_probability: float | None
    survives_s: float | None


class QuoteView(Message):
    """A quote, see ``cloudsim.requests.Quote``. ``other_sizes`` is told to those who only ask."""

    answer: Literal["quote"] = "quote"
    cloud: CloudId
    cores: Cores
    free_slots: int
    eviction_probability: float | None
    survives_s: float | None
    table_version: str | None
    table_made_at_s: float | None
    cloud_time_s: float
    table_age_s: float | None = None
    other_sizes: tuple[SizeOffer, ...] = ()
    admission: Mode = Mode.STRICT  # to whom the SLA is a promise


class CounterOffers(Message):
    """What would be accepted instead: the longest lifetime at this SLA, the SLA at this lifetime, the largest
    size at both."""

    lifetime_s: float | None = None
    sla: float | None = None
    cores: int | None = None


class RefusalView(Message):
    """A refusal, see ``cloudsim.requests.Refusal``. ``other_sizes`` is told to those who only ask."""

    answer: Literal["refusal"] = "refusal"
    cloud: CloudId
    reason: Reason
    cores: int | None = None
    eviction_would_help: bool = False
    free_slots: int | None = None
    counter_offers: CounterOffers = CounterOffers()
    table_version: str | None = None
    table_made_at_s: float | None = None
    table_age_s: float | None = None
    other_sizes: tuple[SizeOffer, ...] = ()
    detail: str | None = None  # what the owner adds for people


class LeaseGranted(Message):
    """A reservation, an on-demand instance, or what became of a lease that somebody asked about."""

    answer: Literal["lease"] = "lease"
    lease: Lease


class Done(Message):
    """The command was carried out, or had been before; there is nothing more to say. ``found`` False: no
    such lease."""

    answer: Literal["done"] = "done"
    found: bool = True


Answer = Annotated[QuoteView | RefusalView | LeaseGranted | Done, Field(discriminator="answer")]


class Reply(Message):
    """An owner's answer to one command, appended to the asking process's reply stream."""

    command: str
    answer: Answer


# -- what the broker tells an owner --------------------------------------------------------------------------


class _Command(Message):
    """``id``: handling the same id twice gives the same answer. ``reply_to``: name of the asker's reply
    stream."""

    version: int = VERSION
    id: Annotated[str, StringConstraints(min_length=1, max_length=400)]
    reply_to: Annotated[str, StringConstraints(max_length=200)] | None = None
    at_s: Seconds | None = None  # trace time; None in wall time


class Ask(_Command):
    """Quote only; no side effects. ``other_sizes``: tell what would be promised of the other sizes too."""

    kind: Literal["quote"] = "quote"
    request: Id
    origin: CloudId
    cores: Cores
    lifetime_s: Seconds | None
    sla: Probability | None
    other_sizes: bool = False


class Reserve(_Command):
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


class Migrate(_Command):
    """What other clouds would promise instead of a lease that is not renewed, best first."""

    kind: Literal["migrate"] = "migrate"
    lease: Id
    offers: tuple[QuoteView, ...]


class StartOnDemand(_Command):
    """A request of the cloud's own users."""

    kind: Literal["start_on_demand"] = "start_on_demand"
    instance: Id
    cores: Cores
    lifetime_s: LivingSeconds | None


class StopOnDemand(_Command):
    """A user of the cloud stops an on-demand instance."""

    kind: Literal["stop_on_demand"] = "stop_on_demand"
    instance: Id


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


_OfLease = Ask | Reserve | Confirm | Release | Cancel | Extend | Migrate
_OfCloud = StartOnDemand | StopOnDemand | Overflow | Tick | Finish
Command = Annotated[_OfLease | _OfCloud, Field(discriminator="kind")]
commands: TypeAdapter[list[Command]] = TypeAdapter(list[Command])  # an inbox entry carries a list
replies: TypeAdapter[list[Reply]] = TypeAdapter(list[Reply])  # so does an entry of a reply stream


# -- what an owner makes known -------------------------------------------------------------------------------


_PUBLIC = ("admitted", "extended", "warned", "offered", "evicted", "completed", "cancelled", "failed")


class EventKind(StrEnum):
    """What a journal entry says. The public ones are published; the others are the owner's own
    book-keeping."""

    ADMITTED = "admitted"
    EVICTED = "evicted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    EXTENDED = "extended"  # the lease was promised a later end
    WARNED = "warned"  # the lease cannot be renewed: it ends at its end
    OFFERED = "offered"  # what other clouds would promise instead
    OPENED = "opened"  # a new epoch: another owner process took over
    RESERVED = "reserved"
    RELEASED = "released"  # the broker decided against it, or nobody confirmed in time
    DECLINED = "declined"  # a reservation was refused; kept so that the same command gets the same answer
    TURNED_AWAY = "turned_away"  # an own on-demand request was refused
    TABLE = "table"  # a new quantile table is in use
    OVERFLOW = "overflow"  # where an own request stands that was offered to the federation


PUBLIC_KINDS = frozenset(map(EventKind, _PUBLIC))


class OverflowState(Message):
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
    cloud."""

    version: int = VERSION
    cloud: CloudId
    kind: EventKind
    at_s: float
    at: str
    sequence: int | None = None
    lease: Lease | None = None
    cause: str | None = None
    attempt: str | None = None  # released, declined; extended: which wish it fulfils
    refusal: RefusalView | None = None  # declined, turned_away, warned
    offers: tuple[QuoteView, ...] = ()  # offered
    request: OnDemandRequest | None = None  # turned_away
    overflow: OverflowState | None = None  # overflow
    table_version: str | None = None
    table_made_at_s: float | None = None


class CloudInfo(Message):
    """What a member is; written when its owner opens. ``order`` breaks ties in routing."""

    id: CloudId
    order: int
    nodes: str
    cores: int
    largest_node: int
    time: Literal["wall", "trace"]
    overflow: bool = False


class Room(Message):
    """Free cores, and free slots keyed by size in cores."""

    free_cores: int
    free_slots: dict[int, int]


class Advert(Message):
    """What a cloud says of itself, refreshed with every commit. ``free_slots`` is keyed by size in cores.

    ``admission``: to whom an SLA is a promise here. ``promised_room``: as a request with a promise sees it,
    which may take the cores of spot instances without one; None where none of these run.
    """

    cloud: CloudId
    at: str
    at_s: float
    epoch: int
    free_cores: int
    on_demand_cores: int
    spot_cores: int
    spot_leases: int
    free_slots: dict[int, int]
    table_version: str | None
    table_made_at_s: float | None
    evicted: int
    admitted: int
    promised_room: Room | None = None
    admission: Mode = Mode.STRICT

    def room(self, *, promised: bool) -> Room:
        """The room for a request with or without a promise."""
        if promised and self.promised_room is not None:
            return self.promised_room
        return Room(free_cores=self.free_cores, free_slots=self.free_slots)


class Batch(Message):
    """A share of the samples of one size that a table needs; a Monte-Carlo worker makes it.

    ``chunks``: the first so many chunks of the history of that epoch. ``refresh`` names the table they are
    for.
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
