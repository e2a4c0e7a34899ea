"""POST /v1/requests with all_or_nothing: all are admitted, on whichever clouds, or none is."""

from typing import Any

import httpx
import pytest

from tests.contract.harness import FakeOwner, Federation
from tests.contract.test_requests import problem
from tests.support.wait import wait_until

PATH = "/v1/requests"


@pytest.fixture
def clouds(federation: Federation, api: httpx.Client) -> list[FakeOwner]:
    owners = [federation.join("a", (4,)), federation.join("b", (2, 2))]
    wait_until(lambda: all(cloud["reachable"] for cloud in api.get("/v1/clouds").json()["clouds"]))
    return owners


def together(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"all_or_nothing": True, "requests": [{"lifetime_s": 60, **request} for request in requests]}


def running(clouds: list[FakeOwner]) -> list[str]:
    return sorted(name for owner in clouds for name in owner.running())


def test_all_are_admitted_wherever_there_is_room(clouds: list[FakeOwner], api: httpx.Client) -> None:
    wish = together(*({"id": f"r{number}", "cores": 2} for number in range(4)))
    admitted = api.post(PATH, json=wish)
    assert admitted.status_code == 201, admitted.text
    leases = admitted.json()["leases"]
    assert [lease["request"] for lease in leases] == ["r0", "r1", "r2", "r3"]
    assert sorted(lease["cloud"] for lease in leases) == ["a", "a", "b", "b"]
    assert running(clouds) == sorted(lease["id"] for lease in leases)
    assert api.post(PATH, json=wish).json() == admitted.json()
    # The same request by itself, or in another list, is another one.
    problem(api.post(PATH, json=wish["requests"][0]), "key-reused")
    problem(api.post(PATH, json=together(*wish["requests"][:3])), "key-reused")


def test_none_is_where_one_has_no_room(clouds: list[FakeOwner], api: httpx.Client) -> None:
    wish = together(*({"id": f"r{number}", "cores": 2} for number in range(3)), {"id": "big", "cores": 4})
    refused = api.post(PATH, json=wish)
    assert refused.status_code == 409, refused.text
    body = refused.json()
    assert body["type"].endswith(":refused")
    assert {(refusal["cloud"], refusal["reason"]) for refusal in body["refusals"]} >= {("b", "too_large")}
    wait_until(lambda: not any(owner.owner.cloud.inventory.spot() for owner in clouds))
    assert running(clouds) == []
    assert api.post(PATH, json=wish).json() == body
    # The room is there again.
    assert api.post(PATH, json=together(*({"cores": 2} for _ in range(4)))).status_code == 201


def test_what_was_asked_for_alone_is_not_taken_into_a_list(
    clouds: list[FakeOwner], api: httpx.Client
) -> None:
    alone = {"id": "r", "cores": 1, "lifetime_s": 60}
    lease = api.post(PATH, json=alone).json()["lease"]
    problem(api.post(PATH, json=together(alone, {"id": "s", "cores": 1})), "key-reused")
    wait_until(lambda: running(clouds) == [lease["id"]])
    refused = api.post(PATH, json={"id": "s", "cores": 1, "lifetime_s": 60})
    problem(refused, "key-reused")


def test_a_call_that_is_repeated_gets_the_same_leases(clouds: list[FakeOwner], api: httpx.Client) -> None:
    headers = {"Idempotency-Key": "k"}
    first = api.post(PATH, json=together({"cores": 1}, {"cores": 3}), headers=headers)
    assert first.status_code == 201, first.text
    again = api.post(PATH, json=together({"cores": 1}, {"cores": 3}), headers=headers)
    assert again.json() == first.json()
    problem(api.post(PATH, json=together({"cores": 1}), headers=headers), "key-reused")


def test_each_lease_has_the_promise_of_its_own_request(clouds: list[FakeOwner], api: httpx.Client) -> None:
    wish = together({"cores": 1, "sla": 1.0}, {"cores": 1, "sla": None}, {"cores": 1, "lifetime_s": 90})
    leases = api.post(PATH, json=wish).json()["leases"]
    assert [lease["promised_sla"] for lease in leases] == [1.0, None, None]
    assert [lease["ends_at_s"] - lease["starts_at_s"] for lease in leases] == pytest.approx([60, 60, 90])
    assert api.delete(f"/v1/leases/{leases[0]['id']}").status_code == 200
    wait_until(lambda: running(clouds) == sorted(lease["id"] for lease in leases[1:]))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"all_or_nothing": False, "requests": [{"cores": 1, "lifetime_s": 60}]}, "all_or_nothing"),
        ({"requests": [{"cores": 1, "lifetime_s": 60}]}, "all_or_nothing"),
        (together(), "requests"),
        (together(*({"cores": 1} for _ in range(101))), "requests"),
        (together({"cores": 0}), "requests.0.cores"),
        (together({"id": "r", "cores": 1}, {"id": "r", "cores": 1}), "id"),
        (together({"cores": 1}, {"cores": 1, "at_s": 5.0}), "at_s"),
    ],
)
def test_what_cannot_be_used_names_the_field(
    clouds: list[FakeOwner], api: httpx.Client, body: dict[str, Any], field: str
) -> None:
    refused = api.post(PATH, json=body)
    assert refused.status_code == 422, refused.text
    assert field in [error["field"] for error in refused.json()["errors"]]
    assert running(clouds) == []
