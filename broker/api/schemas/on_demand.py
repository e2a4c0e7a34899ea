"""Bodies of the HTTP API that are not messages of the contract; the server and the client share them."""

from __future__ import annotations

from pydantic import BaseModel

from broker.contract import Lease


class OnDemandOffer(BaseModel):
    """On-demand on a cloud that sells it, in the place of spot that was refused: never taken back.

    ``usd``: for the whole lifetime of the request; null where it has none. POST it to
    ``/v1/clouds/{cloud}/on-demand``. Whether there is room is known only then.
    """

    cloud: str
    cores: int
    usd_per_core_hour: float
    usd: float | None = None


class Stopped(BaseModel):
    """``done`` False: the command is kept, and is carried out when the cloud's owner returns."""

    done: bool
    lease: Lease | None = None
