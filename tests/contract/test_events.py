"""GET /v1/events: resumes without loss, filters, ends slow readers, says when it cannot reach back."""

import logging
import socket
import struct
import time
from contextlib import suppress
from typing import Any

import httpx
import pytest

from broker.client import Client, EventsGoneError
from broker.contract import SpotRequest
from tests.contract.harness import KEY, Federation
from tests.contract.test_requests import problem
from tests.support.wait import wait_until


@pytest.fixture
def client(federation: Federation) -> Any:
    with Client(federation.url, KEY, deadline_s=60) as client:
        yield client


def admit(client: Client, count: int, **fields: Any) -> None:
    for _ in range(count):
        client.requests.submit(SpotRequest(cores=1, lifetime_s=1e6, **fields))


def test_a_reader_resumes_where_it_was(federation: Federation, client: Client) -> None:
    federation.join("east", (8,) * 10)
    admit(client, 30)
    wait_until(lambda: len(list(client.events.stream(follow=False))) == 30)
    everything = list(client.events.stream(follow=False))
    assert [one.event.sequence for one in everything] == list(range(1, 31))
    assert all(one.event.kind == "admitted" for one in everything)
    seen = []
    for place in range(0, 30, 7):
        last = everything[place - 1].id if place else None
        for one in client.events.stream(follow=False, last_event_id=last):
            seen.append(one.id)
            if len(seen) % 7 == 0:
                break
    assert seen == [one.id for one in everything]


def test_following_brings_what_happens_from_now_on(federation: Federation, client: Client) -> None:
    east = federation.join("east", (8,))
    admit(client, 1)
    wait_until(lambda: len(list(client.events.stream(follow=False))) == 1)
    (first,) = client.events.stream(follow=False)
    following = client.events.stream(last_event_id=first.id)
    admit(client, 1)
    assert next(following).event.sequence == 2
    with httpx.Client(base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}) as api:
        api.post("/v1/clouds/east/on-demand", json={"cores": 7})
    evicted = next(following).event
    assert evicted.kind == "evicted"
    assert evicted.lease is not None
    following.close()  # type: ignore[attr-defined]
    assert east.running()


def test_events_are_narrowed(federation: Federation, client: Client) -> None:
    federation.join("east", (1, 1))
    federation.join("west", (8,))
    admit(client, 2, origin="a", targets=("east",))
    admit(client, 3, origin="b", targets=("west",))
    wait_until(lambda: len(list(client.events.stream(follow=False))) == 5)
    assert {one.event.cloud for one in client.events.stream(follow=False, cloud="east")} == {"east"}
    assert len(list(client.events.stream(follow=False, origin="b"))) == 3
    assert list(client.events.stream(follow=False, cloud="east", origin="b")) == []


def test_a_time_stands_for_all_that_is_kept_from_then_on(federation: Federation, client: Client) -> None:
    now_ms = round(1000 * time.time())
    assert list(client.events.stream(follow=False, last_event_id=str(now_ms - 60_000))) == []
    federation.join("east", (8,))
    admit(client, 2)
    wait_until(lambda: len(list(client.events.stream(follow=False))) == 2)
    since = client.events.stream(follow=False, last_event_id=str(now_ms - 60_000))
    assert [one.id for one in since] == [one.id for one in client.events.stream(follow=False)]
    assert list(client.events.stream(follow=False, last_event_id=str(now_ms + 60_000))) == []


def test_too_far_back(federation: Federation, api: httpx.Client, client: Client) -> None:
    federation.join("east", (8,) * 4)
    admit(client, 20)
    wait_until(lambda: len(list(client.events.stream(follow=False))) == 20)
    first = next(client.events.stream(follow=False)).id
    with federation.redis as redis:
        redis.xtrim(federation.keys.all_events, maxlen=5, approximate=False)
    answered = api.get("/v1/events", headers={"Last-Event-ID": first})
    problem(answered, "events-gone")
    assert answered.json()["snapshot"] == ["/v1/leases", "/v1/clouds"]
    with pytest.raises(EventsGoneError) as gone:
        next(client.events.stream(last_event_id=first))
    # What happens before the leases are read is in the events that follow, or in the leases, or in both.
    admit(client, 1)
    known = {lease.id for lease in client.leases.list(limit=100).leases}
    admit(client, 1)
    after = gone.value.resume_after
    assert after == answered.json()["resume_after"]
    wait_until(lambda: len(list(client.events.stream(follow=False, last_event_id=after))) == 2)
    told = {
        one.event.lease.id
        for one in client.events.stream(follow=False, last_event_id=after)
        if one.event.lease
    }
    assert len(known | told) == 22


def test_the_stream_is_alive_in_silence(
    federation: Federation, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.api.stream.HEARTBEAT_S", 0.2)
    with api.stream("GET", "/v1/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert next(response.iter_lines()).startswith(":")
    del federation


def test_a_reader_that_takes_nothing_is_disconnected(
    federation: Federation,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("broker.api.stream.SLOW_S", 0.3)
    federation.join("east")
    admit(client, 1)
    wait_until(lambda: len(list(client.events.stream(follow=False))) == 1)
    with federation.redis as redis:
        ((_, fields),) = redis.xrange(federation.keys.all_events)
        with redis.pipeline(transaction=False) as pipeline:
            for _ in range(20_000):  # more than all the buffers on the way hold
                pipeline.xadd(federation.keys.all_events, fields)
            pipeline.execute()
    host, port = federation.url.removeprefix("http://").split(":")
    received = 0
    with socket.create_connection((host, int(port)), timeout=60) as slow:
        head = f"GET /v1/events?follow=false HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n\r\n"
        slow.sendall(head.encode())
        received += len(slow.recv(1))  # the API answers
        wait_until(lambda: not federation.open_calls, "the API gives up who reads nothing")
        with suppress(ConnectionError):
            while part := slow.recv(2**20):
                received += len(part)
    assert 0 < received < 20_000 * len(fields[b"e"]), "it got everything, however slow it was"
    assert warnings(caplog) == []


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_streams_end_with_the_connection_of_their_reader(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those before which the reader sent a further call through the same connection."""
    host, port = federation.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as reader:
        head = f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n\r\n"
        reader.sendall(2 * head.encode())
        assert reader.recv(12) == b"HTTP/1.1 200"
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, not closed
    wait_until(lambda: not federation.open_calls, "the stream ends")
    assert warnings(caplog) == []
