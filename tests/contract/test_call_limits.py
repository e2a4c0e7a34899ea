"""What one member can take of an API process, and what slow and many callers can: never all of it."""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import psutil
import pytest

from broker.client import Client
from broker.contract import SpotRequest
from broker.schemas.api_keys import KeyWish
from broker.schemas.members import MemberWish
from tests.contract.harness import KEY, Federation, serving
from tests.contract.test_requests import WISH, problem
from tests.support.wait import wait_until

AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
HEAD = f"Host: x\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"


def statuses(url: str, path: str, calls: int) -> list[httpx.Response]:
    """The answers to calls that are all made at the same time."""

    async def ask() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, headers=AUTHORIZED, timeout=60, limits=limits) as client:
            return await asyncio.gather(*(client.get(path) for _ in range(calls)))

    return asyncio.run(ask())


def member_key(federation: Federation, name: str) -> str:
    with Client(federation.url, KEY) as operator:
        operator.members.add(MemberWish(name=name))
        return operator.api_keys.create(KeyWish(principal=name)).key


@contextmanager
def connected(federation: Federation, *sends: str) -> Iterator[socket.socket]:
    """A connection to the API through which something was sent."""
    host, port = federation.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        for text in sends:
            connection.sendall(text.encode())
        yield connection


def everything(connection: socket.socket) -> str:
    """All that comes until the other side closes."""
    received = b""
    with suppress(ConnectionError):
        while part := connection.recv(65536):
            received += part
    return received.decode()


# -- connections to Redis ---------------------------------------------------------------------------------


def test_more_reads_at_a_time_than_connections_to_redis_are_all_answered(federation: Federation) -> None:
    federation.join("east")
    answers = statuses(federation.url, "/v1/leases", 150)
    assert {answer.status_code for answer in answers} == {200}


