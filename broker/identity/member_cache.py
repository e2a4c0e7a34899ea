"""Caches the members of the federation for one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from broker.identity.models import MemberRecord
from broker.identity.store import IdentityStore

#: How long a revoked key or a removed member may still work in a process that cannot ask Redis.
KNOWN_FOR_S = 5.0


class MemberCache:
    """Reads the members from Redis and remembers them for ``KNOWN_FOR_S`` seconds."""

    def __init__(self, identities: IdentityStore):
        self._identities = identities
        self._members: Mapping[str, MemberRecord] = {}
        self._by_origin: Mapping[str, MemberRecord] = {}
        self._until_s = 0.0
        self._reading = asyncio.Lock()

    async def members(self) -> Mapping[str, MemberRecord]:
        """Return all members by name. Raises redis.RedisError."""
        if time.monotonic() >= self._until_s:
            async with self._reading:
                if time.monotonic() >= self._until_s:
                    members = await self._identities.members()
                    owners = {cloud: member for member in members.values() for cloud in member.clouds}
                    self._members, self._by_origin = members, owners | members
                    self._until_s = time.monotonic() + KNOWN_FOR_S
        return self._members

    async def member_of(self, origin: str) -> MemberRecord | None:
        """Return the member with the name ``origin``, else the member that owns the cloud of that id."""
        await self.members()
        return self._by_origin.get(origin)

    def forget(self) -> None:
        """Make the next call read the members from Redis again."""
        self._until_s = 0.0
