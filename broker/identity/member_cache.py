"""The members of the federation, remembered for a few seconds by each API process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from broker.identity.models import MemberRecord
from broker.identity.store import IdentityStore

KNOWN_FOR_S = 5.0  # how long a revoked key may still work in this process, if it cannot ask


class MemberCache:
    """Remembers all members for ``KNOWN_FOR_S`` seconds, by name and by the origins that they stand for."""

    def __init__(self, register: IdentityStore):
        self._register = register
        self._members: Mapping[str, MemberRecord] = {}
        self._by_origin: Mapping[str, MemberRecord] = {}
        self._until_s = 0.0
        self._reading = asyncio.Lock()

    async def members(self) -> Mapping[str, MemberRecord]:
        """Return all members by name.

        Raises
        ------
        redis.RedisError
            When they must be read and Redis is away.
        """
        if time.monotonic() >= self._until_s:
            async with self._reading:
                if time.monotonic() >= self._until_s:
                    members = await self._register.members()
                    by_cloud = {cloud: member for member in members.values() for cloud in member.clouds}
                    self._members, self._by_origin = members, by_cloud | members
                    self._until_s = time.monotonic() + KNOWN_FOR_S
        return self._members

    async def member_of(self, origin: str) -> MemberRecord | None:
        """Return the member of that name, or else the member that the cloud of that name belongs to."""
        await self.members()
        return self._by_origin.get(origin)

    def forget(self) -> None:
        """Read the members again at the next call."""
        self._until_s = 0.0
