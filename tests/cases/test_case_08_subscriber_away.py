"""Case 8: a subscriber is away for 500 events and misses none; a slow one is cut off, not starved."""

from __future__ import annotations

import itertools
import re
import socket
import time
from contextlib import suppress

import pytest

from broker.client import Client
from broker.contract import Event
from tests.contract.harness import KEY, Federation
from tests.support.wait import wait_until
from tests.unit.workers.owners import cancel, confirm, reserve

AWAY = 500


def happen(federation: Federation, cloud: str, leases: int, name: str = "r") -> None:
    """Two public events a lease: it is admitted, and cancelled."""
    journal = federation.journal(cloud)
    for n in range(leases):
        attempt = f"{name}{n}.1"
        commands = (reserve(attempt, lifetime_s=1e6), confirm(attempt), cancel(attempt))
        journal.send(cloud, [one.model_copy(update={"reply_to": None}) for one in commands])


@pytest.mark.parametrize("seen_before", [0, 1, 7])
def test_it_resumes_from_its_last_id_and_misses_none(federation: Federation, seen_before: int) -> None:
    federation.join("east")
    federation.join("west")
    with Client(federation.url, KEY, deadline_s=60) as client:
        happen(federation, "east", 5, "before")
        wait_until(lambda: len(list(client.events.stream(follow=False))) == 10)
        before = list(client.events.stream(follow=False))[:seen_before]
        last = before[-1].id if before else "0-0"
        # It is away; what happens meanwhile happens on two clouds at once.
        happen(federation, "east", AWAY // 4)
        happen(federation, "west", AWAY // 4)
        wait_until(lambda: federation.redis.xlen(federation.keys.all_events) == AWAY + 10)
        missed = {
            "east": list(range(seen_before + 1, AWAY // 2 + 11)),
            "west": list(range(1, AWAY // 2 + 1)),
        }
        for follow, cloud in itertools.product((False, True), (None, "east")):
            wanted = {name: numbers for name, numbers in missed.items() if cloud in {None, name}}
            found: dict[str, list[int | None]] = {name: [] for name in wanted}
            events = client.events.stream(follow=follow, last_event_id=last, cloud=cloud)
            for one in itertools.islice(events, sum(map(len, wanted.values()))):
                found[one.event.cloud].append(one.event.sequence)
            assert found == wanted


class Slow:
    """A reader of the raw stream that takes a little at a time, from a small buffer."""

    def __init__(self, federation: Federation, last: str):
        host, port = federation.url.removeprefix("http://").split(":")
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.settimeout(60)
        self._socket.connect((host, int(port)))
        head = (
            f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nLast-Event-ID: {last}\r\n"
        )
        self._socket.sendall(f"{head}\r\n".encode())

    def read(self, pause_s: float, limit_s: float) -> tuple[str, bool]:
        """What it got in all, and whether it was disconnected."""
        text, began_s = b"", time.monotonic()
        with self._socket, suppress(ConnectionError):
            while time.monotonic() < began_s + limit_s:
                slowly = time.monotonic() < began_s + 2.0  # for long enough; then it sees how it ends
                time.sleep(pause_s if slowly else 0.0)
                part = self._socket.recv(400 if slowly else 1 << 20)
                if not part:
                    return text.decode(errors="replace"), True
                text += part
            return text.decode(errors="replace"), False
        return text.decode(errors="replace"), True  # it was reset


def test_a_slow_reader_is_disconnected_resumes_and_has_them_all(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.api.stream.SLOW_S", 0.3)
    federation.join("east")
    happen(federation, "east", 1)
    keys = federation.keys
    wait_until(lambda: federation.redis.xlen(keys.all_events) == 2)
    with federation.redis as redis:
        _, fields = redis.xrange(keys.all_events)[0]
        large = Event.model_validate_json(fields[b"e"]).model_copy(update={"cause": "x" * 8_000})
        fields = {b"e": large.model_dump_json().encode()}
        with redis.pipeline(transaction=False) as pipeline:
            for _ in range(1_500):  # more than all the buffers on the way hold
                pipeline.xadd(keys.all_events, fields)
            pipeline.execute()
        wanted = [entry.decode() for entry, _ in redis.xrange(keys.all_events)]
    slow = Slow(federation, "0-0")
    with Client(federation.url, KEY, deadline_s=60) as client:
        quick = [one.id for one in client.events.stream(follow=False, last_event_id="0-0")]
        assert quick == wanted, "the slow one keeps nobody else waiting"
        text, closed = slow.read(pause_s=0.05, limit_s=60.0)
        assert closed, "it was disconnected"
        # The last event may be cut off: only what was closed by an empty line has come.
        whole = text.rpartition("\r\n\r\n")[0]
        got = re.findall(r"^id: (\S+)\r?$", whole, re.MULTILINE)
        assert 0 < len(got) < len(wanted), "it was disconnected before it had everything"
        assert got == wanted[: len(got)], "in order, without a gap"
        rest = [one.id for one in client.events.stream(follow=False, last_event_id=got[-1])]
    assert got + rest == wanted
