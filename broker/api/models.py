"""Bodies of the HTTP API that are not messages of the contract; the server and the client share them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from broker.answers import BrokenPromise
from broker.contract import (
    Advert,
    CloudInfo,
    CounterOffers,
    DisclosureLevel,
    Event,
    Lease,
    Message,
    Nodes,
    QuoteView,
    RefusalView,
)


class OnDemandOffer(BaseModel):
    """On-demand on a cloud that sells it, in the place of spot that was refused: never taken back.

    ``usd``: for the whole lifetime of the request; null where it has none. POST it to
    ``/v1/clouds/{cloud}/on-demand``. Whether there is room is known only then.
    """

    cloud: str
    cores: int
    usd_per_core_hour: float
    usd: float | None = None


class FieldError(BaseModel):
    """One field of the input that cannot be used."""

    field: str
    message: str
    accepted: str | None = None


class Problem(BaseModel):
    """RFC 9457 problem details. Branch on ``type``; ``detail`` is for people."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError] | None = Field(default=None, description="input that cannot be used, by field")
    refusals: list[RefusalView] | None = Field(default=None, description="refused: one a cloud")
    counter_offers: CounterOffers | None = Field(
        default=None, description="refused: the best of what the clouds would accept instead"
    )
    on_demand: list[OnDemandOffer] | None = Field(
        default=None, description="refused: where it could be had on-demand, and at what cost; cheapest first"
    )
    snapshot: tuple[str, ...] | None = Field(
        default=None, description="events gone: what to read for what is true now"
    )
    resume_after: str | None = Field(
        default=None, description="events gone: the Last-Event-ID to follow with after that, without a gap"
    )


class Admission(BaseModel):
    """A request that was admitted. ``refusals``: of the clouds that were asked or passed over before."""

    lease: Lease
    refusals: list[RefusalView] = []


class Admissions(BaseModel):
    """On-demand requests that were placed together, in their order."""

    leases: list[Lease]


class ListedResult(BaseModel):
    """What became of one item of a list: ``lease`` or ``problem``."""

    lease: Lease | None = None
    problem: Problem | None = None
    refusals: list[RefusalView] = []


class ListedResults(BaseModel):
    """One result an item, in the order of the list."""

    results: list[ListedResult]


class Quotes(BaseModel):
    """What the clouds would promise now: ``quotes`` in the order in which they would be asked. ``on_demand``:
    of sizes of which nobody promises anything."""

    quotes: list[QuoteView]
    refusals: list[RefusalView]
    on_demand: list[OnDemandOffer] = []


class Leases(BaseModel):
    """A page of leases. ``more``: there may be others, from ``next`` on (null: this is the last page)."""

    leases: list[Lease]
    more: bool = False
    next: str | None = None


class Cancellation(BaseModel):
    """``done`` False: the cancellation is kept, and is carried out when the cloud's owner returns."""

    done: bool
    lease: Lease


class Stopped(BaseModel):
    """``done`` False: the command is kept, and is carried out when the cloud's owner returns."""

    done: bool
    lease: Lease | None = None


class CloudView(BaseModel):
    """A member and what it says of itself. ``reachable`` False: nothing new is routed to it.

    ``broken_promises``: SLAs at which it is asked last, and why; strictest first.
    """

    info: CloudInfo
    advert: Advert | None
    reachable: bool
    advert_age_s: float | None
    broken_promises: list[BrokenPromise] = []


class Clouds(BaseModel):
    """The members in cloud order."""

    clouds: list[CloudView]


class Lifetimes(BaseModel):
    """What a cloud tells of how long instances of one flavour live: ``mean_s``; or the median and a
    percentile (``quantile_s``); or P(life >= length) at 5, 10, … 2,880 minutes (``survival``)."""

    cores: int
    amounts: dict[str, int] = {}
    mean_s: float | None = None
    median_s: float | None = None
    quantile_s: float | None = None
    survival: list[float] | None = None


class Table(BaseModel):
    """A cloud's quantile table as far as the cloud shows it (``disclosure``).

    ``rows``: lifetimes by SLA, as of ``QuantileTable.rows``; below ``full`` those at which anything is
    promised. ``lifetimes``: of the usual conditions, for who chooses a lifetime by them.
    """

    version: str
    made_at_s: float
    rows: list[dict[str, Any]]
    disclosure: DisclosureLevel = "full"
    lifetimes: list[Lifetimes] = []


class LedgerEntry(BaseModel):
    """One account, or several together: ``cloud``, ``origin``, ``sla`` and ``table_version`` name those they
    were not summed over.

    ``promised``: the SLA, of several the mean. ``admitted``: promises made and not given back by their
    holders: ``running``, ``completed`` and ``evicted``. ``realised``: evicted of those that settled. It is
    between ``at_least`` and ``at_most`` with 95 % confidence, whatever becomes of the running ones: exact
    bounds (Clopper and Pearson), the lower with all of them kept, the upper with none. ``mean_risk``: the
    mean probability of eviction that the clouds estimated. ``kept``: broken when ``at_least`` is above
    ``promised``, yes when ``at_most`` is not, else open.
    """

    cloud: str | None = None
    origin: str | None = None
    sla: float | None = None
    table_version: str | None = None
    promised: float
    admitted: int
    running: int
    completed: int
    evicted: int
    realised: float | None
    at_least: float
    at_most: float
    mean_risk: float
    kept: Literal["yes", "broken", "open"]


class LedgerReach(BaseModel):
    """The ledger knows a cloud's public events up to ``sequence``, but for ``missing``, which are no longer
    kept or cannot be read."""

    cloud: str
    sequence: int
    missing: int


class LedgerView(BaseModel):
    """Promised against realised evictions, by cloud, origin and SLA, tables in the order of their first
    promise. ``more``: ``limit`` left some out."""

    entries: list[LedgerEntry]
    clouds: list[LedgerReach]
    more: bool = False


class Advance(BaseModel):
    """Trace time only: lets everything happen that is still to come."""

    finish: Literal[True]


class DrainRequest(Message):
    """Nodes to close and to empty of spot instances (null: all); ``dry_run``: tell only who would leave."""

    nodes: Nodes | None = None
    dry_run: bool = False


class Health(BaseModel):
    """``ok``, or a problem is answered instead."""

    status: Literal["ok"] = "ok"


class StreamedEvent(BaseModel):
    """An event with its id in the merged stream."""

    id: str
    event: Event
