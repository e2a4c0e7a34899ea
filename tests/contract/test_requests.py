"""POST /v1/requests and /v1/quotes: each request is answered once, in order, on one cloud."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import redis

from broker.contract import Confirm, Release, Reserve, SpotRequest
from broker.requests.errors import ReusedError
from broker.requests.routing import UnfittableError
from tests.contract.harness import KEY, Federation
from tests.support.wait import wait_until

WISH = {"cores": 2, "lifetime_s": 60}


def problem(response: httpx.Response, name: str) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json", response.text
    body: dict[str, Any] = response.json()
    assert body["type"] == f"urn:spotfed:problem:{name}", body
    assert body["status"] == response.status_code
    return body


def test_a_request_gets_a_lease(federation: Federation, api: httpx.Client) -> None:
    federation.join("east")
    response = api.post("/v1/requests", json=WISH | {"id": "r/1"})
    assert response.status_code == 201, response.text
    lease = response.json()["lease"]
    assert (lease["id"], lease["cloud"], lease["state"], lease["cores"]) == ("r/1.1", "east", "running", 2)
    assert response.headers["location"] == "/v1/leases/r/1.1"
    assert api.get(response.headers["location"]).json()["id"] == "r/1.1"


def test_the_tightest_fit_is_asked_first_and_the_origin_never(
    federation: Federation, api: httpx.Client
) -> None:
    federation.join("home", (2,))
    federation.join("wide", (16,))
    federation.join("tight", (4,))
    lease = api.post("/v1/requests", json=WISH | {"origin": "home"}).json()["lease"]
    assert lease["cloud"] == "tight"


def test_the_same_id_gets_the_same_answer(federation: Federation, api: httpx.Client) -> None:
    federation.join("east")
    first = api.post("/v1/requests", json=WISH | {"id": "again"})
    second = api.post("/v1/requests", json=WISH | {"id": "again"})
    assert (second.status_code, second.json()) == (first.status_code, first.json())
    problem(api.post("/v1/requests", json=WISH | {"id": "again", "cores": 3}), "key-reused")


def test_the_idempotency_key_names_a_call_without_id(federation: Federation, api: httpx.Client) -> None:
    federation.join("east")
    headers = {"Idempotency-Key": "call 1"}
    first = api.post("/v1/requests", json=WISH, headers=headers)
    second = api.post("/v1/requests", json=WISH, headers=headers)
    assert first.status_code == second.status_code == 201
    assert first.json() == second.json()
    problem(api.post("/v1/requests", json=WISH | {"cores": 1}, headers=headers), "key-reused")
    listed = api.post("/v1/requests", json=[WISH, WISH], headers={"Idempotency-Key": "call 2"})
    assert (
        api.post("/v1/requests", json=[WISH, WISH], headers={"Idempotency-Key": "call 2"}).json()
        == listed.json()
    )
    ids = {result["lease"]["id"] for result in listed.json()["results"]}
    assert len(ids) == 2
    problem(api.post("/v1/requests", json=[WISH], headers={"Idempotency-Key": "call 2"}), "key-reused")


def test_a_key_with_an_id_is_not_used_twice(federation: Federation, api: httpx.Client) -> None:
    federation.join("east")
    headers = {"Idempotency-Key": "k"}
    assert api.post("/v1/requests", json=WISH | {"id": "a"}, headers=headers).status_code == 201
    assert api.post("/v1/requests", json=WISH | {"id": "a"}, headers=headers).status_code == 201
    problem(api.post("/v1/requests", json=WISH | {"id": "b"}, headers=headers), "key-reused")


def test_refusals_of_all_clouds_with_counter_offers(federation: Federation, api: httpx.Client) -> None:
    federation.join("full", (2,))
    federation.join("untabled", (8,))
    federation.join("home", (8,))
    assert api.post("/v1/requests", json=WISH | {"targets": ["full"]}).status_code == 201
    time.sleep(0.2)
    again = problem(api.post("/v1/requests", json=WISH | {"targets": ["full"]}), "refused")
    assert {"full": "no_capacity"}.items() <= {
        one["cloud"]: one["reason"] for one in again["refusals"]
    }.items()
    body = problem(
        api.post("/v1/requests", json=WISH | {"sla": 0.1, "targets": ["full", "untabled"]}), "refused"
    )
    reasons = {refusal["cloud"]: refusal["reason"] for refusal in body["refusals"]}
    # A promise might take the room of the lease without one: it is a table that is missing there.
    assert reasons == {"full": "no_table", "untabled": "no_table", "home": "not_a_target"}
    assert body["counter_offers"] == {}


def test_the_owners_refusal_counts_and_the_next_cloud_is_asked(
    federation: Federation, api: httpx.Client
) -> None:
    tight = federation.join("tight", (2,))
    federation.join("wide", (8,))
    # Within a tenth of a second the broker still believes the advert from before.
    first = api.post("/v1/requests", json=WISH | {"id": "a"}).json()
    second = api.post("/v1/requests", json=WISH | {"id": "b"}).json()
    assert first["lease"]["cloud"] == "tight"
    assert second["lease"]["cloud"] == "wide"
    assert [refusal["reason"] for refusal in second["refusals"]] == ["no_capacity"]
    if second["lease"]["id"] == "b.2":
        wait_until(lambda: any(isinstance(one, Release) and one.attempt == "b.1" for one in tight.handled))


def test_fits_on_no_members_node(federation: Federation, api: httpx.Client) -> None:
    federation.join("east", (8, 4))
    body = problem(api.post("/v1/requests", json=WISH | {"cores": 9}), "unfittable")
    assert body["errors"][0]["field"] == "cores"
    assert "to 8" in body["errors"][0]["accepted"]


def test_a_silent_cloud_is_abandoned_and_never_has_the_lease_too(
    federation: Federation, api: httpx.Client
) -> None:
    silent = federation.join("silent", (2,))
    federation.join("next", (8,))
    silent.swallow_answers()  # it admits, but nobody hears
    body = api.post("/v1/requests", json=WISH | {"id": "s"}).json()
    assert body["lease"]["id"] == "s.2"
    assert body["lease"]["cloud"] == "next"
    assert body["refusals"][0] | {"cloud": "silent", "reason": "unreachable"} == body["refusals"][0]
    wait_until(lambda: any(isinstance(one, Release) for one in silent.handled))
    wait_until(lambda: silent.running() == [])


def test_all_silent_is_a_refusal(federation: Federation, api: httpx.Client) -> None:
    federation.join("east").go_deaf()
    body = problem(api.post("/v1/requests", json=WISH), "refused")
    assert [one["reason"] for one in body["refusals"]] == ["unreachable"]


def test_the_lease_is_confirmed(federation: Federation, api: httpx.Client) -> None:
    east = federation.join("east")
    lease = api.post("/v1/requests", json=WISH).json()["lease"]["id"]
    wait_until(lambda: api.get(f"/v1/leases/{lease}").json()["state"] == "running")
    assert [type(one) for one in east.handled if not isinstance(one, Release)][-2:] == [Reserve, Confirm]


def test_a_list_is_answered_in_order_with_one_entry_a_cloud(
    federation: Federation, api: httpx.Client
) -> None:
    federation.join("east", (8,))
    federation.join("west", (16,))
    items: list[Any] = [WISH | {"id": f"i{number}"} for number in range(14)]
    items[3] = WISH | {"cores": 0}
    items[5] = WISH | {"id": "i4"}  # the same as its neighbour
    items[6] = WISH | {"id": "i4", "cores": 1}  # the same id for something else
    items[7] = WISH | {"cores": 500}
    items[8] = "nonsense"
    response = api.post("/v1/requests", json=items)
    results = response.json()["results"]
    assert response.status_code == 200
    assert len(results) == len(items)
    types = [result["problem"] and result["problem"]["type"].rpartition(":")[2] for result in results]
    assert types[3] == types[8] == "invalid"
    assert types[6] == "key-reused"
    assert types[7] == "unfittable"
    assert results[5]["lease"] == results[4]["lease"]
    for number, result in enumerate(results):
        if number not in (3, 5, 6, 7, 8):
            assert result["lease"]["request"] == f"i{number}"
    # 8 + 16 cores hold 12 of them; nothing was booked twice.
    for owner in federation.owners.values():
        owner.owner.validate()


def test_a_list_spills_over_when_a_cloud_is_full(federation: Federation, api: httpx.Client) -> None:
    federation.join("east", (8,))
    federation.join("west", (16,))
    results = api.post("/v1/requests", json=[WISH] * 20).json()["results"]
    admitted = [result["lease"]["cloud"] for result in results if result["lease"]]
    assert sorted(admitted) == ["east"] * 4 + ["west"] * 8
    refused = [result for result in results if not result["lease"]]
    for result in refused:
        assert result["problem"]["status"] == 409
        assert {one["reason"] for one in result["refusals"]} == {"no_capacity"}


def test_an_empty_list_and_one_that_is_too_long(federation: Federation, api: httpx.Client) -> None:
    federation.join("east")
    assert api.post("/v1/requests", json=[]).json() == {"results": []}
    problem(api.post("/v1/requests", json=[1] * 5001), "invalid")


def test_one_id_at_once_from_many_gets_one_lease(federation: Federation, api: httpx.Client) -> None:
    east = federation.join("east", (64,))
    barrier = threading.Barrier(8)

    def submit(_: int) -> httpx.Response:
        barrier.wait()
        headers = {"Authorization": f"Bearer {KEY}"}
        return httpx.post(
            f"{federation.url}/v1/requests", json=WISH | {"id": "one"}, headers=headers, timeout=60
        )

    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(submit, range(8)))
    for response in responses:
        if response.status_code == 409:
            problem(response, "in-flight")
            assert response.headers["retry-after"] == "1"
        else:
            assert response.json()["lease"]["id"] == "one.1"
    wait_until(lambda: east.running() == ["one.1"])


def test_who_died_is_finished_by_another_process(federation: Federation, api: httpx.Client) -> None:
    east = federation.join("east")
    record = {
        "fingerprint": "x", "body": '{"id":"orphan","cores":2,"lifetime_s":60}', "token": "t",
        "state": "attempting", "attempt": "1", "cloud": "east",
    }  # fmt: skip
    with federation.redis as client:
        client.hset(federation.keys.request("orphan"), mapping=record)
        client.zadd(federation.keys.open_requests, {"orphan": 1})
        wait_until(lambda: client.hget(federation.keys.request("orphan"), "state") == b"committed")
    wait_until(lambda: api.get("/v1/leases/orphan.2").status_code == 200)
    assert any(isinstance(one, Release) and one.attempt == "orphan.1" for one in east.handled)


def test_quotes_change_nothing_and_are_ranked(federation: Federation, api: httpx.Client) -> None:
    wide = federation.join("wide", (16,))
    federation.join("tight", (4,))
    federation.join("small", (1,))
    body = api.post("/v1/quotes", json=WISH).json()
    assert [quote["cloud"] for quote in body["quotes"]] == ["tight", "wide"]
    assert [(one["cloud"], one["reason"]) for one in body["refusals"]] == [("small", "too_large")]
    wide.go_deaf()
    body = api.post("/v1/quotes", json=WISH).json()
    assert [quote["cloud"] for quote in body["quotes"]] == ["tight"]
    assert ("wide", "unreachable") in [(one["cloud"], one["reason"]) for one in body["refusals"]]
    assert all(owner.running() == [] for owner in federation.owners.values())


def test_no_member_yet(api: httpx.Client) -> None:
    assert problem(api.post("/v1/requests", json=WISH), "not-ready")["status"] == 503


def test_a_list_that_failed_gives_its_idempotency_key_back(
    federation: Federation, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation.join("east")
    headers = {"Idempotency-Key": "failed"}

    async def fail(*_: object) -> None:
        raise redis.ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr("broker.requests.submit.SubmissionService.submit", fail)
        problem(api.post("/v1/requests", json=[WISH, WISH], headers=headers), "queue-away")
    again = api.post("/v1/requests", json=[WISH, WISH], headers=headers)
    assert again.status_code == 200, again.text
    assert [result["lease"]["cloud"] for result in again.json()["results"]] == ["east", "east"]


@pytest.mark.parametrize(
    ("body", "name"), [("[{]", "malformed"), (f"[{'1,' * 5000}1]", "invalid")], ids=["no-json", "too-long"]
)
def test_a_malformed_list_takes_no_idempotency_key(
    federation: Federation, api: httpx.Client, body: str, name: str
) -> None:
    federation.join("east")
    headers = {"Idempotency-Key": "malformed", "Content-Type": "application/json"}
    problem(api.post("/v1/requests", content=body, headers=headers), name)
    assert api.post("/v1/requests", json=[WISH], headers=headers).status_code == 200


def test_a_bad_request_among_those_that_come_together_hurts_nobody_else(
    federation: Federation, api: httpx.Client
) -> None:
    """On the event loop of the API, so that they do come together: one goes first, the others follow."""
    federation.join("east", (64,))
    assert api.post("/v1/requests", json=WISH | {"id": "known"}).status_code == 201
    federation.redis.set(federation.keys.request("broken"), "not a record")
    requests = [SpotRequest(id=f"good-{number}", **WISH) for number in range(8)]
    requests[3:3] = [
        SpotRequest(id="broken", **WISH),
        SpotRequest(id="known", **WISH),  # another caller's: it is no lease of this one
        SpotRequest(id="huge", cores=1000, lifetime_s=60),
    ]

    async def submit_all() -> list[Any]:
        submit = federation.services.submissions.submit
        return await asyncio.gather(*(submit([one], "me") for one in requests), return_exceptions=True)

    outcomes = dict(zip((one.id for one in requests), federation.run(submit_all()), strict=True))
    assert isinstance(outcomes.pop("broken"), redis.ResponseError)
    assert isinstance(outcomes.pop("known")[0], ReusedError)
    assert isinstance(outcomes.pop("huge")[0], UnfittableError)
    leases = {name: answer.lease for name, (answer,) in outcomes.items()}
    assert {lease.request for lease in leases.values()} == set(leases)
    paths = [f"/v1/leases/{name}.1" for name in leases]
    wait_until(lambda: all(api.get(path).json()["state"] == "running" for path in paths))
