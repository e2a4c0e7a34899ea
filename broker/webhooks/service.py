"""Answers calls about webhooks, and runs the worker that delivers for this process."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import redis.asyncio

from broker.settings import Settings
from broker.storage.keys import RedisKeys
from broker.storage.streams import read_newest_id
from broker.webhooks.envelope import WebhookMessage, build_event_message, build_test_message
from broker.webhooks.models import Deliveries, Delivery, NewSecret, NewWebhook, WebhookState, WebhookWish
from broker.webhooks.secrets import SecretVault, new_secret
from broker.webhooks.sender import Sender
from broker.webhooks.store import StoredWebhook, WebhookStore, timestamp
from broker.webhooks.targets import SystemResolver, check_target
from broker.webhooks.worker import Members, RetryPolicy, WebhookWorker, delivery_of, scope_of

_MOST_SENT_BY_HAND = 8  # tests and redeliveries at the same time
_PAUSED_BY_HAND = "paused by its holder"


class WebhookBusyError(Exception):
    """Raised for too many tests and redeliveries at the same time; a later call may succeed."""


class NotKeptError(Exception):
    """Raised when an event cannot be delivered again; the message says why."""


class WebhookService:
    """Creates, changes and tests webhooks. Every method may raise redis.RedisError."""

    def __init__(
        self,
        settings: Settings,
        client: redis.asyncio.Redis,
        blocking: redis.asyncio.Redis,
        keys: RedisKeys,
        name: str,
        members: Members,
    ):
        """Connect to nothing yet.

        ``client`` answers at once; ``blocking`` is for the worker, whose reads block. ``name``: of this
        process. ``members`` returns the members of the federation. Raises SettingsError if the key file
        cannot be used.
        """
        self._keys, self._client, self._members = keys, client, members
        self._store, self._vault = WebhookStore(client, keys), SecretVault(settings.webhook_key_file)
        self._resolver = SystemResolver()
        self._sender = Sender(
            self._resolver,
            settings.webhook_allow,
            connect_timeout_s=settings.webhook_connect_timeout_s,
            timeout_s=settings.webhook_timeout_s,
        )
        retries = RetryPolicy(
            settings.webhook_retry_first_s, settings.webhook_retry_longest_s, settings.webhook_attempts
        )
        self._worker = WebhookWorker(
            self._store,
            blocking,
            name,
            sender=self._sender,
            vault=self._vault,
            retries=retries,
            members=members,
        )
        self._by_hand = asyncio.Semaphore(_MOST_SENT_BY_HAND)

    async def run(self) -> None:
        """Deliver events until the task is cancelled."""
        await self._worker.run()

    async def aclose(self) -> None:
        """Close the connections to receivers."""
        await self._sender.aclose()
        self._resolver.close()

    async def create(self, holder: str, spec: WebhookWish) -> NewWebhook:
        """Create a webhook that begins with the next event.

        Raises
        ------
        TargetError
            When webhooks do not go to the URL.
        WebhookExistsError
            When the holder has a webhook for it.
        TooManyWebhooksError
            When the holder has as many webhooks as one may have.
        """
        await check_target(spec.url, self._sender.resolve, self._sender.allowed)
        secret = new_secret()
        position = await read_newest_id(self._client, self._keys.all_events)
        stored = await self._store.create(holder, spec, self._vault.seal(secret), position)
        return NewWebhook(webhook=stored.view(), secret=secret)

    async def list_webhooks(self, holder: str) -> list[StoredWebhook]:
        """Return the webhooks of a holder, oldest first."""
        return await self._store.list_webhooks(holder)

    async def get(self, webhook: str) -> StoredWebhook | None:
        """Return the webhook of that id, None if there is none."""
        return await self._store.get(webhook)

    async def delete(self, stored: StoredWebhook) -> None:
        """Delete a webhook and its log."""
        await self._store.delete(stored)

    async def set_state(self, stored: StoredWebhook, state: WebhookState) -> StoredWebhook | None:
        """Pause or resume a webhook, and return it; None if it was deleted meanwhile."""
        reason = _PAUSED_BY_HAND if state is WebhookState.PAUSED else ""
        await self._store.set_state(stored.id, state, reason)
        return await self._store.get(stored.id)

    async def rotate(self, stored: StoredWebhook) -> NewSecret | None:
        """Replace the secret; return None if it was replaced, or the webhook deleted, meanwhile."""
        secret = new_secret()
        until_ms = await self._store.rotate(stored, self._vault.seal(secret))
        return None if until_ms is None else NewSecret(secret=secret, old_until=timestamp(until_ms))

    async def test(self, stored: StoredWebhook) -> Delivery | None:
        """Send a test at once, also to a paused webhook; return None if it was deleted meanwhile.

        Raises WebhookBusyError, SecretError.
        """
        return await self._send(stored, build_test_message(uuid4().hex, stored.id))

    async def deliveries(self, stored: StoredWebhook, limit: int, before: str | None) -> Deliveries:
        """Return a page of the log, newest first; ``before``: only entries older than the one of this id."""
        return await self._store.deliveries(stored.id, limit, before)

    async def redeliver(self, stored: StoredWebhook, delivery: str) -> Delivery | None:
        """Send the event of a delivery again, at once and out of order, under its webhook-id.

        Return None if there is no delivery of that id, or no longer.

        Raises
        ------
        NotKeptError
            When the event is no longer kept, or the delivery was none of an event.
        MemberGoneError
            When the member that the webhook belongs to has left the federation.
        SecretError
            When the secret cannot be read.
        WebhookBusyError
            When there are too many tests and redeliveries at the same time.
        """
        earlier = await self._store.delivery(stored.id, delivery)
        if earlier is None:
            return None
        if earlier.why not in ("event", "redelivery"):
            raise NotKeptError("this was no event: POST …/test sends another test")
        scope = await scope_of(stored, self._members)
        text = await self._store.event(earlier.message)
        message = None
        if text is not None:
            message = build_event_message(earlier.message, text, stored.spec, scope, why="redelivery")
        if message is None:
            raise NotKeptError("the event is no longer kept: read GET /v1/leases for what is true now")
        return await self._send(stored, message)

    async def _send(self, stored: StoredWebhook, message: WebhookMessage) -> Delivery | None:
        if self._by_hand.locked():
            raise WebhookBusyError
        secrets = [self._vault.open(sealed) for sealed in stored.usable_secrets]
        async with self._by_hand:
            outcome = await self._sender.send(stored.spec.url, message, secrets)
        return await self._store.log(stored.id, delivery_of(message, outcome))
