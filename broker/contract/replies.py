"""Replies: what the owner of a cloud answers to commands."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from broker.contract.field_docs import describe_fields
from broker.contract.fields import CloudId, Cores, Id, Message
from broker.contract.launch import Launch
from broker.contract.leases import GANGS_SINCE, Lease
from broker.contract.requests import Needs
from broker.contract.version import since
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Mode


class SizeOffer(Message):
    """The promise that a cloud would make for the asked lifetime and SLA at another size.

    See ``cloudsim.admission.counter_offers.AdmissibleSize``.
    """

    cores: int
    admitted: bool
    free_slots: int | None
    eviction_probability: float | None
    survives_s: float | None


def _is_none(value: object) -> bool:
    return value is None


class BrokenPromise(Message):
    """Evidence that a cloud breaks its promises at an SLA, where it is then asked last.

    Of ``admitted`` promises ``evicted`` were broken, so that its true share of evictions is at least
    ``at_least`` (the lower bound of ``broker.ledger.ledger.broken_promise``). ``detail`` says it in a
    sentence.
    """

    sla: float
    evicted: int
    admitted: int
    at_least: float
    detail: str


class QuoteView(Message):
    """A quote: the promise that a cloud would make now."""

    model_config = ConfigDict(json_schema_extra=describe_fields)

    answer: Literal["quote"] = "quote"
    cloud: CloudId
    cores: Cores
    free_slots: int
    eviction_probability: float | None
    survives_s: float | None
    table_version: str | None
    table_made_at_s: float | None
    cloud_time_s: float
    """The time of the cloud."""
    table_age_s: float | None = None
    """The age of its table then."""
    other_sizes: tuple[SizeOffer, ...] = ()
    """What would be promised for other sizes; only in answer to a question for it."""
    admission: Mode = Mode.STRICT
    """The cloud's mode of admission: to whom the SLA is a promise."""
    pool: int | None = since(3)
    """The spot pool from which it would be sold."""
    broken_promise: BrokenPromise | None = Field(default=None, exclude_if=_is_none)
    """The evidence that this cloud breaks promises at this SLA."""


class CounterOffers(Message):
    """Values that would be accepted instead: the longest lifetime, the SLA, or the largest size."""

    lifetime_s: float | None = None
    sla: float | None = None
    cores: int | None = None


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
    launch:
        What it runs, of a real cloud's request.
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
    launch: Launch | None = since(4)


class RefusalView(Message):
    """A refusal: why a cloud does not admit a request, and what it would admit instead."""

    model_config = ConfigDict(json_schema_extra=describe_fields)

    answer: Literal["refusal"] = "refusal"
    cloud: CloudId
    reason: RefusalReason
    cores: int | None = None
    eviction_would_help: bool = False
    """True if there would be room without spot instances."""
    free_slots: int | None = None
    counter_offers: CounterOffers = CounterOffers()
    table_version: str | None = None
    table_made_at_s: float | None = None
    table_age_s: float | None = None
    other_sizes: tuple[SizeOffer, ...] = ()
    """What would be promised for other sizes; only in answer to a question for it."""
    detail: str | None = None
    """The cloud's explanation for people."""
    removed: dict[str, int] = Field(default_factory=dict)
    """The number of nodes that each filter took out of those that were left, in the order of the filters.

    "room" stands for the test of room.
    """
    broken_promise: BrokenPromise | None = Field(default=None, exclude_if=_is_none)
    """The evidence that this cloud breaks promises at this SLA."""
    overflow: OverflowState | None = since(4)
    """How an own on-demand request stands that is offered to the other clouds."""


class LeaseGranted(Message):
    """A lease: a new reservation or on-demand instance, or the present state of one that a command names."""

    answer: Literal["lease"] = "lease"
    lease: Lease


class LeasesGranted(Message):
    """The leases of on-demand instances that were placed together, in the order of their requests."""

    answer: Literal["leases"] = "leases"
    leases: tuple[Lease, ...]


class Leaving(Message):
    """A spot instance that leaves a drained node at ``evict_at_s`` at the latest.

    It leaves at once where that is the ``at_s`` of the report.
    """

    lease: Id
    origin: CloudId
    cores: Cores
    node: int
    ends_at_s: float
    evict_at_s: float


class Staying(Message):
    """An on-demand instance on a drained node, or booked there, which stays until its user stops it."""

    instance: Id
    cores: Cores
    node: int
    ends_at_s: float | None
    parts: tuple[tuple[int, int], ...] = since(GANGS_SINCE, ())
    """The nodes of an instance that is spread over nodes, each with its cores there; see ``Lease``."""


class DrainReport(Message):
    """The effects of draining nodes, or with ``dry_run`` the effects that it would have.

    ``closed_nodes`` are all nodes that take no new instances from then on. ``leaving`` lists the youngest
    first and includes instances that had been given notice before.
    """

    answer: Literal["drain"] = "drain"
    cloud: CloudId
    dry_run: bool
    at_s: float
    closed_nodes: tuple[int, ...]
    leaving: tuple[Leaving, ...]
    staying: tuple[Staying, ...]


class Done(Message):
    """The command was carried out, now or earlier. ``found`` is False if there is no such lease."""

    answer: Literal["done"] = "done"
    found: bool = True


Answer = Annotated[
    QuoteView | RefusalView | LeaseGranted | LeasesGranted | DrainReport | Done, Field(discriminator="answer")
]


class Reply(Message):
    """An owner's answer to one command, appended to the reply stream of the process that sent it."""

    command: str
    answer: Answer


#: Reads and writes the list of replies that an entry of a reply stream carries.
replies: TypeAdapter[list[Reply]] = TypeAdapter(list[Reply], config=ConfigDict(defer_build=True))
