"""Subscribers on a real server: at once, whole, in order, without gaps."""

import asyncio
import json
import random

import pytest
import redis

from broker.contract import CloudInfo, Event, EventKind, Lease, LeaseState
from broker.events import BEGINNING, EventsLost, Subscriber, last_id, read
from broker.journal import Commit, Journal
from broker.keys import Keys
from broker.redis_server import connect_async
from cloudsim.requests import Kind

pytestmark = pytest.mark.redis

KEYS = Keys()
TTL_S = 60.0
#: Longer than any test: what arrives came by pub/sub, or because a gap was noticed.
NO_POLL_S = 100.0


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

    def lost(self, count: int = 1) -> None:
        for _ in range(count):
            event = self.event()
            self.client.xadd(KEYS.events(self.name), {"e": event.model_dump_json()}, id=f"0-{event.sequence}")


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


async def take(events, count):
    """The next events as (cloud, sequence)."""
    taken = [await asyncio.wait_for(anext(events), 10) for _ in range(count)]
    return [(event.cloud, event.sequence) for event in taken]


async def nothing(events, seconds=0.15):
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(events), seconds)


def numbers(cloud, first, last):
    return [(cloud, n) for n in range(first, last + 1)]


# -- anybody's subscriber -----------------------------------------------------------------------------


def test_a_plain_redis_subscriber_sees_an_eviction_whole(redis_url, cloud):
    """What the head of `broker.events` promises, to the letter."""
    listener = redis.Redis.from_url(redis_url, socket_timeout=None)
    pubsub = listener.pubsub()
    pubsub.psubscribe("spotfed:events:*")
    assert pubsub.get_message(timeout=5)["type"] == "psubscribe"
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


# -- Subscriber ---------------------------------------------------------------------------------------


def test_events_arrive_at_once(run, cloud):
    async def story(client):
        cloud.publish(3)
        async with Subscriber(client, KEYS, poll_s=NO_POLL_S) as events:
            assert events.seen == {"a": 3}
            cloud.publish()
            assert await take(events, 1) == [("a", 4)]
            cloud.publish(2)
            assert await take(events, 2) == [("a", 5), ("a", 6)]
            await nothing(events)
            assert events.seen == {"a": 6}

    run(story)


def test_a_gap_is_read_from_the_stream(run, cloud):
    async def story(client):
        async with Subscriber(client, KEYS, poll_s=NO_POLL_S) as events:
            cloud.publish()
            cloud.lost(5)
            cloud.publish()
            cloud.lost()
            cloud.publish(2)
            assert await take(events, 10) == numbers("a", 1, 10)
            await nothing(events)

    run(story)


def test_a_loss_that_nothing_follows_is_noticed_by_looking(run, cloud):
    async def story(client):
        async with Subscriber(client, KEYS, poll_s=0.05) as events:
            cloud.lost(2)
            assert await take(events, 2) == numbers("a", 1, 2)

    run(story)


def test_what_comes_twice_is_told_once(run, cloud, redis_client):
    async def story(client):
        async with Subscriber(client, KEYS, poll_s=NO_POLL_S) as events:
            cloud.publish(2)
            for _, fields in redis_client.xrange(KEYS.events("a")):
                redis_client.publish(KEYS.channel("a"), fields[b"e"])
            cloud.publish()
            assert await take(events, 3) == numbers("a", 1, 3)
            await nothing(events)

    run(story)


@pytest.mark.parametrize("message", [b"", b"\xff", b"{}", b'{"kind": "evicted"}', b"[" * 10_000])
def test_what_no_owner_published_is_ignored(run, cloud, redis_client, message):
    async def story(client):
        async with Subscriber(client, KEYS, poll_s=NO_POLL_S) as events:
            redis_client.publish(KEYS.channel("a"), message)
            unnumbered = cloud.event().model_copy(update={"sequence": None})
            redis_client.publish(KEYS.channel("a"), unnumbered.model_dump_json())
            cloud.sequence -= 1
            cloud.publish()
            assert await take(events, 1) == [("a", 1)]

    run(story)


