"""Authenticates calls by their API key: ``Authorization: Bearer <key>``.

Redis holds only SHA-256 digests of keys, and a digest is looked up, never compared with a secret: the time
that an answer takes says nothing about existing keys. Each process remembers what it looked up, so that most
calls need no round trip for it, and checks once a second whether keys or members have changed. A revoked key
therefore works for about one more second, and never for more than ``KNOWN_FOR_S``.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable
from typing import Any, cast

import redis.asyncio

from broker.api.problems import too_many_calls, unauthorized
from broker.identity.member_cache import KNOWN_FOR_S, MemberCache
from broker.identity.models import KeyRecord, MemberRecord
from broker.identity.permissions import Principal
from broker.identity.store import api_key_digest, parse_key_record
from broker.storage.keys import RedisKeys

UNKNOWN_FOR_S = 1.0  # how long an unknown key is remembered as unknown
_MOST_REMEMBERED = 4096


class Authenticator:
    """Finds the principal that an API key stands for, and remembers it for a moment."""

    def __init__(self, client: redis.asyncio.Redis, keys: RedisKeys, members: MemberCache):
        self._client, self._keys, self._members = client, keys, members
        self._remembered: OrderedDict[str, tuple[float, KeyRecord | None]] = OrderedDict()
        self._last_change: Any = None

    async def principal(self, authorization: str | None) -> Principal:
        """Return the principal of the key in an ``Authorization`` header.

        Raises
        ------
        ProblemError
            When there is no valid key (401).
        redis.RedisError
            When Redis does not answer.
        """
        if authorization is None:
            raise unauthorized(
                "send the header Authorization: Bearer <key>; `spotfed up` prints the first key"
            )
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise unauthorized("the Authorization header must read: Bearer <key>")
        record = await self._record(api_key_digest(key.strip()))
        principal = None
        if record is not None and not record.expired(time.time()):
            principal = record.acts_as(await self._member(record))
        if principal is None:
            raise unauthorized("this API key is not known here, has expired, or was revoked")
        return principal

    async def refresh(self) -> None:
        """Forget everything if a key or a member has changed since the last call. Raises redis.RedisError."""
        latest = await self._client.xrevrange(self._keys.audit, count=1)
        entry = latest[0][0] if latest else None
        if entry != self._last_change:
            self._last_change = entry
            self.forget()

    def forget(self) -> None:
        """Make the next calls read keys and members from Redis again."""
        self._remembered.clear()
        self._members.forget()

    async def _member(self, record: KeyRecord) -> MemberRecord | None:
        if record.member is None:
            return None
        return (await self._members.members()).get(record.member)

    async def _record(self, digest: str) -> KeyRecord | None:
        now_s = time.monotonic()
        remembered = self._remembered.get(digest)
        if remembered is not None and now_s < remembered[0]:
            return remembered[1]
        text = await cast("Awaitable[Any]", self._client.hget(self._keys.api_keys, digest))
        record = parse_key_record(text)
        if record is not None and record.member and await self._member(record) is None:
            self._members.forget()  # another process may have added it since they were read
        known_for_s = UNKNOWN_FOR_S if record is None else KNOWN_FOR_S
        self._remembered[digest] = (now_s + known_for_s, record)
        self._remembered.move_to_end(digest)
        while len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return record


class CallRateLimit:
    """Limits how many calls a second each key may make to this process; 0 means no limit.

    The count is not shared between processes: each call would then be a write to Redis, which syncs every
    write to its disk.
    """

    def __init__(self, calls_per_s: int):
        self._limit = None
        if calls_per_s:
            from limits import RateLimitItemPerSecond
            from limits.aio.storage import MemoryStorage
            from limits.aio.strategies import FixedWindowRateLimiter

            self._limiter = FixedWindowRateLimiter(MemoryStorage())
            self._limit = RateLimitItemPerSecond(calls_per_s)

    async def count(self, who: Principal) -> None:
        """Count a call of ``who``. Raises ProblemError (429) when it is above the limit."""
        if self._limit is not None and not await self._limiter.hit(self._limit, who.key_id):
            raise too_many_calls(self._limit.amount)
