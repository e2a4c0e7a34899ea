"""Delivers events: each webhook in order, each at least once, no webhook waiting for another.

All API processes look at all webhooks; who finds one with events to deliver claims it for a while. The
position in the merged stream moves on with the answer of the receiver, so whoever takes over goes on there;
what was delivered and not noted is delivered again, under the same webhook-id.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import redis
import redis.asyncio

from broker.api.task_end import end
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
from broker.webhooks.envelope import Sending, of_event, of_gap
from broker.webhooks.models import Delivery, WebhookState
from broker.webhooks.secrets import SecretError, SecretVault
from broker.webhooks.sender import GONE, DeliveryOutcome, Sender
from broker.webhooks.store import StoredWebhook, WebhookBatch, WebhookPosition, WebhookStore

log = logging.getLogger(__name__)

_POLL_MS = 500  # a webhook that was made or resumed waits so long at most
_BUSY_MS = 100
_PAGE = 200
_SLOTS = 64  # for webhooks whose receivers are quick, as far as is known
_SLOW_SLOTS = 64  # for the others
_MOST = 320  # at a time, with those that have just proved to be slow
_SLOW_S = 1.0  # a delivery that takes longer
_TURN_S = 10.0  # then the others may, who waited for a slot
_SHORT_TURN_S = 1.0  # the same while somebody waits
_MARGIN_S = 20.0  # a claim outlasts a delivery by this
_END_AGAIN_S = 0.5
_FAULT_S = 60.0  # this process leaves a webhook alone with which it has a fault

OPERATORS = "operator/"  # so begin the names of holders that are no members
#: The members of the federation, by name.
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
    """The member that a webhook belongs to has left the federation."""


async def scope_of(stored: StoredWebhook, members: Members) -> frozenset[str] | None:
    """The origins whose leases a webhook may tell of, as they are now; None: all. Raises MemberGoneError."""
    if stored.holder.startswith(OPERATORS):
        return None
    record = (await members()).get(stored.holder)
    if record is None:
        raise MemberGoneError("its member has left the federation")
    return frozenset((record.name, *record.clouds))


def delivery_of(sending: Sending, outcome: DeliveryOutcome, attempt: int = 1) -> Delivery:
    """What is logged."""
    return Delivery(
        message=sending.id,
        type=sending.type,
        why=sending.why,
        attempt=attempt,
        at=datetime.now(UTC).isoformat(),
        delivered=outcome.delivered,
        status=outcome.status,
        error=outcome.error,
        duration_s=outcome.duration_s,
    )


class WebhookWorker:
    """Delivers for one process."""

    def __init__(
        self,
        storage: WebhookStore,
        following: redis.asyncio.Redis,
        name: str,
        *,
        sender: Sender,
        vault: SecretVault,
        retries: RetryPolicy,
        members: Members,
    ):
        """``following`` blocks while it reads: it is used by nobody else."""
        self._members = members
        self._storage, self._following, self._name = storage, following, name
        self._sender, self._vault, self._retries = sender, vault, retries
        self._ttl_ms = round(1000 * (sender.timeout_s + _MARGIN_S))
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._slow: set[str] = set()  # webhooks whose delivery takes long, or whose last one did
        self._crowded = False

    @property
    def _keys(self) -> RedisKeys:
        return self._storage.keys

    async def run(self) -> None:
        """Deliver until the task is cancelled, through outages of Redis."""
        try:
            while True:
                await retry_through_outages(self._round, "webhooks")
        finally:
            await end(list(self._serving.values()), _END_AGAIN_S)

    async def _round(self) -> None:
        survey = await self._storage.survey()
        due = [place for place in survey.places if self._has_work(place, survey)]
        self._slow &= {place.id for place in survey.places}
        chosen = self._choose([place.id for place in due])
        self._crowded = len(chosen) < len(due)
        for webhook in chosen:
            self._serving[webhook] = asyncio.create_task(self._serve(webhook), name=f"webhook-{webhook}")
        if not any(place.active for place in survey.places):
            await asyncio.sleep(_POLL_MS / 1000)  # nobody waits for the events that come meanwhile
            return
        waits = [place.next_at_ms - survey.now_ms for place in survey.places if place.active]
        soonest = min((wait for wait in waits if wait > 0), default=_POLL_MS)
        block_ms = _BUSY_MS if due or self._serving else _POLL_MS
        after = survey.last or BEGINNING
        await read_after(self._following, self._keys.all_events, after, 1, min(block_ms, soonest))
        await asyncio.sleep(0.01)  # events come in bursts

    def _choose(self, due: list[str]) -> list[str]:
        """Those that get a slot. Slow ones have slots of their own, which they leave to nobody else: however
        many they are, the others wait for a slot no longer than one takes to prove slow."""
        chosen: list[str] = []
        serving = self._serving.keys()
        for slots, those, at_it in (
            (_SLOTS, [one for one in due if one not in self._slow], len(serving - self._slow)),
            (_SLOW_SLOTS, [one for one in due if one in self._slow], len(serving & self._slow)),
        ):
            free = min(slots - at_it, _MOST - len(serving) - len(chosen))
            chosen += random.sample(those, max(0, min(len(those), free)))
        return chosen

    def _has_work(self, place: WebhookPosition, survey: WebhookBatch) -> bool:
        return (
            place.active
            and place.id not in self._serving
            and place.next_at_ms <= survey.now_ms
            and survey.last is not None
            and parse_id(place.position) < parse_id(survey.last)
        )

    async def _serve(self, webhook: str) -> None:
        """One turn of one webhook."""
        token = f"{self._name}/{webhook}"
        try:
            held = await self._turn(webhook, token)
            if held:
                await self._storage.release(webhook, token)
        except asyncio.CancelledError:
            await self._storage.release(webhook, token)
            raise
        except (redis.RedisError, OSError) as error:
            log.info("webhook %s: %s; it is taken up again", webhook, error)
        except Exception:
            log.exception("webhook %s failed here; another process may take it, or this one later", webhook)
            await asyncio.sleep(_FAULT_S)
        finally:
            del self._serving[webhook]

    async def _turn(self, webhook: str, token: str) -> bool:
        """Delivers until there is no more, something fails, or the turn is over. False: others have it."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        page: _Page = deque()
        expected = ""  # the position that the page goes on from
        while True:
            stored = await self._storage.hold(webhook, token, self._ttl_ms)
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
            position, sending = await self._next(stored, page, scope)
            if sending is None:
                await self._settle(stored, token, position)
                if position == stored.position or self._is_over(began_s):
                    return True
            elif not await self._deliver(stored, token, position, sending, secrets) or self._is_over(began_s):
                return True
            expected = position

    def _is_over(self, began_s: float) -> bool:
        """Whether the others' turn has come."""
        turn_s = _SHORT_TURN_S if self._crowded else _TURN_S
        return asyncio.get_running_loop().time() - began_s > turn_s

    async def _pause(self, stored: StoredWebhook, token: str, reason: str) -> None:
        fields = {"state": WebhookState.PAUSED.value, "reason": reason}
        await self._storage.settle(stored.id, token, fields=fields)

    async def _next(
        self, stored: StoredWebhook, page: _Page, scope: Collection[str] | None
    ) -> tuple[str, Sending | None]:
        """What is to be delivered next, and the position once it is. None: nothing up to that position."""
        client = self._storage.client
        if not page:
            try:
                page.extend(await read_all_after(client, self._keys.all_events, stored.position, _PAGE))
            except EventsLostError:
                goes_on = await read_oldest_position(client, self._keys.all_events)
                return goes_on, of_gap(stored.position, goes_on)
        position = stored.position
        while page:
            position, fields = page.popleft()
            sending = of_event(position, fields.get(b"e", b""), stored.wish, scope)
            if sending is not None:
                return position, sending
        return position, None

    async def _deliver(
        self, stored: StoredWebhook, token: str, position: str, sending: Sending, secrets: list[str]
    ) -> bool:
        """One attempt. True: delivered and noted, go on."""
        outcome = await self._send(stored, sending, secrets)
        failpoint(Failpoint.WEBHOOK_SENT)
        attempt = stored.attempts + 1
        delivery = delivery_of(sending, outcome, attempt)
        if outcome.delivered:
            return await self._settle(stored, token, position, delivery)
        return await self._fail(stored, token, delivery, outcome)

    async def _send(self, stored: StoredWebhook, sending: Sending, secrets: list[str]) -> DeliveryOutcome:
        """It proves to be slow while it is, and quick when it was."""
        timer = asyncio.get_running_loop().call_later(_SLOW_S, self._slow.add, stored.id)
        try:
            outcome = await self._sender.send(stored.wish.url, sending, secrets)
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
        return await self._storage.settle(stored.id, token, fields=fields, delivery=delivery)

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
        await self._storage.settle(stored.id, token, fields=fields, delivery=delivery, delay_ms=delay_ms)
        return False


def _given_up(stored: StoredWebhook, state: WebhookState, reason: str) -> dict[str, str]:
    return {"state": state.value, "reason": reason, "given_up": str(stored.given_up + 1)}
