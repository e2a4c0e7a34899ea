"""Around every call: its request id, what it took, and a line in the log.

``X-Request-Id`` of the caller is taken where it is one (up to 64 of ``A-Za-z0-9._:=+-``), else the trace id
of its ``traceparent``, else one is made. The answer carries it, and so does every log line that the call
causes, its clouds' owners' too.
"""

from __future__ import annotations

import logging
import re
import time

import structlog
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from broker.api.services.request_metrics import RequestMetrics
from broker.observability import request_id
from broker.observability.spans import Spans, caller

log = logging.getLogger(__name__)

_HEADER = request_id.HEADER.lower().encode()
_TRACEPARENT = b"traceparent"
_NAMES = frozenset({_HEADER, _TRACEPARENT})
#: Asked every few seconds by machines.
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
_CONVERTER = re.compile(r":\w+}")


def note(**what: object) -> None:
    """Adds to the log lines of the present call from here on."""
    structlog.contextvars.bind_contextvars(**what)


class RequestLogMiddleware:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, of: FastAPI, meter: RequestMetrics, spans: Spans | None = None):
        self._app, self._of, self._meter, self._spans = app, of, meter, spans
        self._routes: dict[object, str] = {}  # by endpoint: the path with names for what varies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = {name: value.decode("latin-1") for name, value in scope["headers"] if name in _NAMES}
        parent = caller(given.get(_TRACEPARENT))
        call = request_id.begin(given.get(_HEADER) or (parent and parent[0]))
        structlog.contextvars.clear_contextvars()
        note(request_id=call)
        began_s, status, took_s = time.perf_counter(), 500, None

        async def sending(message: Message) -> None:
            nonlocal status, took_s
            if message["type"] == "http.response.start":
                status, took_s = message["status"], time.perf_counter() - began_s
                message["headers"] = [*message.get("headers", ()), (_HEADER, call.encode())]
            await send(message)

        self._meter.count_start()
        try:
            await self._app(scope, receive, sending)
        finally:
            took_s = time.perf_counter() - began_s if took_s is None else took_s
            self._meter.count_end()
            route = self._route(scope)
            self._meter.observe_answer(scope["method"], route, status, took_s)
            if self._spans is not None and scope["path"] not in _QUIET:
                told = {"http.request.method": scope["method"], "http.response.status_code": status}
                about = told | {"http.route": route or "", "spotfed.request_id": call}
                self._spans.send_call(call, parent, f"{scope['method']} {route or ''}".strip(), took_s, about)
            _say(scope, status, took_s)

    def _route(self, scope: Scope) -> str | None:
        if not self._routes:
            found = iter_route_contexts(self._of.routes)
            self._routes = {one.endpoint: _CONVERTER.sub("}", one.path or "") for one in found}
        return self._routes.get(scope.get("endpoint"))


def _say(scope: Scope, status: int, took_s: float) -> None:
    path = scope["path"]
    level = logging.DEBUG if path in _QUIET else logging.WARNING if status >= 500 else logging.INFO
    if log.isEnabledFor(level):
        told = {"method": scope["method"], "path": path, "status": status, "ms": round(1000 * took_s, 2)}
        log.log(level, "call", extra=told)
