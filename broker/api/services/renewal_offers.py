"""Offers the holders of leases that will not be renewed what other clouds would promise instead.

All API processes share a consumer group that reads the public events, so that each warning is handled by one
of them, and again by another if that one dies. The owner publishes the offers as an event, once.
"""

from __future__ import annotations

import asyncio
import logging

import redis.asyncio

from broker.api.services.quotes import QuoteService
from broker.contract import EventKind, Lease, Migrate, QuoteRequest, QuoteView
from broker.requests.errors import SubmitError
from broker.requests.members import MembershipView
from broker.requests.owner_commands import OwnerCommands
from broker.storage.keys import RedisKeys
from broker.storage.streams import ConsumerGroup, EventConsumer, GroupStream, Page, try_parse_event
from cloudsim.model.requests import LEAST_S

log = logging.getLogger(__name__)

GROUP = "migration"
_WARNED = b'"kind":"warned"'
_PAUSE_S = 0.1


class RenewalOfferService:
    """Collects offers for the holders of warned leases, on behalf of one API process."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        name: str,
        quotes: QuoteService,
        membership: MembershipView,
        commands: OwnerCommands,
    ):
        """Connect to nothing yet. ``client`` blocks while it reads. ``name``: of this consumer."""
        self._group = ConsumerGroup(
            client, GROUP, name, {keys.all_events: GroupStream(start="$")}, pause_s=_PAUSE_S
        )
        self._quotes, self._membership, self._commands = quotes, membership, commands

    async def run(self) -> None:
        """Handle warnings until the task is cancelled, through outages of Redis."""
        await EventConsumer("migration", self._group, self._offer_page).run()

    async def _offer_page(self, page: Page) -> None:
        texts = [fields.get(b"e", b"") for _, fields in page.entries]
        await asyncio.gather(*(self._offer_others(text) for text in texts if _WARNED in text))

    async def _offer_others(self, text: bytes) -> None:
        """Ask the other clouds for quotes if the event ``text`` is a warning, and send them to its owner."""
        event = try_parse_event(text)
        if event is None or event.kind is not EventKind.WARNED or event.lease is None:
            return
        lease, members = event.lease, await self._membership.members()
        others = [member.info.id for member in members if member.info.id not in (lease.cloud, lease.origin)]
        offers: list[QuoteView] = []
        rest_s = _rest_s(lease)
        trace_time = any(member.info.time == "trace" for member in members)
        if others:
            request = QuoteRequest(
                origin=lease.origin,
                cores=[lease.cores],
                lifetime_s=rest_s,
                least_s=None if lease.wanted_until_s is None or rest_s is None else min(rest_s, LEAST_S),
                sla=lease.promised_sla,
                targets=tuple(others),
                resources=lease.amounts,
                labels=lease.labels,
                group=lease.group,
                spread=lease.spread,
                launch=lease.launch,
                at_s=event.at_s if trace_time else None,
            )
            try:
                offers = (await self._quotes.quotes(request)).quotes
            except (SubmitError, ValueError) as error:
                log.info("no offer for %s: %s", lease.id, error)
        command = Migrate(
            id=f"{lease.id}:migrate",
            lease=lease.id,
            at_s=event.at_s if trace_time else None,
            # An owner's journal does not repeat the broker's verdicts on clouds; the order follows them.
            offers=tuple(
                offer.model_copy(update={"other_sizes": (), "broken_promise": None}) for offer in offers
            ),
        )
        await self._commands.send({lease.cloud: [command]})


def _rest_s(lease: Lease) -> float | None:
    """Return the seconds to ask other clouds for: a period, or all that the lease would still have wanted."""
    if lease.wanted_until_s is None or lease.ends_at_s is None:
        return lease.renewal_s
    return lease.wanted_until_s - lease.ends_at_s
