"""Stores webhooks in Redis. Times are those of Redis, so that the clocks of processes need not agree.

One process at a time delivers a webhook's events: it holds the claim, which runs out if the process dies, and
nothing that it writes counts once another process has taken the claim.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

import redis.asyncio

from broker.storage.keys import RedisKeys
from broker.storage.scripts import read_script
from broker.webhooks.models import Deliveries, Delivery, Webhook, WebhookState, WebhookWish

MOST_WEBHOOKS = 20  # per member or operator
DELIVERIES_KEPT = 500  # per webhook
OLD_SECRET_S = 86_400.0
_MOST_OLD_SECRETS = 3


class WebhookExistsError(Exception):
    """Raised when the holder has a webhook for this URL already; ``webhook`` is its id."""

    def __init__(self, webhook: str):
        self.webhook = webhook
        super().__init__(f"webhook {webhook} goes to this URL already")


class TooManyWebhooksError(Exception):
    """Raised when the holder has as many webhooks as one may have."""


@dataclass(frozen=True)
class StoredWebhook:
    """One webhook as it was stored at ``now_ms``, in milliseconds of the time of Redis.

    holder: a member or an operator, see ``Principal.holder``. spec: its URL and filters. secrets: JSON,
    encrypted if there is a key file; see ``usable_secrets``. attempts: those that failed to deliver the event
    after ``position``. next_at_ms: the time of the next attempt. lag_s: the age of that event in seconds,
    where it was asked for.
    """

    id: str
    holder: str
    spec: WebhookWish
    secrets: str
    state: WebhookState
    reason: str | None
    position: str
    attempts: int
    next_at_ms: int
    created_at: str
    delivered: int = 0
    failed: int = 0
    given_up: int = 0
    last_delivered_at: str | None = None
    last_error: str | None = None
    now_ms: int = 0
    lag_s: float = 0.0

    @property
    def usable_secrets(self) -> list[str]:
        """The secrets to sign with, as stored: the present one, then those replaced less than a day ago."""
        secrets = json.loads(self.secrets)
        old = (sealed for sealed, until_ms in secrets["old"] if until_ms > self.now_ms)
        return [secrets["present"], *old]

    def view(self) -> Webhook:
        """Return the webhook as its holder sees it."""
        waits = self.attempts > 0 and self.state is WebhookState.ACTIVE
        return Webhook(
            id=self.id,
            holder=self.holder,
            **self.spec.model_dump(),
            created_at=self.created_at,
            state=self.state,
            reason=self.reason,
            position=self.position,
            failed_attempts=self.attempts,
            next_attempt_at=timestamp(self.next_at_ms) if waits else None,
            delivered=self.delivered,
            failed=self.failed,
            given_up=self.given_up,
            last_delivered_at=self.last_delivered_at,
            last_error=self.last_error,
            lag_s=self.lag_s,
        )


@dataclass(frozen=True)
class WebhookPosition:
    """The position of one webhook in the merged stream, and when it may deliver next."""

    id: str
    active: bool
    position: str
    next_at_ms: int


@dataclass(frozen=True)
class WebhookBatch:
    """The positions of all webhooks at ``now_ms``. last: the newest id of the merged stream."""

    now_ms: int
    last: str | None
    positions: list[WebhookPosition]


@dataclass(frozen=True)
class Backlog:
    """Numbers of webhooks by state, and the age in seconds of the oldest event that an active one lacks."""

    states: Mapping[str, int]
    lag_s: float


def timestamp(at_ms: float) -> str:
    """Return Unix time in milliseconds as RFC 3339 in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


