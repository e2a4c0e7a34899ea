"""What the holder of a key can do with webhooks; and the worker that delivers for this process."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import redis.asyncio

from broker.settings import Settings
from broker.storage.keys import RedisKeys
from broker.storage.streams import read_newest_id
from broker.webhooks.envelope import Sending, of_event, of_test
from broker.webhooks.models import Deliveries, Delivery, NewSecret, NewWebhook, WebhookState, WebhookWish
from broker.webhooks.secrets import SecretVault, new_secret
from broker.webhooks.sender import Sender
from broker.webhooks.store import StoredWebhook, WebhookStore, timestamp
from broker.webhooks.targets import SystemResolver, check
from broker.webhooks.worker import Members, RetryPolicy, WebhookWorker, delivery_of, scope_of

_BY_HAND = 8  # tests and redeliveries at a time
_PAUSED_BY_HAND = "paused by its holder"


class WebhookBusyError(Exception):
    """Too many tests and redeliveries at the same time: ask again."""


class NotKeptError(Exception):
    """What was delivered then cannot be delivered again; the message says why."""


class WebhookService:
    """The webhooks of one process. Every call may raise redis.RedisError."""

    def __init__(
        self,
        told: Settings,
        client: redis.asyncio.Redis,
        following: redis.asyncio.Redis,
        keys: RedisKeys,
        name: str,
        members: Members,
    ):
        """``following`` is used by the worker alone. Raises SettingsError where the key file is no use."""
        self._keys, self._client, self._members = keys, client, members
        self._storage, self._vault = WebhookStore(client, keys), SecretVault(told.webhook_key_file)
        self._resolver = SystemResolver()
        self._sender = Sender(
            self._resolver,
            told.webhook_allow,
            connect_timeout_s=told.webhook_connect_timeout_s,
            timeout_s=told.webhook_timeout_s,
        )
        retries = RetryPolicy(told.webhook_retry_first_s, told.webhook_retry_longest_s, told.webhook_attempts)
        self._worker = WebhookWorker(
            self._storage,
            following,
            name,
            sender=self._sender,
            vault=self._vault,
            retries=retries,
            members=members,
        )
        self._by_hand = asyncio.Semaphore(_BY_HAND)

    async def run(self) -> None:
        """Delivers for ever."""
        await self._worker.run()

    async def aclose(self) -> None:
        """Closes what is open, Redis excepted."""
        await self._sender.aclose()
        self._resolver.close()

    async def create(self, holder: str, wish: WebhookWish) -> NewWebhook:
        """A webhook for what happens from now on.

        Raises TargetError, WebhookExistsError, TooManyWebhooksError.
        """
        await check(wish.url, self._sender.resolve, self._sender.allowed)
        secret = new_secret()
        position = await read_newest_id(self._client, self._keys.all_events)
        stored = await self._storage.create(holder, wish, self._vault.seal(secret), position)
        return NewWebhook(webhook=stored.view(), secret=secret)

    async def of(self, holder: str) -> list[StoredWebhook]:
        """Those of a holder, oldest first."""
        return await self._storage.of(holder)

    async def get(self, webhook: str) -> StoredWebhook | None:
        """One of them."""
        return await self._storage.get(webhook)

    async def delete(self, stored: StoredWebhook) -> None:
        """With its log."""
        await self._storage.delete(stored)

    async def set_state(self, stored: StoredWebhook, state: WebhookState) -> StoredWebhook | None:
        """Pauses or resumes. None: it was deleted meanwhile."""
        reason = _PAUSED_BY_HAND if state is WebhookState.PAUSED else ""
        await self._storage.set_state(stored.id, state, reason)
        return await self._storage.get(stored.id)

    async def rotate(self, stored: StoredWebhook) -> NewSecret | None:
        """None: it was deleted, or its secret rotated, meanwhile."""
        secret = new_secret()
        until_ms = await self._storage.rotate(stored, self._vault.seal(secret))
        return None if until_ms is None else NewSecret(secret=secret, old_until=timestamp(until_ms))

    async def test(self, stored: StoredWebhook) -> Delivery | None:
        """Sends a test at once, also while it is paused. None: it was deleted meanwhile.

        Raises BusyError, SecretError.
        """
        return await self._send(stored, of_test(uuid4().hex, stored.id))

    async def deliveries(self, stored: StoredWebhook, limit: int, before: str | None) -> Deliveries:
        """The log, newest first."""
        return await self._storage.deliveries(stored.id, limit, before)

    async def redeliver(self, stored: StoredWebhook, delivery: str) -> Delivery | None:
        """Sends the event of a delivery again, at once and out of order, under its webhook-id.

        None: there is no such delivery (any more). Raises BusyError, NotKeptError, SecretError,
        MemberGoneError.
        """
        found = await self._storage.delivery(stored.id, delivery)
        if found is None:
            return None
        if found.why not in ("event", "redelivery"):
            raise NotKeptError("this was no event: POST …/test sends another test")
        scope = await scope_of(stored, self._members)
        text = await self._storage.event(found.message)
        sending = (
            None if text is None else of_event(found.message, text, stored.wish, scope, why="redelivery")
        )
        if sending is None:
            raise NotKeptError("the event is no longer kept: read GET /v1/leases for what is true now")
        return await self._send(stored, sending)

    async def _send(self, stored: StoredWebhook, sending: Sending) -> Delivery | None:
        if self._by_hand.locked():
            raise WebhookBusyError
        secrets = [self._vault.open(sealed) for sealed in stored.usable_secrets]
        async with self._by_hand:
            outcome = await self._sender.send(stored.wish.url, sending, secrets)
        return await self._storage.log(stored.id, delivery_of(sending, outcome))
