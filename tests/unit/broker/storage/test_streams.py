"""Streams are read each entry at least once, in order, through outages; on a clock that leaps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import fakeredis
import pytest
import redis

from broker.backoff import Backoff
from broker.storage.outages import retry_through_outages
from broker.storage.streams import (
    BEGINNING,
    ConsumerGroup,
    Cursor,
    EventConsumer,
    EventsLostError,
    GroupStream,
    Page,
    PageHandler,
    parse_id,
    read_after,
    read_all_after,
)


class LeapingLoop(asyncio.SelectorEventLoop):
    """Leaps to the next timer whenever nothing is ready."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self.now_s = max(self.now_s, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def leap(story: Coroutine[Any, Any, Any]) -> float:
    """Runs the story and returns how long it took on its clock."""
    loop = LeapingLoop()
    try:
        loop.run_until_complete(story)
        return loop.now_s
    finally:
        loop.close()


def client_of(server: fakeredis.FakeServer) -> Any:
    return fakeredis.FakeAsyncRedis(server=server)


@pytest.fixture
def server() -> fakeredis.FakeServer:
    return fakeredis.FakeServer()


async def append(client: Any, *numbers: int, stream: str = "s") -> None:
    for number in numbers:
        await client.xadd(stream, {"n": number}, id=f"{number}-0")


def numbers_of(page: Page) -> list[int]:
    return [parse_id(entry)[0] for entry, _ in page.entries]


def failing(times: int, answer: str = "done") -> Callable[[], Awaitable[str]]:
    """Fails so many times before it answers."""
    left = [times]

    async def call() -> str:
        if left[0]:
            left[0] -= 1
            raise redis.ConnectionError("away")
        return answer

    return call


# -- outages ---------------------------------------------------------------------------------------------


def test_an_outage_is_waited_for_with_growing_pauses_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recovered: list[None] = []

    async def story() -> None:
        call = failing(5)
        assert await retry_through_outages(call, "who", recover=lambda: recovered.append(None)) == "done"

    with caplog.at_level(logging.WARNING):
        assert leap(story()) == pytest.approx(0.05 + 0.1 + 0.2 + 0.4 + 0.8)
    assert [record.message for record in caplog.records] == ["who: away; trying again"]
    assert len(recovered) == 5


def test_the_next_outage_begins_with_a_short_pause() -> None:
    async def story() -> None:
        for _ in range(3):
            await retry_through_outages(failing(1), None)

    assert leap(story()) == pytest.approx(3 * 0.05)


def test_other_errors_are_not_retried() -> None:
    async def call() -> None:
        raise KeyError("a fault")

    with pytest.raises(KeyError):
        leap(retry_through_outages(call, "who"))


@pytest.mark.parametrize("outcome", ["returns", "fails"])
def test_a_swallowed_cancellation_is_raised_again(outcome: str) -> None:
    async def deaf() -> None:
        try:
            await asyncio.sleep(60.0)
        except asyncio.CancelledError:
            if outcome == "fails":
                raise redis.TimeoutError("swallowed") from None

    async def story() -> None:
        task = asyncio.create_task(retry_through_outages(deaf, None, backoff=Backoff(60.0, 60.0)))
        await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.wait([task], timeout=1.0)
        assert task.cancelled()

    leap(story())


# -- a cursor --------------------------------------------------------------------------------------------


class Log:
    """Handles pages by noting them. ``failures``: how many times Redis goes away meanwhile."""

    def __init__(self, failures: int = 0) -> None:
        self.numbers: list[int] = []
        self.failures = failures

    async def handle(self, page: Page) -> None:
        self.numbers += numbers_of(page)
        if self.failures:
            self.failures -= 1
            raise redis.ConnectionError("away")


async def run_for(
    seconds: float, source: Cursor | ConsumerGroup, handle: PageHandler, **options: Any
) -> None:
    consumer = asyncio.create_task(EventConsumer("test", source, handle, **options).run())
    await asyncio.wait([consumer], timeout=seconds)
    if consumer.done():
        consumer.result()
    consumer.cancel()
    await asyncio.wait([consumer])


def test_a_page_that_was_not_finished_comes_again(server: fakeredis.FakeServer) -> None:
    async def story() -> None:
        client, log = client_of(server), Log(failures=2)
        await append(client, 1, 2, 3)
        cursor = Cursor(client, "s", BEGINNING, count=2, block_ms=10)
        await run_for(5.0, cursor, log.handle)
        assert log.numbers == [1, 2, 1, 2, 1, 2, 3]
        assert cursor.position == "3-0"

    leap(story())


def test_a_fault_of_the_handler_ends_the_consumer(server: fakeredis.FakeServer) -> None:
    async def fault(page: Page) -> None:
        raise ZeroDivisionError

    async def story() -> None:
        client = client_of(server)
        await append(client, 1)
        cursor = Cursor(client, "s", BEGINNING, block_ms=10)
        with pytest.raises(ZeroDivisionError):
            await run_for(5.0, cursor, fault)
        assert cursor.position == BEGINNING

    leap(story())


def test_without_a_position_only_what_follows_is_read(server: fakeredis.FakeServer) -> None:
    async def story() -> None:
        client = client_of(server)
        await append(client, 1, 2)
        cursor = Cursor(client, "s", block_ms=10)
        assert await cursor.locate() == "2-0"
        await append(client, 3)
        (page,) = await cursor.read()
        assert numbers_of(page) == [3]

    leap(story())


