"""What an owner answers: leases, quotes, refusals, reports. ``broker.contract`` gives all of it on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from broker.contract.fields import CloudId, Cores, Id, Message
from broker.contract.leases import Lease
from broker.contract.version import since
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Mode


class SizeOffer(Message):
    """The same lifetime and SLA at another size, see ``cloudsim.admission.counter_offers.AdmissibleSize``."""

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
    (the lower bound of ``broker.ledger.ledger.broken_promise``). ``detail``: the same for people.
    """

    sla: float
    evicted: int
    admitted: int
    at_least: float
    detail: str


class QuoteView(Message):
    """A quote, see ``cloudsim.model.instances.Quote``. ``other_sizes`` is told to those who only ask.
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
    """A refusal, see ``cloudsim.model.refusals.Refusal``. ``other_sizes`` is told to those who only ask.

    ``removed``: of the cloud's nodes, how many each filter took out of those that were left, in this order;
    "room" stands for the test of room. ``eviction_would_help``: there would be room without spot instances.
    ``broken_promise``: as in a quote.
    """

    answer: Literal["refusal"] = "refusal"
    cloud: CloudId
    reason: RefusalReason
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