@pytest.mark.parametrize("clouds", [None, ["a"]])
def test_a_lost_connection_is_made_up_for(run, cloud, redis_client, clouds):
    async def story(client):
        async with Subscriber(client, KEYS, clouds, poll_s=NO_POLL_S) as events:
            cloud.publish(2)
            assert await take(events, 1) == [("a", 1)]
            assert redis_client.client_kill_filter(_type="pubsub") == 1
            cloud.publish(3)
            assert await take(events, 4) == numbers("a", 2, 5)
            cloud.publish()
            assert await take(events, 1) == [("a", 6)]

    run(story)


def test_clouds_are_followed_each_in_its_own_order(run, cloud, redis_client):
    other = Cloud(redis_client, "b")

    async def story(client):
        async with Subscriber(client, KEYS, poll_s=NO_POLL_S) as events:
            cloud.lost()
            other.publish()
            cloud.publish()
            other.lost(2)
            other.publish()
            taken = await take(events, 6)
        assert [one for one in taken if one[0] == "a"] == numbers("a", 1, 2)
        assert [one for one in taken if one[0] == "b"] == numbers("b", 1, 4)

    run(story)


def test_only_the_clouds_that_were_named_are_followed(run, cloud, redis_client):
    others = [Cloud(redis_client, name) for name in "bc"]

    async def story(client):
        async with Subscriber(client, KEYS, ["b", "a", "b"], poll_s=0.05) as events:
            for one in (*others, cloud):
                one.publish()
            assert sorted(await take(events, 2)) == [("a", 1), ("b", 1)]
            await nothing(events)

    run(story)


@pytest.mark.parametrize("lost", [True, False])
def test_a_cloud_that_joins_later_is_followed_from_its_first_event(run, cloud, redis_client, lost):
    async def story(client):
        async with Subscriber(client, KEYS, poll_s=0.05 if lost else NO_POLL_S) as events:
            late = Cloud(redis_client, "late")
            late.lost(2)
            if not lost:
                late.publish()
            count = 2 if lost else 3
            assert await take(events, count) == numbers("late", 1, count)

    run(story)


def test_a_subscriber_resumes_where_another_stopped(run, cloud, redis_client):
    other = Cloud(redis_client, "b")

    async def story(client):
        async with Subscriber(client, KEYS, poll_s=NO_POLL_S) as events:
            cloud.publish(3)
            assert await take(events, 2) == numbers("a", 1, 2)
            seen = dict(events.seen)
        cloud.publish()
        other.publish()
        async with Subscriber(client, KEYS, after=seen, poll_s=NO_POLL_S) as events:
            assert sorted(await take(events, 3)) == [*numbers("a", 3, 4), ("b", 1)]
        async with Subscriber(client, KEYS, after={}, poll_s=NO_POLL_S) as events:
            assert sorted(await take(events, 5)) == [*numbers("a", 1, 4), ("b", 1)]

    run(story)


def test_a_long_way_back_is_gone_page_by_page(run, cloud):
    async def story(client):
        cloud.publish(1800)
        async with Subscriber(client, KEYS, after={"a": 10}, poll_s=NO_POLL_S) as events:
            cloud.publish()
            assert await take(events, 1791) == numbers("a", 11, 1801)
            cloud.lost(1200)
            cloud.publish()
            assert await take(events, 1201) == numbers("a", 1802, 3002)

    run(story)


def test_a_wait_that_is_given_up_loses_nothing(run, cloud):
    async def story(client):
        async with Subscriber(client, KEYS, poll_s=0.01) as events:
            taken: list[int | None] = []
            for n in range(60):
                cloud.publish() if n % 3 else cloud.lost()
                try:
                    event = await asyncio.wait_for(anext(events), random.Random(n).uniform(0, 0.004))
                    taken.append(event.sequence)
                except TimeoutError:
                    pass
            rest = await take(events, 60 - len(taken))
        assert taken + [sequence for _, sequence in rest] == list(range(1, 61))

    run(story)


