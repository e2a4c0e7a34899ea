"""Leases that are not renewed: their holders are told what the other clouds would promise instead.

Public events are read by a consumer group that all API processes share, so that each warning is handled by
one of them, and again by another if that one dies. The owner makes the offers known as an event, once.
"""

from __future__ import annotations

import asyncio
import logging

import redis
import redis.asyncio
from pydantic import ValidationError

from broker.adverts import Adverts
from broker.api import groups
from broker.api.desk import Desk
from broker.asked import QuoteRequest
from broker.contract import Event, EventKind, Migrate, QuoteView
from broker.keys import Keys
from broker.submission.exchange import Exchange
from broker.submission.wishes import SubmitError
from broker.versions import read

log = logging.getLogger(__name__)

GROUP = "migration"
_WARNED = b'"kind":"warned"'
_PAUSE_S = 0.1  # reading as one of a group is a write, which others wait for: not for every event


class MigrationDesk:
    """Handles warnings for one process."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: Keys,
        name: str,
        desk: Desk,
        adverts: Adverts,
        exchange: Exchange,
    ):
        """``client`` blocks while it reads: it is used by nobody else."""
        self._client, self._stream, self._name = client, keys.all_events, name
        self._desk, self._adverts, self._exchange = desk, adverts, exchange

    async def run(self) -> None:
        """Reads for ever; outlives outages of Redis."""
        while True:
            try:
                await self._read()
            except redis.ResponseError as error:
                if not groups.is_missing(error):
                    raise
                await groups.create(self._client, GROUP, self._stream, "$")
            except (redis.RedisError, OSError) as error:
                log.warning("migration: %s; trying again", error)
                await asyncio.sleep(1.0)

    async def _read(self) -> None:
        entries = await groups.abandoned(self._client, GROUP, self._stream, self._name)
        if not entries:
            found = await groups.fresh(self._client, GROUP, self._name, self._stream)
            entries = [entry for _, page in found for entry in page]
        if entries:
            texts = [fields.get(b"e", b"") for _, fields in entries]
            await asyncio.gather(*(self._warned(text) for text in texts if _WARNED in text))
            await self._client.xack(self._stream, GROUP, *(entry for entry, _ in entries))
            await asyncio.sleep(_PAUSE_S)

    async def _warned(self, text: bytes) -> None:
        try:
            event = read(Event, text)
        except ValidationError:  # of another version
            return
        if event.kind is not EventKind.WARNED or event.lease is None:
            return
        lease, members = event.lease, await self._adverts.members()
        others = [member.info.id for member in members if member.info.id not in (lease.cloud, lease.origin)]
        offers: list[QuoteView] = []
        trace_time = any(member.info.time == "trace" for member in members)
        if others:
            wish = QuoteRequest(
                origin=lease.origin,
                cores=[lease.cores],
                lifetime_s=lease.renewal_s,
                sla=lease.promised_sla,
                targets=tuple(others),
                resources=lease.amounts,
                labels=lease.labels,
                group=lease.group,
                spread=lease.spread,
                at_s=event.at_s if trace_time else None,
            )
            try:
                offers = (await self._desk.quotes(wish)).quotes
            except (SubmitError, ValueError) as error:
                log.info("no offer for %s: %s", lease.id, error)
        told = Migrate(
            id=f"{lease.id}:migrate",
            lease=lease.id,
            at_s=event.at_s if trace_time else None,
            # What the broker says of a cloud is no word of an owner's journal; the order follows it.
            offers=tuple(
                offer.model_copy(update={"other_sizes": (), "broken_promise": None}) for offer in offers
            ),
        )
        await self._exchange.tell({lease.cloud: [told]})
