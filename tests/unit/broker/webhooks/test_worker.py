"""How long is waited, and that a claim is one process's."""

import asyncio
from typing import Any

import pytest
import redis

from broker.storage.connections import connect_async
from broker.storage.keys import RedisKeys
from broker.storage.streams import BEGINNING, EventsLostError, read_all_after, read_oldest_position
from broker.webhooks.models import Delivery, WebhookState, WebhookWish
from broker.webhooks.store import DELIVERIES_KEPT, WebhookStore
from broker.webhooks.worker import RetryPolicy

WISH = WebhookWish(url="https://hooks.example/")
DONE = Delivery(
    message="1-1", type="t", why="event", attempt=1, at="2030-01-01T00:00:00Z", delivered=True, duration_s=0.1
)


def test_waits_grow_fourfold_up_to_the_longest() -> None:
    retries = RetryPolicy()
    for failed, middle_s in enumerate((5, 20, 80, 320, 1280, 5120, 20_480), 1):
        waits = [retries.wait_s(failed) for _ in range(50)]
        assert all(0.75 * middle_s <= wait_s <= min(1.25 * middle_s, 21_600) for wait_s in waits)
        assert len(set(waits)) > 1
    assert 0.75 * 21_600 <= retries.wait_s(10_000) <= 21_600
    # Ten attempts take about a day: a receiver may be away for a night.
    assert 12 * 3600 < sum(retries.wait_s(failed) for failed in range(1, 10)) < 30 * 3600


def test_the_receiver_may_ask_for_more_time_but_not_for_ever() -> None:
    retries = RetryPolicy()
    assert retries.wait_s(1, 600.0) == 600.0
    assert retries.wait_s(1, 1e9) == 21_600.0
    assert retries.wait_s(3, 1.0) >= 60.0


@pytest.fixture
def keys() -> RedisKeys:
    return RedisKeys("t:")


def run(url: str, keys: RedisKeys, work: Any) -> Any:
    async def go() -> Any:
        client = connect_async(url)
        try:
            return await work(WebhookStore(client, keys), client)
        finally:
            await client.aclose()

    return asyncio.run(go())


def test_only_who_holds_the_claim_writes(redis_url: str, redis_client: redis.Redis, keys: RedisKeys) -> None:
    async def work(storage: WebhookStore, client: Any) -> None:
        made = await storage.create("acme", WISH, "whsec_a", "5-0")
        held = await storage.hold(made.id, "one", 60_000)
        assert held is not None
        assert (held.position, held.spec, held.usable_secrets) == ("5-0", WISH, ["whsec_a"])
        assert await storage.hold(made.id, "two", 60_000) is None
        assert not await storage.settle(made.id, "two", fields={"position": "9-0"}, delivery=DONE)
        assert await storage.settle(made.id, "one", fields={"position": "6-0"}, delivery=DONE)
        await storage.release(made.id, "two")
        assert await storage.hold(made.id, "two", 60_000) is None
        await client.delete(keys.webhook_claim(made.id))  # it ran out while "one" slept
        second = await storage.hold(made.id, "two", 60_000)
        assert second is not None
        assert second.position == "6-0"
        assert not await storage.settle(made.id, "one", fields={"position": "7-0"}, delivery=DONE)
        await storage.release(made.id, "two")
        assert await storage.hold(made.id, "one", 60_000) is not None
        assert len((await storage.deliveries(made.id, 10, None)).deliveries) == 1

    run(redis_url, keys, work)


def test_nothing_comes_back_after_it_was_deleted(
    redis_url: str, redis_client: redis.Redis, keys: RedisKeys
) -> None:
    async def work(storage: WebhookStore, client: Any) -> None:
        made = await storage.create("acme", WISH, "whsec_a", "5-0")
        await storage.hold(made.id, "one", 60_000)
        await storage.delete(made)
        assert not await storage.settle(made.id, "one", fields={"position": "6-0"}, delivery=DONE)
        assert not await storage.set_state(made.id, WebhookState.PAUSED)
        assert await storage.log(made.id, DONE) is None
        assert await storage.rotate(made, "whsec_b") is None
        assert await storage.hold(made.id, "one", 60_000) is None
        assert await client.keys(f"{keys.prefix}*") == [keys.webhook_claim(made.id).encode()]

    run(redis_url, keys, work)


def test_of_two_rotations_at_once_one_is_told(
    redis_url: str, redis_client: redis.Redis, keys: RedisKeys
) -> None:
    async def work(storage: WebhookStore, client: Any) -> None:
        made = await storage.create("acme", WISH, "whsec_a", "5-0")
        seen = await storage.get(made.id)
        assert seen is not None
        assert await storage.rotate(seen, "whsec_b") is not None
        assert await storage.rotate(seen, "whsec_c") is None
        for name in "defg":
            now = await storage.get(made.id)
            assert now is not None
            assert await storage.rotate(now, f"whsec_{name}") is not None
        last = await storage.get(made.id)
        assert last is not None
        assert last.usable_secrets == ["whsec_g", "whsec_f", "whsec_e", "whsec_d"]

    run(redis_url, keys, work)


def test_the_log_is_bounded(redis_url: str, redis_client: redis.Redis, keys: RedisKeys) -> None:
    async def work(storage: WebhookStore, client: Any) -> None:
        made = await storage.create("acme", WISH, "whsec_a", "5-0")
        for _ in range(DELIVERIES_KEPT + 3):
            await storage.log(made.id, DONE)
        assert await client.xlen(keys.webhook_deliveries(made.id)) == DELIVERIES_KEPT

    run(redis_url, keys, work)


def test_after_a_gap_further_trimming_is_noticed(
    redis_url: str, redis_client: redis.Redis, keys: RedisKeys
) -> None:
    async def work(storage: WebhookStore, client: Any) -> None:
        for entry in ("5-0", "7-0", "7-1", "9-0"):
            await client.xadd(keys.all_events, {"e": "x"}, id=entry)
        await client.xtrim(keys.all_events, maxlen=3, approximate=False)
        with pytest.raises(EventsLostError):
            await read_all_after(client, keys.all_events, "5-0")
        floor = await read_oldest_position(client, keys.all_events)
        entries = await read_all_after(client, keys.all_events, floor)
        assert [entry for entry, _ in entries] == ["7-0", "7-1", "9-0"]
        await client.xtrim(keys.all_events, maxlen=2, approximate=False)
        with pytest.raises(EventsLostError):
            await read_all_after(client, keys.all_events, floor)
        # The one before was read: nothing is lost, though it is not there any more.
        assert len(await read_all_after(client, keys.all_events, "7-0")) == 2
        await client.delete(keys.all_events)
        assert await read_oldest_position(client, keys.all_events) == BEGINNING

    run(redis_url, keys, work)
