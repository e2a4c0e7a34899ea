"""ASGI middleware around every call: its request id, its metrics and its line in the log.

A caller's ``X-Request-Id`` is used if it is valid (up to 64 of ``A-Za-z0-9._:=+-``), else the trace id of its
``traceparent``, else a new one. The answer carries it, and so does every log line that the call causes, also
those of the owners of clouds.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time

import redis
import structlog
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from broker.api.problems import translate
from broker.api.services.request_metrics import RequestMetrics
from broker.observability import request_id
from broker.observability.spans import Spans, caller

log = logging.getLogger(__name__)

_HEADER = request_id.HEADER.lower().encode()
_TRACEPARENT = b"traceparent"
_NAMES = frozenset({_HEADER, _TRACEPARENT})
#: Paths that machines read every few seconds: their calls are logged as debug messages.
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_CONVERTER = re.compile(r":\w+}")


def add_log_fields(**fields: object) -> None:
    """Add fields to the further log lines of the present call."""
    structlog.contextvars.bind_contextvars(**fields)


class RequestLogMiddleware:
    """Gives each call a request id, counts it, logs it, and gives back what it took of its member's limits.

    ``metrics`` counts calls; ``spans``, unless None, exports one span a call; ``routes_of`` is the
    application whose routes name what varies in a path.
    """

    def __init__(
        self, app: ASGIApp, *, routes_of: FastAPI, metrics: RequestMetrics, spans: Spans | None = None
    ):
        self._app, self._routes_of, self._metrics, self._spans = app, routes_of, metrics, spans
        self._routes: dict[object, str] = {}  # by endpoint: the path with names for what varies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"] if name in _NAMES}
        parent = caller(headers.get(_TRACEPARENT))
        call = request_id.begin(headers.get(_HEADER) or (parent and parent[0]))
        structlog.contextvars.clear_contextvars()
        add_log_fields(request_id=call)
        began_s, status, took_s = time.perf_counter(), 500, None
        state = scope.setdefault("state", {})
        method = scope["method"]
        if method == "HEAD":  # every GET route answers it
            scope = {**scope, "method": "GET"}
            send = _without_body(send)

        async def send_with_id(message: Message) -> None:
            nonlocal status, took_s
            if message["type"] == "http.response.start":
                status, took_s = message["status"], time.perf_counter() - began_s
                message["headers"] = [*message.get("headers", ()), (_HEADER, call.encode())]
            await send(message)

        self._metrics.count_start()
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            took_s = time.perf_counter() - began_s if took_s is None else took_s
            self._metrics.count_end()
            if "open_call" in state:
                state["open_call"].end()
            route = self._route(scope)
            self._metrics.observe_answer(method, route, status, took_s)
            if self._spans is not None and scope["path"] not in _QUIET:
                attributes = {
                    "http.request.method": method,
                    "http.response.status_code": status,
                    "http.route": route or "",
                    "spotfed.request_id": call,
                }
                self._spans.send_call(call, parent, f"{method} {route or ''}".strip(), took_s, attributes)
            # Later: what was sent to the caller leaves this process when this task pauses.
            asyncio.get_running_loop().call_soon(_log_call, method, scope["path"], status, took_s)

    def _route(self, scope: Scope) -> str | None:
        if not self._routes:
            routes = iter_route_contexts(self._routes_of.routes)
            self._routes = {route.endpoint: _CONVERTER.sub("}", route.path or "") for route in routes}
        return self._routes.get(scope.get("endpoint"))


class ReplicationMiddleware:
    """Answers calls that may have changed something once replicas have what was changed, else with a 503.

    ``services_of`` is the application whose state has the services.
    """

    def __init__(self, app: ASGIApp, *, services_of: FastAPI):
        self._app, self._services_of = app, services_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call."""
        if scope["type"] != "http" or scope["method"] in _SAFE:
            await self._app(scope, receive, send)
            return
        replicated = self._services_of.state.services.replicated
        place, is_replaced = replicated.place, False

        async def send_replicated(message: Message) -> None:
            nonlocal is_replaced
            if message["type"] == "http.response.start" and message["status"] < 500:
                try:
                    await replicated.wait(place)
                except redis.RedisError as error:
                    is_replaced = True
                    await translate(error).response()(scope, receive, send)
            if not is_replaced:
                await send(message)

        await self._app(scope, receive, send_replicated)


def _without_body(send: Send) -> Send:
    """Return a ``send`` that ends the answer after its head, which ends endless answers too."""

    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body"})

    return send_head


def _log_call(method: str, path: str, status: int, took_s: float) -> None:
    level = logging.DEBUG if path in _QUIET else logging.WARNING if status >= 500 else logging.INFO
    if log.isEnabledFor(level):
        fields = {"method": method, "path": path, "status": status, "ms": round(1000 * took_s, 2)}
        log.log(level, "call", extra=fields)
