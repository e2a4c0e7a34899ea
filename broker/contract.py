"""Everything that crosses a process boundary, defined once: frozen, versioned, JSON only.

Three groups: what a user sends (``SpotRequest``, ``OnDemandRequest``), what the broker tells an owner
(``Command``) and hears back (``Reply``), and what an owner makes known (``Event`` in its journal,
``Advert``, ``CloudInfo``).

Times named ``*_s`` are seconds of the cloud's own time; timestamps (``at``) are RFC 3339 in UTC.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

from cloudsim.requests import Kind, Reason

VERSION = 1

#: Ids travel in Redis keys, URLs and file names: no separators, no white space, bounded.
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/-]*$", max_length=128)]
CloudId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)]
Cores = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
#: At most 100 years; longer ones are typing errors.
Seconds = Annotated[float, Field(ge=0, le=3_200_000_000, allow_inf_nan=False)]
#: Lifetime of an instance that its user will not stop by hand.
LivingSeconds = Annotated[float, Field(gt=0, le=3_200_000_000, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Message(BaseModel):
    """Base of all messages: values that say so when something is misspelt."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# -- what a user sends ---------------------------------------------------------------------------------------


class SpotRequest(Message):
    """A federated request for one spot instance.

    ``sla`` is the largest acceptable probability of eviction before ``lifetime_s``: 0 only when the
    estimated risk is zero, null or 1 for no guarantee. ``at_s`` is the time of the federation and belongs
    to federations that run in trace time; only there may a lifetime be 0. ``targets`` limits the clouds
    that may be asked (default: all but the origin).
    """

    id: Id | None = None
    origin: CloudId = "user"
    cores: Cores
    lifetime_s: Seconds
    sla: Probability | None = None
    targets: tuple[CloudId, ...] | None = None
    at_s: Seconds | None = None


class OnDemandRequest(Message):
    """A request of a cloud's own users. Without ``lifetime_s`` it runs until it is stopped."""

    id: Id | None = None
    cores: Cores
    lifetime_s: LivingSeconds | None = None


# -- what comes back -----------------------------------------------------------------------------------------


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
    granted it.
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


class QuoteView(Message):
    """A quote, see ``cloudsim.requests.Quote``."""

    answer: Literal["quote"] = "quote"
    cloud: CloudId
    cores: Cores
    free_slots: int
    eviction_probability: float | None
    survives_s: float | None
    table_version: str | None
    table_made_at_s: float | None
    cloud_time_s: float


class CounterOffers(Message):
    """What would be accepted instead: the longest lifetime at this SLA, the SLA at this lifetime."""

    lifetime_s: float | None = None
    sla: float | None = None


class RefusalView(Message):
    """A refusal, see ``cloudsim.requests.Refusal``."""

    answer: Literal["refusal"] = "refusal"
    cloud: CloudId
    reason: Reason
    eviction_would_help: bool = False
    free_slots: int | None = None
    counter_offers: CounterOffers = CounterOffers()
    table_version: str | None = None
    table_made_at_s: float | None = None
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
    """Quote only; no side effects."""

    kind: Literal["quote"] = "quote"
    request: Id
    origin: CloudId
    cores: Cores
    lifetime_s: Seconds
    sla: Probability | None


class Reserve(_Command):
    """Admit and hold until confirmed, released, or the reservation expires. ``attempt`` becomes the
    lease's id."""

    kind: Literal["reserve"] = "reserve"
    attempt: Id
    request: Id
    origin: CloudId
    cores: Cores
    lifetime_s: Seconds
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


Command = Annotated[
    Ask | Reserve | Confirm | Release | Cancel | StartOnDemand | StopOnDemand | Overflow | Tick | Finish,
    Field(discriminator="kind"),
]
commands: TypeAdapter[list[Command]] = TypeAdapter(list[Command])  # an inbox entry carries a list
replies: TypeAdapter[list[Reply]] = TypeAdapter(list[Reply])  # so does an entry of a reply stream


# -- what an owner makes known -------------------------------------------------------------------------------


class EventKind(StrEnum):
    """What a journal entry says. The public ones are published; the others are the owner's own
    book-keeping."""

    ADMITTED = "admitted"
    EVICTED = "evicted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    OPENED = "opened"  # a new epoch: another owner process took over
    RESERVED = "reserved"
    RELEASED = "released"  # the broker decided against it, or nobody confirmed in time
    DECLINED = "declined"  # a reservation was refused; kept so that the same command gets the same answer
    TURNED_AWAY = "turned_away"  # an own on-demand request was refused
    TABLE = "table"  # a new quantile table is in use
    OVERFLOW = "overflow"  # where an own request stands that was offered to the federation


PUBLIC_KINDS = frozenset(
    {EventKind.ADMITTED, EventKind.EVICTED, EventKind.COMPLETED, EventKind.CANCELLED, EventKind.FAILED}
)


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
    attempt: str | None = None  # released, declined
    refusal: RefusalView | None = None  # declined, turned_away
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


class Advert(Message):
    """What a cloud says of itself, refreshed with every commit. ``free_slots`` is keyed by size in cores."""

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


# -- Monte-Carlo ---------------------------------------------------------------------------------------------


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
