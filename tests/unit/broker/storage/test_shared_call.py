"""Calls that take lists, shared by callers that come at the same time."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import redis

from broker.storage.shared_call import SharedCall


class Server:
    """Doubles numbers, one call at a time, when it is let; ``calls`` holds the items of each call."""

    def __init__(self, most: int = 100):
        self.calls: list[list[int]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.shared = SharedCall(self._double, most)

    async def _double(self, items: Sequence[int]) -> list[int | Exception]:
        self.calls.append(list(items))
        await self.open.wait()
        await asyncio.sleep(0)
        if -1 in items:
            raise redis.ResponseError("cannot double -1")
        if -2 in items:
            raise redis.ConnectionError("away")
        return [ValueError("cannot double 13") if item == 13 else 2 * item for item in items]

    async def outcomes(self, *callers: list[int]) -> list[Any]:
        """What callers get that come while another is served."""
        self.open.clear()
        first = asyncio.create_task(self.shared([0]))
        await asyncio.sleep(0)
        others = [asyncio.create_task(self.shared(items)) for items in callers]
        await asyncio.sleep(0)
        self.open.set()
        assert await first == [0]
        return await asyncio.gather(*others, return_exceptions=True)


def test_a_lone_caller_is_served_at_once() -> None:
    async def story() -> None:
        server = Server()
        assert await server.shared([1, 2]) == [2, 4]
        assert await server.shared([3]) == [6]
        assert server.calls == [[1, 2], [3]]

    asyncio.run(story())


def test_callers_that_come_meanwhile_go_together_and_each_gets_its_own() -> None:
    async def story() -> None:
        server = Server()
        assert await server.outcomes([1], [2, 3], [4]) == [[2], [4, 6], [8]]
        assert server.calls == [[0], [1, 2, 3, 4]]

    asyncio.run(story())


def test_a_call_has_so_many_items_and_nobody_is_overtaken() -> None:
    async def story() -> None:
        server = Server(most=3)
        await server.outcomes([1, 1], [2, 2], [3], [5])
        assert server.calls == [[0], [1, 1], [2, 2, 3], [5]]

    asyncio.run(story())


def test_a_caller_with_a_whole_call_waits_for_nobody() -> None:
    async def story() -> None:
        server = Server(most=3)
        waiting, *lists = await server.outcomes([1], [2, 2, 2], [3, 3, 3, 13])
        assert (waiting, lists[0]) == ([2], [4, 4, 4])
        assert str(lists[1]) == "cannot double 13"
        assert server.calls == [[0], [2, 2, 2], [3, 3, 3, 13], [1]]

    asyncio.run(story())


def test_an_item_that_fails_is_told_to_its_caller_alone() -> None:
    async def story() -> None:
        server = Server()
        one, two, three = await server.outcomes([1], [2, 13], [3])
        assert (one, three) == ([2], [6])
        assert str(two) == "cannot double 13"
        assert len(server.calls) == 2

    asyncio.run(story())


def test_a_call_that_is_refused_is_repeated_for_each_caller() -> None:
    async def story() -> None:
        server = Server()
        one, two, three = await server.outcomes([1], [-1], [3])
        assert (one, three) == ([2], [6])
        assert isinstance(two, redis.ResponseError)
        assert server.calls == [[0], [1, -1, 3], [1], [-1], [3]]

    asyncio.run(story())


def test_a_server_that_is_away_is_away_for_all_and_asked_again_by_the_next() -> None:
    async def story() -> None:
        server = Server()
        away = await server.outcomes([1], [-2])
        assert [type(error) for error in away] == [redis.ConnectionError] * 2
        assert server.calls == [[0], [1, -2]]
        assert await server.shared([5]) == [10]

    asyncio.run(story())


def test_a_caller_that_leaves_takes_nobody_along() -> None:
    async def story() -> None:
        server = Server()
        server.open.clear()
        leaving, staying = (asyncio.create_task(server.shared([number])) for number in (1, 2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        leaving.cancel()
        server.open.set()
        assert await staying == [4]
        with pytest.raises(asyncio.CancelledError):
            await leaving

    asyncio.run(story())
