"""Leases as their clouds show them: where a cloud writes them, and whose word counts for which lease.

A cloud shows its leases under keys that carry its id, and with a Redis user of its own it can write no
others. Which cloud a lease runs on the broker knows from the request's record: there it noted the attempt
before it sent the reservation, and it keeps the record for longer than the lease (``Records.keep``). So
nobody is believed about the leases of others. Only where the record is lost, with Redis itself, the clouds
are asked, and believed unless they disagree.

Up to version 2 of the contract all clouds wrote under one name. While the federation speaks it, a lease is
shown there too. From then on what is there counts for leases that had ended before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

import redis.asyncio
from pydantic import ValidationError

from broker.attempts import split_attempt_id
from broker.contract import Lease, LeaseState
from broker.keys import Keys
from broker.versions import read, written

log = logging.getLogger(__name__)

#: From this version of the contract on each cloud shows its leases under names of its own.
BY_CLOUD = 3
NOT_ENDED = frozenset({LeaseState.RESERVED, LeaseState.RUNNING})
#: So long a lease is shown after its end, and the record of an answered request is kept.
ENDED_S = 7 * 86_400.0
#: With a shorter lifetime the record is kept long enough as it is.
_LONG_S = 86_400.0
_WITHOUT_LIFETIME_S = 366 * 86_400.0


def shown_at(keys: Keys, cloud: str, leases: Sequence[Lease], speaks: int) -> list[tuple[str, Lease]]:
    """The keys under which a cloud shows leases, each with its lease."""
    shown = [(keys.lease(cloud, one.id), one) for one in leases]
    if speaks < BY_CLOUD:
        shown += [(keys.lease_of_version_2(one.id), one) for one in leases]
    return shown


def lease_arguments(lease: Lease, speaks: int) -> list[str]:
    """What ``show_leases.lua`` is told of a lease: its id, how it is now, and whether it has ended."""
    return [lease.id, written(lease, speaks), "0" if lease.state in NOT_ENDED else "1"]


def record_kept_s(lifetime_s: float | None) -> float | None:
    """How long the broker must remember where a lease of this lifetime runs; None: no longer than others."""
    lasts_s = _WITHOUT_LIFETIME_S if lifetime_s is None else lifetime_s
    return ENDED_S + lasts_s if lasts_s > _LONG_S else None


class ShownLeases:
    """For those who read them. Methods may raise `redis.RedisError`."""

    def __init__(self, client: redis.asyncio.Redis, keys: Keys, speaks: Callable[[], int]):
        """``speaks``: the version of the contract that the federation speaks."""
        self._client, self._keys, self._speaks = client, keys, speaks

    async def get(self, lease_id: str) -> Lease | None:
        """A lease as it is now, None where there is no such lease (any more)."""
        request, number = split_attempt_id(lease_id)
        known: Any = self._client.hmget(self._keys.request(request), ["attempt", "cloud"])
        attempt, cloud = await known
        if attempt is None:
            return await self._claimed(lease_id)
        if cloud is None or attempt.decode() != number:
            return None
        ((_, lease),) = await self.of([(cloud.decode(), lease_id)])
        return lease

    async def of(self, wanted: Sequence[tuple[str, str]]) -> list[tuple[str, Lease | None]]:
        """By cloud and id: each id with its lease, None where that cloud shows none of that id."""
        names = [self._keys.lease(cloud, lease) for cloud, lease in wanted]
        texts = await self._mget(names)
        found = [
            None if text is None else _of_cloud(text, *one) for text, one in zip(texts, wanted, strict=True)
        ]
        missing = [place for place, text in enumerate(texts) if text is None]
        older = await self._mget([self._keys.lease_of_version_2(wanted[place][1]) for place in missing])
        for place, text in zip(missing, older, strict=True):
            found[place] = None if text is None else self._of_version_2(text, *wanted[place])
        return [(lease, one) for (_, lease), one in zip(wanted, found, strict=True)]

    async def _claimed(self, lease_id: str) -> Lease | None:
        """What the clouds say of a lease of which the broker has no record."""
        members: Any = self._client.hkeys(self._keys.clouds)
        clouds = sorted(name.decode() for name in await members)
        claims = [lease for _, lease in await self.of([(cloud, lease_id) for cloud in clouds]) if lease]
        if len(claims) > 1:
            names = ", ".join(lease.cloud for lease in claims)
            log.warning("lease %s is claimed by %s: none is believed", lease_id, names)
        return claims[0] if len(claims) == 1 else None

    def _of_version_2(self, text: bytes, cloud: str, lease_id: str) -> Lease | None:
        lease = _of_cloud(text, cloud, lease_id)
        if lease is None or self._speaks() < BY_CLOUD:
            return lease
        return None if lease.state in NOT_ENDED else lease

    async def _mget(self, names: Sequence[str]) -> list[bytes | None]:
        return cast("list[bytes | None]", await self._client.mget(list(names))) if names else []


def _of_cloud(text: bytes, cloud: str, lease_id: str) -> Lease | None:
    try:
        lease = read(Lease, text)
    except ValidationError:
        log.warning("%s shows a lease in a way that cannot be read", cloud)
        return None
    return lease if (lease.cloud, lease.id) == (cloud, lease_id) else None
