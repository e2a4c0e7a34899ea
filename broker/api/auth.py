"""Who calls: ``Authorization: Bearer <key>``, looked up by the key's SHA-256 among those in Redis.

Redis holds hashes only, and a digest is looked up, never compared piece by piece with a secret: how long the
answer takes tells nothing about the keys there are.
"""

from __future__ import annotations

import time
from collections import OrderedDict

import redis.asyncio

from broker.api.problems import unauthorized
from broker.keys import Keys, api_key_digest

KNOWN_FOR_S = 5.0  # how long a withdrawn key may still work in this process
UNKNOWN_FOR_S = 1.0
_MOST_REMEMBERED = 4096


class Authenticator:
    """Finds the holder of a key; remembers the answer for a moment."""

    def __init__(self, client: redis.asyncio.Redis, keys: Keys):
        self._client, self._keys = client, keys
        self._remembered: OrderedDict[str, tuple[float, str | None]] = OrderedDict()

    async def principal(self, authorization: str | None) -> str:
        """The holder's name.

        Raises ProblemError (401) without a valid key, redis.RedisError when Redis is away.
        """
        if authorization is None:
            raise unauthorized(
                "send the header Authorization: Bearer <key>; `spotfed up` prints the first key"
            )
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise unauthorized("the Authorization header must read: Bearer <key>")
        holder = await self._holder(api_key_digest(key.strip()))
        if holder is None:
            raise unauthorized("this API key is not known here, or was withdrawn")
        return holder

    async def _holder(self, hashed: str) -> str | None:
        now_s = time.monotonic()
        remembered = self._remembered.get(hashed)
        if remembered is not None and now_s < remembered[0]:
            return remembered[1]
        found = await self._client.hget(self._keys.api_keys, hashed)
        holder = found.decode() if isinstance(found, bytes) else found
        self._remembered[hashed] = (now_s + (UNKNOWN_FOR_S if holder is None else KNOWN_FOR_S), holder)
        self._remembered.move_to_end(hashed)
        while len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return holder
