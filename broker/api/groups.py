"""Streams that all API processes read as one consumer group: each entry is handled by one of them, and again
by another if that one dies."""

from __future__ import annotations

from typing import Any

import redis
import redis.asyncio

Entries = list[tuple[bytes, dict[bytes, bytes]]]

BLOCK_MS = 1000
IDLE_MS = 15_000  # an entry that its consumer has not finished by then is taken over
BATCH = 200


async def create(client: redis.asyncio.Redis, group: str, stream: str, start: str) -> None:
    """Creates the group, reading from ``start`` on, unless it is there."""
    try:
        await client.xgroup_create(stream, group, id=start, mkstream=True)
    except redis.ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise


async def abandoned(client: redis.asyncio.Redis, group: str, stream: str, name: str) -> Entries:
    """Entries that some process, this one included, took and did not finish."""
    claimed: Any = await client.xautoclaim(stream, group, name, min_idle_time=IDLE_MS, count=BATCH)
    return [(entry, fields) for entry, fields in claimed[1] if fields]


async def fresh(
    client: redis.asyncio.Redis, group: str, name: str, *streams: str
) -> list[tuple[str, Entries]]:
    """Entries that nobody took yet, by stream; waits for them for a moment."""
    found: Any = await client.xreadgroup(
        group, name, dict.fromkeys(streams, ">"), count=BATCH, block=BLOCK_MS
    )
    if not found:
        return []
    # Whichever protocol the client speaks.
    pairs = [(key, pages[0]) for key, pages in found.items()] if isinstance(found, dict) else found
    return [(key.decode(), list(entries)) for key, entries in pairs]


def is_missing(error: redis.ResponseError) -> bool:
    """Whether the answer means that there is no such group (any more)."""
    return str(error).startswith("NOGROUP")
