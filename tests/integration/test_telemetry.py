"""Spans of real processes, as an OpenTelemetry collector hears of them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from broker.api.app import create_app
from broker.identity.store import let_in_operator
from broker.observability.spans import caller, span_id, trace_id
from broker.settings import Settings, SettingsError
from tests.integration.worker_processes import Processes
from tests.support.ports import free_port
from tests.support.wait import wait_until

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE, SPAN = CALLER.split("-")[1:3]


class Collector:
    """Takes spans over HTTP. ``spans``: those that came, with the service that sent each."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Any]] = []
        spans = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.path == "/v1/traces"
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    told = {one.key: one.value.string_value for one in resource.resource.attributes}
                    for scope in resource.scope_spans:
                        spans.extend((told["service.name"], span) for span in scope.spans)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def of(self, trace: str) -> dict[tuple[str, str], Any]:
        """The spans of a trace by service and name."""
        return {
            (service, span.name): span for service, span in list(self.spans) if span.trace_id.hex() == trace
        }

    def has(self, trace: str, names: list[tuple[str, str]]) -> bool:
        return set(names) <= set(self.of(trace))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.mark.xdist_group("worker-processes")
def test_a_call_and_what_its_owner_did_are_one_trace(
    collector: Collector, redis_url: str, tmp_path: Path
) -> None:
    told = {"SPOTFED_OTLP_URL": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    with Processes(redis_url, tmp_path) as processes:
        let_in_operator(processes.client, processes.keys, "k")
        processes.owner("--history", "30h", **told)
        port = free_port()
        processes.start("broker.api", "--port", str(port), **told)
        processes.opened(1)
        key = {"Authorization": "Bearer k"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=key, timeout=60) as http:
            wait_until(lambda: _ready(http), "the API")
            wish = {"cores": 1, "lifetime_s": 600, "origin": "B"}
            made = http.post("/v1/requests", json=wish)
            continued = http.post("/v1/requests", json=wish, headers={"traceparent": CALLER})
            named = http.post("/v1/requests", json=wish, headers={"x-request-id": "mine"})
        assert [made.status_code, continued.status_code, named.status_code] == [201] * 3
        assert continued.headers["x-request-id"] == TRACE
        traces = [made.headers["x-request-id"], TRACE, sha256(b"mine").digest()[:16].hex()]
        names = [("spotfed-api", "POST /v1/requests"), ("spotfed-owner", "A reserve")]
        for trace in traces:
            wait_until(partial(collector.has, trace, names), f"the spans of {trace}")
        for trace, parent in zip(traces, [b"", bytes.fromhex(SPAN), b""], strict=True):
            call, answer = (collector.of(trace)[name] for name in names)
            assert (call.parent_span_id, answer.parent_span_id) == (parent, call.span_id)
            assert call.start_time_unix_nano <= answer.start_time_unix_nano <= answer.end_time_unix_nano
            about = {one.key: one.value for one in answer.attributes}
            assert about["spotfed.answers.reserved"].int_value == 1
        assert not [span for _, span in collector.spans if "readyz" in span.name]


def test_ids_are_those_that_the_request_id_says() -> None:
    assert trace_id(TRACE) == int(TRACE, 16)
    for name in ("mine", "0" * 32, TRACE.upper()):
        assert trace_id(name) == int.from_bytes(sha256(name.encode()).digest()[:16], "big")
    assert 0 < span_id("mine") < 1 << 64
    assert span_id("mine") != span_id("yours")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "x",
        CALLER.upper(),
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff{CALLER[2:]}",
    ],
)
def test_a_header_that_names_no_caller_counts_as_none(header: str | None) -> None:
    assert caller(CALLER) == (TRACE, int(SPAN, 16))
    assert caller(header) is None


def test_without_the_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    monkeypatch.delitem(sys.modules, "opentelemetry.sdk.trace", raising=False)
    with pytest.raises(SettingsError, match=r"spotfed\[telemetry\]"):
        create_app(Settings(redis_url="redis://127.0.0.1:1", otlp_url="http://127.0.0.1:4318"))


def _ready(http: httpx.Client) -> bool:
    try:
        return http.get("/readyz").status_code == 200
    except httpx.HTTPError:
        return False
