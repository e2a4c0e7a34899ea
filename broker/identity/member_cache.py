"""Who calls: ``Authorization: Bearer <key>``, looked up by the key's SHA-256 among those in Redis.

Redis holds hashes only, and a digest is looked up, never compared piece by piece with a secret: how long the
answer takes tells nothing about the keys there are. What was found is remembered for a moment, so that a call
costs no round trip for it; every second each process looks whether keys or members have changed anywhere, and
then forgets. So a revoked key works for about a second, and never for more than ``KNOWN_FOR_S``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from broker.identity.store import IdentityStore, MemberRecord

KNOWN_FOR_S = 5.0  # how long a revoked key may still work in this process, if it cannot ask


class MemberCache:
    """The members, remembered for a moment."""

    def __init__(self, register: IdentityStore):
        self._register = register
        self._members: Mapping[str, MemberRecord] = {}
        self._by_origin: Mapping[str, MemberRecord] = {}
        self._until_s = 0.0
        self._reading = asyncio.Lock()

    async def members(self) -> Mapping[str, MemberRecord]:
        """By name. Raises redis.RedisError."""
        if time.monotonic() >= self._until_s:
            async with self._reading:
                if time.monotonic() >= self._until_s:
                    found = await self._register.members()
                    owners = {cloud: one for one in found.values() for cloud in one.clouds}
                    self._members, self._by_origin = found, owners | found
                    self._until_s = time.monotonic() + KNOWN_FOR_S
        return self._members

    async def member_of(self, origin: str) -> MemberRecord | None:
        """Whose an origin is: the member's of that name, else the one's whose cloud it is."""
        await self.members()
        return self._by_origin.get(origin)

    def forget(self) -> None:
        """They are read anew."""
        self._until_s = 0.0
