"""Bodies of the HTTP API that are not messages of the contract; the server and the client share them."""

from __future__ import annotations

from pydantic import BaseModel

from broker.api.schemas.on_demand import OnDemandOffer
from broker.api.schemas.problems import Problem
from broker.contract import Lease, QuoteView, RefusalView


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
