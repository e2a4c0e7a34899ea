"""HEAD on every route that answers GET, and problems for paths and methods that there are not."""

from typing import Any

import httpx
import pytest

from broker.api.app import create_app
from tests.contract.harness import Federation
from tests.contract.test_requests import WISH, problem
from tests.support.wait import wait_until


@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/v1/clouds"]
)
def test_a_head_is_that_of_the_answer_to_get(federation: Federation, api: httpx.Client, path: str) -> None:
    federation.join("east")
    head, got = api.head(path), api.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert got.content
    assert head.headers["content-type"] == got.headers["content-type"]
    if path != "/metrics":  # whose figures move
        assert head.headers["content-length"] == str(len(got.content))


def test_the_head_of_an_endless_stream_ends(federation: Federation, api: httpx.Client) -> None:
    answer = api.head("/v1/events")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert api.get("/healthz").status_code == 200
    wait_until(lambda: not federation.services.call_limits.streams, "the end of the stream", 5)


def test_no_get_route_refuses_head(federation: Federation, api: httpx.Client) -> None:
    paths: dict[str, Any] = create_app(federation.settings).openapi()["paths"]
    assert [
        path for path, verbs in paths.items() if "get" in verbs and api.head(path).status_code == 405
    ] == []


def test_a_path_that_is_not_there(api: httpx.Client) -> None:
    for method in ("GET", "POST", "DELETE"):
        answer = api.request(method, "/v1/nowhere")
        assert problem(answer, "not-found")["detail"] == "there is no such path; /openapi.json has them all"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/healthz", "GET, HEAD"),
        ("DELETE", "/", "GET, HEAD"),
        ("GET", "/v1/quotes", "POST"),
        ("HEAD", "/v1/quotes", "POST"),
        ("PUT", "/v1/leases/a", "DELETE, GET, HEAD"),
    ],
)
def test_a_method_that_a_path_does_not_take(api: httpx.Client, method: str, path: str, allowed: str) -> None:
    answer = api.request(method, path)
    if method != "HEAD":
        problem(answer, "method-not-allowed")
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_a_parameter_that_is_given_twice_is_refused_by_its_name(
    federation: Federation, api: httpx.Client
) -> None:
    federation.join("east")
    assert api.get("/v1/leases", params=[("limit", "5")]).status_code == 200
    refused = problem(api.get("/v1/leases", params=[("limit", "x"), ("limit", "5")]), "invalid")
    assert refused["errors"][0]["field"] == "limit"


@pytest.mark.parametrize(
    "last", ["18446744073709551615-18446744073709551615", "18446744073709551615-0", "18446744073709551616-0"]
)
def test_an_event_id_that_cannot_have_been_is_refused(api: httpx.Client, last: str) -> None:
    for follow in ("true", "false"):
        answer = api.get("/v1/events", params={"follow": follow}, headers={"Last-Event-ID": last})
        assert problem(answer, "invalid")["errors"][0]["field"] == "Last-Event-ID"


def test_a_cursor_that_redis_would_refuse_is_refused_by_its_name(api: httpx.Client) -> None:
    cursor = "Wy0xLCIiLCIiLCIwLTAiXQ"  # [-1,"","","0-0"]
    answer = api.get("/v1/leases", params={"cursor": cursor})
    assert problem(answer, "invalid")["errors"][0]["field"] == "cursor"


def test_a_redis_that_refuses_is_told_from_one_that_is_away(
    federation: Federation, api: httpx.Client
) -> None:
    federation.join("east")
    with federation.redis as redis:
        redis.set(federation.keys.quota_holds("acme"), "no hash")
        redis.delete(federation.keys.jobs)
        redis.set(federation.keys.jobs, "no sorted set")
    problem(api.get("/v1/jobs"), "queue-refused")
    assert api.post("/v1/requests", json=WISH).status_code == 201
