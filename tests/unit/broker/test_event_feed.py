"""Event streams of one reader: each follower gets every event once, wherever it resumes."""

import asyncio
import random
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest
import redis

from broker.api.event_feed import EventFeed
from broker.api.stream import _follow
from broker.contract import Event, EventKind
from broker.storage.connections import connect_async
from broker.storage.outages import retry_through_outages

STREAM = "t:events"
EVENTS = 120


def entry(sequence: int) -> dict[Any, Any]:
    event = Event(cloud="a", kind=EventKind.ADMITTED, at_s=0.0, at="2026-01-01", sequence=sequence)
    return {"e": event.model_dump_json()}


async def collect(pages: Any, last: str) -> list[str]:
    """The ids that come, up to the last one that there will be."""
    ids: list[str] = []
    async with aclosing(pages):
        async for events in pages:
            ids += [event.id for event in events]
            if ids and ids[-1] == last:
                break
    return ids


def test_every_follower_gets_each_event_once_wherever_it_resumes(
    redis_client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.api.event_feed._KEPT", 7)
    monkeypatch.setattr("broker.api.event_feed._PAGE", 3)
    rng = random.Random(1)
    ids = [f"{number}-{rng.randint(1, 3)}" for number in range(1, EVENTS + 1)]

    async def story() -> list[tuple[int, list[str]]]:
        client = connect_async(redis_url)
        feed = EventFeed(client, STREAM)
        reader = asyncio.create_task(feed.run())
        followers: list[tuple[int, asyncio.Task[list[str]]]] = []
        for number, entry_id in enumerate(ids):
            await retry_through_outages(partial(client.xadd, STREAM, entry(number + 1), entry_id), None)
            if number % 4 == 0 and number < EVENTS - 1:
                start = rng.randint(0, number)  # somewhere in Redis, in memory, or at the end
                pages = _follow(client, feed, ids[start])
                followers.append((start, asyncio.create_task(collect(pages, ids[-1]))))
            if number % 3 == 0:
                await asyncio.sleep(0.002)
            if number == EVENTS // 2:  # as an outage does
                await client.connection_pool.disconnect()
        told = [(start, await asyncio.wait_for(task, 60)) for start, task in followers]
        assert not feed._followed.is_set(), "it reads although nobody follows"
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        await client.aclose()
        return told

    told = asyncio.run(story())
    assert len(told) == EVENTS // 4
    for start, got in told:
        assert got == ids[start + 1 :]


def test_a_follower_that_fell_behind_what_is_kept_ends(redis_client: redis.Redis, redis_url: str) -> None:
    for number in range(1, 10):
        redis_client.xadd(STREAM, entry(number), f"{number}-1")
    redis_client.xtrim(STREAM, maxlen=3, approximate=False)

    async def story() -> list[str]:
        client = connect_async(redis_url)
        feed = EventFeed(client, STREAM)
        try:
            return await collect(_follow(client, feed, "2-1"), "9-1")
        finally:
            await client.aclose()

    assert asyncio.run(story()) == []
