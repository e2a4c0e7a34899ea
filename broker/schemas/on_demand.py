"""Bodies of the calls about on-demand instances."""

from __future__ import annotations

from pydantic import BaseModel

from broker.contract import Lease


class OnDemandOffer(BaseModel, defer_build=True):
    """An on-demand instance that a cloud sells in the place of refused spot; it is never taken back.

    usd: the price for the whole lifetime of the request; null where it has none. POST it to
    ``/v1/clouds/{cloud}/on-demand``; whether there is room is known only then.
    """

    cloud: str
    cores: int
    usd_per_core_hour: float
    usd: float | None = None


class Stopped(BaseModel, defer_build=True):
    """An on-demand instance that was stopped.

    done: whether it has ended. If not, the command is kept until the owner of its cloud returns.
    """

    done: bool
    lease: Lease | None = None
