"""Calls wait together, and none for a round that began before its own writes."""

from __future__ import annotations

import asyncio

import pytest

from broker.storage.connections import DemotedError
from broker.storage.replication import ReplicationBarrier


def test_who_comes_during_a_round_waits_for_the_next() -> None:
    async def story() -> None:
        began: list[asyncio.Event] = []

        async def mark() -> None:
            began.append(asyncio.Event())
            await began[-1].wait()

        barrier = ReplicationBarrier(mark)
        first = [asyncio.create_task(barrier.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        later = [asyncio.create_task(barrier.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        assert len(began) == 1, "three wait together, and the others for the end of that"
        began[0].set()
        await asyncio.gather(*first)
        assert not any(task.done() for task in later)
        await asyncio.sleep(0)
        began[1].set()
        await asyncio.gather(*later)
        assert len(began) == 2

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_failover_meanwhile_is_told() -> None:
    async def story() -> None:
        places = ["a"]

        async def mark() -> None:
            places.append("b")

        barrier = ReplicationBarrier(mark, lambda: places[-1])
        with pytest.raises(DemotedError, match="another server"):
            await barrier.wait(barrier.place)
        await barrier.wait(barrier.place)
        await barrier.wait()

    asyncio.run(story())


def test_a_round_that_fails_fails_for_all_who_wait_for_it() -> None:
    async def story() -> None:
        async def mark() -> None:
            raise DemotedError

        barrier = ReplicationBarrier(mark)
        results = await asyncio.gather(*(barrier.wait() for _ in range(3)), return_exceptions=True)
        assert [type(result) for result in results] == [DemotedError] * 3

    asyncio.run(story())
