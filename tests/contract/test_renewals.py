"""Requests without a lifetime: renewed while the SLA can be kept, then warned and offered a migration."""

from typing import Any

import httpx
import pytest

from broker.client import Client, GrantedRequest
from broker.contract import EventKind, SpotRequest
from tests.contract.harness import KEY, Federation
from tests.contract.test_extensions import HOURS
from tests.contract.test_requests import problem
from tests.support.wait import wait_until
from tests.unit.cloudsim.test_offers import table


def ask(client: httpx.Client, at_s: float | None) -> None:
    """A question of somebody else, which lets the clouds' time pass."""
    wish = {"cores": 1, "lifetime_s": 60, "at_s": at_s}
    assert client.post("/v1/quotes", json=wish).status_code == 200


def kinds(client: Client) -> list[EventKind]:
    return [sent.event.kind for sent in client.events.stream(follow=False, last_event_id="0-0")]


def test_the_holder_is_warned_and_hears_who_would_take_it(federation: Federation, api: httpx.Client) -> None:
    clouds = {name: federation.join(name, (3,), trace_time=True).owner.cloud for name in "abc"}
    clouds["a"].table = clouds["b"].table = HOURS
    with Client(federation.url, KEY) as client:
        granted = client.requests.submit(SpotRequest(id="r", cores=1, lifetime_s=None, sla=0.1, at_s=10))
        assert isinstance(granted, GrantedRequest)
        assert (granted.lease.cloud, granted.lease.renewal_s, granted.lease.ends_at_s) == ("a", 3600, 3610)
        wait_until(lambda: kinds(client) == [EventKind.ADMITTED])
        clouds["a"].table = table((10, True), (20_000, False))
        ask(api, 2720)
        wait_until(lambda: len(kinds(client)) == 3)
        admitted, warned, offered = [
            sent.event for sent in client.events.stream(follow=False, last_event_id="0-0")
        ]
        assert (admitted.kind, warned.kind, warned.at_s) == (EventKind.ADMITTED, EventKind.WARNED, 2710)
        assert warned.lease is not None
        assert (warned.lease.ends_at_s, warned.cause) == (3610, "risk_too_high")
        assert offered.kind is EventKind.OFFERED
        assert [(one.cloud, one.eviction_probability) for one in offered.offers] == [("b", 0.0)]
        assert client.leases.get("r.1").warned_at_s == 2710
        ask(api, 3700)
        wait_until(lambda: client.leases.get("r.1").state == "completed")


def test_a_renewed_lease_in_wall_time(federation: Federation, api: httpx.Client) -> None:
    federation.join("a", (3,), renewal_s=1.0).owner.cloud.table = HOURS
    wait_until(lambda: api.get("/v1/clouds/a").json()["advert"]["table_version"])
    lease = api.post("/v1/requests", json={"cores": 1, "lifetime_s": None, "sla": 0.1}).json()["lease"]
    assert lease["ends_at_s"] == lease["starts_at_s"] + 1.0

    def renewed() -> bool:
        ask(api, None)
        return bool(api.get(f"/v1/leases/{lease['id']}").json()["extensions"] >= 2)

    wait_until(renewed)
    with Client(federation.url, KEY) as client:
        events = [sent.event for sent in client.events.stream(follow=False, last_event_id="0-0")]
    assert {event.cause for event in events if event.kind is EventKind.EXTENDED} == {"renewal"}
    assert api.delete(f"/v1/leases/{lease['id']}").json()["lease"]["state"] == "cancelled"


def test_a_renewable_request_begins_with_what_can_be_promised(
    federation: Federation, api: httpx.Client
) -> None:
    live = federation.join("a", (3,), trace_time=True)
    live.owner.cloud.table = HOURS
    wish = {"id": "r", "cores": 1, "lifetime_s": 20_000, "sla": 0.1, "at_s": 10}
    problem(api.post("/v1/requests", json=wish | {"id": "q"}), "refused")
    problem(api.post("/v1/requests", json=wish | {"id": "p", "least_s": 19_000}), "refused")
    (quote,) = api.post("/v1/quotes", json=wish | {"least_s": 600}).json()["quotes"]
    assert api.post("/v1/quotes", json=wish).json()["quotes"] == []
    lease = api.post("/v1/requests", json=wish | {"least_s": 600}).json()["lease"]
    assert quote["survives_s"] == lease["ends_at_s"] - lease["starts_at_s"]
    assert lease["wanted_until_s"] == 20_010
    assert 610 <= lease["ends_at_s"] < 20_010
    with Client(federation.url, KEY) as client:
        ask(api, lease["ends_at_s"] - 1)
        wait_until(lambda: EventKind.OFFERED in kinds(client) or EventKind.EXTENDED in kinds(client))
        told = client.leases.get("r.1")
        assert told.wanted_until_s == 20_010
        assert (told.warned_at_s is None) == (told.extensions > 0)


@pytest.mark.parametrize(
    "wrong",
    [{"least_s": 601}, {"sla": None}, {"sla": 1}, {"lifetime_s": None}, {"least_s": 0}],
)
def test_least_goes_with_a_longer_lifetime_and_a_promise(
    federation: Federation, api: httpx.Client, wrong: dict[str, Any]
) -> None:
    federation.join("a", (3,))
    wish = {"cores": 1, "lifetime_s": 600, "sla": 0.1, "least_s": 60} | wrong
    for path in ("requests", "quotes"):
        (error,) = problem(api.post(f"/v1/{path}", json=wish), "invalid")["errors"]
        assert error["field"] == "least_s"


@pytest.mark.parametrize("sla", [None, 1])
def test_without_a_promise_there_is_nothing_to_renew_by(
    federation: Federation, api: httpx.Client, sla: Any
) -> None:
    federation.join("a", (3,))
    for path in ("requests", "quotes"):
        response = api.post(f"/v1/{path}", json={"cores": 1, "lifetime_s": None, "sla": sla})
        (error,) = problem(response, "invalid")["errors"]
        assert error["field"] == "lifetime_s"
    problem(api.post("/v1/requests", json={"cores": 1, "sla": 0.5}), "invalid")
