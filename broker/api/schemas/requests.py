"""Bodies of the calls that request spot instances and quotes."""

from __future__ import annotations

from pydantic import BaseModel

from broker.api.schemas.on_demand import OnDemandOffer
from broker.api.schemas.problems import Problem
from broker.contract import Lease, QuoteView, RefusalView


class Admission(BaseModel):
    """A request that was admitted. refusals: those of clouds that were asked or passed over before."""

    lease: Lease
    refusals: list[RefusalView] = []


class Admissions(BaseModel):
    """Leases of on-demand requests that were placed together, in the order of the requests."""

    leases: list[Lease]


class ListedResult(BaseModel):
    """The result of one item of a list: a lease or a problem."""

    lease: Lease | None = None
    problem: Problem | None = None
    refusals: list[RefusalView] = []


class ListedResults(BaseModel):
    """One result an item, in the order of the list."""

    results: list[ListedResult]


class Quotes(BaseModel):
    """Quotes and refusals of the clouds, the quotes in the order in which the clouds would be asked.

    on_demand: offers for sizes for which no cloud promises anything.
    """

    quotes: list[QuoteView]
    refusals: list[RefusalView]
    on_demand: list[OnDemandOffer] = []
