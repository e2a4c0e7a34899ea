"""Tasks end, also those that pass over a cancellation."""

from __future__ import annotations

import asyncio

import pytest

from broker.webhooks.worker import cancel_tasks


async def deaf(times: int) -> None:
    """Passes over so many cancellations, as asyncio.wait_for of Python 3.11 may."""
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            times -= 1
            if times < 0:
                raise


async def broken() -> None:
    raise ValueError


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_task_is_told_until_it_has_ended(times: int) -> None:
    async def scenario() -> None:
        tasks = [
            asyncio.create_task(deaf(times)),
            asyncio.create_task(deaf(0)),
            asyncio.create_task(broken()),
        ]
        await asyncio.sleep(0)
        await asyncio.wait_for(cancel_tasks(tasks, 0.01), 60)
        assert all(task.done() for task in tasks)

    asyncio.run(scenario())


def test_there_may_be_none() -> None:
    asyncio.run(cancel_tasks([], 1.0))
