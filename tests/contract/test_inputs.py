"""Whatever is sent: never a 500, and a 422 names the field and what is accepted (case 10)."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.harness import KEY, Federation, serving
from tests.contract.test_requests import problem

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def api(redis_url: str) -> Iterator[httpx.Client]:
    with serving(Federation(redis_url, reply_deadline_s=30.0)) as federation:
        federation.join("east", (8,) * 50)
        with httpx.Client(
            base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60
        ) as client:
            yield client


def invalid(response: httpx.Response, field: str) -> None:
    body = problem(response, "invalid")
    assert response.status_code == 422
    (error,) = body["errors"]
    assert error["field"].split(".")[0] == field
    assert error["accepted"], error
    assert len(response.content) < 2000, "what was sent is not sent back"


@pytest.mark.parametrize(
    ("field", "text"),
    [
        *(
            ("lifetime_s", text)
            for text in ("0", "-1", "NaN", "1e400", '"1h"', '"PT1H"', "null", "1e10", "true")
        ),
        *(("sla", text) for text in ("1.5", "-0.1", "NaN", "Infinity", '"low"', "[]")),
        *(
            ("cores", text)
            for text in ("0", "-1", "9223372036854775808", "1.5", '"2"', "1e400", "true", "null")
        ),
        *(
            ("id", text)
            for text in ('""', '" a"', '"a b"', '"ä"', "7", '"' + "x" * 10_000 + '"', '"a\\u0000"')
        ),
        ("id", '"' + "x" * 121 + '"'),
        ("id", '"east/own-3"'),
        *(("origin", text) for text in ('""', '"a/b"', "null", '"' + "x" * 65 + '"')),
        *(("targets", text) for text in ('["nowhere"]', '"east"', "[1]", '["a b"]')),
        *(("at_s", text) for text in ("1", "-1", '"now"')),
        ("colour", '"red"'),
    ],
)
def test_a_field_that_cannot_be_used_is_named(api: httpx.Client, field: str, text: str) -> None:
    parts = {"cores": "1", "lifetime_s": "60"} | {field: text}
    body = "{" + ",".join(f'"{name}":{value}' for name, value in parts.items()) + "}"
    invalid(api.post("/v1/requests", content=body, headers=JSON), field)
    invalid(api.post("/v1/quotes", content=body, headers=JSON), field)
    (result,) = api.post("/v1/requests", content=f"[{body}]", headers=JSON).json()["results"]
    assert result["lease"] is None
    assert result["problem"]["errors"][0]["field"].split(".")[0] == field


@pytest.mark.parametrize("sla", [0, 1, 0.0, 1.0, None])
def test_the_edges_of_an_sla_mean_something(api: httpx.Client, sla: float | None) -> None:
    response = api.post("/v1/requests", json={"cores": 1, "lifetime_s": 60, "sla": sla})
    if sla == 0:
        assert problem(response, "refused")["refusals"][0]["reason"] == "no_table"
    else:
        assert response.status_code == 201


@pytest.mark.parametrize(
    ("content", "headers", "name"),
    [
        (b"{", JSON, "malformed"),
        (b"", JSON, "malformed"),
        (b"\xff\xfe", JSON, "malformed"),
        (b'{"id": "\xff"}', JSON, "malformed"),
        (b"[" * 100_000, JSON, "malformed"),
        (b'{"a":' * 100_000, JSON, "malformed"),
        (b"[1,", JSON, "malformed"),
        (b"7", JSON, "invalid"),
        (b"null", JSON, "invalid"),
        (b'"text"', JSON, "invalid"),
        (b"[[[[]]]]", JSON, None),
        (b"cores=1", {"Content-Type": "application/x-www-form-urlencoded"}, "unsupported-media-type"),
        (b"{}", {}, "unsupported-media-type"),
        (b"{}", {"Content-Type": "text/\xff"}, "unsupported-media-type"),
        (b" " * (4 * 2**20 + 1), JSON, "body-too-large"),
        (b"1" * 5000, JSON, "malformed"),
    ],
)
def test_bodies_that_are_none(
    api: httpx.Client, content: bytes, headers: dict[str, str], name: str | None
) -> None:
    raw = [(key.encode(), value.encode("latin-1")) for key, value in headers.items()]
    response = api.post("/v1/requests", content=content, headers=raw)
    if name is None:
        assert response.json()["results"][0]["problem"]["status"] == 422
    else:
        problem(response, name)


def test_a_large_body_without_a_length(api: httpx.Client) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(70):
            yield b" " * 2**16

    with suppress(httpx.WriteError):  # the answer came, and the connection was closed, before all was sent
        problem(api.post("/v1/requests", content=parts(), headers=JSON), "body-too-large")


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_keys_that_cannot_be_used(api: httpx.Client, key: str) -> None:
    headers = {"Idempotency-Key": key}
    invalid(api.post("/v1/requests", json={"cores": 1, "lifetime_s": 60}, headers=headers), "Idempotency-Key")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/leases?state=lost", "state"),
        ("/v1/leases?limit=0", "limit"),
        ("/v1/leases?limit=99999999999999999999", "limit"),
        ("/v1/leases?limit=x", "limit"),
    ],
)
def test_questions_that_cannot_be_answered(api: httpx.Client, path: str, field: str) -> None:
    invalid(api.get(path), field)


@pytest.mark.parametrize(
    "last", ["x", "1-", "-", "99999999999999999999-0", "0-99999999999999999999", "1-1-1", "٣-٣"]
)
def test_event_ids_that_are_none(api: httpx.Client, last: str) -> None:
    invalid(api.get("/v1/events", headers=[(b"Last-Event-ID", last.encode())]), "Last-Event-ID")


@pytest.mark.parametrize(
    "path", ["/v1/leases/", "/v1/leases/%00", "/v1/leases/" + "x" * 10_000, "/v1/clouds/%ff"]
)
def test_paths_that_lead_nowhere(api: httpx.Client, path: str) -> None:
    assert problem(api.get(path), "not-found")
    if path.startswith("/v1/leases"):
        problem(api.delete(path), "not-found")
    assert api.request("PATCH", "/v1/clouds").status_code == 405


def test_an_instance_id_that_is_none(api: httpx.Client) -> None:
    problem(api.delete("/v1/clouds/east/on-demand/a%20b"), "not-found")
    invalid(api.post("/v1/clouds/east/on-demand", json={"id": "east/own-1", "cores": 1}), "id")
    invalid(api.post("/v1/clouds/east/on-demand", json={"cores": 1, "lifetime_s": 0}), "lifetime_s")
    invalid(api.post("/v1/clouds/east/advance", json={"finish": True}), "finish")
    invalid(api.post("/v1/clouds/east/advance", json={"finish": False}), "finish")


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from([0, 1, -1, 2**31, 2**63, 1e300, 3.2e9, 0.5]),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(["id", "origin", "cores", "lifetime_s", "sla", "targets", "at_s", "instance", "x"])
BODIES: st.SearchStrategy[Any] = st.one_of(
    VALUES,
    st.dictionaries(FIELDS, VALUES, max_size=7),
    st.lists(st.dictionaries(FIELDS, VALUES, max_size=7), max_size=5),
    st.fixed_dictionaries(
        {"cores": st.integers(1, 9), "lifetime_s": st.floats(0, 1e9)},
        optional={
            "sla": st.floats(0, 1),
            "origin": st.text(max_size=5),
            "targets": st.lists(st.text(max_size=5)),
        },
    ),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=BODIES,
    path=st.sampled_from(
        ["/v1/requests", "/v1/quotes", "/v1/clouds/east/on-demand", "/v1/clouds/east/advance"]
    ),
)
def test_no_json_is_a_fault_of_ours(api: httpx.Client, body: Any, path: str) -> None:
    response = api.post(path, content=json.dumps(body).encode("utf-8", "surrogatepass"), headers=JSON)
    assert response.status_code in (200, 201, 400, 409, 422), response.text
    if response.status_code >= 400:
        assert response.headers["content-type"] == "application/problem+json"
        told = response.json()
        assert told["status"] == response.status_code
        assert told["detail"]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=200), path=st.sampled_from(["/v1/requests", "/v1/quotes"]))
def test_no_bytes_are_a_fault_of_ours(api: httpx.Client, body: bytes, path: str) -> None:
    assert api.post(path, content=body, headers=JSON).status_code in (200, 400, 422)
