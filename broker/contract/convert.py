"""Conversions between the values of ``cloudsim`` and the messages of the contract."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import TypeAdapter

from broker.contract.adverts import NodeKind
from broker.contract.replies import BrokenPromise, CounterOffers, QuoteView, RefusalView, SizeOffer
from cloudsim.admission.counter_offers import AdmissibleSize
from cloudsim.model.instances import Quote
from cloudsim.model.nodes import NodeDetails, groups_of
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Mode, Request

_NO_OFFERS = CounterOffers()
_sizes: TypeAdapter[tuple[SizeOffer, ...]] = TypeAdapter(tuple[SizeOffer, ...])


def _shared_fields(value: type[Any], view: type[QuoteView | RefusalView]) -> tuple[str, ...]:
    """Return the names of the fields that a value and its message have in common."""
    return tuple(field.name for field in dataclasses.fields(value) if field.name in view.model_fields)


_QUOTE_FIELDS = _shared_fields(Quote, QuoteView)
_REFUSAL_FIELDS = tuple(name for name in _shared_fields(Refusal, RefusalView) if name != "removed")


def _read_fields(value: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def to_quote_view(
    quote: Quote,
    cloud_time_s: float,
    other_sizes: Sequence[AdmissibleSize] = (),
    admission: Mode = Mode.STRICT,
) -> QuoteView:
    """Return a quote as a message of a cloud with this time, in seconds, and mode of admission."""
    return QuoteView(
        **_read_fields(quote, _QUOTE_FIELDS),
        cloud_time_s=cloud_time_s,
        table_age_s=_table_age_s(quote.table_made_at_s, cloud_time_s),
        other_sizes=_to_size_offers(other_sizes),
        admission=admission,
    )


def to_quote(view: QuoteView) -> Quote:
    """Return the quote that a message holds."""
    return Quote(**_read_fields(view, _QUOTE_FIELDS))


def to_refusal_view(
    refusal: Refusal,
    detail: str | None = None,
    *,
    cores: int | None = None,
    cloud_time_s: float | None = None,
    smaller: int | None = None,
    other_sizes: Sequence[AdmissibleSize] = (),
    broken_promise: BrokenPromise | None = None,
) -> RefusalView:
    """Return a refusal as a message. A survived lifetime of 0 s makes no counter-offer.

    Parameters
    ----------
    detail:
        An explanation for people.
    cores:
        The size that was refused.
    cloud_time_s:
        The time of the cloud in seconds, if it is known.
    smaller:
        The largest size that would be admitted instead.
    other_sizes:
        What would be promised for other sizes.
    broken_promise:
        The evidence that the cloud breaks promises at the SLA of the request.
    """
    return RefusalView(
        **_read_fields(refusal, _REFUSAL_FIELDS),
        cores=cores,
        counter_offers=_to_counter_offers(refusal, smaller),
        table_age_s=_table_age_s(refusal.table_made_at_s, cloud_time_s),
        other_sizes=_to_size_offers(other_sizes),
        detail=detail,
        removed=dict(refusal.removed),
        broken_promise=broken_promise,
    )


def _to_counter_offers(refusal: Refusal, smaller: int | None) -> CounterOffers:
    if not refusal.survives_s and refusal.eviction_probability is None and smaller is None:
        return _NO_OFFERS
    return CounterOffers(
        lifetime_s=refusal.survives_s or None, sla=refusal.eviction_probability, cores=smaller
    )


def _table_age_s(made_at_s: float | None, cloud_time_s: float | None) -> float | None:
    return None if made_at_s is None or cloud_time_s is None else cloud_time_s - made_at_s


def _to_size_offers(sizes: Sequence[AdmissibleSize]) -> tuple[SizeOffer, ...]:
    return _sizes.validate_python(tuple(sizes), from_attributes=True) if sizes else ()


def to_node_kinds(node_cores: tuple[int, ...], details: NodeDetails) -> tuple[NodeKind, ...]:
    """Return a cloud's nodes as its advert describes them: runs of equal nodes."""
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
    """Return what a request needs beside cores, as fields of a message."""
    return {
        "resources": dict(request.amounts),
        "labels": dict(request.labels),
        "group": request.group,
        "spread": request.spread,
    }
