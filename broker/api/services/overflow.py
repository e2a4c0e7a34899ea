"""Own on-demand requests that a cloud had to turn away, offered to the federation as spot. Wall time.

Two streams are read by a consumer group that all API processes share, so that each entry is handled by one
of them, and again by another if that one dies: the offers of the owners, and the public events, which tell
when a lease that an offer got has ended. Everything told to an owner names the offer's attempt: told twice,
it changes nothing.

    offer n of an instance ──submit──► lease  → its owner is told "placed";  its end → "evicted", "completed"
                                       nobody → "refused"
    stopped by its user    ──────────► the lease is cancelled, or the offer closed before it is submitted
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Literal

import redis.asyncio
from pydantic import ValidationError

from broker.api.services.clouds import CloudService
from broker.contract import CloudId, EventKind, Id, Needs, Overflow, SpotRequest, read_message
from broker.requests.errors import InFlightError
from broker.requests.members import MembershipView
from broker.requests.models import Accept, AcceptOutcome, RequestAnswer
from broker.requests.owner_commands import OwnerCommands
from broker.requests.store import RequestStore
from broker.requests.submit import SubmissionService
from broker.requests.validation import LONGEST_REQUEST_ID
from broker.signing.parties import cloud_party
from broker.signing.signer import UNSIGNED, MessageSigner, SignatureError, written_ms
from broker.storage.keys import RedisKeys
from broker.storage.streams import (
    CLAIM_AFTER_MS,
    ConsumerGroup,
    EventConsumer,
    GroupStream,
    Page,
    try_parse_event,
)

log = logging.getLogger(__name__)

GROUP = "overflow"
#: What was evicted is submitted again at some moment of this time: not all of a storm at once.
RESUBMITTED_WITHIN_S = 2.0
PRINCIPAL = "overflow"
_PREFIX = "overflow/"
_OUTCOMES: dict[EventKind, Literal["evicted", "completed"]] = {
    EventKind.EVICTED: "evicted",
    EventKind.FAILED: "evicted",  # gone before its time as well
    EventKind.COMPLETED: "completed",
    EventKind.CANCELLED: "completed",
}


class OverflowOffer(Needs):
    """An entry of the overflow stream. ``stop``: its user stopped it; ``lease`` is what it got, if any."""

    cloud: CloudId
    instance: Id
    attempt: int
    cores: int = 1
    lifetime_s: float = 0.0
    sla: float | None = None
    avoid: CloudId | None = None
    stop: bool = False
    lease: Id | None = None

    @property
    def request_id(self) -> str:
        """Instances have their names from their cloud: two clouds may use the same."""
        return f"{_PREFIX}{self.cloud}/{self.instance}/{self.attempt}"


class OverflowService:
    """Submits offers and reports the ends of their leases, on behalf of one API process."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        name: str,
        *,
        service: SubmissionService,
        desk: CloudService,
        records: RequestStore,
        adverts: MembershipView,
        exchange: OwnerCommands,
        signing: MessageSigner = UNSIGNED,
    ):
        """Open nothing yet.

        ``client`` is used here alone, because it blocks while it reads. ``signing`` verifies offers.
        """
        # Offers from the first on; ends from now on, as before there were none of ours.
        streams = {keys.overflow: GroupStream("0", deletes=True), keys.all_events: GroupStream("$")}
        self._group, self._keys = ConsumerGroup(client, GROUP, name, streams), keys
        self._service, self._desk, self._records = service, desk, records
        self._adverts, self._exchange, self._signing = adverts, exchange, signing

    async def run(self) -> None:
        """Handle both streams until the task is cancelled, through outages of Redis.

        It is idle while no member has overflow on.
        """
        await EventConsumer("overflow", self._group, self._handle, prepare=self._has_overflow).run()

    async def _has_overflow(self) -> bool:
        members = await self._adverts.members()
        return any(member.info.overflow and member.info.time == "wall" for member in members)

    async def _handle(self, page: Page) -> list[str]:
        """Handle a page of either stream. Return the ids of offers that need another attempt."""
        if page.stream == self._keys.all_events:
            await self._ends([fields.get(b"e", b"") for _, fields in page.entries])
            return []
        finished = await asyncio.gather(*(self._offer(*entry) for entry in page.entries))
        return [entry for (entry, _), done in zip(page.entries, finished, strict=True) if not done]

    # -- offers -------------------------------------------------------------------------------------------

    async def _offer(self, entry: str, fields: Mapping[bytes, bytes]) -> bool:
        """False: it is to be taken up again."""
        text = fields.get(b"o", b"")
        try:
            offer = read_message(OverflowOffer, text)
            self._signing.verify(
                fields.get(b"s"),
                text,
                self._keys.overflow,
                {cloud_party(offer.cloud)},
                written_ms(entry),
            )
            request = None if offer.stop else SpotRequest(
                id=offer.request_id,
                origin=offer.cloud,
                cores=offer.cores,
                lifetime_s=offer.lifetime_s,
                sla=offer.sla,
                targets=await self._targets(offer),
                **offer.dump_needs(),
            )  # fmt: skip
        except SignatureError as error:
            log.warning("an entry of the overflow stream is not believed, it is passed over: %s", error)
            return True
        except ValidationError:
            log.warning("an entry of the overflow stream cannot be read, it is passed over")
            return True
        if request is None:
            return await self._stop(offer)
        return await self._submit(offer, request)

    async def _targets(self, offer: OverflowOffer) -> tuple[str, ...] | None:
        """All but the cloud that has just evicted it, unless there is no other."""
        if offer.avoid is None:
            return None
        others = [
            member.info.id
            for member in await self._adverts.members()
            if member.info.id not in (offer.cloud, offer.avoid) and member.reachable
        ]
        return tuple(others) or None

    async def _submit(self, offer: OverflowOffer, request: SpotRequest) -> bool:
        await asyncio.sleep(jitter_s(offer))
        if len(offer.request_id) > LONGEST_REQUEST_ID:
            await self._tell(offer.cloud, _refused(offer))
            return True
        (result,) = await self._service.submit([request], PRINCIPAL)
        if isinstance(result, InFlightError):
            return False
        if isinstance(result, RequestAnswer) and result.lease is not None:
            told = Overflow(
                id=f"{offer.request_id}:placed",
                instance=offer.instance,
                outcome="placed",
                attempt=offer.attempt,
                lease=result.lease.id,
                cloud=result.lease.cloud,
            )
        else:
            told = _refused(offer)
        await self._tell(offer.cloud, told)
        return True

    async def _stop(self, offer: OverflowOffer) -> bool:
        """Cancels what the offer got, or sees to it that it gets nothing."""
        if offer.lease is not None:
            await self._desk.cancel(offer.lease, PRINCIPAL)
            return True
        # A record of another fingerprint, closed at once: who submits the offer later finds its id taken.
        (accepted,) = await self._records.accept([Accept(offer.request_id, "stopped", "{}", CLAIM_AFTER_MS)])
        if accepted.outcome is AcceptOutcome.NEW:
            await self._records.close(
                {offer.request_id: RequestAnswer(lease=None, refusals=[]).model_dump_json()}
            )
            return True
        record = await self._records.get(offer.request_id)
        if record is None or record.status.answer is None:
            return False  # it is being submitted: look again
        settled = read_message(RequestAnswer, record.status.answer)
        if settled.lease is not None:
            await self._desk.cancel(settled.lease.id, PRINCIPAL)
        return True

    # -- ends ---------------------------------------------------------------------------------------------

    async def _ends(self, texts: Sequence[bytes]) -> None:
        batches: dict[str, list[Overflow]] = {}
        for text in texts:
            if b'"request":"' + _PREFIX.encode() not in text:
                continue  # nearly all of them: not worth reading
            event = try_parse_event(text)
            if event is None:
                continue
            outcome, lease = _OUTCOMES.get(event.kind), event.lease
            if outcome is None or lease is None or not lease.request.startswith(f"{_PREFIX}{lease.origin}/"):
                continue
            instance, _, attempt = lease.request.removeprefix(f"{_PREFIX}{lease.origin}/").rpartition("/")
            if not attempt.isdecimal():
                continue  # somebody's own request with a name like ours
            batches.setdefault(lease.origin, []).append(
                Overflow(
                    id=f"{lease.request}:{outcome}",
                    instance=instance,
                    outcome=outcome,
                    attempt=int(attempt),
                    lease=lease.id,
                    cloud=lease.cloud,
                )
            )
        known = {member.info.id for member in await self._adverts.members()}
        batches = {cloud: told for cloud, told in batches.items() if cloud in known}
        if batches:
            await self._exchange.send(batches)

    async def _tell(self, cloud: str, told: Overflow) -> None:
        await self._exchange.send({cloud: [told]})


def jitter_s(offer: OverflowOffer) -> float:
    """How long an offer waits before it is submitted: the first one of an instance does not.

    From its name, so that a run of the simulation repeats.
    """
    if offer.attempt <= 1:
        return 0.0
    drawn = int.from_bytes(sha256(offer.request_id.encode()).digest()[:8], "big")
    return RESUBMITTED_WITHIN_S * drawn / 2**64


def _refused(offer: OverflowOffer) -> Overflow:
    return Overflow(
        id=f"{offer.request_id}:refused", instance=offer.instance, outcome="refused", attempt=offer.attempt
    )
