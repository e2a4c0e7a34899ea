"""A write counts once a replica has it; without one, if Sentinels say that this is the primary."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from broker.settings import Settings
from broker.storage import connections, replication, sentinel
from broker.storage.connections import DemotedError, connect, connect_async
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.replication import Replication, ReplicationBarrier
from broker.storage.sentinel import Sentinels
from tests.support.ports import free_port
from tests.support.wait import wait_until


class Pair:
    """A primary and a replica; ``replication`` believes that a Sentinel names ``named``."""

    def __init__(self, primary: EmbeddedRedis, replica: EmbeddedRedis):
        self.primary, self.replica = primary, replica
        self.port = free_port()
        with connect(primary.url) as client:
            client.config_set("port", self.port)
            client.config_set("repl-diskless-sync-delay", 0)
        self.client = connect(f"redis://127.0.0.1:{self.port}")
        self.named = self.port
        self.answering = 3
        self.flags = "master"

    def follow(self) -> None:
        with connect(self.replica.url) as client:
            client.replicaof("127.0.0.1", self.port)
            wait_until(lambda: client.info("replication")["master_link_status"] == "up", "the link")
        wait_until(lambda: replication.count_replicas(self.client.info()) == 1, "the replica")

    def leave(self) -> None:
        with connect(self.replica.url) as client:
            client.replicaof("NO", "ONE")
        wait_until(lambda: replication.count_replicas(self.client.info()) == 0, "no replica")

    def replication(self, replicas: int | None = None) -> Replication:
        settings = Settings(redis_url="redis+sentinel://a,b,c/main", redis_replicas=replicas)
        made = Replication(self.client, settings)
        made._sentinels = Sentinels(cast("Any", [_Sentinel(self, number) for number in range(3)]))
        return made


class _Sentinel:
    def __init__(self, pair: Pair, number: int):
        self._pair, self._number = pair, number

    def sentinel_masters(self) -> dict[str, Any]:
        if self._number >= self._pair.answering:
            raise redis.ConnectionError("away")
        state = {
            "config-epoch": 1,
            "is_odown": False,
            "flags": self._pair.flags if self._number else "master",
        }
        return {"main": {"ip": "127.0.0.1", "port": self._pair.named, **state}}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with (
        EmbeddedRedis(tmp_path / "1", appendfsync="no") as primary,
        EmbeddedRedis(tmp_path / "2", appendfsync="no") as replica,
    ):
        made = Pair(primary, replica)
        yield made
        made.client.close()


def test_a_write_waits_for_the_replica(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.follow()
    made = pair.replication()
    assert made.write(lambda pipeline: pipeline.incr("n")) == 1
    with connect(pair.replica.url) as replica:
        assert replica.get("n") == b"1"

    # A replica that stands still is waited for: it may be promoted.
    monkeypatch.setattr(replication, "LONGEST_WAIT_S", 0.5)
    os.kill(pair.replica.pid, signal.SIGSTOP)
    try:
        with pytest.raises(DemotedError, match="0 of 1 replicas"):
            made.write(lambda pipeline: pipeline.set("k", "v"))
    finally:
        os.kill(pair.replica.pid, signal.SIGCONT)
    assert made.write(lambda pipeline: pipeline.set("k", "v"))


def test_without_a_replica_most_sentinels_must_name_the_server(pair: Pair) -> None:
    made = pair.replication()
    assert made.write(lambda pipeline: pipeline.incr("n"))
    pair.named += 1
    with pytest.raises(DemotedError, match="name another one"):
        pair.replication().write(lambda pipeline: pipeline.incr("n"))
    pair.named, pair.answering = pair.port, 1
    with pytest.raises(DemotedError, match="too few Sentinels"):
        pair.replication().write(lambda pipeline: pipeline.incr("n"))
    # An operator's failover: the primary is well, and has lost its replica because that is being promoted.
    pair.answering, pair.flags = 3, "master,force_failover,failover_in_progress"
    with pytest.raises(DemotedError, match="a Sentinel promotes one"):
        pair.replication().write(lambda pipeline: pipeline.incr("n"))
    # Once a replica follows again, it is waited for again.
    pair.follow()
    wait_until(lambda: made.write(lambda pipeline: pipeline.incr("n")) and not made._is_short, "the replica")


def test_a_number_that_is_set_is_kept_to(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication, "LONGEST_WAIT_S", 0.2)
    with pytest.raises(DemotedError, match="0 of 1"):
        pair.replication(1).write(lambda pipeline: pipeline.incr("n"))
    assert not pair.replication(0).is_awaited
    assert not Replication(pair.client, Settings(redis_url="redis://h")).is_awaited


def test_many_wait_together(pair: Pair) -> None:
    pair.follow()
    writes: list[int] = []
    made = pair.replication()
    write = made.write

    def count(call: Any) -> Any:
        writes.append(1)
        return write(call)

    made.write = count  # type: ignore[method-assign,assignment]
    barrier = ReplicationBarrier.from_replication(made, "channel")

    async def wait() -> None:
        await asyncio.gather(*(barrier.wait() for _ in range(50)))

    asyncio.run(wait())
    assert len(writes) == 1


def test_an_error_of_a_script_is_told(pair: Pair) -> None:
    pair.follow()
    script = pair.client.register_script("return redis.error_reply('BROKEN it is')")
    made = pair.replication()
    with pytest.raises(redis.ResponseError, match="BROKEN it is"):
        made.run_script(script, [], [])
    pair.client.script_flush()
    number = pair.client.register_script("return redis.call('INCR', KEYS[1])")
    pair.client.script_flush()
    assert made.run_script(number, ["n"], []) in {1, 2}


def test_a_primary_that_no_sentinel_names_any_more_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cut off, and nobody has demoted it: its connections stay open, and it takes writes."""
    monkeypatch.setattr(sentinel, "LOOK_S", 0.05)
    monkeypatch.setattr(connections, "LOOK_S", 0.05)
    with (
        EmbeddedRedis(tmp_path / "1", appendfsync="no") as first,
        EmbeddedRedis(tmp_path / "2", appendfsync="no") as second,
    ):
        ports = [free_port(), free_port()]
        for server, port in zip((first, second), ports, strict=True):
            with connect(server.url) as client:
                client.config_set("port", port)
                client.set("name", port)
        named = ports[:1]

        def discover(_: Sentinels, _service: str) -> tuple[str, int]:
            return "127.0.0.1", named[0]

        monkeypatch.setattr(Sentinels, "discover_master", discover)
        url = "redis+sentinel://a,b,c/main"

        async def story() -> None:
            client = connect_async(url)
            assert await client.get("name") == str(ports[0]).encode()
            named[0] = ports[1]
            while await client.get("name") != str(ports[1]).encode():
                await asyncio.sleep(0.01)
            await client.aclose()

        with connect(url) as client:
            assert client.get("name") == str(ports[0]).encode()
            asyncio.run(asyncio.wait_for(story(), 60))
            wait_until(lambda: client.get("name") == str(ports[1]).encode(), "the other server")
