"""RFC 9457 problems, the bodies of all errors."""

from __future__ import annotations

from pydantic import BaseModel, Field

from broker.contract import CounterOffers, RefusalView
from broker.schemas.on_demand import OnDemandOffer


class FieldError(BaseModel, defer_build=True):
    """One field of the input that cannot be used, and what is accepted there."""

    field: str
    message: str
    accepted: str | None = None


class Problem(BaseModel, defer_build=True):
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
