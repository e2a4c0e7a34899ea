"""Sends spans to an OpenTelemetry collector: one for each API call, and below it one for each owner's answer.

Both sides derive the ids from the call's request id (``broker.observability.request_id``), so nothing more
has to travel. A caller's ``traceparent`` makes its span the parent, and its trace id becomes the request id
unless the call brings one. Without ``SPOTFED_OTLP_URL`` no OpenTelemetry package is imported. A collector
that is away costs spans, nothing else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from hashlib import sha256
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING

from broker.settings import Settings, SettingsError, is_local

if TYPE_CHECKING:
    from opentelemetry.context import Context

Attributes = Mapping[str, str | int]

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_HEX = re.compile(r"(?!0{32})[0-9a-f]{32}")
_LAST_WAIT_MS = 2_000
_PACKAGES = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


def trace_id(request_id: str) -> int:
    """Return the trace id (128 bits): the request id itself if it is 32 hexadecimal digits, else a hash."""
    if _HEX.fullmatch(request_id):
        return int(request_id, 16)
    return int.from_bytes(sha256(request_id.encode()).digest()[:16], "big") or 1


def span_id(request_id: str) -> int:
    """Return the id (64 bits) of the span of the call itself."""
    return int.from_bytes(sha256(request_id.encode()).digest()[16:24], "big") or 1


def caller(traceparent: str | None) -> tuple[str, int] | None:
    """Return the trace id, in digits, and span id of a W3C ``traceparent`` header; None if it is invalid."""
    match = _TRACEPARENT.fullmatch(traceparent or "")
    return None if match is None or match[0].startswith("ff") else (match[1], int(match[2], 16))


def require(settings: Settings) -> None:
    """Check that spans can be sent, if the settings ask for them.

    Raises
    ------
    SettingsError
        When the packages for it are missing.
    """
    if settings.otlp_url is not None and not all(map(_is_there, _PACKAGES)):
        raise SettingsError("SPOTFED_OTLP_URL: spans need further packages: pip install 'spotfed[telemetry]'")


def _is_there(package: str) -> bool:
    """Return True if a package is installed."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


class Spans:
    """Sends spans from a thread of its own.

    Parameters
    ----------
    url
        Address of the collector.
    service
        Name by which the collector knows this process.
    attributes
        Attributes of all spans of this process.
    """

    def __init__(self, url: str, service: str, **attributes: str):
        import requests
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        class Ids(RandomIdGenerator):
            """Generates random ids, except for the next span if its ids are set."""

            trace: int | None = None
            span: int | None = None

            def generate_trace_id(self) -> int:
                chosen, self.trace = self.trace, None
                return super().generate_trace_id() if chosen is None else chosen

            def generate_span_id(self) -> int:
                chosen, self.span = self.span, None
                return super().generate_span_id() if chosen is None else chosen

        self._ids = Ids()
        resource = Resource.create(
            {"service.name": service, "service.version": metadata.version("spotfed"), **attributes}
        )
        self._provider = TracerProvider(id_generator=self._ids, resource=resource)
        session = requests.Session()
        session.trust_env = not is_local(url)
        exporter = OTLPSpanExporter(f"{url}/v1/traces", session=session)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("spotfed")

    @classmethod
    def from_settings(cls, settings: Settings, service: str, **attributes: str) -> Spans | None:
        """Return the sender of spans that the settings ask for; None if they ask for none.

        Raises
        ------
        SettingsError
            When the packages for it are missing.
        """
        require(settings)
        return None if settings.otlp_url is None else cls(settings.otlp_url, service, **attributes)

    def send_call(
        self,
        request_id: str,
        parent: tuple[str, int] | None,
        name: str,
        took_s: float,
        attributes: Attributes,
    ) -> None:
        """Send the span of a call that was just answered. Always call it from the same thread.

        Parameters
        ----------
        request_id
            Id of the call.
        parent
            Span of the caller, from ``caller``; it counts if the call has its trace id.
        name
            Name of the span.
        took_s
            Seconds that the answer took.
        attributes
            Attributes of the span.
        """
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, StatusCode

        trace, ended_ns = trace_id(request_id), time.time_ns()
        known = parent is not None and int(parent[0], 16) == trace
        above = _below(trace, parent[1]) if parent is not None and known else Context()
        self._ids.trace, self._ids.span = None if known else trace, span_id(request_id)
        began_ns = ended_ns - round(1e9 * took_s)
        span = self._tracer.start_span(name, above, SpanKind.SERVER, dict(attributes), start_time=began_ns)
        if int(attributes.get("http.response.status_code", 0)) >= 500:
            span.set_status(StatusCode.ERROR)
        span.end(ended_ns)

    def send_answer(self, request_id: str, name: str, began_ns: int, attributes: Attributes) -> None:
        """Send the span of an owner's work for a call, which ends now.

        ``began_ns`` is in nanoseconds since 1970.
        """
        from opentelemetry.trace import SpanKind

        above = _below(trace_id(request_id), span_id(request_id))
        self._tracer.start_span(name, above, SpanKind.CONSUMER, dict(attributes), start_time=began_ns).end()

    def close(self) -> None:
        """Send the spans that are left, for a moment."""
        self._provider.force_flush(_LAST_WAIT_MS)
        self._provider.shutdown()


def _below(trace: int, span: int) -> Context:
    """Return the context for children of a span of another process."""
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    sampled = TraceFlags(TraceFlags.SAMPLED)
    return set_span_in_context(
        NonRecordingSpan(SpanContext(trace, span, is_remote=True, trace_flags=sampled))
    )
