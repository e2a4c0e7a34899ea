"""Bodies of the calls about the ledger; the server and the client share them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from cloudsim.model.requests import Door


class LedgerEntry(BaseModel):
    """One account, or the sum of several; what they were summed over is null.

    door: how the requests came: overflow of a full cloud, a workload of a member, or a user. promised: the
    SLA, the mean of several. admitted: promises that were made and not given back by their holders, that is
    running, completed and evicted together. peaks: the clusters in which the evictions came, on one cloud and
    at most an hour apart. realised: the share of evicted among those that settled; null if none has.
    at_least, at_most: exact bounds of the share of evictions with 95 % confidence (Clopper and Pearson),
    whatever becomes of the running ones: the lower counts all of them as kept, the upper none. mean_risk: the
    mean probability of eviction that the clouds estimated. kept: broken if at_least is above promised, yes if
    at_most is not, else open.
    """

    cloud: str | None = None
    origin: str | None = None
    sla: float | None = None
    table_version: str | None = None
    door: Door | None = None
    promised: float
    admitted: int
    running: int
    completed: int
    evicted: int
    peaks: int = 0
    realised: float | None
    at_least: float
    at_most: float
    mean_risk: float
    kept: Literal["yes", "broken", "open"]


class LedgerReach(BaseModel):
    """The position of the ledger in a cloud's public events.

    sequence: the last event that it has read. missing: the number of events up to there that are no longer
    kept or cannot be read. misplaced: the number of leases that were ended because their request had got
    another one, after Redis was restored from an older copy.
    """

    cloud: str
    sequence: int
    missing: int
    misplaced: int = 0


class LedgerView(BaseModel):
    """Promised against realised evictions, by cloud, origin and SLA; tables by their first promise.

    more: whether the limit left entries out.
    """

    entries: list[LedgerEntry]
    clouds: list[LedgerReach]
    more: bool = False
