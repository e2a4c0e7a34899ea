"""Webhooks in Redis. Times are those of Redis, so that processes need not agree on what time it is.

One process at a time delivers a webhook's events: it holds the claim, which runs out if it dies, and nothing
it writes counts once another has taken the claim.
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

MOST_WEBHOOKS = 20  # a member, an operator
DELIVERIES_KEPT = 500  # a webhook
OLD_SECRET_S = 86_400.0
_MOST_OLD_SECRETS = 3


class WebhookExistsError(Exception):
    """The holder has a webhook for this URL already; ``webhook`` is its id."""

    def __init__(self, webhook: str):
        self.webhook = webhook
        super().__init__(f"webhook {webhook} goes to this URL already")


class TooManyWebhooksError(Exception):
    """The holder has as many webhooks as one may have."""


@dataclass(frozen=True)
class StoredWebhook:
    """A webhook as it was at ``now_ms``. ``secrets`` is as it is stored: sealed, see `usable_secrets`.

    ``holder``: as of ``identity.Principal``: a member, or an operator. ``lag_s`` is known to those who ask
    for the webhook, not to who delivers.
    """

    id: str
    holder: str
    wish: WebhookWish
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
        """The present one first, then those that were replaced not long ago; sealed."""
        kept = json.loads(self.secrets)
        return [kept["present"], *(sealed for sealed, until_ms in kept["old"] if until_ms > self.now_ms)]

    def view(self) -> Webhook:
        """What its holder is shown."""
        waits = self.attempts > 0 and self.state is WebhookState.ACTIVE
        return Webhook(
            id=self.id,
            holder=self.holder,
            **self.wish.model_dump(),
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
    """What tells whether a webhook has something to do."""

    id: str
    active: bool
    position: str
    next_at_ms: int


@dataclass(frozen=True)
class WebhookBatch:
    """All webhooks, the end of the merged stream, and the time."""

    now_ms: int
    last: str | None
    places: list[WebhookPosition]


@dataclass(frozen=True)
class Backlog:
    """How many webhooks there are, by state; the age of the oldest event that an active one has not got."""

    states: Mapping[str, int]
    lag_s: float


def timestamp(at_ms: float) -> str:
    """RFC 3339 in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


