"""POST /v1/clouds/{id}/on-demand with several requests: all of them are placed, or none and nobody leaves."""

from typing import Any

import httpx
import pytest

from tests.contract.harness import FakeOwner, Federation
from tests.contract.test_needs import refusals
from tests.contract.test_requests import problem
from tests.support.wait import wait_until

PATH = "/v1/clouds/home/on-demand"


@pytest.fixture
def home(federation: Federation, api: httpx.Client) -> FakeOwner:
    owner = federation.join("home", (4, 4), overflow=True)
    wait_until(lambda: api.get("/v1/clouds/home").json()["reachable"])
    return owner


def together(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"all_or_nothing": True, "requests": list(requests)}


def test_all_start_if_need_be_after_evictions(home: FakeOwner, api: httpx.Client) -> None:
    spot = api.post("/v1/requests", json={"cores": 3, "lifetime_s": 60}).json()["lease"]
    wish = together({"id": "a", "cores": 4}, {"id": "b", "cores": 4, "lifetime_s": 60})
    started = api.post(PATH, json=wish)
    assert started.status_code == 201, started.text
    assert [(one["id"], one["node"]) for one in started.json()["leases"]] == [("a", 1), ("b", 0)]
    assert api.get(f"/v1/leases/{spot['id']}").json()["state"] == "evicted"
    assert api.post(PATH, json=wish).json() == started.json()
    problem(api.post(PATH, json=together({"id": "a", "cores": 4}, {"id": "c", "cores": 1})), "key-reused")
    assert sorted(home.running()) == ["a", "b"]


def test_none_does_and_nobody_is_evicted_or_offered(home: FakeOwner, api: httpx.Client) -> None:
    spot = api.post("/v1/requests", json={"cores": 3, "lifetime_s": 60}).json()["lease"]
    wish = together(*({"id": name, "cores": 3, "lifetime_s": 60} for name in "abc"))
    refused = refusals(api.post(PATH, json=wish))["home"]
    assert (refused["reason"], refused["removed"]) == ("no_capacity", {"room": 2})
    assert home.running() == [spot["id"]]
    assert refusals(api.post(PATH, json=wish))["home"] == refused
    assert not len(home.owner.state.offers)
    problem(api.post(PATH, json=together({"id": "a", "cores": 3}, {"id": "d", "cores": 1})), "key-reused")


def test_company_counts_within_them(home: FakeOwner, api: httpx.Client) -> None:
    apart = {"cores": 1, "lifetime_s": 60, "group": "db", "spread": "apart"}
    assert refusals(api.post(PATH, json=together(apart, apart, apart)))["home"]["reason"] == "no_such_node"
    started = api.post(PATH, json=together(apart, apart), headers={"Idempotency-Key": "k"})
    assert [one["node"] for one in started.json()["leases"]] == [0, 1]
    again = api.post(PATH, json=together(apart, apart), headers={"Idempotency-Key": "k"})
    assert again.json() == started.json()


def test_what_cannot_be_used_names_the_field(home: FakeOwner, api: httpx.Client) -> None:
    one = {"cores": 1}
    for body, field in (
        ({"requests": [one]}, "all_or_nothing"),
        ({"all_or_nothing": False, "requests": [one]}, "all_or_nothing"),
        (together(), "requests"),
        (together(*[one] * 101), "requests"),
        (together(one, {"cores": 0}), "requests.1.cores"),
        (together({"id": "x", "cores": 1}, {"id": "x", "cores": 1}), "id"),
        (together({"id": "home/own-1", "cores": 1}), "id"),
    ):
        answer = problem(api.post(PATH, json=body), "invalid")
        assert [error["field"] for error in answer["errors"]] == [field]
    assert problem(api.post(PATH, content=b"{", headers={"content-type": "application/json"}), "malformed")
    problem(api.post("/v1/clouds/nobody/on-demand", json=together(one)), "not-found")
