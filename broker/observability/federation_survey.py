"""Reads what ``broker.observability.metrics`` tells, for one process: one look, whoever scrapes within the
next second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from importlib import metadata

import redis
import redis.asyncio

from broker.ledger.ledger import CloudLedger
from broker.ledger.reader import LedgerReader
from broker.observability.metrics import CloudMetrics, Facts, QueueMetrics
from broker.observability.owner_stats import OwnerStats
from broker.requests.members import MembershipView
from broker.requests.routing import Member
from broker.storage.keys import RedisKeys
from broker.webhooks.store import WebhookStore

LOOK_S = 1.0
#: A Monte-Carlo worker that said nothing for longer does not live; it says so every second or two.
_ALIVE_S = 6


class FederationSurvey:
    """The last look, at most ``LOOK_S`` old."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        adverts: MembershipView,
        books: LedgerReader,
        speaks: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ):
        self._client, self._keys, self._monotonic = client, keys, monotonic
        self._adverts, self._books, self._speaks = adverts, books, speaks
        self._webhooks = WebhookStore(client, keys)
        self._looking = asyncio.Lock()
        self._until_s = float("-inf")
        self._facts = Facts((), None, ("", 0))

    async def facts(self) -> Facts:
        """What is known now; without Redis, that it is away."""
        async with self._looking:
            if self._monotonic() >= self._until_s:
                versions = metadata.version("spotfed"), self._speaks()
                try:
                    members = await self._adverts.members()
                    clouds, queue = await self._look(members)
                except (redis.RedisError, OSError):
                    self._facts = Facts((), None, versions)
                else:
                    self._facts = Facts(clouds, queue, versions)
                self._until_s = self._monotonic() + LOOK_S
            return self._facts

    async def _look(self, members: tuple[Member, ...]) -> tuple[list[CloudMetrics], QueueMetrics]:
        keys = self._keys
        async with self._client.pipeline(transaction=False) as pipeline:
            pipeline.info("memory")
            pipeline.time()
            pipeline.zcard(keys.open_requests)
            pipeline.zrange(keys.samplers, 0, -1, withscores=True)
            for member in members:
                pipeline.xlen(keys.inbox(member.info.id))
                pipeline.hgetall(keys.measures(member.info.id))
            memory, now, opened, samplers, *rest = await pipeline.execute()
        clouds = [
            self._cloud(member, inbox, OwnerStats.parse(told))
            for member, inbox, told in zip(members, rest[::2], rest[1::2], strict=True)
        ]
        backlog = await self._webhooks.backlog()
        queue = QueueMetrics(
            memory_bytes=int(memory.get("used_memory", 0)),
            max_memory_bytes=int(memory.get("maxmemory", 0)),
            open_requests=opened,
            montecarlo_workers=sum(score >= now[0] - _ALIVE_S for _, score in samplers),
            webhooks=backlog.states,
            webhook_lag_s=backlog.lag_s,
        )
        return clouds, queue

    def _cloud(self, member: Member, inbox: int, measures: OwnerStats | None) -> CloudMetrics:
        cloud = member.info.id
        return CloudMetrics(member, self._books.ledgers.get(cloud) or CloudLedger(cloud), inbox, measures)
