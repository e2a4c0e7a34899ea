"""Gives back what requests hold of their members' caps on spot, when their leases end.

A hold is taken when the request is accepted and given back when it is refused, each in the same step
(``accept.lua``, ``close.lua``). Every API process reads the ends of leases from the public events; giving
back
twice changes nothing. What is lost on the way (a process that died, events that were trimmed) is found by
comparing all holds with the records and leases themselves, twice a minute. So a hold outlives its request
only briefly.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, cast

import redis.asyncio

from broker.contract import Lease
from broker.contract.leases import format_attempt_id
from broker.identity.member_cache import MemberCache
from broker.leases.store import LeaseStore
from broker.requests.models import RequestState
from broker.requests.quota import QuotaHolds
from broker.storage.keys import RedisKeys
from broker.storage.streams import Cursor, EventConsumer, Page, try_parse_event

log = logging.getLogger(__name__)

RECONCILE_S = 30.0
_PAGE = 200
_MOST_ATTEMPTS = 16  # looked for where the record of a request is no longer kept

_LeaseIds = list[tuple[str | None, str]]  # by cloud, None if it is not known


class QuotaReconciler:
    """Gives back what ended leases held, on behalf of one API process."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        reading: redis.asyncio.Redis,
        keys: RedisKeys,
        holds: QuotaHolds,
        members: MemberCache,
    ):
        """Open nothing yet. ``reading`` is used here alone, because it blocks."""
        self._client, self._keys = client, keys
        # Events may be trimmed before they are read: `reconcile` finds what they would have told.
        self._cursor = Cursor(reading, keys.all_events)
        self._reconciled_s = float("-inf")
        self._holds, self._members = holds, members
        self._leases = LeaseStore(client, keys)

    async def run(self) -> None:
        """Release holds until the task is cancelled, through outages of Redis; idle without members."""
        await EventConsumer("quotas", self._cursor, self._release_ended, prepare=self._prepare).run()

    async def _prepare(self) -> bool:
        """Reconcile if it is time to. Return whether there are members."""
        if not await self._members.members():
            return False
        await self._cursor.locate()  # what ends after this is in the events, if it is not reconciled
        if time.monotonic() >= self._reconciled_s + RECONCILE_S:
            await self.reconcile()
            self._reconciled_s = time.monotonic()
        return True

    async def _release_ended(self, page: Page) -> None:
        """Release what the requests of ended leases hold."""
        ended: dict[str, set[str]] = {}
        for _, fields in page.entries:
            lease = _ended_lease(fields.get(b"e", b""))
            member = None if lease is None else await self._members.member_of(lease.origin)
            if lease is not None and member is not None:
                ended.setdefault(member.name, set()).add(lease.request)
        for name, requests in ended.items():
            await self._release(name, sorted(requests))

    async def reconcile(self) -> int:
        """Compare all holds with records and leases, and return the number of cores that came back.

        Raises
        ------
        redis.RedisError
            When Redis is away.
        """
        if await cast("Any", self._client.exists(self._keys.restored)):
            await self._hold_again()
        cores = 0
        for name in await self._members.members():
            requests = sorted(await self._holds.cores_by_request(name))
            for start in range(0, len(requests), _PAGE):
                cores += await self._release(name, requests[start : start + _PAGE])
        if cores:
            log.info("quotas: %d cores were held by nothing and are given back", cores)
        return cores

    async def _hold_again(self) -> None:
        """Hold what running leases need: Redis, restored from an older copy, may not know it."""
        clouds: Any = self._client.hkeys(self._keys.clouds)
        for cloud in await clouds:
            async for leases in self._leases.pages_of_running(cloud.decode()):
                held: dict[str, dict[str, int]] = {}
                for lease in leases:
                    member = await self._members.member_of(lease.origin)
                    if member is not None:
                        held.setdefault(member.name, {})[lease.request] = lease.cores
                for name, cores in held.items():
                    await self._holds.hold_again(name, cores)

    async def _release(self, member: str, requests: Sequence[str]) -> int:
        """Release the holds of those of the requests that need none any longer."""
        async with self._client.pipeline(transaction=False) as pipe:
            for request in requests:
                pipe.hmget(self._keys.request(request), ["state", "attempt", "cloud"])
            records = await pipe.execute()
        leases = {
            request: _leases_of(request, *record) for request, record in zip(requests, records, strict=True)
        }
        running = await self._find_running([lease for ids in leases.values() for lease in ids or ()])
        over = [
            request
            for request, ids in leases.items()
            if ids is not None and running.isdisjoint(lease for _, lease in ids)
        ]
        return await self._holds.release(member, over)

    async def _find_running(self, leases: _LeaseIds) -> set[str]:
        """Return the ids of leases that are open; without a cloud, those that any cloud says to run."""
        placed = [(cloud, lease) for cloud, lease in leases if cloud is not None]
        read = await self._leases.get_many(placed)
        running = {name for name, lease in read if lease is not None and lease.state.is_open}
        if len(placed) < len(leases):
            clouds: Any = self._client.hkeys(self._keys.clouds)
            for cloud in await clouds:
                ids: Any = self._client.smembers(self._keys.running(cloud.decode()))
                running.update(name.decode() for name in await ids)
        return running


def _leases_of(
    request: str, state: bytes | None, attempt: bytes | None, cloud: bytes | None
) -> _LeaseIds | None:
    """Return the leases that a request may have, from its record; None if it is not decided yet."""
    if state is None:  # decided long ago, and no longer kept
        return [(None, format_attempt_id(request, number)) for number in range(1, _MOST_ATTEMPTS + 1)]
    match RequestState(state.decode()):
        case RequestState.COMMITTED:
            lease = format_attempt_id(request, int(attempt or 0))
            return [(None if cloud is None else cloud.decode(), lease)]
        case RequestState.REFUSED:
            return []
        case _:
            return None


def _ended_lease(text: bytes) -> Lease | None:
    """Return the lease that an event says has ended."""
    event = try_parse_event(text)
    lease = None if event is None else event.lease
    return None if lease is None or lease.state.is_open else lease
