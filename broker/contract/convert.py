"""Quotes, refusals and nodes of ``cloudsim`` put into the words of the contract, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.contract.adverts import NodeKind
from broker.contract.replies import CounterOffers, QuoteView, RefusalView
from broker.contract.replies import SizeOffer as SizeOfferView
from cloudsim.admission.counter_offers import AdmissibleSize
from cloudsim.model.instances import Quote
from cloudsim.model.nodes import NodeDetails, groups_of
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Mode, Request


def to_quote_view(
    quote: Quote,
    cloud_time_s: float,
    other_sizes: Sequence[AdmissibleSize] = (),
    admission: Mode = Mode.STRICT,
) -> QuoteView:
    """A quote as it is sent by a cloud that admits so."""
    return QuoteView(
        cloud=quote.cloud,
        cores=quote.cores,
        free_slots=quote.free_slots,
        eviction_probability=quote.eviction_probability,
        survives_s=quote.survives_s,
        table_version=quote.table_version,
        table_made_at_s=quote.table_made_at_s,
        cloud_time_s=cloud_time_s,
        table_age_s=_age_s(quote.table_made_at_s, cloud_time_s),
        other_sizes=_offers(other_sizes),
        admission=admission,
        pool=quote.pool,
    )


def to_refusal_view(
    refusal: Refusal,
    detail: str | None = None,
    *,
    cores: int | None = None,
    cloud_time_s: float | None = None,
    smaller: int | None = None,
    other_sizes: Sequence[AdmissibleSize] = (),
) -> RefusalView:
    """A refusal as it is sent. A lifetime of nothing is no counter-offer. ``smaller``: the largest size that
    would be admitted instead of ``cores``."""
    offers = CounterOffers(
        lifetime_s=refusal.survives_s or None, sla=refusal.eviction_probability, cores=smaller
    )
    return RefusalView(
        cloud=refusal.cloud,
        reason=refusal.reason,
        cores=cores,
        eviction_would_help=refusal.eviction_would_help,
        free_slots=refusal.free_slots,
        counter_offers=offers,
        table_version=refusal.table_version,
        table_made_at_s=refusal.table_made_at_s,
        table_age_s=_age_s(refusal.table_made_at_s, cloud_time_s),
        other_sizes=_offers(other_sizes),
        detail=detail,
        removed=dict(refusal.removed),
    )


def _age_s(made_at_s: float | None, cloud_time_s: float | None) -> float | None:
    return None if made_at_s is None or cloud_time_s is None else cloud_time_s - made_at_s


def _offers(sizes: Sequence[AdmissibleSize]) -> tuple[SizeOfferView, ...]:
    return tuple(
        SizeOfferView(
            cores=one.cores,
            admitted=one.admitted,
            free_slots=one.free_slots,
            eviction_probability=one.eviction_probability,
            survives_s=one.survives_s,
        )
        for one in sizes
    )


def to_quote(view: QuoteView) -> Quote:
    """As ``cloudsim.federation.ranking`` takes it."""
    return Quote(
        view.cloud,
        view.cores,
        view.free_slots,
        view.eviction_probability,
        view.survives_s,
        view.table_version,
        view.table_made_at_s,
        view.pool,
    )


def to_node_kinds(node_cores: tuple[int, ...], details: NodeDetails) -> tuple[NodeKind, ...]:
    """A cloud's nodes as it makes them known."""
    return tuple(
        NodeKind(
            nodes=group.nodes,
            cores=group.cores,
            resources=dict(group.amounts),
            labels=dict(sorted(group.labels)),
        )
        for group in groups_of(node_cores, details)
    )


def to_needs_fields(request: Request) -> dict[str, Any]:
    """What a request of ``cloudsim`` needs beside cores, as fields of a message."""
    return {
        "resources": dict(request.amounts),
        "labels": dict(request.labels),
        "group": request.group,
        "spread": request.spread,
    }
