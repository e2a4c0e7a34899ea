"""Notices, those who wait for room, and drains, through the HTTP API and the command line."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from broker.client import Client, NotFoundError, ProblemAnswer, RefusedRequest
from broker.contract import Event, OnDemandRequest
from tests.contract.harness import KEY, FakeOwner, Federation, Run
from tests.contract.test_requests import problem
from tests.support.wait import wait_until

GRACE_S = 600.0


@pytest.fixture
def east(federation: Federation) -> FakeOwner:
    """Two nodes of 4 cores, and ten minutes' notice."""
    return federation.join("east", (4, 4), grace_s=GRACE_S)


@pytest.fixture
def client(federation: Federation) -> Iterator[Client]:
    with Client(federation.url, KEY, deadline_s=60.0) as client:
        yield client


def submit(api: httpx.Client, name: str, cores: int = 4) -> dict[str, Any]:
    wish = {"id": name, "cores": cores, "lifetime_s": 36_000}
    response = api.post("/v1/requests", json=wish)
    assert response.status_code == 201, response.text
    lease: dict[str, Any] = response.json()["lease"]
    wait_until(lambda: api.get(f"/v1/leases/{lease['id']}").json()["state"] == "running")
    return lease


def kinds(api: httpx.Client) -> list[str]:
    text = api.get("/v1/events", params={"follow": "false"}).text
    return [line.removeprefix("event:").strip() for line in text.splitlines() if line.startswith("event:")]


def test_a_notice_is_heard_acknowledged_and_makes_room(
    federation: Federation, east: FakeOwner, api: httpx.Client, client: Client
) -> None:
    for name in ("r", "s"):
        submit(api, name)
    problem(api.post("/v1/leases/s.1/acknowledge"), "not-noticed")
    with federation.redis as listener, listener.pubsub(ignore_subscribe_messages=True) as heard:
        heard.subscribe(federation.keys.channel("east"))
        heard.get_message(timeout=60)
        started = client.on_demand.start("east", OnDemandRequest(id="vm", cores=4))
        (message,) = filter(None, (heard.get_message(timeout=1) for _ in range(2)))
    event = Event.model_validate_json(message["data"])
    assert event.lease is not None
    assert (event.kind, event.lease.id, event.cause) == ("noticed", "s.1", "vm")
    assert event.lease.evict_at_s == event.at_s + GRACE_S
    assert not isinstance(started, RefusedRequest)
    booked = started.lease
    assert (booked.state, booked.starts_by_s) == ("booked", booked.starts_at_s + GRACE_S)
    assert api.get("/v1/clouds/east/on-demand/vm").json()["state"] == "booked"
    told = api.get("/v1/leases/s.1").json()
    assert (told["state"], told["evict_at_s"]) == ("running", booked.starts_by_s)
    assert api.get("/v1/leases/r.1").json()["evict_at_s"] is None
    refusal = problem(api.post("/v1/leases/s.1/extend", json={"lifetime_s": 72_000}), "refused")
    assert refusal["refusals"][0]["reason"] == "noticed"
    left = client.leases.acknowledge("s.1")
    assert (left.state, left.cause) == ("evicted", "vm")
    assert client.leases.acknowledge("s.1") == left
    running = client.on_demand.get("east", "vm")
    assert not isinstance(running, RefusedRequest)
    assert (running.state, running.starts_at_s) == ("running", left.ended_at_s)
    assert kinds(api) == ["admitted", "admitted", "noticed", "evicted"]
    assert [sent.event.kind for sent in client.events.stream(follow=False)] == kinds(api)
    east.owner.validate()


def test_a_booked_instance_is_given_up(east: FakeOwner, api: httpx.Client) -> None:
    for name in ("r", "s"):
        submit(api, name)
    assert api.post("/v1/clouds/east/on-demand", json={"id": "vm", "cores": 4}).status_code == 201
    assert api.delete("/v1/clouds/east/on-demand/vm").json()["lease"]["state"] == "cancelled"
    assert api.get("/v1/clouds/east/on-demand/vm").json()["state"] == "cancelled"
    east.owner.validate()


def test_own_requests_that_are_asked_for(east: FakeOwner, api: httpx.Client, client: Client) -> None:
    wide = api.post("/v1/clouds/east/on-demand", json={"id": "wide", "cores": 5})
    assert wide.json()["lease"]["parts"] == [[0, 4], [1, 1]]
    assert api.delete("/v1/clouds/east/on-demand/wide").json()["lease"]["state"] == "cancelled"
    assert api.post("/v1/clouds/east/on-demand", json={"id": "big", "cores": 9}).status_code == 409
    refused = client.on_demand.get("east", "big")
    assert isinstance(refused, RefusedRequest)
    assert refused.refusals[0].reason == "too_large"
    problem(api.get("/v1/clouds/east/on-demand/nobody"), "not-found")
    problem(api.get("/v1/clouds/east/on-demand/a%20b"), "not-found")
    problem(api.get("/v1/clouds/south/on-demand/vm"), "not-found")
    east.go_deaf()
    problem(api.get("/v1/clouds/east/on-demand/big"), "owner-silent")