class WebhookStore:
    """Every method may raise redis.RedisError."""

    def __init__(self, client: redis.asyncio.Redis, keys: RedisKeys):
        self.client: Any = client
        self.keys = keys
        self._create = client.register_script(read_script("webhook_create"))
        self._hold = client.register_script(read_script("webhook_hold"))
        self._release = client.register_script(read_script("webhook_release"))
        self._write = client.register_script(read_script("webhook_write"))

    # -- for its holder -----------------------------------------------------------------------------------

    async def create(self, holder: str, wish: WebhookWish, sealed: str, position: str) -> StoredWebhook:
        """A new webhook, which begins after ``position``.

        Raises WebhookExistsError, TooManyWebhooksError.
        """
        webhook = uuid4().hex[:20]
        fields = {
            "holder": holder,
            "wish": wish.model_dump_json(),
            "secrets": _secrets(sealed, []),
            "state": WebhookState.ACTIVE.value,
            "reason": "",
            "position": position,
            "attempts": "0",
            "next_at_ms": "0",
            "created_at": datetime.now(UTC).isoformat(),
        }
        keys = [self.keys.webhooks, self.keys.webhook_urls, self.keys.webhook(webhook)]
        told: list[str | int] = [webhook, holder, _digest(holder, wish.url), MOST_WEBHOOKS]
        outcome: Any = await _result(self._create(keys, [*told, *_flat(fields)]))
        if outcome[0] == b"exists":
            raise WebhookExistsError(outcome[1].decode())
        if outcome[0] == b"full":
            raise TooManyWebhooksError
        return _stored(webhook, fields)

    async def get(self, webhook: str) -> StoredWebhook | None:
        """One of them, by id."""
        async with self.client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            pipeline.hgetall(self.keys.webhook(webhook))
            time, found = await pipeline.execute()
        return (await self._with_lag([_stored(webhook, _decoded(found), _ms(time))]))[0] if found else None

    async def of(self, holder: str) -> list[StoredWebhook]:
        """Those of a holder, oldest first."""
        index: dict[bytes, bytes] = await self.client.hgetall(self.keys.webhooks)
        mine = [name.decode() for name, owner in index.items() if owner.decode() == holder]
        async with self.client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            for webhook in mine:
                pipeline.hgetall(self.keys.webhook(webhook))
            time, *found = await pipeline.execute()
        stored = [
            _stored(name, _decoded(one), _ms(time)) for name, one in zip(mine, found, strict=True) if one
        ]
        return sorted(await self._with_lag(stored), key=lambda one: (one.created_at, one.id))

    async def _with_lag(self, webhooks: Sequence[StoredWebhook]) -> list[StoredWebhook]:
        """How old the first event is that each is not done with."""
        async with self.client.pipeline(transaction=False) as pipeline:
            for one in webhooks:
                pipeline.xrange(self.keys.all_events, f"({one.position}", "+", count=1)
            found = await pipeline.execute()
        return [
            replace(one, lag_s=max(0.0, (one.now_ms - int(page[0][0].partition(b"-")[0])) / 1000))
            if page
            else one
            for one, page in zip(webhooks, found, strict=True)
        ]

    async def delete(self, stored: StoredWebhook) -> None:
        """With its log. A delivery that is under way is the last one."""
        keys = self.keys
        async with self.client.pipeline(transaction=True) as pipeline:
            pipeline.hdel(keys.webhooks, stored.id)
            pipeline.hdel(keys.webhook_urls, _digest(stored.holder, stored.wish.url))
            pipeline.delete(keys.webhook(stored.id), keys.webhook_deliveries(stored.id))
            await pipeline.execute()

    async def rotate(self, stored: StoredWebhook, sealed: str) -> int | None:
        """Signs with a new secret too; the present one goes on for `OLD_SECRET_S`, until the time returned.

        None: somebody else rotated it, or deleted the webhook, since ``stored`` was read.
        """
        kept = json.loads(stored.secrets)
        until_ms = stored.now_ms + round(1000 * OLD_SECRET_S)
        still = [pair for pair in kept["old"] if pair[1] > stored.now_ms]
        old = [[kept["present"], until_ms], *still][:_MOST_OLD_SECRETS]
        outcome = await self._change(stored.id, {"secrets": _secrets(sealed, old)}, expected=stored.secrets)
        return until_ms if outcome is not None else None

    async def set_state(self, webhook: str, state: WebhookState, reason: str = "") -> bool:
        """Pauses or resumes; what failed before is forgotten. False: there is no such webhook."""
        fields = {"state": state.value, "reason": reason, "attempts": "0", "next_at_ms": "0"}
        return await self._change(webhook, fields) is not None

    # -- deliveries ---------------------------------------------------------------------------------------

    async def log(self, webhook: str, delivery: Delivery) -> Delivery | None:
        """Notes a delivery that nobody waits for. None: the webhook was deleted."""
        entry = await self._change(webhook, {}, delivery=delivery)
        return None if entry is None else delivery.model_copy(update={"id": entry})

    async def deliveries(self, webhook: str, limit: int, before: str | None) -> Deliveries:
        """The last ones, newest first."""
        newest = "+" if before is None else f"({before}"
        entries = await self.client.xrevrange(
            self.keys.webhook_deliveries(webhook), newest, "-", count=limit + 1
        )
        return Deliveries(deliveries=list(map(_delivery, entries[:limit])), more=len(entries) > limit)

    async def delivery(self, webhook: str, delivery: str) -> Delivery | None:
        """One of those that are kept."""
        entries = await self.client.xrange(self.keys.webhook_deliveries(webhook), delivery, delivery, count=1)
        return _delivery(entries[0]) if entries else None

    async def event(self, entry: str) -> bytes | None:
        """An event of the merged stream as it is there, if it is still kept."""
        entries = await self.client.xrange(self.keys.all_events, entry, entry, count=1)
        return cast("bytes", entries[0][1].get(b"e", b"")) if entries else None

    # -- for who delivers ---------------------------------------------------------------------------------

    async def survey(self) -> WebhookBatch:
        """Looks at all webhooks at once."""
        names = [name.decode() for name in await self.client.hkeys(self.keys.webhooks)]
        async with self.client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            pipeline.xrevrange(self.keys.all_events, count=1)
            for name in names:
                pipeline.hmget(self.keys.webhook(name), "state", "position", "next_at_ms")
            time, last, *found = await pipeline.execute()
        places = [
            WebhookPosition(name, state.decode() == WebhookState.ACTIVE, position.decode(), int(next_at_ms))
            for name, (state, position, next_at_ms) in zip(names, found, strict=True)
            if state is not None
        ]
        return WebhookBatch(_ms(time), last[0][0].decode() if last else None, places)

    async def backlog(self) -> Backlog:
        """How far behind all of them are."""
        names = [name.decode() for name in await self.client.hkeys(self.keys.webhooks)]
        states = Counter({state.value: 0 for state in WebhookState})
        if not names:
            return Backlog(states, 0.0)
        async with self.client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            for name in names:
                pipeline.hmget(self.keys.webhook(name), "state", "position")
            time, *found = await pipeline.execute()
            states.update(state.decode() for state, _ in found if state is not None)
            for state, position in found:
                if state is not None and state.decode() == WebhookState.ACTIVE:
                    pipeline.xrange(self.keys.all_events, f"({position.decode()}", "+", count=1)
            pages = await pipeline.execute()
        waiting = [int(page[0][0].partition(b"-")[0]) for page in pages if page]
        return Backlog(states, max(0.0, (_ms(time) - min(waiting)) / 1000) if waiting else 0.0)

    async def hold(self, webhook: str, token: str, ttl_ms: int) -> StoredWebhook | None:
        """Claims the webhook, or keeps the claim, for ``ttl_ms`` from now on.

        None: another process has it, or it was deleted.
        """
        keys = [self.keys.webhook_claim(webhook), self.keys.webhook(webhook)]
        found: Any = await _result(self._hold(keys, [token, ttl_ms]))
        if found is None:
            return None
        now_ms, *flat = (item.decode() for item in found)
        return _stored(webhook, dict(zip(flat[::2], flat[1::2], strict=True)), int(now_ms))

    async def release(self, webhook: str, token: str) -> None:
        """Lets the others at it."""
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
        """Writes what came of an attempt. False: the claim or the webhook is gone, nothing was written."""
        told = await self._change(webhook, fields, token=token, delivery=delivery, delay_ms=delay_ms)
        return told is not None

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
        """The id of the logged delivery ("" for none), or None when nothing was written."""
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


def _decoded(found: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in found.items()}


def _stored(webhook: str, fields: Mapping[str, str], now_ms: int = 0) -> StoredWebhook:
    return StoredWebhook(
        id=webhook,
        holder=fields["holder"],
        wish=WebhookWish.model_validate_json(fields["wish"]),
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


def _ms(time: tuple[int, int]) -> int:
    return time[0] * 1000 + time[1] // 1000


async def _result(awaitable: Any) -> Any:
    # redis-py types a command's result as "awaitable or not".
    return await awaitable
