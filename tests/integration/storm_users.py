"""Who uses a federation in a kill storm: users who submit, extend and release; three kinds of subscriber."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import redis

from broker.client import Client, ClientError, GrantedRequest, InputRefusedError, RefusedRequest
from broker.contract import ExtensionRequest, SpotRequest
from broker.storage.connections import connect, connect_async
from broker.storage.keys import RedisKeys
from broker.storage.streams import BEGINNING, Cursor, EventConsumer, Page, parse_event

#: What a subscriber has heard: cloud and sequence, in order of arrival.
Heard = list[tuple[str, int]]
_LOOK_S = 0.2
#: The member of `probe`.
PROBER = "prober"


@dataclass
class Storm:
    """What is asked, what is answered and what is heard. ``quiet``: users stop, subscribers listen on."""

    answers: dict[str, GrantedRequest | RefusedRequest] = field(default_factory=dict)
    requests: dict[str, SpotRequest] = field(default_factory=dict)
    probes: dict[str, SpotRequest] = field(default_factory=dict)  # requests of `probe`, which has answers too
    released: list[str] = field(default_factory=list)
    heard: dict[str, Heard] = field(default_factory=dict)  # by subscriber
    failures: list[str] = field(default_factory=list)
    admissions: list[tuple[float, float]] = field(default_factory=list)  # sent and answered, monotonic times
    quiet: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def granted(self) -> list[str]:
        """Leases that users were given."""
        with self.lock:
            return [one.lease.id for one in self.answers.values() if isinstance(one, GrantedRequest)]


# -- users ---------------------------------------------------------------------------------------------------


def submit(storm: Storm, client: Client, user: int, rng: random.Random) -> None:
    """A user: one request after the other, singly and in lists; now and then a release or an extension."""
    number = 0
    while not storm.quiet.is_set():
        batch = []
        for _ in range(rng.choice([1, 1, 1, 8])):
            number += 1
            batch.append(_wish(f"u{user}-{number}", rng))
        try:
            results = (
                [client.requests.submit(batch[0])] if len(batch) == 1 else client.requests.submit_many(batch)
            )
            for request, result in zip(batch, results, strict=True):
                assert request.id is not None
                if isinstance(result, GrantedRequest | RefusedRequest):
                    with storm.lock:
                        storm.requests[request.id], storm.answers[request.id] = request, result
                else:
                    storm.failures.append(f"{request.id}: {result}")
            granted = [lease for lease in storm.granted()[-50:] if not lease.startswith(f"{PROBER}:")]
            if granted and rng.random() < 0.3:
                lease = rng.choice(granted)
                client.leases.cancel(lease)
                storm.released.append(lease)
            if granted and rng.random() < 0.3:
                with suppress(InputRefusedError):  # another user has extended it further
                    client.leases.extend(
                        rng.choice(granted), ExtensionRequest(lifetime_s=rng.uniform(7200, 20_000))
                    )
        except ClientError as error:
            storm.failures.append(f"user {user}, request {number}: {error!r}")
        storm.quiet.wait(rng.uniform(0.0, 0.3))


def probe(storm: Storm, client: Client, number: int) -> None:
    """A member that asks for so little that it gets it, one short lease after the other."""
    for count in itertools.count():
        if storm.quiet.wait(0.2):
            return
        request = SpotRequest(id=f"p{number}-{count}", origin=PROBER, cores=1, lifetime_s=60.0)
        assert request.id is not None
        sent_s = time.monotonic()
        try:
            answer = client.requests.submit(request)
        except ClientError as error:
            storm.failures.append(f"{request.id}: {error!r}")
            continue
        with storm.lock:
            storm.probes[request.id], storm.answers[request.id] = request, answer
        if isinstance(answer, GrantedRequest):
            storm.admissions.append((sent_s, time.monotonic()))


def _wish(name: str, rng: random.Random) -> SpotRequest:
    sla = rng.choice([None, None, 0.5, 0.1])
    endless = sla is not None and rng.random() < 0.3
    return SpotRequest(
        id=name,
        origin="user",
        cores=rng.choice([1, 1, 2]),
        lifetime_s=None if endless else rng.uniform(300, 7200),
        sla=sla,
    )


# -- subscribers ---------------------------------------------------------------------------------------------


def listen_to_api(storm: Storm, client: Client, heard: Heard) -> None:
    """Hears through the API alone, which is killed under it."""
    last = "0-0"
    while not storm.over.is_set():
        with suppress(ClientError):
            for sent in client.events.stream(last_event_id=last):
                last = sent.id
                assert sent.event.sequence is not None
                heard.append((sent.event.cloud, sent.event.sequence))
                if storm.over.is_set():
                    return


def listen_with_consumer(storm: Storm, url: str, keys: RedisKeys, heard: Heard) -> None:
    """Hears with an `EventConsumer` of the merged stream, through deaths of the server."""

    async def hear(page: Page) -> None:
        for _, fields in page.entries:
            event = parse_event(fields)
            assert event.sequence is not None
            heard.append((event.cloud, event.sequence))

    async def listen() -> None:
        async with connect_async(url) as client:
            consumer = EventConsumer("storm", Cursor(client, keys.all_events, BEGINNING), hear)
            running = asyncio.create_task(consumer.run())
            while not storm.over.is_set() and not running.done():
                await asyncio.sleep(_LOOK_S)
            if not running.done():
                running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    asyncio.run(listen())


def listen_plainly(storm: Storm, url: str, keys: RedisKeys, clouds: tuple[str, ...], heard: Heard) -> None:
    """Hears as any Redis client can: pub/sub, and the cloud's stream for what pub/sub has lost."""
    last = dict.fromkeys(clouds, 0)

    def take(cloud: str, sequence: int) -> None:
        last[cloud] = sequence
        heard.append((cloud, sequence))

    def repair(client: redis.Redis, cloud: str) -> None:
        missed: Any = client.xrange(keys.events(cloud), f"(0-{last[cloud]}", "+")
        for entry, _ in missed:
            take(cloud, int(entry.decode().partition("-")[2]))

    while not storm.over.is_set():
        with suppress(redis.RedisError, OSError), connect(url) as client, client.pubsub() as pubsub:
            pubsub.psubscribe(keys.channel("*"))
            looked_s = 0.0
            while not storm.over.is_set():
                message = pubsub.get_message(ignore_subscribe_messages=True, timeout=_LOOK_S)
                if message is not None:
                    event = json.loads(message["data"])
                    if event["sequence"] == last[event["cloud"]] + 1:
                        take(event["cloud"], event["sequence"])
                    else:
                        repair(client, event["cloud"])
                elif time.monotonic() - looked_s > 1.0:  # the last message may be the lost one
                    looked_s = time.monotonic()
                    for cloud in clouds:
                        repair(client, cloud)
        storm.over.wait(_LOOK_S)
