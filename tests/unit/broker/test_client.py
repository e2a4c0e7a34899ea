"""The client: repeats with the same id while the broker is away, and tells refusals from errors."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from broker.client import (
    Client,
    ClientError,
    GrantedRequest,
    InputRefusedError,
    NotFoundError,
    ProblemAnswer,
    ProtocolError,
    RefusedRequest,
    UnauthorizedError,
    UnavailableError,
)
from broker.contract import SpotRequest

LEASE = {
    "id": "r.1", "request": "r", "cloud": "east", "origin": "user", "kind": "spot", "cores": 1, "node": 0,
    "starts_at_s": 0.0, "ends_at_s": 1.0, "promised_sla": None, "eviction_probability": None,
    "table_version": None, "fence": 1, "number": 0, "state": "running",
}  # fmt: skip
REFUSAL = {"cloud": "west", "reason": "no_capacity"}
WISH = SpotRequest(cores=1, lifetime_s=1)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.client.transport.time.sleep", lambda _: None)


def problem(name: str, status: int, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    body = {
        "type": f"urn:spotfed:problem:{name}",
        "title": name,
        "status": status,
        "detail": f"why {name}",
    } | more
    return httpx.Response(status, json=body, headers=headers)


class Server:
    """Answers with the next of its answers, the last one for ever; keeps what it was sent."""

    def __init__(self, *answers: httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]):
        self.answers, self.requests = list(answers), list[httpx.Request]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)

    def client(self, **options: Any) -> Client:
        return Client("http://broker", "key", transport=httpx.MockTransport(self), **options)


def test_it_asks_again_with_the_same_id_until_there_is_an_answer() -> None:
    server = Server(
        httpx.ConnectError("refused"),
        problem("queue-away", 503, {"Retry-After": "1"}),
        problem("queue-full", 507, {"Retry-After": "1"}),
        problem("in-flight", 409, {"Retry-After": "1"}),
        httpx.ReadTimeout("slow"),
        httpx.Response(502, text="<html>a proxy</html>"),
        httpx.Response(201, json={"lease": LEASE, "refusals": [REFUSAL]}),
    )
    with server.client() as client:
        answer = client.requests.submit(WISH)
    assert isinstance(answer, GrantedRequest)
    assert answer.refusals[0].cloud == "west"
    ids = {json.loads(request.content)["id"] for request in server.requests}
    assert len(ids) == 1
    assert len(server.requests) == 7
    assert server.requests[0].headers["authorization"] == "Bearer key"


def test_it_gives_up_at_its_deadline() -> None:
    server = Server(problem("queue-away", 503, {"Retry-After": "5"}))
    with server.client(deadline_s=1) as client, pytest.raises(UnavailableError, match="why queue-away"):
        client.requests.submit(WISH)
    assert len(server.requests) == 1, "it is told to come back later than its deadline"


def test_a_refusal_is_a_value() -> None:
    server = Server(problem("refused", 409, refusals=[REFUSAL], counter_offers={"lifetime_s": 60.0}))
    with server.client() as client:
        answer = client.requests.submit(WISH)
    assert isinstance(answer, RefusedRequest)
    assert answer.counter_offers.lifetime_s == 60
    assert answer.refusals[0].reason == "no_capacity"


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (
            problem("invalid", 422, errors=[{"field": "sla", "message": "m", "accepted": "0 to 1"}]),
            InputRefusedError,
        ),
        (problem("key-reused", 422), InputRefusedError),
        (problem("malformed", 400), InputRefusedError),
        (problem("unauthorized", 401), UnauthorizedError),
        (problem("not-found", 404), NotFoundError),
        (problem("internal", 500), ProblemAnswer),
        (httpx.Response(405, text="no"), ProblemAnswer),
        (httpx.Response(409, text="odd"), ProblemAnswer),
        (httpx.Response(200, json={"hello": "world"}), ProtocolError),
        (httpx.Response(200, text="<html>"), ProtocolError),
    ],
)
def test_errors_are_one_tree(response: httpx.Response, kind: type[ClientError]) -> None:
    with Server(response).client() as client, pytest.raises(kind) as caught:
        client.requests.submit(WISH)
    assert isinstance(caught.value, ClientError)
    assert str(caught.value)


def test_an_input_error_says_what_is_accepted() -> None:
    server = Server(problem("invalid", 422, errors=[{"field": "sla", "message": "m", "accepted": "0 to 1"}]))
    with server.client() as client, pytest.raises(InputRefusedError, match="sla: 0 to 1"):
        client.requests.submit(WISH)


def test_a_list_keeps_its_order_and_asks_again_for_what_is_in_flight() -> None:
    def item(name: str, status: int) -> dict[str, Any]:
        return {"problem": json.loads(problem(name, status).content)}

    server = Server(
        httpx.Response(
            200,
            json={
                "results": [
                    item("in-flight", 409),
                    item("refused", 409) | {"refusals": [REFUSAL]},
                    item("invalid", 422),
                ]
            },
        ),
        httpx.Response(200, json={"results": [{"lease": LEASE}]}),
    )
    wishes = [WISH.model_copy(update={"id": name}) for name in "abc"]
    with server.client() as client:
        granted, refused, failed = client.requests.submit_many(wishes)
    assert isinstance(granted, GrantedRequest)
    assert isinstance(refused, RefusedRequest)
    assert refused.refusals[0].cloud == "west"
    assert isinstance(failed, InputRefusedError)
    assert [one["id"] for one in json.loads(server.requests[1].content)] == ["a"]


def test_ids_with_slashes_find_their_way() -> None:
    server = Server(httpx.Response(200, json=LEASE))
    with server.client() as client:
        client.leases.get("overflow/east/vm 1?#/2.1")
    assert server.requests[0].url.raw_path == b"/v1/leases/overflow/east/vm%201%3F%23/2.1"


def test_events_resume_after_a_lost_connection() -> None:
    event = {"cloud": "east", "kind": "admitted", "at_s": 0.0, "at": "2026-01-01T00:00:00Z", "sequence": 1}

    def sends(*ids: str) -> httpx.Response:
        text = "".join(f"id: {one}\nevent: admitted\ndata: {json.dumps(event)}\n\n" for one in ids)
        return httpx.Response(200, text=f": hello\n\n{text}", headers={"Content-Type": "text/event-stream"})

    server = Server(sends("1-0", "2-0"), problem("queue-away", 503), httpx.ConnectError("x"), sends("3-0"))
    with server.client() as client:
        following = client.events.stream()
        assert [next(following).id for _ in range(3)] == ["1-0", "2-0", "3-0"]
        following.close()  # type: ignore[attr-defined]
    assert [request.headers.get("last-event-id") for request in server.requests] == [
        None,
        "2-0",
        "2-0",
        "2-0",
    ]


def test_events_give_up_when_the_broker_stays_away() -> None:
    server = Server(httpx.ConnectError("x"))
    with server.client(deadline_s=0) as client, pytest.raises(UnavailableError):
        next(client.events.stream())
