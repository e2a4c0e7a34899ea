"""Bodies of the calls that ask for quotes."""

from __future__ import annotations

from pydantic import BaseModel

from broker.contract import QuoteView, RefusalView
from broker.schemas.on_demand import OnDemandOffer


class Quotes(BaseModel, defer_build=True):
    """Quotes and refusals of the clouds, the quotes in the order in which the clouds would be asked.

    on_demand: offers for sizes for which no cloud promises anything.
    """

    quotes: list[QuoteView]
    refusals: list[RefusalView]
    on_demand: list[OnDemandOffer] = []
