"""Leases in Redis: where each cloud writes its own, and whose word counts for which lease.

A cloud writes its leases under keys that carry its id; with a Redis user of its own it can write no others.
The broker knows from the request's record on which cloud a lease runs: it noted the attempt there before it
sent the reservation, and keeps the record for longer than the lease (``RequestStore.keep``). So no cloud is
believed about the leases of others. Only where the record is lost, together with Redis, are the clouds asked,
and believed unless they disagree.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any, cast

import redis.asyncio
from pydantic import ValidationError

from broker.contract import Lease, LeaseState, read_message, write_message
from broker.contract.instances import InstanceRecord
from broker.contract.leases import format_attempt_id, parse_attempt_id
from broker.storage.keys import RedisKeys

log = logging.getLogger(__name__)

#: For how long a lease can be read after its end, and the record of an answered request is kept.
ENDED_S = 7 * 86_400.0
#: The cause of the end of a lease that is misplaced, see ``is_misplaced``.
MISPLACED = "misplaced: its request runs elsewhere"
#: For leases with a shorter lifetime, the record is kept for long enough as it is.
_LONG_S = 86_400.0
_WITHOUT_LIFETIME_S = 366 * 86_400.0
_PAGE = 500
#: The fields of a request's record that ``is_misplaced`` needs, in this order.
RECORD_FIELDS = ["state", "cloud", "attempt"]


def lease_arguments(lease: Lease, speaks: int) -> list[str]:
    """Return the arguments of ``show_leases.lua`` for a lease: its id, its JSON, and "1" if it has ended."""
    return [lease.id, write_message(lease, speaks), "0" if lease.state.is_open else "1"]


def record_retention_s(lifetime_s: float | None) -> float | None:
    """Return for how long the record of a lease's request must be kept; None if the usual time will do."""
    lasts_s = _WITHOUT_LIFETIME_S if lifetime_s is None else lifetime_s
    return ENDED_S + lasts_s if lasts_s > _LONG_S else None


def is_misplaced(lease: Lease, state: bytes | None, cloud: bytes | None, attempt: bytes | None) -> bool:
    """Return whether a lease runs, though its request was answered with another one.

    That follows when Redis was restored from an older copy, and the same id was asked again before the owner
    of the first lease was back. No call reaches that lease. ``state``, ``cloud`` and ``attempt`` are those of
    the request's record; without one nobody knows better.
    """
    placed = (cloud or b"").decode(), format_attempt_id(lease.request, int(attempt or 0))
    is_answered = state in (b"committed", b"refused")
    return is_answered and lease.state is LeaseState.RUNNING and placed != (lease.cloud, lease.id)


class LeaseStore:
    """Reads leases. Each cloud writes its own, and is believed about those that run there.

    Every method may raise ``redis.RedisError``.
    """

    def __init__(self, client: redis.asyncio.Redis, keys: RedisKeys):
        self._client, self._keys = client, keys

    async def get(self, lease_id: str) -> Lease | None:
        """Return a lease as it is now; None if there is no such lease, or no longer."""
        request, number = parse_attempt_id(lease_id)
        record: Any = self._client.hmget(self._keys.request(request), ["attempt", "cloud"])
        attempt, cloud = await record
        if attempt is None:
            return await self._find_claimed(lease_id)
        if cloud is None or attempt.decode() != number:
            return None
        ((_, lease),) = await self.get_many([(cloud.decode(), lease_id)])
        return lease

    async def get_many(self, ids: Sequence[tuple[str, str]]) -> list[tuple[str, Lease | None]]:
        """Look up leases by cloud and id.

        Returns
        -------
        list
            Each id with its lease, in order; None where that cloud has no lease of that id.
        """
        if not ids:
            return []
        names = [self._keys.lease(cloud, lease_id) for cloud, lease_id in ids]
        texts = cast("list[bytes | None]", await self._client.mget(names))
        return [
            (lease_id, None if text is None else parse_lease(text, cloud, lease_id))
            for text, (cloud, lease_id) in zip(texts, ids, strict=True)
        ]

    async def get_instance(self, lease: Lease) -> InstanceRecord | None:
        """Return the instance of a lease on a real cloud, None if its agent knows none."""
        hash_name = self._keys.instances(lease.cloud)
        text = await cast("Awaitable[bytes | None]", self._client.hget(hash_name, lease.id))
        return None if text is None else read_message(InstanceRecord, text)

    async def pages_of_running(self, cloud: str) -> AsyncIterator[list[Lease]]:
        """Yield the leases that run on a cloud, some hundreds at a time."""
        members: Any = self._client.smembers(self._keys.running(cloud))
        ids = sorted(name.decode() for name in await members)
        for start in range(0, len(ids), _PAGE):
            page = await self.get_many([(cloud, lease_id) for lease_id in ids[start : start + _PAGE]])
            yield [lease for _, lease in page if lease is not None and lease.state is LeaseState.RUNNING]

    async def find_misplaced(self, cloud: str) -> list[Lease]:
        """Return the leases that are misplaced on a cloud, see ``is_misplaced``."""
        misplaced: list[Lease] = []
        async for leases in self.pages_of_running(cloud):
            async with self._client.pipeline(transaction=False) as pipeline:
                for lease in leases:
                    pipeline.hmget(self._keys.request(lease.request), RECORD_FIELDS)
                records = await pipeline.execute()
            pairs = zip(leases, records, strict=True)
            misplaced += [lease for lease, record in pairs if is_misplaced(lease, *record)]
        return misplaced

    async def _find_claimed(self, lease_id: str) -> Lease | None:
        """Return the lease that exactly one cloud claims, where the broker has no record of it."""
        members: Any = self._client.hkeys(self._keys.clouds)
        clouds = sorted(name.decode() for name in await members)
        leases = await self.get_many([(cloud, lease_id) for cloud in clouds])
        claims = [lease for _, lease in leases if lease is not None]
        if len(claims) > 1:
            names = ", ".join(lease.cloud for lease in claims)
            log.warning("lease %s is claimed by %s: none is believed", lease_id, names)
        return claims[0] if len(claims) == 1 else None


def parse_lease(text: bytes, cloud: str, lease_id: str) -> Lease | None:
    """Return the lease of that id in what a cloud has written; None if it is none."""
    try:
        lease = read_message(Lease, text)
    except ValidationError:
        log.warning("a lease that %s has written cannot be read", cloud)
        return None
    return lease if (lease.cloud, lease.id) == (cloud, lease_id) else None
