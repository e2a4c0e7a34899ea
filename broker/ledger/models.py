"""Bodies of the HTTP API that are not messages of the contract; the server and the client share them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


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
