"""Bodies of the calls about member clouds."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from broker.contract import Advert, BrokenPromise, CloudInfo, DisclosureLevel, Message, Nodes


class CloudView(BaseModel, defer_build=True):
    """One member cloud and what it says of itself.

    reachable: whether new requests are routed to it. broken_promises: the SLAs at which it is asked last, and
    why; strictest first.
    """

    info: CloudInfo
    advert: Advert | None
    reachable: bool
    advert_age_s: float | None
    broken_promises: list[BrokenPromise] = []


class Clouds(BaseModel, defer_build=True):
    """All member clouds, in cloud order."""

    clouds: list[CloudView]


class Lifetimes(BaseModel, defer_build=True):
    """The lifetimes of instances of one flavour, as far as the cloud discloses them.

    That is mean_s; or median_s and a percentile, quantile_s; or survival: P(life >= length) at 5, 10, … 2,880
    minutes.
    """

    cores: int
    amounts: dict[str, int] = {}
    mean_s: float | None = None
    median_s: float | None = None
    quantile_s: float | None = None
    survival: list[float] | None = None


class Table(BaseModel, defer_build=True):
    """One quantile table of a cloud, as far as the cloud discloses it (``disclosure``).

    rows: lifetimes by SLA, as in ``QuantileTable.rows``; below full disclosure only those at which anything
    is promised. lifetimes: those under the usual conditions, to choose a lifetime by.
    """

    version: str
    made_at_s: float
    rows: list[dict[str, Any]]
    disclosure: DisclosureLevel = "full"
    lifetimes: list[Lifetimes] = []


class Advance(BaseModel, defer_build=True):
    """A command to a cloud in trace time to let everything happen that is still to come."""

    finish: Literal[True]


class DrainRequest(Message):
    """Nodes to close and to empty of spot instances; null: all.

    dry_run: only report which instances would leave.
    """

    nodes: Nodes | None = None
    dry_run: bool = False