def test_a_node_is_drained_and_opened_again(east: FakeOwner, api: httpx.Client, client: Client) -> None:
    for name in ("r", "s"):
        submit(api, name, 3)
    path = "/v1/clouds/east/drain"
    would = api.post(path, json={"nodes": [1], "dry_run": True})
    assert would.status_code == 200, would.text
    assert (would.json()["dry_run"], would.json()["closed_nodes"]) == (True, [1])
    (leaving,) = would.json()["leaving"]
    assert (leaving["lease"], leaving["evict_at_s"]) == ("s.1", would.json()["at_s"] + GRACE_S)
    assert kinds(api) == ["admitted", "admitted"], "nothing happened"
    report = client.clouds.drain("east", [1])
    assert [one.lease for one in report.leaving] == ["s.1"]
    wait_until(lambda: api.get("/v1/clouds/east").json()["advert"]["closed_nodes"] == 1)
    assert client.clouds.get("east").advert.free_cores == 1  # type: ignore[union-attr]
    assert client.leases.acknowledge("s.1").cause == "drain by tester"
    problem(api.post("/v1/requests", json={"cores": 2, "lifetime_s": 60}), "refused")
    assert client.clouds.reopen("east", [1]).found
    wait_until(lambda: api.get("/v1/clouds/east").json()["advert"]["closed_nodes"] == 0)
    submit(api, "t", 4)
    assert [one.lease for one in client.clouds.drain("east").leaving] == ["t.1", "r.1"]
    assert client.clouds.reopen("east").found


def test_drains_that_cannot_be(east: FakeOwner, api: httpx.Client, client: Client) -> None:
    path = "/v1/clouds/east/drain"
    for nodes in ([2], [-1], [], ["1"], [0.5], [1e9], 1):
        (error, *_) = problem(api.post(path, json={"nodes": nodes}), "invalid")["errors"]
        assert error["field"].split(".")[0] == "nodes"
        assert error["accepted"]
    (error,) = problem(api.post(path, json={"node": [1]}), "invalid")["errors"]
    assert error["field"] == "node"
    (error,) = problem(api.post(path, json={"dry_run": "yes"}), "invalid")["errors"]
    assert error["field"] == "dry_run"
    problem(api.post(path, content=b"{", headers={"Content-Type": "application/json"}), "malformed")
    problem(api.post("/v1/clouds/south/drain", json={}), "not-found")
    for node in ("2", "-1", "x", "1e3"):
        (error,) = problem(api.delete(path, params={"node": node}), "invalid")["errors"]
        assert error["field"].split(".")[0] == "node"
    problem(api.delete("/v1/clouds/south/drain"), "not-found")
    problem(api.post("/v1/leases/nobody/acknowledge"), "not-found")
    with pytest.raises(NotFoundError):
        client.clouds.drain("south")
    with pytest.raises(ProblemAnswer):
        client.leases.acknowledge("nobody")
    east.go_deaf()
    problem(api.post(path, json={"dry_run": True}), "owner-silent")
    problem(api.delete(path), "owner-silent")


def test_the_command_line_drains(east: FakeOwner, api: httpx.Client, spotfed: Run) -> None:
    for name in ("r", "s"):
        submit(api, name, 3)
    code, out, _ = spotfed("cloud", "drain", "east", "--node", 1, "--dry-run")
    assert code == 0
    assert "east: node 1 would then be closed for new instances" in out
    assert "Would have to leave" in out
    assert ("s.1" in out, "r.1" in out, "in 10 min" in out) == (True, False, True)
    code, out, _ = spotfed("cloud", "drain", "east", "--node", 1, "--json")
    assert (code, json.loads(out)["leaving"][0]["lease"]) == (0, "s.1")
    wait_until(lambda: "1 node closed" in spotfed("clouds")[1])
    assert "must leave in" in spotfed("leases")[1]
    assert "s.1 (3 cores, from user) must leave in 10 min, because of drain by tester" in spotfed("events")[1]
    code, _, err = spotfed("acknowledge", "r.1")
    assert (code, "was not told to leave" in err) == (3, True)
    code, out, _ = spotfed("acknowledge", "s.1")
    assert (code, "s.1 on east has left, " in out) == (0, True)
    code, out, _ = spotfed("acknowledge", "s.1", "--json")
    assert (code, json.loads(out)["lease"]["state"]) == (0, "evicted")
    assert spotfed("cloud", "reopen", "east", "--node", 1)[1] == "opened node 1 of east\n"
    assert json.loads(spotfed("cloud", "reopen", "east", "--json")[1]) == {"cloud": "east", "opened": None}
    code, out, _ = spotfed("cloud", "drain", "east", "--node", 1)
    assert "no spot instance runs there" in out
    code, _, err = spotfed("cloud", "drain", "east", "--node", 2)
    assert (code, "the cloud has no such node" in err) == (2, True)
    code, _, err = spotfed("cloud", "drain", "south")
    assert (code, "there is no such cloud" in err) == (2, True)


@pytest.mark.parametrize("command", [("cloud", "drain"), ("cloud", "reopen"), ("acknowledge",)])
def test_help_has_an_example(spotfed: Run, command: tuple[str, ...]) -> None:
    code, out, _ = spotfed(*command, "--help")
    assert code == 0
    assert f"Example: spotfed {' '.join(command)}" in out
    assert "--json" in out
