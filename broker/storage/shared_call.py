"""Calls that take lists, shared by callers that come at the same time.

A caller that comes while nobody is served is served at once. Those who come meanwhile go with the next call:
all together, in the order in which they came. No timer is involved, so a lone caller never waits for company.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate
from typing import Generic, TypeVar

import redis

_Item = TypeVar("_Item")
_Outcome = TypeVar("_Outcome")


class SharedCall(Generic[_Item, _Outcome]):
    """Makes one call for the items of several callers, with one of these calls under way at a time.

    Each caller gets the outcomes of its own items, and its own error: an outcome that is an exception is
    raised to its caller alone. If the server refuses the whole call, or a defect breaks it, it is repeated
    for one caller after the other, so ``call`` must recognise what it did before. If the server is away,
    all callers are told.
    """

    def __init__(
        self, call: Callable[[Sequence[_Item]], Awaitable[Sequence[_Outcome | Exception]]], most: int
    ):
        """Share ``call``, which returns an outcome for each item, among callers with ``most`` items together.

        A caller that has as many by itself is served alone, at once.
        """
        self._call, self._most = call, most
        self._waiting: deque[tuple[Sequence[_Item], asyncio.Future[list[_Outcome]]]] = deque()
        self._serving: asyncio.Task[None] | None = None

    async def __call__(self, items: Sequence[_Item]) -> list[_Outcome]:
        """Return an outcome for each item.

        A caller that is cancelled has its items served nevertheless, where they are under way.
        """
        if len(items) >= self._most:
            return _require_good(await self._call(items))
        outcomes: asyncio.Future[list[_Outcome]] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, outcomes))
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        return await outcomes

    async def _serve(self) -> None:
        try:
            while self._waiting:
                await self._serve_together(self._next_callers())
        finally:
            self._serving = None

    def _next_callers(self) -> list[tuple[Sequence[_Item], asyncio.Future[list[_Outcome]]]]:
        callers = [self._waiting.popleft()]
        count = len(callers[0][0])
        while self._waiting and count + len(self._waiting[0][0]) <= self._most:
            callers.append(self._waiting.popleft())
            count += len(callers[-1][0])
        return callers

    async def _serve_together(
        self, callers: Sequence[tuple[Sequence[_Item], asyncio.Future[list[_Outcome]]]]
    ) -> None:
        try:
            outcomes = await self._call([item for items, _ in callers for item in items])
        except asyncio.CancelledError:
            for _, future in callers:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  (it is raised to whoever called)
            if len(callers) > 1 and not isinstance(
                error, redis.ConnectionError | redis.TimeoutError | OSError
            ):
                for caller in callers:
                    await self._serve_together([caller])
                return
            for _, future in callers:
                if not future.done():
                    future.set_exception(error)
            return
        parts = _split(outcomes, [len(items) for items, _ in callers])
        for (_, future), part in zip(callers, parts, strict=True):
            if future.done():
                continue
            try:
                future.set_result(_require_good(part))
            except Exception as error:  # noqa: BLE001  (it is raised to this caller)
                future.set_exception(error)


def _split(outcomes: Sequence[_Outcome], counts: Sequence[int]) -> list[Sequence[_Outcome]]:
    """Return the outcomes of each caller; ``counts`` are the numbers of their items."""
    ends = list(accumulate(counts))
    return [outcomes[end - count : end] for end, count in zip(ends, counts, strict=True)]


def _require_good(outcomes: Sequence[_Outcome | Exception]) -> list[_Outcome]:
    """Return the outcomes, or raise the first that is an exception."""
    good: list[_Outcome] = []
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        good.append(outcome)
    return good
