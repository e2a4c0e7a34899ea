"""Idempotency keys: held while their call is answered, and free soon after nobody answers it any more."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis

from broker.requests.errors import InFlightError, ReusedError
from broker.requests.idempotency import IdempotencyKeys
from broker.requests.store import RequestStore
from broker.storage.connections import connect_async
from broker.storage.keys import RedisKeys
from tests.support.wakeups import no_wakeup

Run = Callable[[Callable[[IdempotencyKeys], Awaitable[None]]], None]


@pytest.fixture
def run(redis_client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a story on an empty server, in which holders say every 60 ms that they live."""
    monkeypatch.setattr("broker.requests.idempotency.HOLD_S", 0.2)
    monkeypatch.setattr("broker.requests.idempotency._RENEW_S", 0.06)

    @asynccontextmanager
    async def connected() -> AsyncIterator[IdempotencyKeys]:
        client = connect_async(redis_url)
        try:
            yield IdempotencyKeys(RequestStore(client, RedisKeys("t:"), bell=no_wakeup))
        finally:
            await client.aclose()

    def _run(story: Any) -> None:
        async def tell() -> None:
            async with connected() as keys:
                await story(keys)

        asyncio.run(tell())

    return _run


def test_one_call_at_a_time_however_long_it_takes(run: Run) -> None:
    async def story(keys: IdempotencyKeys) -> None:
        async with keys.hold("p", "k", "body"):
            for _ in range(10):
                with pytest.raises(InFlightError):
                    async with keys.hold("p", "k", "body"):
                        pass
                with pytest.raises(ReusedError):
                    await keys.bind("p", "k", "another")
                await asyncio.sleep(0.06)
            await keys.bind("q", "k", "of another caller")
        async with keys.hold("p", "k", "body"):
            pass
        with pytest.raises(ReusedError):
            await keys.bind("p", "k", "another")

    run(story)


@pytest.mark.parametrize("failure", [redis.ConnectionError, asyncio.CancelledError])
def test_it_is_free_at_once_when_the_call_has_failed(run: Run, failure: type[BaseException]) -> None:
    async def story(keys: IdempotencyKeys) -> None:
        with pytest.raises(failure):
            async with keys.hold("p", "k", "body"):
                raise failure
        with pytest.raises(ReusedError):
            await keys.bind("p", "k", "another")
        async with keys.hold("p", "k", "body"):
            pass

    run(story)


def test_it_is_free_soon_after_its_holder_was_killed(run: Run) -> None:
    async def story(keys: IdempotencyKeys) -> None:
        await keys._begin("p", "k", "body", token := "of a process that was killed", 60.0)
        with pytest.raises(InFlightError):
            await keys.bind("p", "k", "body")
        await keys._records.hold_call("p", "k", 50, token)  # all but the last moment of its time is over
        await asyncio.sleep(0.1)
        async with keys.hold("p", "k", "body"):
            pass

    run(story)


def test_a_holder_that_was_overtaken_frees_nothing_of_the_other_one(run: Run) -> None:
    async def story(keys: IdempotencyKeys) -> None:
        await keys._begin("p", "k", "body", "paused", 0.0)
        async with keys.hold("p", "k", "body"):
            await keys._records.hold_call("p", "k", 0, "paused")
            with pytest.raises(InFlightError):
                await keys.bind("p", "k", "body")

    run(story)
