"""Leases as their clouds show them: where a cloud writes them, and whose word counts for which lease.

A cloud shows its leases under keys that carry its id, and with a Redis user of its own it can write no
others. Which cloud a lease runs on the broker knows from the request's record: there it noted the attempt
before it sent the reservation, and it keeps the record for longer than the lease (``Records.keep``). So
nobody is believed about the leases of others. Only where the record is lost, with Redis itself, the clouds
are asked, and believed unless they disagree.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, cast

import redis.asyncio
from pydantic import ValidationError

from broker.contract import Lease, read_message, write_message
from broker.contract.leases import parse_attempt_id
from broker.storage.keys import RedisKeys

log = logging.getLogger(__name__)

#: So long a lease is shown after its end, and the record of an answered request is kept.
ENDED_S = 7 * 86_400.0
#: With a shorter lifetime the record is kept long enough as it is.
_LONG_S = 86_400.0
_WITHOUT_LIFETIME_S = 366 * 86_400.0


def lease_arguments(lease: Lease, speaks: int) -> list[str]:
    """What ``show_leases.lua`` is told of a lease: its id, how it is now, and whether it has ended."""
    return [lease.id, write_message(lease, speaks), "0" if lease.state.is_open else "1"]


def record_retention_s(lifetime_s: float | None) -> float | None:
    """How long the broker must remember where a lease of this lifetime runs; None: no longer than others."""
    lasts_s = _WITHOUT_LIFETIME_S if lifetime_s is None else lifetime_s
    return ENDED_S + lasts_s if lasts_s > _LONG_S else None


class LeaseStore:
    """For those who read them. Methods may raise `redis.RedisError`."""

    def __init__(self, client: redis.asyncio.Redis, keys: RedisKeys):
        self._client, self._keys = client, keys

    async def get(self, lease_id: str) -> Lease | None:
        """A lease as it is now, None where there is no such lease (any more)."""
        request, number = parse_attempt_id(lease_id)
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
        if not wanted:
            return []
        names = [self._keys.lease(cloud, lease_id) for cloud, lease_id in wanted]
        texts = cast("list[bytes | None]", await self._client.mget(names))
        return [
            (lease_id, None if text is None else _of_cloud(text, cloud, lease_id))
            for text, (cloud, lease_id) in zip(texts, wanted, strict=True)
        ]

    async def _claimed(self, lease_id: str) -> Lease | None:
        """What the clouds say of a lease of which the broker has no record."""
        members: Any = self._client.hkeys(self._keys.clouds)
        clouds = sorted(name.decode() for name in await members)
        claims = [lease for _, lease in await self.of([(cloud, lease_id) for cloud in clouds]) if lease]
        if len(claims) > 1:
            names = ", ".join(lease.cloud for lease in claims)
            log.warning("lease %s is claimed by %s: none is believed", lease_id, names)
        return claims[0] if len(claims) == 1 else None


def _of_cloud(text: bytes, cloud: str, lease_id: str) -> Lease | None:
    try:
        lease = read_message(Lease, text)
    except ValidationError:
        log.warning("%s shows a lease in a way that cannot be read", cloud)
        return None
    return lease if (lease.cloud, lease.id) == (cloud, lease_id) else None
