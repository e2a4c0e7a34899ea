"""Spans for an OpenTelemetry collector: one of each API call, and below it one of what each owner answers.

Both sides derive the ids from the call's request id (``broker.observability.request_id``), so nothing more
has to travel.
A caller's ``traceparent`` makes its span the parent, and its trace id the request id unless the call brings
one.
Without ``SPOTFED_OTLP_URL`` nothing of this is imported. A collector that is away costs spans, nothing else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from hashlib import sha256
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING

from broker.settings import Settings, SettingsError

if TYPE_CHECKING:
    from opentelemetry.context import Context

Attributes = Mapping[str, str | int]

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_HEX = re.compile(r"(?!0{32})[0-9a-f]{32}")
_LAST_WAIT_MS = 2_000
_PACKAGES = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


def trace_id(request_id: str) -> int:
    """128 bits: the request id itself where it is 32 hexadecimal digits, as all that we make are."""
    if _HEX.fullmatch(request_id):
        return int(request_id, 16)
    return int.from_bytes(sha256(request_id.encode()).digest()[:16], "big") or 1


def span_id(request_id: str) -> int:
    """64 bits: of the span of the call itself."""
    return int.from_bytes(sha256(request_id.encode()).digest()[16:24], "big") or 1


def caller(traceparent: str | None) -> tuple[str, int] | None:
    """Trace id, in digits, and span id of who calls; None where the header is none (W3C Trace Context)."""
    found = _TRACEPARENT.fullmatch(traceparent or "")
    return None if found is None or found[0].startswith("ff") else (found[1], int(found[2], 16))


def require(settings: Settings) -> None:
    """Raises SettingsError where spans are wanted and cannot be had."""
    if settings.otlp_url is not None and not all(map(_is_there, _PACKAGES)):
        raise SettingsError("SPOTFED_OTLP_URL: spans need further packages: pip install 'spotfed[telemetry]'")


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


class Spans:
    """Sends them from a thread of its own.

    service: the name that the collector knows this process by. told: what all its spans say.
    """

    def __init__(self, url: str, service: str, **told: str):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        class Ids(RandomIdGenerator):
            """Random ones, but for the next span's where they are told."""

            trace: int | None = None
            span: int | None = None

            def generate_trace_id(self) -> int:
                told, self.trace = self.trace, None
                return super().generate_trace_id() if told is None else told

            def generate_span_id(self) -> int:
                told, self.span = self.span, None
                return super().generate_span_id() if told is None else told

        self._ids = Ids()
        resource = Resource.create(
            {"service.name": service, "service.version": metadata.version("spotfed"), **told}
        )
        self._provider = TracerProvider(id_generator=self._ids, resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
        self._tracer = self._provider.get_tracer("spotfed")

    @classmethod
    def told(cls, settings: Settings, service: str, **told: str) -> Spans | None:
        """None: nobody wants them. Raises SettingsError as ``require`` does."""
        require(settings)
        return None if settings.otlp_url is None else cls(settings.otlp_url, service, **told)

    def call(
        self, request_id: str, parent: tuple[str, int] | None, name: str, took_s: float, about: Attributes
    ) -> None:
        """A call that was just answered, always told from the same thread.

        parent: who called, of ``caller``; it counts where the call has the same trace id.
        """
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, StatusCode

        number, ended_ns = trace_id(request_id), time.time_ns()
        known = parent is not None and int(parent[0], 16) == number
        above = _below(number, parent[1]) if parent is not None and known else Context()
        self._ids.trace, self._ids.span = None if known else number, span_id(request_id)
        began_ns = ended_ns - round(1e9 * took_s)
        span = self._tracer.start_span(name, above, SpanKind.SERVER, dict(about), start_time=began_ns)
        if int(about.get("http.response.status_code", 0)) >= 500:
            span.set_status(StatusCode.ERROR)
        span.end(ended_ns)

    def answer(self, request_id: str, name: str, began_ns: int, about: Attributes) -> None:
        """What an owner did for a call, from ``began_ns`` (since 1970) until now, when it is committed."""
        from opentelemetry.trace import SpanKind

        above = _below(trace_id(request_id), span_id(request_id))
        self._tracer.start_span(name, above, SpanKind.CONSUMER, dict(about), start_time=began_ns).end()

    def close(self) -> None:
        """Sends what is left, for a moment."""
        self._provider.force_flush(_LAST_WAIT_MS)
        self._provider.shutdown()


def _below(trace: int, span: int) -> Context:
    """The context of what belongs to a span of another process."""
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    sampled = TraceFlags(TraceFlags.SAMPLED)
    return set_span_in_context(
        NonRecordingSpan(SpanContext(trace, span, is_remote=True, trace_flags=sampled))
    )
