"""What requests hold of their members' caps on spot: taken in ``accept.lua``, given back in ``close.lua``
or here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis.asyncio

from broker.storage.keys import RedisKeys
from broker.storage.scripts import read_script


@dataclass(frozen=True, slots=True)
class QuotaHold:
    """What a request takes of its member's cap on spot, in the step in which it is accepted.

    `most_cores` and `most_instances` at once; None: any. `refusal`: the answer (JSON) when it would be more,
    up to the largest size that would do, and from there on. It is held until the request is refused, or its
    lease has ended and `Holds.let_go` is told so.
    """

    member: str
    cores: int
    most_cores: int | None
    most_instances: int | None
    refusal: tuple[str, str]


class QuotaHolds:
    """Every method may raise `redis.RedisError`."""

    def __init__(self, client: redis.asyncio.Redis, keys: RedisKeys) -> None:
        self._client, self._keys = client, keys
        self._let_go = client.register_script(read_script("let_go"))

    async def let_go(self, member: str, requests: Sequence[str]) -> int:
        """Give back what requests hold of a member's cap. Returns the cores; 0 where they hold nothing."""
        if not requests:
            return 0
        return int(await self._let_go([self._keys.quota_holds(member)], list(requests)))

    async def total(self, member: str) -> tuple[int, int]:
        """Spot cores and spot instances that a member holds."""
        holds = await self.of(member)
        return sum(holds.values()), len(holds)

    async def of(self, member: str) -> dict[str, int]:
        """The same by request: cores."""
        found = await cast("Any", self._client.hgetall(self._keys.quota_holds(member)))
        return {one.decode(): int(cores) for one, cores in found.items() if one != b"=cores"}


def hold_arguments(hold: QuotaHold, place: int) -> list[str | bytes | int]:
    """For ``accept.lua``. place: of the member (from 1) among the keys of what members hold."""
    most = [-1 if one is None else one for one in (hold.most_cores, hold.most_instances)]
    return [place, hold.member, hold.cores, *most, *hold.refusal]
