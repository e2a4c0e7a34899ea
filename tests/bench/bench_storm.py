"""An eviction storm: a cloud full of spot instances is drained, and everybody hears of every eviction.

    python -m tests.bench.bench_storm [--leases 10000]

Prints how long it takes, from the call that drains the cloud, until all evictions are in the journal, and
until each of three subscribers has heard all of them, each once and in order: an `EventConsumer`,
server-sent events, and plain pub/sub that reads the cloud's stream for what it missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import redis
from httpx_sse import connect_sse

from broker.storage.connections import connect, connect_async
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.keys import RedisKeys
from broker.storage.streams import Cursor, EventConsumer, Page, parse_event, read_newest_id
from tests.bench.bench_admission import federation
from tests.bench.targets import line

JOURNALED_S, HEARD_S = 2.0, 5.0
KEYS, CLOUD = RedisKeys(), "c0"
_LIMIT_S = 60.0
_LIST = 500


class Ear(threading.Thread):
    """A subscriber. ``heard_s``: when it had heard so many evictions; ``gaps``: where not in order."""

    def __init__(self, name: str, after: int, count: int, listen: Any):
        super().__init__(name=name, daemon=True)
        self.ready, self.done = threading.Event(), threading.Event()
        self.gaps, self.heard_s = 0, float("inf")
        self._last, self._left, self._listen = after, count, listen

    def run(self) -> None:
        self._listen(self)

    def hear(self, kind: str, sequence: int) -> bool:
        """True when that was the last one."""
        self.gaps += sequence != self._last + 1
        self._last = sequence
        self._left -= kind == "evicted"
        if self._left == 0:
            self.heard_s = time.perf_counter()
            self.done.set()
        return self._left == 0

    @property
    def last(self) -> int:
        """The latest sequence."""
        return self._last


def with_consumer(url: str, after: str, ear: Ear) -> None:
    """An `EventConsumer` of the merged stream."""

    async def listen() -> None:
        over = asyncio.Event()

        async def hear(page: Page) -> None:
            for _, fields in page.entries:
                event = parse_event(fields)
                if ear.hear(event.kind.value, event.sequence or 0):
                    over.set()
                    return

        async with connect_async(url) as client:
            consumer = EventConsumer("storm", Cursor(client, KEYS.all_events, after), hear)
            running = asyncio.create_task(consumer.run())
            ear.ready.set()
            await over.wait()
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(listen())


def through_api(client: httpx.Client, after: str, ear: Ear) -> None:
    """Server-sent events."""
    headers = {**client.headers, "Last-Event-ID": after}
    with (
        httpx.Client(base_url=client.base_url, headers=headers, timeout=_LIMIT_S) as api,
        connect_sse(api, "GET", "/v1/events") as source,
    ):
        ear.ready.set()
        for sent in source.iter_sse():
            if sent.data:
                event = json.loads(sent.data)
                if ear.hear(event["kind"], event["sequence"]):
                    return


def plainly(url: str, ear: Ear) -> None:
    """Any Redis client: pub/sub, and the stream for what it lost."""
    with connect(url, socket_timeout=None) as client, client.pubsub() as pubsub:
        pubsub.subscribe(KEYS.channel(CLOUD))
        pubsub.get_message(timeout=5)
        ear.ready.set()
        while True:
            message = pubsub.get_message(ignore_subscribe_messages=True, timeout=0.5)
            if message is not None:
                event = json.loads(message["data"])
                if event["sequence"] <= ear.last:
                    continue
                if event["sequence"] == ear.last + 1:
                    if ear.hear(event["kind"], event["sequence"]):
                        return
                    continue
            missed: Any = client.xrange(KEYS.events(CLOUD), f"(0-{ear.last}", "+", 1000)
            for entry, fields in missed:
                event = json.loads(fields[b"e"])
                if ear.hear(event["kind"], int(entry.partition(b"-")[2])):
                    return


def fill(client: httpx.Client, leases: int) -> None:
    """So many spot instances of one core without a promise."""
    for start in range(0, leases, _LIST):
        items = [
            {"id": f"storm-{number}", "origin": "bench", "cores": 1, "lifetime_s": 3600.0}
            for number in range(start, min(start + _LIST, leases))
        ]
        answer = client.post("/v1/requests", json=items)
        refused = [one for one in answer.json()["results"] if "lease" not in one]
        assert not refused, refused[:1]


def _await_journaled(client: redis.Redis, count: int) -> float:
    """When the journal of public events has so many; a look is cheap."""
    deadline_s = time.perf_counter() + _LIMIT_S
    while time.perf_counter() < deadline_s:
        if client.xlen(KEYS.events(CLOUD)) >= count:
            return time.perf_counter()
        time.sleep(0.005)
    raise TimeoutError(f"{client.xlen(KEYS.events(CLOUD))} of {count} events after {_LIMIT_S:.0f} s")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--leases", type=int, default=10_000)
    told = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="spotfed-bench-") as directory,
        EmbeddedRedis(Path(directory), appendfsync="always") as server,
        federation(server.url, 1, 1, signed=True) as (client,),
        connect(server.url) as queue,
    ):
        fill(client, told.leases)
        _await_journaled(queue, told.leases)  # all are admitted
        before = int(queue.xlen(KEYS.events(CLOUD)))

        async def place() -> str:
            async with connect_async(server.url) as asynchronous:
                return await read_newest_id(asynchronous, KEYS.all_events)

        newest = asyncio.run(place())
        ears = [
            Ear("EventConsumer", before, told.leases, lambda ear: with_consumer(server.url, newest, ear)),
            Ear("server-sent events", before, told.leases, lambda ear: through_api(client, newest, ear)),
            Ear("plain pub/sub with repair", before, told.leases, lambda ear: plainly(server.url, ear)),
        ]
        for ear in ears:
            ear.start()
        for ear in ears:
            assert ear.ready.wait(_LIMIT_S), f"{ear.name} does not listen"
        began_s = time.perf_counter()
        drained = threading.Thread(
            target=client.post, args=(f"/v1/clouds/{CLOUD}/drain",), kwargs={"json": {}}
        )
        drained.start()
        journaled_s = _await_journaled(queue, before + told.leases) - began_s
        print(line(f"{told.leases:,} evictions journaled", journaled_s, "s", JOURNALED_S))
        for ear in ears:
            ear.done.wait(_LIMIT_S)
            heard = "without a gap" if ear.gaps == 0 else f"with {ear.gaps} gaps"
            print(line(f"{ear.name}: all heard, {heard}", ear.heard_s - began_s, "s", HEARD_S))
        drained.join()


if __name__ == "__main__":
    main()
