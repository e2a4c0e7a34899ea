"""Gives back what requests hold of their members' caps on spot, when their leases end.

A hold is taken where the request is accepted and given back where it is refused, each in the same step
(``accept.lua``, ``close.lua``). The ends of leases are read from the public events, by every API process:
giving back twice changes nothing. What is lost on the way (a process that died, events that were trimmed) is
found by comparing all holds with the records and leases themselves, twice a minute: no hold outlives what it
is for by much.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import redis.asyncio

from broker.api.auth import MemberCache
from broker.contract import Lease
from broker.leases.store import NOT_ENDED, LeaseStore
from broker.requests.models import RequestState, attempt_id
from broker.requests.quota import QuotaHolds
from broker.storage.keys import RedisKeys
from broker.storage.streams import Cursor, EventConsumer, Page, try_parse_event

log = logging.getLogger(__name__)

RECONCILE_S = 30.0
_PAGE = 200
_MOST_ATTEMPTS = 16  # looked for where the record of a request is no longer kept


class QuotaReconciler:
    """Gives back what ended leases held, on behalf of one API process."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        reading: redis.asyncio.Redis,
        keys: RedisKeys,
        holds: QuotaHolds,
        roster: MemberCache,
    ):
        """Open nothing yet. ``reading`` is used here alone, because it blocks."""
        self._client, self._keys = client, keys
        # Events may be trimmed before they are read: `reconcile` finds what they would have told.
        self._cursor = Cursor(reading, keys.all_events)
        self._reconciled_s = float("-inf")
        self._holds, self._roster = holds, roster
        self._shown = LeaseStore(client, keys)

    async def run(self) -> None:
        """Release holds until the task is cancelled, through outages of Redis; idle without members."""
        await EventConsumer("quotas", self._cursor, self._release_holds, prepare=self._prepare).run()

    async def _prepare(self) -> bool:
        """Reconcile if it is time to. Return whether there are members."""
        if not await self._roster.members():
            return False
        await self._cursor.locate()  # what ends after this is in the events, if it is not reconciled
        if time.monotonic() >= self._reconciled_s + RECONCILE_S:
            await self.reconcile()
            self._reconciled_s = time.monotonic()
        return True

    async def _release_holds(self, page: Page) -> None:
        """Release what the requests of ended leases hold."""
        ended: dict[str, set[str]] = {}
        for _, fields in page.entries:
            lease = _ended(fields.get(b"e", b""))
            member = None if lease is None else await self._roster.member_of(lease.origin)
            if lease is not None and member is not None:
                ended.setdefault(member.name, set()).add(lease.request)
        for name, requests in ended.items():
            await self._let_go(name, sorted(requests))

    async def reconcile(self) -> int:
        """Compares all holds with what is true. Returns how many cores came back. Raises redis.RedisError."""
        cores = 0
        for name in await self._roster.members():
            requests = sorted(await self._holds.of(name))
            for start in range(0, len(requests), _PAGE):
                cores += await self._let_go(name, requests[start : start + _PAGE])
        if cores:
            log.info("quotas: %d cores were held by nothing and are given back", cores)
        return cores

    async def _let_go(self, member: str, requests: Sequence[str]) -> int:
        """Of these requests, those that hold something and need it no longer."""
        async with self._client.pipeline(transaction=False) as pipe:
            for request in requests:
                pipe.hmget(self._keys.request(request), ["state", "attempt", "cloud"])
            standings = await pipe.execute()
        leases = {
            request: _leases_of(request, *standing)
            for request, standing in zip(requests, standings, strict=True)
        }
        running = await self._running([one for some in leases.values() for one in some or ()])
        over = [
            request
            for request, some in leases.items()
            if some is not None and running.isdisjoint(lease for _, lease in some)
        ]
        return await self._holds.let_go(member, over)

    async def _running(self, leases: Sequence[tuple[str | None, str]]) -> set[str]:
        """Those that run. Where the cloud is not known, a lease does that any cloud says to run."""
        placed = [(cloud, lease) for cloud, lease in leases if cloud is not None]
        shown = await self._shown.of(placed)
        running = {name for name, lease in shown if lease is not None and lease.state in NOT_ENDED}
        if len(placed) < len(leases):
            members: Any = self._client.hkeys(self._keys.clouds)
            for cloud in await members:
                found: Any = self._client.smembers(self._keys.running(cloud.decode()))
                running.update(name.decode() for name in await found)
        return running


_Places = list[tuple[str | None, str]]


def _leases_of(
    request: str, state: bytes | None, attempt: bytes | None, cloud: bytes | None
) -> _Places | None:
    """Clouds and ids of the leases that a request may have; None: it is not decided yet."""
    if state is None:  # decided long ago, and no longer kept
        return [(None, attempt_id(request, number)) for number in range(1, _MOST_ATTEMPTS + 1)]
    match RequestState(state.decode()):
        case RequestState.COMMITTED:
            return [(None if cloud is None else cloud.decode(), attempt_id(request, int(attempt or 0)))]
        case RequestState.REFUSED:
            return []
        case _:
            return None


def _ended(text: bytes) -> Lease | None:
    """Return the lease that an event says has ended."""
    event = try_parse_event(text)
    lease = None if event is None else event.lease
    return None if lease is None or lease.state in NOT_ENDED else lease
