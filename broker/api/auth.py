"""Who calls: ``Authorization: Bearer <key>``, looked up by the key's SHA-256 among those in Redis.

Redis holds hashes only, and a digest is looked up, never compared piece by piece with a secret: how long the
answer takes tells nothing about the keys there are. What was found is remembered for a moment, so that a call
costs no round trip for it; every second each process looks whether keys or members have changed anywhere, and
then forgets. So a revoked key works for about a second, and never for more than ``KNOWN_FOR_S``.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any

import redis.asyncio

from broker.api.problems import too_many_calls, unauthorized
from broker.identity.member_cache import KNOWN_FOR_S, MemberCache
from broker.identity.models import KeyRecord, MemberRecord
from broker.identity.permissions import Principal
from broker.identity.store import api_key_digest, parse_key_record
from broker.storage.keys import RedisKeys

UNKNOWN_FOR_S = 1.0

_MOST_REMEMBERED = 4096


class Authenticator:
    """Finds who holds a key; remembers the answer for a moment."""

    def __init__(self, client: redis.asyncio.Redis, keys: RedisKeys, roster: MemberCache):
        self._client, self._keys, self._roster = client, keys, roster
        self._remembered: OrderedDict[str, tuple[float, KeyRecord | None]] = OrderedDict()
        self._seen: Any = None

    async def principal(self, authorization: str | None) -> Principal:
        """Whom the key lets in.

        Raises ProblemError (401) without a valid key, redis.RedisError when Redis is away.
        """
        if authorization is None:
            raise unauthorized(
                "send the header Authorization: Bearer <key>; `spotfed up` prints the first key"
            )
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise unauthorized("the Authorization header must read: Bearer <key>")
        record = await self._record(api_key_digest(key.strip()))
        who = None
        if record is not None and not record.expired(time.time()):
            who = record.acts_as(await self._member(record))
        if who is None:
            raise unauthorized("this API key is not known here, has expired, or was revoked")
        return who

    async def refresh(self) -> None:
        """Forgets what is remembered if a key or a member has changed since. Raises redis.RedisError."""
        latest = await self._client.xrevrange(self._keys.audit, count=1)
        entry = latest[0][0] if latest else None
        if entry != self._seen:
            self._seen = entry
            self.forget()

    def forget(self) -> None:
        """Keys and members are read anew."""
        self._remembered.clear()
        self._roster.forget()

    async def _member(self, record: KeyRecord) -> MemberRecord | None:
        if record.member is None:
            return None
        return (await self._roster.members()).get(record.member)

    async def _record(self, hashed: str) -> KeyRecord | None:
        now_s = time.monotonic()
        remembered = self._remembered.get(hashed)
        if remembered is not None and now_s < remembered[0]:
            return remembered[1]
        found: Any = self._client.hget(self._keys.api_keys, hashed)
        record = parse_key_record(await found)
        known_for_s = UNKNOWN_FOR_S if record is None else KNOWN_FOR_S
        self._remembered[hashed] = (now_s + known_for_s, record)
        self._remembered.move_to_end(hashed)
        while len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return record


class Rates:
    """Counts the calls of each key to this process, second by second; 0 counts nothing.

    Not for all processes together: each call would be a write to Redis, which syncs every write to its disk.
    """

    def __init__(self, calls_per_s: int):
        self._allowed = None
        if calls_per_s:
            from limits import RateLimitItemPerSecond
            from limits.aio.storage import MemoryStorage
            from limits.aio.strategies import FixedWindowRateLimiter

            self._limiter = FixedWindowRateLimiter(MemoryStorage())
            self._allowed = RateLimitItemPerSecond(calls_per_s)

    async def count(self, who: Principal) -> None:
        """Raises ProblemError (429) when it is one call too many."""
        if self._allowed is not None and not await self._limiter.hit(self._allowed, who.key_id):
            raise too_many_calls(self._allowed.amount)