class WebhookStore:
    """Reads and writes webhooks, their logs and their claims. Every method may raise redis.RedisError."""

    def __init__(self, client: redis.asyncio.Redis, keys: RedisKeys):
        self.client: Any = client
        self.keys = keys
        self._create = client.register_script(read_script("webhook_create"))
        self._hold = client.register_script(read_script("webhook_hold"))
        self._release = client.register_script(read_script("webhook_release"))
        self._write = client.register_script(read_script("webhook_write"))

    # -- for holders --------------------------------------------------------------------------------------

    async def create(self, holder: str, spec: WebhookWish, sealed: str, position: str) -> StoredWebhook:
        """Create a webhook that begins after ``position``; ``sealed``: its secret as it is stored.

        Raises WebhookExistsError, TooManyWebhooksError.
        """
        webhook = uuid4().hex[:20]
        fields = {
            "holder": holder,
            "wish": spec.model_dump_json(),
            "secrets": _secrets(sealed, []),
            "state": WebhookState.ACTIVE.value,
            "reason": "",
            "position": position,
            "attempts": "0",
            "next_at_ms": "0",
            "created_at": datetime.now(UTC).isoformat(),
        }
        keys = [self.keys.webhooks, self.keys.webhook_urls, self.keys.webhook(webhook)]
        arguments: list[str | int] = [webhook, holder, _digest(holder, spec.url), MOST_WEBHOOKS]
        outcome: Any = await _result(self._create(keys, [*arguments, *_flat(fields)]))
        if outcome[0] == b"exists":
            raise WebhookExistsError(outcome[1].decode())
        if outcome[0] == b"full":
            raise TooManyWebhooksError
        return _stored(webhook, fields)

    async def get(self, webhook: str) -> StoredWebhook | None:
        """Return the webhook of that id, None if there is none."""
        async with self.client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            pipeline.hgetall(self.keys.webhook(webhook))
            time, fields = await pipeline.execute()
        if not fields:
            return None
        (stored,) = await self._with_lag([_stored(webhook, _decoded(fields), _ms(time))])
        return stored

    async def list_webhooks(self, holder: str) -> list[StoredWebhook]:
        """Return the webhooks of a holder, oldest first."""
        index: dict[bytes, bytes] = await self.client.hgetall(self.keys.webhooks)
        own = [webhook.decode() for webhook, owner in index.items() if owner.decode() == holder]
        async with self.client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            for webhook in own:
                pipeline.hgetall(self.keys.webhook(webhook))
            time, *replies = await pipeline.execute()
        stored = [
            _stored(webhook, _decoded(fields), _ms(time))
            for webhook, fields in zip(own, replies, strict=True)
            if fields
        ]
        return sorted(await self._with_lag(stored), key=lambda webhook: (webhook.created_at, webhook.id))

    async def _with_lag(self, webhooks: Sequence[StoredWebhook]) -> list[StoredWebhook]:
        """Return the webhooks with the age of the first event after the position of each."""
        async with self.client.pipeline(transaction=False) as pipeline:
            for webhook in webhooks:
                pipeline.xrange(self.keys.all_events, f"({webhook.position}", "+", count=1)
            pages = await pipeline.execute()
        return [
            replace(webhook, lag_s=_age_s(page[0][0], webhook.now_ms)) if page else webhook
            for webhook, page in zip(webhooks, pages, strict=True)
        ]

    async def delete(self, stored: StoredWebhook) -> None:
        """Delete a webhook and its log. A delivery that is under way is the last one."""
        keys = self.keys
        async with self.client.pipeline(transaction=True) as pipeline:
            pipeline.hdel(keys.webhooks, stored.id)
            pipeline.hdel(keys.webhook_urls, _digest(stored.holder, stored.spec.url))
            pipeline.delete(keys.webhook(stored.id), keys.webhook_deliveries(stored.id))
            await pipeline.execute()

    async def rotate(self, stored: StoredWebhook, sealed: str) -> int | None:
        """Replace the secret; return until when the old one is used as well, in Unix milliseconds.

        That is for ``OLD_SECRET_S``. Return None if another call replaced the secret, or deleted the webhook,
        since ``stored`` was read.
        """
        secrets = json.loads(stored.secrets)
        until_ms = stored.now_ms + round(1000 * OLD_SECRET_S)
        usable = [pair for pair in secrets["old"] if pair[1] > stored.now_ms]
        old = [[secrets["present"], until_ms], *usable][:_MOST_OLD_SECRETS]
        outcome = await self._change(stored.id, {"secrets": _secrets(sealed, old)}, expected=stored.secrets)
        return until_ms if outcome is not None else None

    async def set_state(self, webhook: str, state: WebhookState, reason: str = "") -> bool:
        """Pause or resume a webhook, and forget failed attempts. Return whether there is one of that id."""
        fields = {"state": state.value, "reason": reason, "attempts": "0", "next_at_ms": "0"}
        return await self._change(webhook, fields) is not None

    # -- deliveries ---------------------------------------------------------------------------------------

    async def log(self, webhook: str, delivery: Delivery) -> Delivery | None:
        """Log a delivery that does not move the position. Return it with its id, None without the webhook."""
        entry = await self._change(webhook, {}, delivery=delivery)
        return None if entry is None else delivery.model_copy(update={"id": entry})

    async def deliveries(self, webhook: str, limit: int, before: str | None) -> Deliveries:
        """Return a page of the log, newest first; ``before``: only entries older than the one of this id."""
        newest = "+" if before is None else f"({before}"
        entries = await self.client.xrevrange(
            self.keys.webhook_deliveries(webhook), newest, "-", count=limit + 1
        )
        return Deliveries(deliveries=list(map(_delivery, entries[:limit])), more=len(entries) > limit)

    async def delivery(self, webhook: str, delivery: str) -> Delivery | None:
        """Return one delivery, None if it is not kept."""
        entries = await self.client.xrange(self.keys.webhook_deliveries(webhook), delivery, delivery, count=1)
        return _delivery(entries[0]) if entries else None

    async def event(self, entry: str) -> bytes | None:
        """Return an event of the merged stream as JSON, None if it is no longer kept."""
        entries = await self.client.xrange(self.keys.all_events, entry, entry, count=1)
        return cast("bytes", entries[0][1].get(b"e", b"")) if entries else None

    # -- for workers --------------------------------------------------------------------------------------

    async def read_positions(self) -> WebhookBatch:
        """Read the positions of all webhooks at once."""
        names = [name.decode() for name in await self.client.hkeys(self.keys.webhooks)]
        async with self.client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            pipeline.xrevrange(self.keys.all_events, count=1)
            for name in names:
                pipeline.hmget(self.keys.webhook(name), "state", "position", "next_at_ms")
            time, last, *replies = await pipeline.execute()
        positions = [
            WebhookPosition(name, state.decode() == WebhookState.ACTIVE, position.decode(), int(next_at_ms))
            for name, (state, position, next_at_ms) in zip(names, replies, strict=True)
            if state is not None
        ]
        return WebhookBatch(_ms(time), last[0][0].decode() if last else None, positions)

    async def backlog(self) -> Backlog:
        """Count all webhooks by state, and measure how far behind the active ones are."""
        names = [name.decode() for name in await self.client.hkeys(self.keys.webhooks)]
        states = Counter({state.value: 0 for state in WebhookState})
        if not names:
            return Backlog(states, 0.0)
        async with self.client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            for name in names:
                pipeline.hmget(self.keys.webhook(name), "state", "position")
            time, *replies = await pipeline.execute()
            states.update(state.decode() for state, _ in replies if state is not None)
            for state, position in replies:
                if state is not None and state.decode() == WebhookState.ACTIVE:
                    pipeline.xrange(self.keys.all_events, f"({position.decode()}", "+", count=1)
            pages = await pipeline.execute()
        return Backlog(states, max((_age_s(page[0][0], _ms(time)) for page in pages if page), default=0.0))

    async def hold(self, webhook: str, token: str, ttl_ms: int) -> StoredWebhook | None:
        """Claim a webhook, or keep the claim, for ``ttl_ms`` milliseconds from now on, and return it.

        ``token`` names the claim. Return None if another process has the webhook, or it was deleted.
        """
        keys = [self.keys.webhook_claim(webhook), self.keys.webhook(webhook)]
        reply: Any = await _result(self._hold(keys, [token, ttl_ms]))
        if reply is None:
            return None
        now_ms, *flat = (item.decode() for item in reply)
        return _stored(webhook, dict(zip(flat[::2], flat[1::2], strict=True)), int(now_ms))

    async def release(self, webhook: str, token: str) -> None:
        """Give up the claim ``token`` on a webhook."""
        await _result(self._release([self.keys.webhook_claim(webhook)], [token]))

    async def settle(
        self,
        webhook: str,
        token: str,
        *,
        fields: Mapping[str, str],
        delivery: Delivery | None = None,
        delay_ms: int | None = None,
    ) -> bool:
        """Write what came of an attempt; return False, having written nothing, if the claim is gone.

        ``fields``: those of the webhook that change. ``delivery``: the entry of its log. ``delay_ms``: when
        to attempt again, in milliseconds from now.
        """
        entry = await self._change(webhook, fields, token=token, delivery=delivery, delay_ms=delay_ms)
        return entry is not None

    async def _change(
        self,
        webhook: str,
        fields: Mapping[str, str],
        *,
        token: str = "",
        expected: str = "",
        delivery: Delivery | None = None,
        delay_ms: int | None = None,
    ) -> str | None:
        """Return the id of the logged delivery ("" for none), or None if nothing was written."""
        keys = self.keys
        names = [keys.webhook(webhook), keys.webhook_deliveries(webhook), keys.webhook_claim(webhook)]
        logged = "" if delivery is None else delivery.model_dump_json(exclude={"id"})
        delay = "" if delay_ms is None else delay_ms
        arguments = [token, expected, delay, logged, DELIVERIES_KEPT, *_flat(fields)]
        outcome: Any = await _result(self._write(names, arguments))
        return cast("bytes", outcome[1]).decode() if outcome[0] == b"ok" else None


