"""POST /v1/leases/ID/extend, and quotes for several sizes."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from broker.client import Client, InputRefusedError, NotFoundError, RefusedRequest
from broker.contract import Extend, ExtensionRequest, QuoteRequest
from tests.contract.harness import KEY, FakeOwner, Federation, serving
from tests.contract.test_requests import problem
from tests.support.wait import wait_until
from tests.unit.cloudsim.test_offers import table

#: With three slots free a quarter each is evicted after an hour, two and three.
HOURS = table((3600, True), (7200, True), (10800, True), (14400, False))
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def east(federation: Federation, api: httpx.Client) -> FakeOwner:
    owner = federation.join("east", (3,))
    owner.owner.cloud.table = HOURS
    wait_until(lambda: api.get("/v1/clouds/east").json()["advert"]["table_version"])
    return owner


@pytest.fixture
def lease(east: FakeOwner, api: httpx.Client) -> dict[str, Any]:
    response = api.post("/v1/requests", json={"cores": 1, "lifetime_s": 3600, "sla": 0.4})
    made: dict[str, Any] = response.json()["lease"]
    wait_until(lambda: api.get(f"/v1/leases/{made['id']}").json()["state"] == "running")
    return made


def test_a_lease_is_promised_a_later_end(lease: dict[str, Any], api: httpx.Client) -> None:
    path = f"/v1/leases/{lease['id']}/extend"
    response = api.post(path, json={"id": "more", "lifetime_s": 7200})
    assert response.status_code == 200, response.text
    longer = response.json()
    assert longer["ends_at_s"] == lease["starts_at_s"] + 7200
    assert (longer["promised_sla"], longer["extensions"]) == (0.4, 1)
    assert longer["eviction_probability"] == 0.25
    assert longer["promised_at_s"] >= lease["starts_at_s"]
    assert api.post(path, json={"id": "more", "lifetime_s": 7200}).json() == longer
    assert api.get(f"/v1/leases/{lease['id']}").json()["ends_at_s"] == longer["ends_at_s"]
    problem(api.post(path, json={"id": "more", "lifetime_s": 7300}), "key-reused")
    named = {"Idempotency-Key": "call"}
    again = api.post(path, json={"until_s": longer["ends_at_s"] + 9, "sla": 0.9}, headers=named)
    assert (again.json()["extensions"], again.json()["promised_sla"]) == (2, 0.9)
    assert api.post(path, json={"until_s": longer["ends_at_s"] + 9, "sla": 0.9}, headers=named).json() == (
        again.json()
    )


def test_a_refusal_names_what_would_be_accepted(lease: dict[str, Any], api: httpx.Client) -> None:
    path = f"/v1/leases/{lease['id']}/extend"
    wish = {"id": "much", "lifetime_s": 12_000}
    body = problem(api.post(path, json=wish), "refused")
    assert body["refusals"][0]["reason"] == "risk_too_high"
    offers = body["counter_offers"]
    assert offers["sla"] == 0.75
    assert 7200 <= offers["lifetime_s"] < 8400  # what one born now would survive counts, too
    assert problem(api.post(path, json=wish), "refused") == body
    unseen = problem(api.post(path, json={"lifetime_s": 1e6}), "refused")
    assert unseen["refusals"][0]["reason"] == "no_evidence"
    assert api.get(f"/v1/leases/{lease['id']}").json()["ends_at_s"] == lease["ends_at_s"]
    assert api.post(path, json={"lifetime_s": offers["lifetime_s"]}).status_code == 200
    assert api.post(path, json={"lifetime_s": 12_000, "sla": 0.75}).status_code == 200


def test_leases_that_cannot_be_extended(lease: dict[str, Any], east: FakeOwner, api: httpx.Client) -> None:
    problem(api.post("/v1/leases/nobody/extend", json={"lifetime_s": 7200}), "not-found")
    east.owner.cloud.table = None
    path = f"/v1/leases/{lease['id']}/extend"
    refused = problem(api.post(path, json={"lifetime_s": 7200}), "refused")
    assert refused["refusals"][0]["reason"] == "no_table"
    api.delete(f"/v1/leases/{lease['id']}")
    refused = problem(api.post(path, json={"lifetime_s": 7200}), "refused")
    assert refused["refusals"][0]["reason"] == "ended"


def test_without_a_promise_nothing_can_be_promised(federation: Federation, api: httpx.Client) -> None:
    federation.join("east", (3,))
    plain = api.post("/v1/requests", json={"cores": 1, "lifetime_s": 60}).json()["lease"]
    path = f"/v1/leases/{plain['id']}/extend"
    (error,) = problem(api.post(path, json={"lifetime_s": 90, "sla": 0.5}), "invalid")["errors"]
    assert error["field"] == "sla"
    response = api.post(path, json={"lifetime_s": 90})
    wait_until(lambda: api.post(path, json={"lifetime_s": 95}).status_code == 200)
    assert response.status_code in (200, 409)


def test_a_silent_owner_keeps_the_wish(lease: dict[str, Any], east: FakeOwner, api: httpx.Client) -> None:
    east.go_deaf()
    path, wish = f"/v1/leases/{lease['id']}/extend", {"id": "more", "lifetime_s": 7200}
    problem(api.post(path, json=wish), "owner-silent")
    east.deaf.clear()
    wait_until(
        lambda: api.get(f"/v1/leases/{lease['id']}").json()["ends_at_s"] == lease["starts_at_s"] + 7200
    )
    assert api.post(path, json=wish).json()["extensions"] == 1
    assert sum(isinstance(command, Extend) for command in east.handled) == 2


@pytest.fixture(scope="module")
def running(redis_url: str) -> Iterator[tuple[httpx.Client, str]]:
    """A lease that lasts, for inputs that change nothing."""
    with serving(Federation(redis_url, reply_deadline_s=5.0)) as federation:
        federation.join("east", (3,)).owner.cloud.table = HOURS
        headers = {"Authorization": f"Bearer {KEY}"}
        with httpx.Client(base_url=federation.url, headers=headers, timeout=20) as api:
            wait_until(lambda: api.get("/v1/clouds/east").json()["advert"]["table_version"])
            wish = {"id": "r", "cores": 1, "lifetime_s": 3600, "sla": 0.4}
            assert api.post("/v1/requests", json=wish).status_code == 201
            wait_until(lambda: api.get("/v1/leases/r.1").json().get("state") == "running")
            yield api, "/v1/leases/r.1/extend"


@pytest.mark.parametrize(
    ("field", "text"),
    [
        *(("lifetime_s", text) for text in ("0", "-1", "NaN", "1e400", '"1h"', "true", "1e10", "null")),
        *(("lifetime_s", text) for text in ("5", "3599")),  # it has longer
        ("lifetime_s", "3.1e9"),  # together with its start beyond what any time can be
        *(("until_s", text) for text in ("-1", "NaN", "1e400", '"now"', "1e10", "4e9", "99")),
        *(("sla", text) for text in ("1", "1.5", "-0.1", "NaN", '"low"', "[]", "true")),
        *(("id", text) for text in ('""', '"a b"', '"\u00e4"', "7", '"' + "x" * 10_000 + '"')),
        *(("at_s", text) for text in ("1", "-1", '"now"')),
        ("by_s", "60"),
    ],
)
def test_a_field_that_cannot_be_used_is_named(
    running: tuple[httpx.Client, str], field: str, text: str
) -> None:
    api, path = running
    parts = {"lifetime_s": "7200"} | {field: text}
    body = "{" + ",".join(f'"{name}":{value}' for name, value in parts.items()) + "}"
    response = api.post(path, content=body, headers=JSON)
    found = problem(response, "invalid")
    assert response.status_code == 422
    assert [error["field"] for error in found["errors"]] == [field]
    assert all(error["accepted"] or field == "at_s" for error in found["errors"]), found
    assert len(response.content) < 2000, "what was sent is not sent back"
    assert api.get("/v1/leases/r.1").json()["extensions"] == 0


def test_bodies_that_are_none(running: tuple[httpx.Client, str]) -> None:
    api, path = running
    problem(api.post(path, content=b"{", headers=JSON), "malformed")
    problem(api.post(path, content=b"[]", headers=JSON), "invalid")
    problem(api.post(path, content=b"{}", headers=JSON), "invalid")
    problem(api.post(path, content=b"{}"), "unsupported-media-type")


def test_the_end_that_it_has_is_no_extension(running: tuple[httpx.Client, str]) -> None:
    api, path = running
    assert api.post(path, json={"lifetime_s": 3600}).json()["extensions"] == 0
    assert api.post(path, json={"lifetime_s": 3600, "sla": 0.4}).json()["extensions"] == 0
    problem(api.post(path, json={"lifetime_s": 3600, "sla": 0.1}), "invalid")


def test_extensions_in_trace_time(federation: Federation) -> None:
    owner = federation.join("a", (3,), trace_time=True)
    owner.owner.cloud.table = HOURS
    with Client(federation.url, KEY) as client:
        from broker.contract import SpotRequest

        client.requests.submit(SpotRequest(id="r", cores=1, lifetime_s=3600, sla=0.4, at_s=10))
        with pytest.raises(InputRefusedError, match="at_s"):
            client.leases.extend("r.1", ExtensionRequest(lifetime_s=7200))
        longer = client.leases.extend("r.1", ExtensionRequest(lifetime_s=7200, at_s=3610 - 1))
        assert not isinstance(longer, RefusedRequest)
        assert (longer.promised_at_s, longer.ends_at_s) == (3609, 7210)
        late = client.leases.extend("r.1", ExtensionRequest(lifetime_s=9000, at_s=7210))
        assert isinstance(late, RefusedRequest)
        assert [refusal.reason for refusal in late.refusals] == ["ended"]
        with pytest.raises(NotFoundError):
            client.leases.extend("nobody", ExtensionRequest(lifetime_s=9000, at_s=7210))


# -- quotes ------------------------------------------------------------------------------------------------


def test_quotes_for_several_sizes(federation: Federation, api: httpx.Client) -> None:
    federation.join("small", (3,)).owner.cloud.table = HOURS
    federation.join("wide", (8,))
    with Client(federation.url, KEY) as client:
        answer = client.requests.quote(QuoteRequest(cores=[8, 1], lifetime_s=3600))
    assert [(quote.cloud, quote.cores) for quote in answer.quotes] == [("wide", 8), ("small", 1), ("wide", 1)]
    (refusal,) = answer.refusals
    assert (refusal.cloud, refusal.cores, refusal.reason) == ("small", 8, "too_large")
    assert refusal.counter_offers.cores == 3
    wait_until(lambda: api.get("/v1/clouds/small").json()["advert"]["table_version"])
    promised = api.post("/v1/quotes", json={"cores": 2, "lifetime_s": 3600, "sla": 0.4}).json()
    by_cloud = {one["cloud"]: one for one in promised["refusals"]}
    assert by_cloud["small"]["reason"] == "no_table"
    (one,) = by_cloud["small"]["other_sizes"]
    assert (one["cores"], one["admitted"], one["eviction_probability"]) == (1, True, 0.0)
    assert by_cloud["small"]["counter_offers"]["cores"] == 1


def test_a_quote_states_its_own_risk_and_the_age_of_its_table(
    lease: dict[str, Any], api: httpx.Client
) -> None:
    api.delete(f"/v1/leases/{lease['id']}")
    (quote,) = api.post("/v1/quotes", json={"cores": 1, "lifetime_s": 7200, "sla": 0.6}).json()["quotes"]
    assert (quote["eviction_probability"], quote["survives_s"]) == (0.25, 10_800)
    assert quote["table_age_s"] == quote["cloud_time_s"] - HOURS.made_at_s


@pytest.mark.parametrize(
    "cores", ["[]", "[0]", "[1,null]", '["2"]', "[1.5]", "[[1]]", f"[{'1,' * 16}1]", "{}"]
)
def test_lists_of_sizes_that_cannot_be_used(running: tuple[httpx.Client, str], cores: str) -> None:
    api, _ = running
    response = api.post("/v1/quotes", content=f'{{"cores":{cores},"lifetime_s":60}}', headers=JSON)
    (error,) = problem(response, "invalid")["errors"]
    assert error["field"].split(".")[0] == "cores"
    assert error["accepted"]


def test_a_size_that_fits_nowhere_is_named(running: tuple[httpx.Client, str]) -> None:
    api, _ = running
    problem(api.post("/v1/quotes", json={"cores": [1, 64], "lifetime_s": 60}), "unfittable")
