"""Delivers events to webhooks: for each webhook in order and at least once, none waiting for another.

All API processes watch all webhooks; a process that finds one with events to deliver claims it for a while.
The position in the merged stream moves on with the answer of the receiver, so that the next process continues
there. A delivery that was not recorded is made again, under the same webhook-id.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import redis
import redis.asyncio

from broker.backoff import Backoff
from broker.failpoints import Failpoint, failpoint
from broker.identity.models import MemberRecord
from broker.storage.keys import RedisKeys
from broker.storage.outages import retry_through_outages
from broker.storage.streams import (
    BEGINNING,
    EventsLostError,
    parse_id,
    read_after,
    read_all_after,
    read_oldest_position,
)
from broker.webhooks.envelope import WebhookMessage, build_event_message, build_gap_message
from broker.webhooks.models import Delivery, WebhookState
from broker.webhooks.secrets import SecretError, SecretVault
from broker.webhooks.sender import GONE, DeliveryOutcome, Sender
from broker.webhooks.store import StoredWebhook, WebhookBatch, WebhookPosition, WebhookStore

log = logging.getLogger(__name__)

_POLL_MS = 500  # the longest wait of a webhook that was created or resumed
_BUSY_MS = 100
_PAGE = 200
_QUICK_SLOTS = 64  # for webhooks whose receivers are not known to be slow
_SLOW_SLOTS = 64  # for all others
_MOST_SERVED = 320  # at the same time, including those that have just proved to be slow
_SLOW_S = 1.0  # a delivery that takes longer is slow
_TURN_S = 10.0  # how long a webhook keeps its slot
_SHORT_TURN_S = 1.0  # how long while others wait for a slot
_CLAIM_MARGIN_S = 20.0  # how much longer than a delivery a claim lasts
_CANCEL_AGAIN_S = 0.5
_FAULT_S = 60.0  # how long this process leaves a webhook alone on which it failed

OPERATORS = "operator/"  # begins the names of holders that are no members
#: Returns the members of the federation, by name.
Members = Callable[[], Awaitable[Mapping[str, MemberRecord]]]
_Page = deque[tuple[str, dict[bytes, bytes]]]


@dataclass(frozen=True)
class RetryPolicy:
    """Decides when a failed delivery is attempted again, and how often it is attempted at most.

    ``first_s``, ``longest_s``: the shortest and the longest pause between attempts, in seconds.
    """

    first_s: float = 5.0
    longest_s: float = 21_600.0
    attempts: int = 10

    def wait_s(self, failed: int, asked_s: float | None = None) -> float:
        """Return the pause after ``failed`` attempts: four times as long each time, up to the longest.

        ``asked_s``: the pause that the receiver asked for, which is kept up to the same limit.
        """
        backoff = Backoff(self.first_s, self.longest_s, factor=4.0, jitter=(0.75, 1.25))
        return min(max(backoff.pause_s(failed), asked_s or 0.0), self.longest_s)


class MemberGoneError(Exception):
    """Raised when the member that a webhook belongs to has left the federation."""


async def scope_of(stored: StoredWebhook, members: Members) -> frozenset[str] | None:
    """Return the origins whose leases its holder may see, None for all. Raises MemberGoneError."""
    if stored.holder.startswith(OPERATORS):
        return None
    record = (await members()).get(stored.holder)
    if record is None:
        raise MemberGoneError("its member has left the federation")
    return frozenset((record.name, *record.clouds))


def delivery_of(message: WebhookMessage, outcome: DeliveryOutcome, attempt: int = 1) -> Delivery:
    """Return the entry of the log for an attempt to deliver a message."""
    return Delivery(
        message=message.id,
        type=message.type,
        why=message.why,
        attempt=attempt,
        at=datetime.now(UTC).isoformat(),
        delivered=outcome.delivered,
        status=outcome.status,
        error=outcome.error,
        duration_s=outcome.duration_s,
    )


class WebhookWorker:
    """Delivers the events of all webhooks on behalf of one process."""

    def __init__(
        self,
        store: WebhookStore,
        blocking: redis.asyncio.Redis,
        name: str,
        *,
        sender: Sender,
        vault: SecretVault,
        retries: RetryPolicy,
        members: Members,
    ):
        """Connect to nothing yet. ``blocking`` blocks while it reads. ``name``: of this process."""
        self._members = members
        self._store, self._blocking, self._name = store, blocking, name
        self._sender, self._vault, self._retries = sender, vault, retries
        self._ttl_ms = round(1000 * (sender.timeout_s + _CLAIM_MARGIN_S))
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._slow: set[str] = set()  # webhooks whose present or last delivery is slow
        self._is_crowded = False

    @property
    def _keys(self) -> RedisKeys:
        return self._store.keys

    async def run(self) -> None:
        """Deliver until the task is cancelled, through outages of Redis."""
        try:
            while True:
                await retry_through_outages(self._round, "webhooks")
        finally:
            await cancel_tasks(list(self._serving.values()), _CANCEL_AGAIN_S)

    async def _round(self) -> None:
        batch = await self._store.read_positions()
        due = [position for position in batch.positions if self._is_due(position, batch)]
        self._slow &= {position.id for position in batch.positions}
        chosen = self._choose([position.id for position in due])
        self._is_crowded = len(chosen) < len(due)
        for webhook in chosen:
            self._serving[webhook] = asyncio.create_task(self._serve(webhook), name=f"webhook-{webhook}")
        if not any(position.active for position in batch.positions):
            await asyncio.sleep(_POLL_MS / 1000)  # new events are for no webhook
            return
        waits = [position.next_at_ms - batch.now_ms for position in batch.positions if position.active]
        soonest = min((wait for wait in waits if wait > 0), default=_POLL_MS)
        block_ms = _BUSY_MS if due or self._serving else _POLL_MS
        after = batch.last or BEGINNING
        await read_after(self._blocking, self._keys.all_events, after, 1, min(block_ms, soonest))
        await asyncio.sleep(0.01)  # events come in bursts

    def _choose(self, due: list[str]) -> list[str]:
        """Return the webhooks that get a slot.

        Slow ones have slots of their own, and only these: however many they are, the others wait for a slot
        no longer than a delivery takes to prove slow.
        """
        chosen: list[str] = []
        serving = self._serving.keys()
        for slots, candidates, taken in (
            (_QUICK_SLOTS, [webhook for webhook in due if webhook not in self._slow], serving - self._slow),
            (_SLOW_SLOTS, [webhook for webhook in due if webhook in self._slow], serving & self._slow),
        ):
            free = min(slots - len(taken), _MOST_SERVED - len(serving) - len(chosen))
            chosen += random.sample(candidates, max(0, min(len(candidates), free)))
        return chosen

    def _is_due(self, webhook: WebhookPosition, batch: WebhookBatch) -> bool:
        """Return whether a webhook has events to deliver now."""
        return (
            webhook.active
            and webhook.id not in self._serving
            and webhook.next_at_ms <= batch.now_ms
            and batch.last is not None
            and parse_id(webhook.position) < parse_id(batch.last)
        )

    async def _serve(self, webhook: str) -> None:
        """Serve one webhook for one turn, then give up the claim on it."""
        token = f"{self._name}/{webhook}"
        try:
            if await self._take_turn(webhook, token):
                await self._store.release(webhook, token)
        except asyncio.CancelledError:
            await self._store.release(webhook, token)
            raise
        except (redis.RedisError, OSError) as error:
            log.info("webhook %s: %s; trying again", webhook, error)
        except Exception:
            log.exception("webhook %s failed here; another process may take it, or this one later", webhook)
            await asyncio.sleep(_FAULT_S)
        finally:
            del self._serving[webhook]

    async def _take_turn(self, webhook: str, token: str) -> bool:
        """Deliver until nothing is left, an attempt fails, or the turn ends. Return if the claim stands."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        page: _Page = deque()
        expected = ""  # the position that the page follows
        while True:
            stored = await self._store.hold(webhook, token, self._ttl_ms)
            if stored is None:
                return False
            if stored.state is not WebhookState.ACTIVE or stored.next_at_ms > stored.now_ms:
                return True
            if stored.position != expected:
                page.clear()
            try:
                scope = await scope_of(stored, self._members)
                secrets = [self._vault.open(sealed) for sealed in stored.usable_secrets]
            except (MemberGoneError, SecretError) as error:
                await self._pause(stored, token, str(error))
                return True
            position, message = await self._next_message(stored, page, scope)
            if message is None:
                await self._settle(stored, token, position)
                if position == stored.position or self._is_over(began_s):
                    return True
            elif not await self._deliver(stored, token, position, message, secrets) or self._is_over(began_s):
                return True
            expected = position

    def _is_over(self, began_s: float) -> bool:
        """Return whether a turn that began then is over."""
        turn_s = _SHORT_TURN_S if self._is_crowded else _TURN_S
        return asyncio.get_running_loop().time() - began_s > turn_s

    async def _pause(self, stored: StoredWebhook, token: str, reason: str) -> None:
        fields = {"state": WebhookState.PAUSED.value, "reason": reason}
        await self._store.settle(stored.id, token, fields=fields)

    async def _next_message(
        self, stored: StoredWebhook, page: _Page, scope: Collection[str] | None
    ) -> tuple[str, WebhookMessage | None]:
        """Return the next position and the message to deliver to reach it, None if there is none."""
        client = self._store.client
        if not page:
            try:
                page.extend(await read_all_after(client, self._keys.all_events, stored.position, _PAGE))
            except EventsLostError:
                resumes_after = await read_oldest_position(client, self._keys.all_events)
                return resumes_after, build_gap_message(stored.position, resumes_after)
        position = stored.position
        while page:
            position, fields = page.popleft()
            message = build_event_message(position, fields.get(b"e", b""), stored.spec, scope)
            if message is not None:
                return position, message
        return position, None

    async def _deliver(
        self, stored: StoredWebhook, token: str, position: str, message: WebhookMessage, secrets: list[str]
    ) -> bool:
        """Make one attempt. Return whether it was delivered and recorded."""
        outcome = await self._send(stored, message, secrets)
        failpoint(Failpoint.WEBHOOK_SENT)
        attempt = stored.attempts + 1
        delivery = delivery_of(message, outcome, attempt)
        if outcome.delivered:
            return await self._settle(stored, token, position, delivery)
        return await self._fail(stored, token, delivery, outcome)

    async def _send(
        self, stored: StoredWebhook, message: WebhookMessage, secrets: list[str]
    ) -> DeliveryOutcome:
        """Send a message; a webhook counts as slow from the moment it is, until a delivery is quick."""
        timer = asyncio.get_running_loop().call_later(_SLOW_S, self._slow.add, stored.id)
        try:
            outcome = await self._sender.send(stored.spec.url, message, secrets)
        finally:
            timer.cancel()
        if outcome.duration_s <= _SLOW_S:
            self._slow.discard(stored.id)
        return outcome

    async def _settle(
        self, stored: StoredWebhook, token: str, position: str, delivery: Delivery | None = None
    ) -> bool:
        if position == stored.position and delivery is None:
            return True
        fields = {"position": position, "attempts": "0", "next_at_ms": "0"}
        if delivery is not None:
            fields |= {"delivered": str(stored.delivered + 1), "last_delivered_at": delivery.at}
        return await self._store.settle(stored.id, token, fields=fields, delivery=delivery)

    async def _fail(
        self, stored: StoredWebhook, token: str, delivery: Delivery, outcome: DeliveryOutcome
    ) -> bool:
        fields = {
            "attempts": str(delivery.attempt),
            "failed": str(stored.failed + 1),
            "last_error": str(outcome.error),
        }
        wait_s: float | None = None
        if outcome.status == GONE:
            fields |= _given_up(stored, WebhookState.DISABLED, "its receiver answered 410 Gone")
        elif delivery.attempt >= self._retries.attempts:
            tries = f"{delivery.attempt} attempts to deliver {delivery.message} failed"
            fields |= _given_up(stored, WebhookState.PAUSED, f"{tries}, the last: {outcome.error}")
        else:
            wait_s = self._retries.wait_s(delivery.attempt, outcome.retry_after_s)
            next_at = datetime.now(UTC) + timedelta(seconds=wait_s)
            delivery = delivery.model_copy(update={"next_attempt_at": next_at.isoformat()})
        delay_ms = None if wait_s is None else max(1, round(1000 * wait_s))
        await self._store.settle(stored.id, token, fields=fields, delivery=delivery, delay_ms=delay_ms)
        return False


def _given_up(stored: StoredWebhook, state: WebhookState, reason: str) -> dict[str, str]:
    return {"state": state.value, "reason": reason, "given_up": str(stored.given_up + 1)}


async def cancel_tasks(tasks: Collection[asyncio.Task[Any]], again_s: float) -> None:
    """Cancel tasks until all have ended, however they end; tasks that take longer than ``again_s`` once more.

    Once is not enough: redis-py sends under ``asyncio.wait_for``, which in Python 3.11 may swallow a
    cancellation that comes as it completes.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=again_s)
    await asyncio.gather(*tasks, return_exceptions=True)
