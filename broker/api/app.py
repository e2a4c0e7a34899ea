"""The ASGI application: ``create_app`` assembles routes, problems and the OpenAPI document."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata

from fastapi import FastAPI

from broker import failpoints
from broker.api import openapi, problems, routes
from broker.api.container import ApiServices
from broker.api.middleware import ReplicationMiddleware, RequestLogMiddleware
from broker.api.services.request_metrics import RequestMetrics
from broker.observability import gc_tuning, logging
from broker.observability.spans import Spans
from broker.settings import Settings, settings
from broker.storage.replication import replicas_awaited

DESCRIPTION = (
    "Spot instances on other clouds' idle cores, with a promised probability of living as long as you need. "
    "Errors are RFC 9457 problems; times are seconds in numbers and RFC 3339 in timestamps."
)


def create_app(chosen: Settings | None = None) -> FastAPI:
    """Return the application, which connects to nothing before it starts.

    ``chosen``: its settings; None: those of the environment. Raises SettingsError if these are malformed.
    """
    chosen = chosen or settings()
    failpoints.arm(chosen.failpoint)
    request_metrics, spans = RequestMetrics(), Spans.from_settings(chosen, "spotfed-api")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with ApiServices(chosen, request_metrics) as services:
            app.state.services = services
            yield
        if spans is not None:
            spans.close()

    app = FastAPI(
        title="spotfed",
        version=metadata.version("spotfed"),
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's page loads scripts from another host; routes/docs.py serves ours
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    problems.install(app)
    openapi.install(app)
    app.router.routes.extend(routes.router.routes)
    if replicas_awaited(chosen):
        app.add_middleware(ReplicationMiddleware, services_of=app)
    app.add_middleware(RequestLogMiddleware, routes_of=app, metrics=request_metrics, spans=spans)
    return app


def create_process_app() -> FastAPI:
    """Return the application for a process that serves only the API: it configures logging and memory too.

    One of several processes ends with the process that started it.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()
    chosen = settings()
    logging.configure(chosen)
    app = create_app(chosen)
    gc_tuning.tune_gc()
    return app


def _end_after(parent: multiprocessing.process.BaseProcess) -> None:
    """Tell this process to stop when its parent is gone, however that ended."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