def test_a_wait_can_always_be_given_up(run, cloud):
    """redis-py uses asyncio.wait_for, which in Python 3.11 may forget a cancellation."""

    async def story(client):
        async with Subscriber(client, KEYS, poll_s=0.002) as events:
            for n in range(300):
                await nothing(events, 0.002 + n * 1e-6)

    run(story)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_lost_every_event_comes_once_and_in_order(run, redis_client, seed):
    chance = random.Random(seed)
    clouds = [Cloud(redis_client, name) for name in "ab"]

    async def story(client):
        async with Subscriber(client, KEYS, poll_s=0.05) as events:
            taken: list[tuple[str, int | None]] = []
            for _ in range(100):
                one = chance.choice(clouds)
                chance.choice([one.publish, one.lost])(chance.randint(1, 3))
                if chance.random() < 0.05:
                    redis_client.client_kill_filter(_type="pubsub")
                if chance.random() < 0.3:
                    taken += await take(events, 1) if len(taken) < sum(c.sequence for c in clouds) else []
            taken += await take(events, sum(one.sequence for one in clouds) - len(taken))
            await nothing(events)
        for one in clouds:
            assert [each for each in taken if each[0] == one.name] == numbers(one.name, 1, one.sequence)

    run(story)


def test_events_that_are_no_longer_kept_are_an_error(run, cloud, redis_client):
    async def story(client):
        cloud.publish(5)
        redis_client.xtrim(KEYS.events("a"), maxlen=2, approximate=False)
        async with Subscriber(client, KEYS, after={"a": 3}) as events:
            assert await take(events, 2) == numbers("a", 4, 5)
        with pytest.raises(EventsLost, match="events 2 to 3"):
            async with Subscriber(client, KEYS, after={"a": 1}):
                pass

    run(story)


def test_a_server_that_lost_events_is_an_error(run, cloud, redis_client):
    async def story(client):
        async with Subscriber(client, KEYS, poll_s=NO_POLL_S) as events:
            cloud.publish(3)
            assert await take(events, 3) == numbers("a", 1, 3)
            redis_client.xdel(KEYS.events("a"), "0-3")
            redis_client.client_kill_filter(_type="pubsub")
            with pytest.raises(EventsLost, match="event 3 was seen, 2 is the newest"):
                await take(events, 1)

    run(story)


# -- the merged stream --------------------------------------------------------------------------------


def test_the_merged_stream_is_read_and_resumed(run, cloud, redis_client):
    other = Cloud(redis_client, "b")

    async def story(client):
        assert await read(client, KEYS, BEGINNING) == []
        assert await last_id(client, KEYS) == BEGINNING
        cloud.publish(2)
        other.publish()
        found = await read(client, KEYS, BEGINNING)
        assert [(event.cloud, event.sequence) for _, event in found] == [("a", 1), ("a", 2), ("b", 1)]
        assert await read(client, KEYS, BEGINNING, count=2) == found[:2]
        assert await read(client, KEYS, found[0][0]) == found[1:]
        assert await last_id(client, KEYS) == found[-1][0]
        assert await read(client, KEYS, found[-1][0], block_ms=1) == []

    run(story)


def test_reading_the_merged_stream_waits(run, cloud):
    async def story(client):
        for after in (BEGINNING, None):
            position = after or await last_id(client, KEYS)
            waiting = asyncio.create_task(read(client, KEYS, position, block_ms=4000))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            cloud.publish()
            ((_, event),) = await waiting
            assert event.sequence == cloud.sequence

    run(story)


def test_a_reader_behind_the_oldest_event_is_told(run, cloud, redis_client):
    async def story(client):
        cloud.publish(5)
        found = await read(client, KEYS, BEGINNING)
        redis_client.xtrim(KEYS.all_events, maxlen=3, approximate=False)
        assert await read(client, KEYS, found[2][0]) == found[3:]
        assert await read(client, KEYS, BEGINNING) == found[2:]
        with pytest.raises(EventsLost):
            await read(client, KEYS, found[0][0])

    run(story)


@pytest.mark.parametrize("wrong", ["", "yesterday", "5", "$", "1-2-3", "-1-0", "1" * 30 + "-0"])
def test_a_position_that_is_none_is_refused(run, wrong):
    async def story(client):
        with pytest.raises(ValueError, match="not a stream id"):
            await read(client, KEYS, wrong)

    run(story)
