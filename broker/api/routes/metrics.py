"""Serves metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Depends, Request
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from broker.api.dependencies import Looker, Services, authenticate
from broker.api.openapi import problem_responses
from broker.api.services import federation_metrics as metrics
from broker.api.services.federation_metrics import FederationFacts
from broker.api.services.request_metrics import RequestMetrics

router = APIRouter(tags=["health"], dependencies=[Depends(authenticate)])

_TEXT = {kind: {"schema": {"type": "string"}} for kind in ("text/plain", "application/openmetrics-text")}


class _Scrape(Collector):
    """Collects the metrics of one scrape; without ``request_metrics`` only the public ones."""

    def __init__(self, facts: FederationFacts, request_metrics: RequestMetrics | None):
        self._facts, self._request_metrics = facts, request_metrics

    def collect(self) -> Iterator[Metric]:
        yield from metrics.collect_public(self._facts)
        if self._request_metrics is not None:
            yield from metrics.collect_confidential(self._facts)
            yield from self._request_metrics.collect()


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    responses={
        200: {
            "content": _TEXT,
            "description": "in its text format, or in OpenMetrics where that is asked for",
        },
        **problem_responses(401, 429, 503),
    },
    response_class=Response,
)
async def scrape(request: Request, services: Services, who: Looker) -> Response:
    """Return what the clouds advertise; to operators also the queue, promises, and this process's own work.

    Figures of the federation are the same from every API process: take their maximum, not their sum.
    """
    request_metrics = services.metrics if who.origins is None else None
    encode, kind = choose_encoder(request.headers.get("accept", ""))
    scrape = _Scrape(await services.survey.read_facts(), request_metrics)
    return Response(encode(scrape), media_type=kind)