def test_a_pool_that_has_run_dry_is_told_from_a_redis_that_is_away(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(Federation(redis_url, redis_connections=1)) as federation:
        assert httpx.get(f"{federation.url}/v1/leases", headers=AUTHORIZED).status_code == 200
        pool: Any = federation.services.redis.connection_pool
        pool.timeout = 0.2
        held = federation.run(pool.get_connection())
        with caplog.at_level(logging.ERROR):
            answer = httpx.get(f"{federation.url}/v1/leases", headers=AUTHORIZED)
        federation.run(pool.release(held))
        assert problem(answer, "overloaded")["status"] == 503
        assert answer.headers["retry-after"] == "1"
        assert "all 1 connections to Redis have been in use for 0.2 s" in caplog.text


# -- calls and event streams of one member ----------------------------------------------------------------


def test_a_member_with_too_many_calls_under_way_is_told_to_wait_and_others_are_not(redis_url: str) -> None:
    with serving(Federation(redis_url, open_calls=3, reply_deadline_s=30)) as federation:
        federation.join("east").go_deaf()
        acme, other = member_key(federation, "acme"), member_key(federation, "other")

        def ask(key: str = acme) -> httpx.Response:
            headers = {"Authorization": f"Bearer {key}"}
            return httpx.post(f"{federation.url}/v1/requests", json=WISH, headers=headers, timeout=60)

        with ThreadPoolExecutor(3) as threads:
            asked = [threads.submit(ask) for _ in range(3)]
            wait_until(lambda: federation.services.call_limits.calls["acme"] == 3)
            late = httpx.get(f"{federation.url}/v1/leases", headers={"Authorization": f"Bearer {acme}"})
            assert problem(late, "too-many-open-calls")["status"] == 429
            assert late.headers["retry-after"] == "1"
            foreign = httpx.get(f"{federation.url}/v1/leases", headers={"Authorization": f"Bearer {other}"})
            assert foreign.status_code == 200
            federation.owners["east"].hear()
            assert [answer.result().status_code for answer in asked] == [201] * 3
        wait_until(lambda: not federation.services.call_limits.calls)


@contextmanager
def streams(federation: Federation, count: int, key: str) -> Iterator[list[Iterator[str]]]:
    """Event streams of one key, each the lines that come."""
    limits, headers = httpx.Limits(max_connections=None), {"Authorization": f"Bearer {key}"}
    with ExitStack() as stack:
        client = stack.enter_context(
            httpx.Client(base_url=federation.url, headers=headers, timeout=60, limits=limits)
        )
        opened = [stack.enter_context(client.stream("GET", "/v1/events")) for _ in range(count)]
        assert {stream.status_code for stream in opened} == {200}
        yield [stream.iter_lines() for stream in opened]


def test_two_hundred_event_streams_shut_nobody_out_and_get_every_event_once(redis_url: str) -> None:
    with serving(Federation(redis_url, open_streams=200)) as federation:
        federation.join("east", (64,))
        with Client(federation.url, KEY) as client, streams(federation, 200, KEY) as opened:
            for _ in range(5):
                client.requests.submit(SpotRequest(cores=1, lifetime_s=1e6))
            told = []
            for lines in opened:
                ids: list[str] = []
                while len(ids) < 5:
                    line = next(lines)
                    if line.startswith("id: "):
                        ids.append(line.removeprefix("id: "))
                told.append(ids)
            with federation.redis as redis:
                there = [entry.decode() for entry, _ in redis.xrange(federation.keys.all_events)]
                readers = [
                    one for one in redis.client_list() if one["cmd"] == "xread" and "b" in one["flags"]
                ]
            assert told == [there] * 200
            assert len(readers) < 10, "the streams read Redis each by itself"


def test_a_member_with_too_many_event_streams_is_told_so_and_others_are_not(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[dict[str, object]] = []
    monkeypatch.setattr("broker.api.call_limits.add_log_fields", lambda **fields: logged.append(fields))
    with serving(Federation(redis_url, open_streams=2)) as federation:
        acme, other = member_key(federation, "acme"), member_key(federation, "other")
        with streams(federation, 2, acme):
            late = httpx.get(f"{federation.url}/v1/events", headers={"Authorization": f"Bearer {acme}"})
            assert problem(late, "too-many-streams")["status"] == 429
            assert logged == [{"ran_out": "event streams"}]
            assert late.headers["retry-after"] == "1"
            with streams(federation, 2, other):
                pass
            # Streams are no calls under way.
            assert not federation.services.call_limits.calls
        wait_until(lambda: not federation.services.call_limits.streams)
        with streams(federation, 2, acme):
            pass


# -- bodies -----------------------------------------------------------------------------------------------


def test_a_body_that_comes_too_slowly_is_answered_408(redis_url: str) -> None:
    with serving(Federation(redis_url, body_timeout_s=0.3)) as federation:
        head = f"POST /v1/requests HTTP/1.1\r\n{HEAD}Content-Length: 100\r\n\r\n"
        began_s = time.monotonic()
        with connected(federation, head, "[") as slow:
            answer = everything(slow)
        assert answer.startswith("HTTP/1.1 408 ")
        assert "urn:spotfed:problem:body-too-slow" in answer
        assert time.monotonic() - began_s < 25, "not the limit of the settings but their default"


@pytest.mark.parametrize(
    "sent", ["", "GET /healthz HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nG"]
)
def test_a_head_that_comes_too_slowly_ends_the_connection(redis_url: str, sent: str) -> None:
    with serving(Federation(redis_url, header_timeout_s=0.8)) as federation:
        began_s = time.monotonic()
        with connected(federation, sent) as slow:
            answer = everything(slow)
        assert ("HTTP/1.1 408 " in answer) == bool(sent)
        assert time.monotonic() - began_s < 9, "not the limit of the settings but their default"


def test_a_body_that_nobody_reads_ends_the_connection(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.api.http_protocol._CLOSING_S", 0.1)
    with serving(Federation(redis_url, body_timeout_s=0.3)) as federation:
        head = "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
        with connected(federation, head, "x") as slow:
            assert everything(slow).startswith("HTTP/1.1 200 ")


def test_a_head_without_end_is_refused(federation: Federation) -> None:
    with connected(federation, "GET / HTTP/1.1\r\n") as endless:
        with suppress(ConnectionError):
            for number in range(2000):
                endless.sendall(f"X-{number}: {'x' * 100}\r\n".encode())
        with suppress(ConnectionError):
            assert endless.recv(100).startswith(b"HTTP/1.1 431 ")


def test_a_call_behind_a_long_body_is_not_taken_for_a_long_head(federation: Federation) -> None:
    body = "[" + " " * 200_000 + "]"
    listed = f"POST /v1/requests HTTP/1.1\r\n{HEAD}Content-Length: {len(body)}\r\n\r\n{body}"
    with connected(
        federation, listed + "GET /healthz HTTP/1.1\r\nHo", "st: x\r\nConnection: close\r\n\r\n"
    ) as both:
        answers = everything(both)
    assert answers.count("HTTP/1.1 200 OK") == 2, answers


def test_a_call_may_take_its_time_once_it_is_there(redis_url: str) -> None:
    with (
        serving(
            Federation(redis_url, header_timeout_s=0.8, body_timeout_s=0.8, reply_deadline_s=60)
        ) as federation,
        httpx.Client(base_url=federation.url, headers=AUTHORIZED) as api,
    ):
        east = federation.join("east")
        east.go_deaf()
        threading.Timer(1.0, east.hear).start()
        assert api.post("/v1/requests", json=WISH).status_code == 201
        assert api.post("/v1/requests", json=WISH).status_code == 201


def test_slow_bodies_hold_no_more_memory_than_they_may(redis_url: str) -> None:
    mib, part = 2**20, b" " * 2**20
    head = f"POST /v1/requests HTTP/1.1\r\n{HEAD}Content-Length: {4 * mib - 1}\r\n\r\n"
    with serving(Federation(redis_url, member_body_mib=8, body_mib=12)) as federation, ExitStack() as stack:
        of_acme, limits = head.replace(KEY, member_key(federation, "acme")), federation.services.call_limits
        before = psutil.Process().memory_info().rss

        def send(head: str) -> None:
            slow = stack.enter_context(connected(federation, head))
            with suppress(ConnectionError):
                for _ in range(3):
                    slow.sendall(part)

        for first in (of_acme, of_acme, head):
            send(first)
        wait_until(lambda: limits.all_bytes == 9 * mib)
        for index in range(57):
            send(head if index % 2 else of_acme)
            assert limits.bytes["acme"] <= 8 * mib
            assert limits.all_bytes <= 12 * mib
        assert psutil.Process().memory_info().rss - before < 120 * mib
        late = httpx.post(
            f"{federation.url}/v1/requests",
            content=b"[" + b" " * (3 * mib + mib // 2),
            headers=AUTHORIZED | {"Content-Type": "application/json"},
            timeout=60,
        )
        assert problem(late, "too-many-bytes")["status"] == 429
        assert late.headers["retry-after"] == "1"
