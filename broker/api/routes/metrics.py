"""``GET /metrics`` for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Request
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from broker.api.dependencies import Looker, broker_of
from broker.api.openapi import problem_responses
from broker.api.services import federation_metrics
from broker.api.services.federation_metrics import FederationFacts
from broker.api.services.request_metrics import RequestMetrics

router = APIRouter()

_TEXT = {kind: {"schema": {"type": "string"}} for kind in ("text/plain", "application/openmetrics-text")}


class _Scrape(Collector):
    """Collects the metrics of one scrape; only public ones if ``meter`` is None."""

    def __init__(self, facts: FederationFacts, meter: RequestMetrics | None):
        self._facts, self._meter = facts, meter

    def collect(self) -> Iterator[Metric]:
        yield from federation_metrics.collect_public(self._facts)
        if self._meter is not None:
            yield from federation_metrics.collect_confidential(self._facts)
            yield from self._meter.registry.collect()


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    tags=["health"],
    responses={
        200: {
            "content": _TEXT,
            "description": "in its text format, or in OpenMetrics where that is asked for",
        },
        **problem_responses(401, 429, 503),
    },
    response_class=Response,
)
async def scrape(request: Request, who: Looker) -> Response:
    """What the clouds advertise; for operators also the queue, promises, and this process's own work.

    Figures of the federation are the same from every API process: take their maximum, not their sum.
    """
    broker = broker_of(request)
    meter = broker.meter if who.origins is None else None
    encode, kind = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(_Scrape(await broker.surveyor.read_facts(), meter)), media_type=kind)
