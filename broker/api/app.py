"""The ASGI application: ``create_app`` puts the routes, the problems and the pages together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata, resources

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from broker import failpoints
from broker.api import openapi, problems
from broker.api.container import ApiServices
from broker.api.dependencies import broker_of
from broker.api.middleware import RequestLogMiddleware
from broker.api.openapi import problem_responses
from broker.api.routes import dashboard, metrics
from broker.api.routes.requests import router
from broker.api.schemas.clouds import Health
from broker.api.services.request_metrics import RequestMetrics
from broker.observability import gc_tuning, logging
from broker.observability.spans import Spans
from broker.settings import Settings, settings

DESCRIPTION = (
    "Spot instances on other clouds' idle cores, with a promised probability of living as long as you need. "
    "Errors are RFC 9457 problems; times are seconds in numbers and RFC 3339 in timestamps."
)

# FastAPI prepares the routes that a router includes at the first call, which takes 60 ms. Kept here, they are
# prepared once for all applications of a process.
_ROUTES = APIRouter()
_ROUTES.include_router(router)
_ROUTES.include_router(dashboard.router)
_ROUTES.include_router(metrics.router)


def create_app(told: Settings | None = None) -> FastAPI:
    """The application. Nothing is connected before it starts.

    Raises SettingsError when the environment is malformed.
    """
    told = told or settings()
    failpoints.arm(told.failpoint)
    meter, spans = RequestMetrics(), Spans.from_settings(told, "spotfed-api")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with ApiServices(told, meter) as broker:
            app.state.broker = broker
            yield
        if spans is not None:
            spans.close()

    app = FastAPI(
        title="spotfed",
        version=metadata.version("spotfed"),
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    problems.install(app)
    openapi.install(app)
    app.router.routes.extend(_ROUTES.routes)
    _add_pages(app)
    app.add_middleware(RequestLogMiddleware, of=app, meter=meter, spans=spans)
    return app


def create_process_app() -> FastAPI:
    """The same for a process that does nothing else."""
    told = settings()
    logging.configure(told)
    app = create_app(told)
    gc_tuning.tune_gc()
    return app


def _add_pages(app: FastAPI) -> None:
    @app.get("/healthz", summary="This process runs", tags=["health"])
    async def healthz() -> Health:
        return Health()

    @app.get(
        "/readyz",
        summary="The queue answers and a cloud can be asked",
        tags=["health"],
        responses=problem_responses(503),
    )
    async def readyz(request: Request) -> Health:
        broker = broker_of(request)
        await broker.redis.ping()
        members = await broker.adverts.members()
        if not any(member.reachable or member.info.time == "trace" for member in members):
            raise problems.not_ready(
                "no cloud can be reached" if members else "no cloud has joined the federation yet"
            )
        return Health()

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return _file("docs.html", "text/html")

    @app.get("/docs.js", include_in_schema=False)
    async def script() -> Response:
        return _file("docs.js", "text/javascript")


def _file(name: str, kind: str) -> Response:
    text = resources.files("broker.api").joinpath(name).read_text(encoding="utf-8")
    policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
    return Response(text, media_type=kind, headers={"Content-Security-Policy": policy})
