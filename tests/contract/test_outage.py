"""Redis away: a quick 503 that says when to come back; then all goes on, and nothing was lost."""

import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from broker.client import Client, GrantedRequest, UnavailableError
from broker.contract import SpotRequest
from broker.storage.embedded_server import EmbeddedRedis
from tests.contract.harness import KEY, Federation, serving
from tests.contract.test_requests import WISH, problem
from tests.support.wait import wait_until

CALLS = [
    ("POST", "/v1/requests", WISH),
    ("POST", "/v1/requests", [WISH]),
    ("POST", "/v1/quotes", WISH),
    ("GET", "/v1/leases", None),
    ("GET", "/v1/leases/a", None),
    ("DELETE", "/v1/leases/a", None),
    ("GET", "/v1/clouds", None),
    ("GET", "/v1/clouds/east", None),
    ("POST", "/v1/clouds/east/on-demand", {"cores": 1}),
    ("GET", "/v1/events", None),
    ("GET", "/readyz", None),
]


def test_away_and_back(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / "redis", appendfsync="always")
    server.start()
    try:
        with serving(Federation(server.url)) as federation:
            federation.join("east", (64,))
            with httpx.Client(
                base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60
            ) as api:
                kept = api.post("/v1/requests", json=WISH | {"id": "kept"}).json()
                for owner in federation.owners.values():
                    owner.stop()
                server.stop()
                wait_until(
                    lambda: api.get("/v1/clouds").status_code == 503
                )  # what it knew is good for a moment
                for method, path, body in CALLS:
                    began_s = time.monotonic()
                    response = api.request(method, path, json=body)
                    assert problem(response, "queue-away")["status"] == 503, path
                    assert response.headers["retry-after"] == "1"
                    assert time.monotonic() - began_s < 15
                assert api.get("/healthz").status_code == 200
                with (
                    Client(federation.url, KEY, deadline_s=0.5) as client,
                    pytest.raises(UnavailableError, match="queue"),
                ):
                    client.requests.submit(SpotRequest(cores=1, lifetime_s=60))
                server.start()
                wait_until(lambda: api.get("/v1/clouds").status_code == 200)
                assert api.post("/v1/requests", json=WISH | {"id": "kept"}).json() == kept
                assert api.get(f"/v1/leases/{kept['lease']['id']}").status_code == 200
    finally:
        server.stop()


def test_a_frozen_queue_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As outside these tests, see their conftest.py.
    monkeypatch.setattr(
        "broker.api.container._TIMEOUTS", {"socket_timeout": 3.0, "socket_connect_timeout": 3.0}
    )
    with (
        EmbeddedRedis(tmp_path / "redis", appendfsync="no") as server,
        serving(Federation(server.url)) as federation,
    ):
        federation.join("east", (64,))
        with Client(federation.url, KEY, deadline_s=30) as client:
            os.kill(server.pid, signal.SIGSTOP)
            try:
                began_s = time.monotonic()
                response = httpx.post(
                    f"{federation.url}/v1/requests",
                    json=WISH,
                    headers={"Authorization": f"Bearer {KEY}"},
                    timeout=60,
                )
                problem(response, "queue-away")
                assert time.monotonic() - began_s < 15
            finally:
                os.kill(server.pid, signal.SIGCONT)
            assert isinstance(client.requests.submit(SpotRequest(cores=1, lifetime_s=60)), GrantedRequest)
