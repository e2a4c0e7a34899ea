"""What an owner answers: leases, quotes, refusals, reports. ``broker.contract`` gives all of it on."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from broker.asked import CloudId, Cores, Id, Message
from broker.versions import since
from cloudsim.requests import Kind, Mode, Reason, Spread


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


class SizeOffer(Message):
    """The same lifetime and SLA at another size, see ``cloudsim.offers.SizeOffer``."""

    cores: int
    admitted: bool
    free_slots: int | None
    eviction_probability: float | None
    survives_s: float | None


def _is_none(value: object) -> bool:
    return value is None


class BrokenPromise(Message):
    """More of a cloud's spot instances were evicted than an SLA allows: it is asked last at this SLA.

    Of ``admitted`` promises ``evicted`` were broken, so that its true share of evictions is ``at_least`` that
    (the lower bound of ``broker.ledger.broken_promise``). ``detail``: the same for people.
    """

    sla: float
    evicted: int
    admitted: int
    at_least: float
    detail: str


class QuoteView(Message):
    """A quote, see ``cloudsim.requests.Quote``. ``other_sizes`` is told to those who only ask.
    ``broken_promise``: what the broker knows against promises of this cloud at this SLA; not written where it
    knows nothing."""

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
    pool: int | None = since(3)  # that it would be sold from
    broken_promise: BrokenPromise | None = Field(default=None, exclude_if=_is_none)


class CounterOffers(Message):
    """What would be accepted instead: the longest lifetime at this SLA, the SLA at this lifetime, the largest
    size at both."""

    lifetime_s: float | None = None
    sla: float | None = None
    cores: int | None = None


class RefusalView(Message):
    """A refusal, see ``cloudsim.requests.Refusal``. ``other_sizes`` is told to those who only ask.

    ``removed``: of the cloud's nodes, how many each filter took out of those that were left, in this order;
    "room" stands for the test of room. ``eviction_would_help``: there would be room without spot instances.
    ``broken_promise``: as in a quote.
    """

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
    removed: dict[str, int] = Field(default_factory=dict)
    broken_promise: BrokenPromise | None = Field(default=None, exclude_if=_is_none)


class LeaseGranted(Message):
    """A reservation, an on-demand instance, or what became of a lease that somebody asked about."""

    answer: Literal["lease"] = "lease"
    lease: Lease


class LeasesGranted(Message):
    """On-demand instances that were placed together, in the order of their requests."""

    answer: Literal["leases"] = "leases"
    leases: tuple[Lease, ...]


class Leaving(Message):
    """A spot instance that leaves a drained node at ``evict_at_s`` at the latest; ``at_s`` of the report: at
    once."""

    lease: Id
    origin: CloudId
    cores: Cores
    node: int
    ends_at_s: float
    evict_at_s: float


class Staying(Message):
    """An on-demand instance on a drained node, or booked there: it stays until its user stops it."""

    instance: Id
    cores: Cores
    node: int
    ends_at_s: float | None


class DrainReport(Message):
    """What draining nodes does (``dry_run``: would do). ``leaving``: youngest first, those included who had
    been told before. ``closed_nodes``: all that take nobody new from then on."""

    answer: Literal["drain"] = "drain"
    cloud: CloudId
    dry_run: bool
    at_s: float
    closed_nodes: tuple[int, ...]
    leaving: tuple[Leaving, ...]
    staying: tuple[Staying, ...]


class Done(Message):
    """The command was carried out, or had been before; there is nothing more to say. ``found`` False: no
    such lease."""

    answer: Literal["done"] = "done"
    found: bool = True


Answer = Annotated[
    QuoteView | RefusalView | LeaseGranted | LeasesGranted | DrainReport | Done, Field(discriminator="answer")
]


class Reply(Message):
    """An owner's answer to one command, appended to the asking process's reply stream."""

    command: str
    answer: Answer


replies: TypeAdapter[list[Reply]] = TypeAdapter(list[Reply])  # an entry of a reply stream carries a list
