"""Routes of the HTTP API, one module a resource.

A new module is added to ``_V1``, or to ``_ROOT`` if its paths do not begin with ``/v1``. The names of
functions are part of the ``operationId`` in the OpenAPI document, by which generated clients know them: they
do not change.
"""

from fastapi import APIRouter, Depends

from broker.api.dependencies import authenticate
from broker.api.openapi import problem_responses
from broker.api.routes import (
    api_keys,
    audit,
    clouds,
    dashboard,
    docs,
    events,
    health,
    jobs,
    leases,
    ledger,
    members,
    metrics,
    on_demand,
    quotes,
    requests,
    webhooks,
)

_V1 = (
    leases, clouds, on_demand, ledger, webhooks, jobs, members, api_keys, audit, requests, quotes, events
)  # fmt: skip
_ROOT = (dashboard, metrics, health, docs)


def _collect() -> APIRouter:
    v1 = APIRouter(
        prefix="/v1", dependencies=[Depends(authenticate)], responses=problem_responses(401, 403, 429, 503)
    )
    for module in _V1:
        v1.include_router(module.router)
    router = APIRouter()
    router.include_router(v1)
    for module in _ROOT:
        router.include_router(module.router)
    return router


#: All routes; those under ``/v1`` need an API key. FastAPI takes 60 ms to prepare them at the first call:
#: collected here, they are prepared once for all applications of a process.
router = _collect()