def _secrets(present: str, old: list[list[Any]]) -> str:
    return json.dumps({"present": present, "old": old})


def _digest(holder: str, url: str) -> str:
    return hashlib.sha256(f"{holder}\n{url}".encode()).hexdigest()


def _flat(fields: Mapping[str, str]) -> list[str]:
    return [part for pair in fields.items() for part in pair]


def _decoded(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in fields.items()}


def _stored(webhook: str, fields: Mapping[str, str], now_ms: int = 0) -> StoredWebhook:
    return StoredWebhook(
        id=webhook,
        holder=fields["holder"],
        spec=WebhookWish.model_validate_json(fields["wish"]),
        secrets=fields["secrets"],
        state=WebhookState(fields["state"]),
        reason=fields["reason"] or None,
        position=fields["position"],
        attempts=int(fields["attempts"]),
        next_at_ms=int(fields["next_at_ms"]),
        created_at=fields["created_at"],
        delivered=int(fields.get("delivered", "0")),
        failed=int(fields.get("failed", "0")),
        given_up=int(fields.get("given_up", "0")),
        last_delivered_at=fields.get("last_delivered_at"),
        last_error=fields.get("last_error"),
        now_ms=now_ms,
    )


def _delivery(entry: tuple[bytes, dict[bytes, bytes]]) -> Delivery:
    return Delivery.model_validate_json(entry[1][b"d"]).model_copy(update={"id": entry[0].decode()})


def _age_s(entry: bytes, now_ms: int) -> float:
    """Return the age of an event of the merged stream in seconds, by the time in its id."""
    return max(0.0, (now_ms - int(entry.partition(b"-")[0])) / 1000)


def _ms(time: tuple[int, int]) -> int:
    return time[0] * 1000 + time[1] // 1000


async def _result(awaitable: Any) -> Any:
    # redis-py types a command's result as "awaitable or not".
    return await awaitable
