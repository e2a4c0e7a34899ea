"""Bodies of the calls that request instances."""

from __future__ import annotations

from pydantic import BaseModel

from broker.contract import Lease, RefusalView
from broker.schemas.problems import Problem


class Admission(BaseModel, defer_build=True):
    """A request that was admitted. refusals: those of clouds that were asked or passed over before."""

    lease: Lease
    refusals: list[RefusalView] = []


class Admissions(BaseModel, defer_build=True):
    """Leases of requests that were placed together, or admitted together, in the order of the requests."""

    leases: list[Lease]


class ListedResult(BaseModel, defer_build=True):
    """The result of one item of a list: a lease or a problem."""

    lease: Lease | None = None
    problem: Problem | None = None
    refusals: list[RefusalView] = []


class ListedResults(BaseModel, defer_build=True):
    """One result an item, in the order of the list."""

    results: list[ListedResult]
