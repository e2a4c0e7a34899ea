"""Doorbells that are written with what there is to read: a worker takes them for Celery's own."""

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import redis

from broker.contract import Reserve
from broker.keys import Keys
from broker.queue import (
    BATCH,
    DRAIN,
    MONTECARLO,
    Bells,
    cloud_queue,
    make_app,
    montecarlo_queue,
    ring,
    send_batch,
)
from broker.records import Accept, Attempt, Records
from broker.redis_server import connect_async
from broker.settings import Settings

pytestmark = pytest.mark.redis

KEYS = Keys("queue:")


def asked(request: str) -> Accept:
    attempt = f"{request}.1"
    command = Reserve(
        id=f"{attempt}:reserve", attempt=attempt, request=request, origin="o", cores=1, lifetime_s=1, sla=None
    )
    return Accept(request, "f", "{}", 1000, Attempt(request, 1, "A", command, 1000))


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
    queue, bell = Bells(app, KEYS.prefix)("A")
    ring(app, "A")
    sent = json.loads(redis_client.lindex(queue, 0) or "")
    ours = json.loads(bell)
    assert ours["headers"].keys() == sent["headers"].keys()
    assert (ours["body"], ours["headers"]["task"]) == (sent["body"], DRAIN)
    assert ours["properties"]["delivery_info"] == sent["properties"]["delivery_info"]
    redis_client.delete(queue)


def test_attempts_ring_once_until_somebody_looks(app: Any, redis_url: str) -> None:
    async def write(*requests: str) -> None:
        async with connect_async(redis_url) as client:
            records = Records(client, KEYS, bell=Bells(app, KEYS.prefix))
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
            records = Records(client, KEYS, bell=Bells(app, KEYS.prefix))
            await records.accept([Accept("later", "f", "{}", 1000)])
            assert heard(app) == []
            first = asked("later").first
            assert first is not None
            await records.reserve([first])

    asyncio.run(write())
    assert len(heard(app)) == 1


def test_messages_go_where_one_url_says(redis_url: str) -> None:
    rabbit = "amqps://me:s3cret@rabbit.example:5671/federation"
    through = Settings(redis_url=redis_url, celery_broker_url=rabbit, celery_broker_ca=Path("/ca.pem"))
    conf = make_app(through).conf
    assert conf.broker_url == rabbit
    assert conf.broker_use_ssl["cert_reqs"] is ssl.CERT_REQUIRED
    assert conf.broker_use_ssl["server_hostname"] == "rabbit.example"
    assert conf.broker_use_ssl["ca_certs"] == "/ca.pem"
    assert "global_keyprefix" not in conf.broker_transport_options
    assert (
        make_app(through.model_copy(update={"celery_broker_url": "amqp://rabbit"})).conf.broker_use_ssl
        is None
    )
    assert "s3cret" not in repr(through)


def test_a_transport_that_is_not_redis_gets_bells_and_batches(
    redis_client: redis.Redis, redis_url: str
) -> None:
    told = Settings(redis_url=redis_url, key_prefix=KEYS.prefix)
    app = make_app(told.model_copy(update={"celery_broker_url": "memory://"}))
    app.conf.broker_transport_options = {}
    ring(app, "A")
    send_batch(app, MONTECARLO, {"b": 1})
    send_batch(app, montecarlo_queue("m"), {"b": 2})
    (bell,) = heard(app)
    assert bell.headers["task"] == DRAIN
    with app.connection_for_read() as connection, connection.channel() as channel:
        for name, number in ((MONTECARLO, 1), (montecarlo_queue("m"), 2)):
            message = channel.basic_get(name, no_ack=True)
            assert (message.headers["task"], message.payload[0]) == (BATCH, [{"b": number}])
            assert message.properties["delivery_mode"] == 1
    assert redis_client.keys("*") == []
    app.close()
