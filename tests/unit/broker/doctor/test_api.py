"""Checks of the HTTP API."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from broker.doctor import CheckResult, Installation, State
from broker.doctor import api as doctor_api
from broker.settings import Settings


class FakeApi:
    """Answers as it is told; ``down``: not at all."""

    def __init__(self) -> None:
        self.down = False
        self.version, self.ready, self.status = "1.0", True, 200

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            raise httpx.ConnectError("refused")
        if request.url.path == "/openapi.json":
            return httpx.Response(200, json={"info": {"version": self.version}})
        if request.url.path == "/readyz" and not self.ready:
            return httpx.Response(503, json={"detail": "no cloud can be reached"})
        if request.url.path == "/v1/clouds":
            assert request.headers["Authorization"] == "Bearer k"
            return httpx.Response(self.status)
        return httpx.Response(200)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake, client = FakeApi(), httpx.Client

    def make(**options: Any) -> httpx.Client:
        return client(**options, transport=httpx.MockTransport(fake))

    monkeypatch.setattr(httpx, "Client", make)
    monkeypatch.setattr(doctor_api, "installed_version", lambda _: "1.0")
    return fake


def run(key: str | None = "k") -> dict[str, CheckResult]:
    with Installation(Settings(), api_url="http://127.0.0.1:1", api_key=key) as installation:
        checks = (doctor_api.check_api, doctor_api.check_api_ready, doctor_api.check_api_key)
        return {result.name: result for check in checks for result in check.run(installation)}


def test_a_sound_api(api: FakeApi) -> None:
    results = run()
    assert {name: result.state for name, result in results.items()} == {
        "api": State.OK,
        "api ready": State.OK,
        "api key": State.OK,
    }
    assert results["api"].found == "http://127.0.0.1:1 lives, spotfed 1.0"


def test_an_api_that_nobody_named_is_not_asked() -> None:
    (result,) = doctor_api.check_api(Installation(Settings()))
    assert result.state is State.OK
    assert "none was asked" in result.found


def test_an_api_that_does_not_answer_is_one_failure(api: FakeApi) -> None:
    api.down = True
    (result,) = run().values()
    assert (result.name, result.state) == ("api", State.FAILURE)
    assert result.found == "http://127.0.0.1:1 does not answer: refused"


def test_an_api_of_another_version_or_that_is_not_ready(api: FakeApi) -> None:
    api.version, api.ready = "2.0", False
    results = run()
    assert results["api"].state is State.WARNING
    assert results["api ready"].state is State.FAILURE
    assert results["api ready"].found == "it is not ready: no cloud can be reached"


@pytest.mark.parametrize(("status", "state"), [(401, State.FAILURE), (503, State.WARNING)])
def test_a_key_that_the_api_does_not_take(api: FakeApi, status: int, state: State) -> None:
    api.status = status
    assert run()["api key"].state is state


def test_without_a_key_commands_will_be_refused(api: FakeApi) -> None:
    assert run(key=None)["api key"].state is State.WARNING
