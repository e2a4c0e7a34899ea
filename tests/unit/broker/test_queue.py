"""Doorbells that are written with what there is to read: a worker takes them for Celery's own."""

import asyncio
import json
from typing import Any

import pytest
import redis

from broker.contract import Reserve
from broker.queue.celery_config import DRAIN, cloud_queue, make_app
from broker.queue.send import Wakeups, ring
from broker.requests.models import Accept, RequestAttempt
from broker.requests.store import RequestStore
from broker.settings import Settings
from broker.storage.connections import connect_async
from broker.storage.keys import RedisKeys

KEYS = RedisKeys("queue:")


def asked(request: str) -> Accept:
    attempt = f"{request}.1"
    command = Reserve(
        id=f"{attempt}:reserve", attempt=attempt, request=request, origin="o", cores=1, lifetime_s=1, sla=None
    )
    return Accept(request, "f", "{}", 1000, RequestAttempt(request, 1, "A", command, 1000))


def heard(app: Any) -> list[Any]:
    """What a worker of the cloud finds in its queue."""
    messages = []
    with app.connection_for_read() as connection, connection.channel() as channel:
        while (message := channel.basic_get(cloud_queue("A"), no_ack=True)) is not None:
            messages.append(message)
    return messages


@pytest.fixture
def app(redis_url: str) -> Any:
    return make_app(Settings(redis_url=redis_url, key_prefix=KEYS.prefix))


def test_a_bell_is_the_task_that_celery_would_send(app: Any, redis_client: redis.Redis) -> None:
    queue, bell = Wakeups(app, KEYS.prefix)("A")
    ring(app, "A")
    sent = json.loads(redis_client.lindex(queue, 0) or "")
    ours = json.loads(bell)
    for message in (sent, ours):  # what differs from one task to the next, and when they expire
        for name in ("id", "root_id", "expires"):
            del message["headers"][name]
        for name in ("correlation_id", "delivery_tag", "reply_to", "expiration"):
            message["properties"].pop(name, None)
    assert ours == sent
    assert sent["headers"]["task"] == DRAIN
    redis_client.delete(queue)


def test_attempts_ring_once_until_somebody_looks(app: Any, redis_url: str) -> None:
    async def write(*requests: str) -> None:
        async with connect_async(redis_url) as client:
            records = RequestStore(client, KEYS, bell=Wakeups(app, KEYS.prefix))
            for request in requests:
                await records.accept([asked(request)])

    asyncio.run(write("a", "b"))
    (first,) = heard(app)
    assert (first.headers["task"], first.payload[:2]) == (DRAIN, [[], {}])
    asyncio.run(write("b"))  # known by now: there is nothing new to read
    assert heard(app) == []
    asyncio.run(write("c"))
    (second,) = heard(app)
    assert second.delivery_tag != first.delivery_tag
    assert second.headers["id"] != first.headers["id"]


def test_a_later_attempt_rings_too(app: Any, redis_url: str) -> None:
    async def write() -> None:
        async with connect_async(redis_url) as client:
            records = RequestStore(client, KEYS, bell=Wakeups(app, KEYS.prefix))
            await records.accept([Accept("later", "f", "{}", 1000)])
            assert heard(app) == []
            first = asked("later").first
            assert first is not None
            await records.reserve([first])

    asyncio.run(write())
    assert len(heard(app)) == 1