@pytest.mark.parametrize("rewinds", [True, False])
def test_ids_that_begin_anew_are_read_by_a_cursor_that_rewinds(
    server: fakeredis.FakeServer, *, rewinds: bool
) -> None:
    async def story() -> None:
        client, log = client_of(server), Log(failures=1)
        await append(client, 5)
        cursor = Cursor(client, "s", "4-0", block_ms=10, rewinds=rewinds)
        reading = asyncio.create_task(run_for(5.0, cursor, log.handle))
        await asyncio.sleep(0.02)  # within the pause after the failure
        await client.flushall()
        await append(client, 1)
        await reading
        assert log.numbers == ([5, 1] if rewinds else [5])

    leap(story())


def test_nothing_is_read_while_it_is_not_wanted(server: fakeredis.FakeServer) -> None:
    asked: list[float] = []

    async def prepare() -> bool:
        asked.append(asyncio.get_running_loop().time())
        return len(asked) > 3

    async def story() -> None:
        client, log = client_of(server), Log()
        await append(client, 1)
        await run_for(4.5, Cursor(client, "s", BEGINNING, block_ms=500), log.handle, prepare=prepare)
        assert asked[:4] == pytest.approx([0.0, 1.0, 2.0, 3.0])
        assert log.numbers == [1]

    leap(story())


# -- a group ---------------------------------------------------------------------------------------------

STREAMS = {"s": GroupStream("0", deletes=True), "later": GroupStream("$")}


def group_of(client: Any, name: str, claim_after_ms: int = 60_000, **options: Any) -> ConsumerGroup:
    return ConsumerGroup(client, "g", name, STREAMS, block_ms=10, claim_after_ms=claim_after_ms, **options)


def test_a_group_is_created_where_each_stream_is_to_begin(server: fakeredis.FakeServer) -> None:
    async def story() -> None:
        client = client_of(server)
        await append(client, 1)
        await append(client, 2, stream="later")
        group = group_of(client, "a")
        assert await group.read() == []
        await append(client, 3, stream="later")
        pages = {page.stream: numbers_of(page) for page in await group.read()}
        assert pages == {"s": [1], "later": [3]}

    leap(story())


def test_each_entry_goes_to_one_consumer(server: fakeredis.FakeServer) -> None:
    async def story() -> None:
        client, logs = client_of(server), [Log(), Log()]
        readers = [
            asyncio.create_task(run_for(2.0, group_of(client_of(server), name, count=3), log.handle))
            for name, log in zip("ab", logs, strict=True)
        ]
        for number in range(1, 21):
            await append(client, number)
            await asyncio.sleep(0.03)
        await asyncio.gather(*readers)
        assert sorted(logs[0].numbers + logs[1].numbers) == list(range(1, 21))
        assert await client.xlen("s") == 0
        assert (await client.xpending("s", "g"))["pending"] == 0

    leap(story())


def test_unfinished_entries_go_to_another_consumer_one_by_one(server: fakeredis.FakeServer) -> None:
    async def story() -> None:
        client = client_of(server)
        await append(client, 1, 2, 3)
        first, second = group_of(client, "a"), group_of(client, "b", claim_after_ms=0)
        assert await first.read() == []
        (page,) = await first.read()
        await first.finish(page, ["1-0", "3-0"])
        pages = await second.read()
        assert [numbers_of(page) for page in pages] == [[1], [3]]
        for page in pages:
            await second.finish(page)
        assert await second.read() == []
        assert await client.xlen("s") == 0

    leap(story())


def test_a_group_that_redis_forgot_is_created_again(server: fakeredis.FakeServer) -> None:
    async def story() -> None:
        client, log = client_of(server), Log()
        await append(client, 1)
        reading = asyncio.create_task(run_for(3.0, group_of(client, "a"), log.handle))
        await asyncio.sleep(1.0)
        await client.flushall()
        await asyncio.sleep(0.5)
        await append(client, 7)
        await reading
        assert log.numbers == [1, 7]

    leap(story())


def test_a_group_pauses_after_it_has_read_something(server: fakeredis.FakeServer) -> None:
    async def story() -> None:
        client, loop = client_of(server), asyncio.get_running_loop()
        group = group_of(client, "a", pause_s=0.25)
        await group.read()
        await append(client, 1)
        (page,) = await group.read()
        await group.finish(page)
        began_s = loop.time()
        await group.read()
        assert loop.time() - began_s >= 0.25

    leap(story())


# -- ids and trimmed streams -----------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["", "5", "$", "1-2-3", "-1-0", "1-x", f"{2**64}-0", f"0-{2**64}"])
def test_what_is_no_id_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="not a stream id"):
        parse_id(wrong)


def test_ids_are_compared_by_number() -> None:
    assert parse_id("9-0") < parse_id("10-0")
    assert parse_id("9-2") < parse_id("9-10")


def test_only_a_reader_of_everything_is_told_what_was_trimmed(server: fakeredis.FakeServer) -> None:
    async def story() -> None:
        client = client_of(server)
        await append(client, 1, 2, 3, 4)
        await client.xtrim("s", maxlen=2, approximate=False)
        assert [entry for entry, _ in await read_after(client, "s", "1-0", 10, None)] == ["3-0", "4-0"]
        with pytest.raises(EventsLostError):
            await read_all_after(client, "s", "1-0")
        assert len(await read_all_after(client, "s", BEGINNING)) == 2

    leap(story())


def test_a_reader_that_is_ahead_is_told(server: fakeredis.FakeServer) -> None:
    """Redis came back without the latest entries; the reader has the id of one of them."""

    async def story() -> None:
        client = client_of(server)
        with pytest.raises(EventsLostError, match="does not reach to 5-0"):
            await read_all_after(client, "s", "5-0")
        await client.xadd("s", {"e": "1"}, id="4-0")
        with pytest.raises(EventsLostError, match="does not reach to 5-0"):
            await read_all_after(client, "s", "5-0")
        assert await read_all_after(client, "s", "4-0") == []
        await client.aclose()

    leap(story())
