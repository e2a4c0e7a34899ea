"""The end of asyncio's tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any


async def end(tasks: Collection[asyncio.Task[Any]], again_s: float) -> None:
    """Cancels tasks until all of them have ended, whatever with; again those that take longer than that.

    Once is not enough: redis-py sends under ``asyncio.wait_for``, and that of Python 3.11 swallows a
    cancellation that comes as it is done.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=again_s)
    await asyncio.gather(*tasks, return_exceptions=True)
