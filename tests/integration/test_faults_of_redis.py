"""The append-only file torn at any place, memory full, disk full: what was answered is kept, nothing split.
The federation says that it is away instead of failing (docs/design/reliability.md "Faults").
"""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from broker.contract import LeaseGranted
from broker.journal.journal import Journal
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from tests.contract.harness import KEY, Federation, serving
from tests.integration.checker import check
from tests.integration.test_workers_runtime import Bench
from tests.support.wait import wait_until
from tests.unit.workers.owners import check_journal, confirm, reserve, spec

pytestmark = pytest.mark.xdist_group("faults-of-redis")

COMMITS = 8


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path / "redis") as started:
        yield started


def kill(server: EmbeddedRedis) -> None:
    pid = server.pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: server._running is not None and server._running.process() is None, "its end")


def append_only_file(server: EmbeddedRedis) -> Path:
    (path,) = (server.directory / "appendonlydir").glob("*.incr.aof")
    return path


@pytest.mark.parametrize("part", [0.5, 0.7, 0.9, 0.97, 0.999])
def test_a_torn_append_only_file_splits_no_commit_and_the_owner_goes_on(
    server: EmbeddedRedis, tmp_path: Path, part: float
) -> None:
    with connect(server.url) as client:
        bench = Bench(client, tmp_path / "state", spec((4, 4)))
        bench.runtime.open()
        entries = []
        for n in range(COMMITS):  # a commit each: one event, one cursor
            entries.append(bench.journal.send("A", [reserve(f"r{n}.1", lifetime_s=1e6)]))
            bench.runtime.drain()
        bench.close()
        whole = [entry for entry, _ in bench.journal.read()]
        kill(server)
        path = append_only_file(server)
        os.truncate(path, int(part * path.stat().st_size))
        server.start()
        # aof-load-truncated: it starts with what is whole.
        kept = [entry for entry, _ in bench.journal.read()]
        assert kept == whole[: len(kept)], "a prefix, without holes"
        assert 0 < len(kept) <= len(whole)
        reserved = [event for _, event in bench.journal.read() if event.lease is not None]
        cursor = bench.journal.cursor()
        assert cursor == (entries[len(reserved) - 1] if reserved else "0-0"), "entry and cursor are one write"

        client.delete(bench.keys.owner("A"))  # that it was given up is torn off; it runs out
        again = bench.make()
        again.open()
        bench.runtime = again
        (reply,) = bench.tell(confirm("r0.1"))[-1:]
        assert reply.command
        events = bench.events()
        check_journal(events)
        assert int(client.get(bench.keys.epoch("A")) or 0) == 2, "the local file remembers the epoch"
        assert check(client, "rt:").breaches == []
        bench.close()


def test_when_memory_is_full_the_api_says_so_and_nothing_is_lost(server: EmbeddedRedis) -> None:
    with (
        serving(Federation(server.url)) as federation,
        httpx.Client(base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=20) as api,
    ):
        east = federation.join("east", (16,))
        wish = {"cores": 1, "lifetime_s": 1e6}
        assert api.post("/v1/requests", json=wish | {"id": "before"}).status_code == 201
        wait_until(lambda: api.get("/v1/leases/before.1").json()["state"] == "running")
        east.go_deaf()  # of the real one's patience the next test tells
        with federation.redis as client:
            client.config_set("maxmemory", 1)
            answers = [api.post("/v1/requests", json=wish | {"id": f"full{n}"}) for n in range(3)]
            assert [answer.status_code for answer in answers] == [507] * 3
            assert answers[0].json()["type"] == "urn:spotfed:problem:queue-full"
            assert "memory" in answers[0].json()["detail"]
            assert api.get("/readyz").status_code == 507, "readiness follows writes"
            assert api.delete("/v1/leases/before.1").status_code == 507, "not accepted, so not said to be"
            # Whose call it is is counted, so that reading may have to wait too; but nothing answers 500.
            assert api.get("/v1/leases/before.1").status_code == 200
            client.config_set("maxmemory", 0)
        east.deaf.clear()
        assert api.post("/v1/requests", json=wish | {"id": "full0"}).status_code == 201
        wait_until(lambda: set(east.running()) == {"before.1", "full0.1"})
        check_journal([event for _, event in Journal(federation.redis, federation.keys, "east").read()])


def test_an_owner_waits_until_there_is_memory_and_then_commits_once(
    server: EmbeddedRedis, tmp_path: Path
) -> None:
    with connect(server.url) as client:
        bench = Bench(client, tmp_path / "state", spec((4, 4)))
        bench.runtime.open()
        wishes = [reserve(f"r{n}.1", lifetime_s=1e6) for n in range(8)]
        bench.journal.send("A", wishes)
        client.config_set("maxmemory", 1)
        drained = threading.Thread(target=bench.runtime.drain)
        drained.start()
        time.sleep(0.5)
        assert bench.replies() == [], "nothing is answered that is not written"
        assert drained.is_alive()
        client.config_set("maxmemory", 0)
        drained.join(20)
        assert not drained.is_alive()
        answers = {reply.command: reply.answer for reply in bench.replies()}
        assert [type(answers[wish.id]) for wish in wishes] == [LeaseGranted] * 8
        check_journal(bench.events())
        assert check(client, "rt:").breaches == []
        bench.close()


def limit_file_size(server: EmbeddedRedis, more_bytes: int) -> None:
    """As a disk with so much room left: a write beyond it fails, and the server ends."""
    size = append_only_file(server).stat().st_size + more_bytes
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("more_bytes", [0, 5_000, 50_001])
def test_when_the_disk_is_full_the_server_stops_and_every_answer_is_kept(
    server: EmbeddedRedis, more_bytes: int
) -> None:
    with connect(server.url) as client:
        client.rpush("entries", "first")
        limit_file_size(server, more_bytes)
        answered = 1
        with suppress(redis.RedisError):
            while answered < 5_000:
                client.rpush("entries", f"{answered}:{'x' * 100}")
                answered += 1
        assert answered < 5_000, "the disk was never full"
        # There is room again: whoever supervises it starts it.
        server.start()
        kept = client.lrange("entries", 0, -1)
        assert len(kept) >= answered


def test_a_federation_goes_on_after_its_disk_was_full(server: EmbeddedRedis) -> None:
    with (
        serving(Federation(server.url)) as federation,
        httpx.Client(base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=20) as api,
    ):
        east = federation.join("east", (16,))
        wish = {"cores": 1, "lifetime_s": 1e6}
        assert api.post("/v1/requests", json=wish | {"id": "before"}).status_code == 201
        wait_until(lambda: east.running() == ["before.1"])
        east.stop()
        limit_file_size(server, 0)
        refused: Any = [api.post("/v1/requests", json=wish | {"id": "full"}).status_code for _ in range(2)]
        assert refused == [503, 503]
        server.start()
        wait_until(lambda: api.get("/v1/leases/before.1").status_code == 200)
        check_journal([event for _, event in Journal(federation.redis, federation.keys, "east").read()])
