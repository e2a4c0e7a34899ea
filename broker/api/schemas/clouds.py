"""Bodies of the HTTP API that are not messages of the contract; the server and the client share them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from broker.contract import Advert, BrokenPromise, CloudInfo, DisclosureLevel, Message, Nodes


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
