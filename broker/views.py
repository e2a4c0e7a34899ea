"""Quotes and refusals of ``cloudsim`` put into the words of the contract, and back."""

from __future__ import annotations

from broker.contract import CounterOffers, QuoteView, RefusalView
from cloudsim.requests import Quote, Refusal


def quote_view(quote: Quote, cloud_time_s: float) -> QuoteView:
    """A quote as it is sent."""
    return QuoteView(
        cloud=quote.cloud,
        cores=quote.cores,
        free_slots=quote.free_slots,
        eviction_probability=quote.eviction_probability,
        survives_s=quote.survives_s,
        table_version=quote.table_version,
        table_made_at_s=quote.table_made_at_s,
        cloud_time_s=cloud_time_s,
    )


def refusal_view(refusal: Refusal, detail: str | None = None) -> RefusalView:
    """A refusal as it is sent. A lifetime of nothing is no counter-offer."""
    offers = CounterOffers(lifetime_s=refusal.survives_s or None, sla=refusal.eviction_probability)
    return RefusalView(
        cloud=refusal.cloud,
        reason=refusal.reason,
        eviction_would_help=refusal.eviction_would_help,
        free_slots=refusal.free_slots,
        counter_offers=offers,
        table_version=refusal.table_version,
        table_made_at_s=refusal.table_made_at_s,
        detail=detail,
    )


def quote_of(view: QuoteView) -> Quote:
    """As ``cloudsim.ranking`` takes it."""
    return Quote(
        view.cloud,
        view.cores,
        view.free_slots,
        view.eviction_probability,
        view.survives_s,
        view.table_version,
        view.table_made_at_s,
    )
