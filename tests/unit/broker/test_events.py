"""Public events on a real server: at once, whole, in order, without gaps."""

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

from broker.contract import CloudInfo, Event, EventKind, Lease, LeaseState
from broker.journal.journal import Commit, Journal
from broker.storage.connections import connect_async
from broker.storage.keys import RedisKeys
from broker.storage.streams import (
    BEGINNING,
    Cursor,
    EventConsumer,
    EventsLostError,
    parse_event,
    read_all_after,
    read_newest_id,
)
from cloudsim.model.requests import Kind
from tests.support.wait import wait_until

KEYS = RedisKeys()
TTL_S = 60.0


class Cloud:
    """Publishes as an owner does. `lost` writes an event as if nobody had received its message."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self.client = client
        self.journal = Journal(client, KEYS, name)
        self.name = name
        self.epoch = self.journal.acquire("me", TTL_S) or 0
        self.journal.publish_info(
            CloudInfo(id=name, order=0, nodes="1x4", cores=4, largest_node=4, time="wall")
        )
        self.number = self.sequence = 0

    def event(self, kind: EventKind = EventKind.ADMITTED) -> Event:
        self.sequence += 1
        return Event(
            cloud=self.name,
            kind=kind,
            at_s=self.sequence,
            at="2026-01-01T00:00:00Z",
            sequence=self.sequence,
            lease=Lease(
                id=f"r{self.sequence}.1",
                request=f"r{self.sequence}",
                cloud=self.name,
                origin="user",
                kind=Kind.SPOT,
                cores=2,
                node=1,
                starts_at_s=0.5,
                ends_at_s=99.0,
                promised_sla=0.05,
                eviction_probability=0.01,
                table_version="v1",
                fence=self.epoch,
                number=self.sequence,
                state=LeaseState.EVICTED if kind is EventKind.EVICTED else LeaseState.RUNNING,
                cause="d7" if kind is EventKind.EVICTED else None,
            ),
            cause="d7" if kind is EventKind.EVICTED else None,
        )

    def commit(self, events: list[Event]) -> None:
        self.journal.commit(Commit(self.epoch, "me", TTL_S, self.number + 1, events))
        self.number += len(events)

    def publish(self, count: int = 1) -> None:
        self.commit([self.event() for _ in range(count)])


@pytest.fixture
def cloud(redis_client):
    return Cloud(redis_client, "a")


@pytest.fixture
def run(redis_client, redis_url):
    """Runs an async function of a client."""

    def _run(story):
        async def tell():
            client = connect_async(redis_url)
            try:
                return await asyncio.wait_for(story(client), 60)
            finally:
                await client.aclose()

        return asyncio.run(tell())

    return _run


class HeardError(Exception):
    """Ends the lines of the documentation, which listen for ever."""


def test_the_lines_in_the_documentation_show_each_event_once_also_those_that_were_missed(redis_url, cloud):
    page = (Path(__file__).parents[3] / "docs/how-to/user/webhooks.md").read_text()
    (lines,) = [
        block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "psubscribe" in block
    ]
    lines, named = re.subn(r"^url = .*$", f"url = {redis_url!r}", lines, flags=re.MULTILINE)
    assert named == 1
    shown = []

    def show(*parts):
        shown.append(parts)
        if len(shown) == 6:
            raise HeardError

    def publish():
        wait_until(cloud.client.pubsub_numpat, "the lines listen", 20)
        cloud.publish(2)
        for event in [cloud.event(), cloud.event(EventKind.EVICTED)]:  # two whose messages nobody receives
            entry = {"e": event.model_dump_json()}
            cloud.client.xadd(KEYS.events("a"), entry, id=f"0-{event.sequence}")
        cloud.publish(2)

    names: dict[str, Any] = {"print": show}
    with ThreadPoolExecutor(1) as pool:
        publishing = pool.submit(publish)
        try:
            with pytest.raises(HeardError):
                exec(lines, names)
        finally:
            names["events"].close()
            names["client"].close()
        publishing.result()
    kinds = ["admitted"] * 3 + ["evicted"] + ["admitted"] * 2
    assert shown == [("a", number, kind, f"r{number}.1") for number, kind in enumerate(kinds, 1)]


async def read(client, after, count=100, block_ms=None):
    """Pairs of id and event."""
    entries = await read_all_after(client, KEYS.all_events, after, count, block_ms)
    return [(entry, parse_event(fields)) for entry, fields in entries]


# -- anybody's subscriber -----------------------------------------------------------------------------


def test_a_plain_redis_subscriber_sees_an_eviction_whole(redis_url, cloud):
    listener = redis.Redis.from_url(redis_url, socket_timeout=None)
    pubsub = listener.pubsub()
    pubsub.psubscribe("spotfed:events:*")
    assert pubsub.get_message(timeout=60)["type"] == "psubscribe"
    evicted = cloud.event(EventKind.EVICTED)
    cloud.commit([evicted])
    event = None
    for message in pubsub.listen():
        if message["type"] == "pmessage":
            event = json.loads(message["data"])
            break
    assert message["channel"] == b"spotfed:events:a"
    assert event == evicted.model_dump(mode="json")
    assert (event["cloud"], event["kind"], event["sequence"]) == ("a", "evicted", 1)
    assert (event["lease"]["id"], event["lease"]["state"], event["lease"]["cores"]) == ("r1.1", "evicted", 2)
    assert event["cause"] == "d7"
    pubsub.close()
    listener.close()


# -- the merged stream --------------------------------------------------------------------------------


def test_the_merged_stream_is_read_and_resumed(run, cloud, redis_client):
    other = Cloud(redis_client, "b")

    async def story(client):
        assert await read(client, BEGINNING) == []
        assert await read_newest_id(client, KEYS.all_events) == BEGINNING
        cloud.publish(2)
        other.publish()
        found = await read(client, BEGINNING)
        assert [(event.cloud, event.sequence) for _, event in found] == [("a", 1), ("a", 2), ("b", 1)]
        assert await read(client, BEGINNING, count=2) == found[:2]
        assert await read(client, found[0][0]) == found[1:]
        assert await read_newest_id(client, KEYS.all_events) == found[-1][0]
        assert await read(client, found[-1][0], block_ms=1) == []

    run(story)


def test_reading_the_merged_stream_waits(run, cloud):
    async def story(client):
        for after in (BEGINNING, None):
            position = after or await read_newest_id(client, KEYS.all_events)
            waiting = asyncio.create_task(read(client, position, block_ms=4000))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            cloud.publish()
            ((_, event),) = await waiting
            assert event.sequence == cloud.sequence

    run(story)


def test_a_reader_behind_the_oldest_event_is_told(run, cloud, redis_client):
    async def story(client):
        cloud.publish(5)
        found = await read(client, BEGINNING)
        redis_client.xtrim(KEYS.all_events, maxlen=3, approximate=False)
        assert await read(client, found[2][0]) == found[3:]
        assert await read(client, BEGINNING) == found[2:]
        with pytest.raises(EventsLostError):
            await read(client, found[0][0])

    run(story)


def test_a_consumer_outlives_its_connections(run, cloud, redis_client):
    async def story(client):
        heard: list[int | None] = []
        complete = asyncio.Event()

        async def hear(page):
            heard.extend(parse_event(fields).sequence for _, fields in page.entries)
            if len(heard) >= 300:
                complete.set()

        cursor = Cursor(client, KEYS.all_events, BEGINNING, count=7)
        consumer = asyncio.create_task(EventConsumer("test", cursor, hear).run())
        for number in range(100):
            cloud.publish(3)
            if number % 20 == 10:
                await asyncio.sleep(0.01)
                redis_client.client_kill_filter(_type="normal", skipme=True)
        await asyncio.wait_for(complete.wait(), 60)
        consumer.cancel()
        await asyncio.wait([consumer], timeout=60)
        assert consumer.cancelled()
        assert heard == list(range(1, 301))

    run(story)


def test_a_consumer_always_ends_when_it_is_cancelled(run, cloud):
    """redis-py uses asyncio.wait_for, which in Python 3.11 may forget a cancellation."""

    async def nothing(page):
        del page

    async def story(client):
        cloud.publish()
        for number in range(300):
            cursor = Cursor(client, KEYS.all_events, BEGINNING, block_ms=1)
            consumer = asyncio.create_task(EventConsumer("test", cursor, nothing).run())
            await asyncio.sleep(0.002 + number * 1e-6)
            consumer.cancel()
            await asyncio.wait([consumer], timeout=60)
            assert consumer.cancelled()

    run(story)


@pytest.mark.parametrize("wrong", ["", "yesterday", "5", "$", "1-2-3", "-1-0", "1" * 30 + "-0"])
def test_a_position_that_is_none_is_refused(run, wrong):
    async def story(client):
        with pytest.raises(ValueError, match="not a stream id"):
            await read(client, wrong)

    run(story)
