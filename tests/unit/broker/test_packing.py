"""Commands packed in C: the same bytes arrive, and what is no argument is refused before it is sent."""

import asyncio
from typing import Any

import pytest
import redis

from broker.storage.connections import connect_async


def test_what_is_sent_arrives(redis_url: str) -> None:
    async def main() -> None:
        async with connect_async(redis_url) as client:
            await client.hset("packed", mapping={"é": "ü", "b": b"\x00\r\n", "i": -3, "f": 0.1})
            found = await client.hgetall("packed")
            assert found == {"é".encode(): "ü".encode(), b"b": b"\x00\r\n", b"i": b"-3", b"f": b"0.1"}
            assert await client.script_exists("0" * 40) == [False]  # one name here, two words for the server
            nothing: Any = None
            with pytest.raises(redis.DataError):
                await client.set("packed:none", nothing)
            await client.delete("packed")

    asyncio.run(main())
