"""Doorbells that others ring, and answers that come or do not."""

import asyncio
from typing import Any

import pytest

from broker.contract import Done
from broker.requests import owner_commands
from broker.requests.owner_commands import OwnerNotifier, await_answers


def test_what_was_to_ring_soon_need_not_when_somebody_else_rang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_commands, "_SOON_S", 0.0)
    heard: list[str] = []

    async def main() -> None:
        bells = OwnerNotifier(heard.append)
        bells.ring_soon(["a", "b"])
        bells.cancel_planned(["a", "c"])
        while not heard:
            await asyncio.sleep(0)
        await bells.close()

    asyncio.run(main())
    assert heard == ["b"]


def test_answers_are_those_that_came_by_the_deadline() -> None:
    async def main() -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        futures = {name: loop.create_future() for name in ("late", "first", "second")}
        loop.call_soon(futures["first"].set_result, Done())
        loop.call_soon(futures["second"].set_result, Done(found=False))
        return await await_answers(futures, 0.01)

    assert asyncio.run(main()) == {"first": Done(), "second": Done(found=False)}
    assert asyncio.run(await_answers({}, 1.0)) == {}
