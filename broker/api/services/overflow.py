"""Offers own on-demand requests that a cloud had to turn away to the federation as spot, in wall time.

All API processes share a consumer group that reads two streams: the offers of the owners, and the public
events, which show when the lease of an offer has ended. Each entry is handled by one process, and again by
another if that one dies. Every message to an owner names the attempt of the offer, so that a repeated one
changes nothing.

    offer n of an instance ──submit──► a lease: its owner hears "placed", later "evicted" or "completed"
                                       refused by all clouds: its owner hears "refused"
    stopped by its user    ──────────► the lease is cancelled, or the offer is closed before it is submitted
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Literal

import redis.asyncio
from pydantic import ValidationError

from broker.api.services.leases import LeaseService
from broker.contract import CloudId, EventKind, Id, Launch, Lease, Needs, Overflow, SpotRequest, read_message
from broker.contract.leases import OVERFLOW_PREFIX
from broker.contract.version import since
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
#: Evicted offers are submitted again within this time, each at a moment of its own, not all of a storm at
#: once.
RESUBMITTED_WITHIN_S = 2.0
PRINCIPAL = "overflow"
_OUTCOMES: dict[EventKind, Literal["evicted", "completed"]] = {
    EventKind.EVICTED: "evicted",
    EventKind.FAILED: "evicted",  # it ended early as well
    EventKind.COMPLETED: "completed",
    EventKind.CANCELLED: "completed",
}


class OverflowOffer(Needs):
    """One entry of the overflow stream: attempt ``attempt`` to place ``instance`` of ``cloud`` elsewhere.

    avoid: the cloud that evicted it last. stop: its user has stopped it. lease: the lease that it got, if
    any. launch: what it runs, of a real cloud; its secrets are sealed already.
    """

    cloud: CloudId
    instance: Id
    attempt: int
    cores: int = 1
    lifetime_s: float = 0.0
    sla: float | None = None
    avoid: CloudId | None = None
    stop: bool = False
    lease: Id | None = None
    launch: Launch | None = since(4)

    @property
    def request_id(self) -> str:
        """The id of the spot request. It names the cloud: two clouds may use the same id for an instance."""
        return f"{OVERFLOW_PREFIX}{self.cloud}/{self.instance}/{self.attempt}"


class OverflowService:
    """Submits offers and reports the ends of their leases, on behalf of one API process."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        name: str,
        *,
        submissions: SubmissionService,
        leases: LeaseService,
        records: RequestStore,
        membership: MembershipView,
        commands: OwnerCommands,
        signing: MessageSigner = UNSIGNED,
    ):
        """Connect to nothing yet.

        ``client`` blocks while it reads. ``name``: of this consumer. ``signing`` verifies the offers of
        owners.
        """
        # Offers are read from the first on, ends from now on: without offers there were no leases to end.
        streams = {keys.overflow: GroupStream("0", deletes=True), keys.all_events: GroupStream("$")}
        self._group, self._keys = ConsumerGroup(client, GROUP, name, streams), keys
        self._submissions, self._leases, self._records = submissions, leases, records
        self._membership, self._commands, self._signing = membership, commands, signing

    async def run(self) -> None:
        """Handle both streams until the task is cancelled, through outages of Redis.

        It is idle while no member has overflow on.
        """
        await EventConsumer("overflow", self._group, self._handle, prepare=self._has_overflow).run()

    async def _has_overflow(self) -> bool:
        members = await self._membership.members()
        return any(member.info.overflow and member.info.time == "wall" for member in members)

    async def _handle(self, page: Page) -> list[str]:
        """Handle a page of either stream. Return the ids of offers that need another attempt."""
        if page.stream == self._keys.all_events:
            await self._report_ends([fields.get(b"e", b"") for _, fields in page.entries])
            return []
        finished = await asyncio.gather(*(self._handle_offer(*entry) for entry in page.entries))
        return [entry for (entry, _), done in zip(page.entries, finished, strict=True) if not done]

    # -- offers -------------------------------------------------------------------------------------------

    async def _handle_offer(self, entry: str, fields: Mapping[bytes, bytes]) -> bool:
        """Handle one offer. Return False if it needs another attempt."""
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
                launch=offer.launch,
                **offer.dump_needs(),
            )  # fmt: skip
        except SignatureError as error:
            log.warning(
                "an entry of the overflow stream has no valid signature and is passed over: %s", error
            )
            return True
        except ValidationError:
            log.warning("an entry of the overflow stream cannot be read and is passed over")
            return True
        if request is None:
            return await self._stop(offer)
        return await self._submit(offer, request)

    async def _targets(self, offer: OverflowOffer) -> tuple[str, ...] | None:
        """Return all clouds but the one that evicted the instance last; None (any) if there is no other."""
        if offer.avoid is None:
            return None
        others = [
            member.info.id
            for member in await self._membership.members()
            if member.info.id not in (offer.cloud, offer.avoid) and member.reachable
        ]
        return tuple(others) or None

    async def _submit(self, offer: OverflowOffer, request: SpotRequest) -> bool:
        await asyncio.sleep(jitter_s(offer))
        if len(offer.request_id) > LONGEST_REQUEST_ID:
            await self._report(offer.cloud, _refused(offer))
            return True
        (result,) = await self._submissions.submit([request], PRINCIPAL, is_sealed=True)
        if isinstance(result, InFlightError):
            return False
        if isinstance(result, RequestAnswer) and result.lease is not None:
            report = Overflow(
                id=f"{offer.request_id}:placed",
                instance=offer.instance,
                outcome="placed",
                attempt=offer.attempt,
                lease=result.lease.id,
                cloud=result.lease.cloud,
            )
        else:
            report = _refused(offer)
        await self._report(offer.cloud, report)
        return True

    async def _stop(self, offer: OverflowOffer) -> bool:
        """Cancel the lease of an offer, or keep the offer from getting one. Return False to try again."""
        if offer.lease is not None:
            await self._leases.cancel(offer.lease, PRINCIPAL)
            return True
        # A record with another fingerprint, closed at once, takes the id: the offer can no longer be
        # submitted.
        (accepted,) = await self._records.accept([Accept(offer.request_id, "stopped", "{}", CLAIM_AFTER_MS)])
        if accepted.outcome is AcceptOutcome.NEW:
            await self._records.close(
                {offer.request_id: RequestAnswer(lease=None, refusals=[]).model_dump_json()}
            )
            return True
        if accepted.outcome is AcceptOutcome.GRANTED and accepted.answer is not None:
            await self._leases.cancel(read_message(Lease, accepted.answer).id, PRINCIPAL)
            return True
        record = await self._records.get(offer.request_id)
        if record is None or record.status.answer is None:
            return False  # it is being submitted
        settled = read_message(RequestAnswer, record.status.answer)
        if settled.lease is not None:
            await self._leases.cancel(settled.lease.id, PRINCIPAL)
        return True

    # -- ends ---------------------------------------------------------------------------------------------

    async def _report_ends(self, texts: Sequence[bytes]) -> None:
        """Tell owners which leases of their offers have ended, by the public events ``texts``."""
        batches: dict[str, list[Overflow]] = {}
        for text in texts:
            if b'"request":"' + OVERFLOW_PREFIX.encode() not in text:
                continue  # nearly all events; not worth parsing
            event = try_parse_event(text)
            if event is None:
                continue
            outcome, lease = _OUTCOMES.get(event.kind), event.lease
            if (
                outcome is None
                or lease is None
                or not lease.request.startswith(f"{OVERFLOW_PREFIX}{lease.origin}/")
            ):
                continue
            instance, _, attempt = lease.request.removeprefix(f"{OVERFLOW_PREFIX}{lease.origin}/").rpartition(
                "/"
            )
            if not attempt.isdecimal():
                continue  # a request that a user named like an offer
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
        known = {member.info.id for member in await self._membership.members()}
        batches = {cloud: reports for cloud, reports in batches.items() if cloud in known}
        if batches:
            await self._commands.send(batches)

    async def _report(self, cloud: str, report: Overflow) -> None:
        await self._commands.send({cloud: [report]})


def jitter_s(offer: OverflowOffer) -> float:
    """Return how long an offer waits before it is submitted, in seconds; first attempts do not wait.

    The time follows from the id of the request, so that runs of the simulation are reproducible.
    """
    if offer.attempt <= 1:
        return 0.0
    number = int.from_bytes(sha256(offer.request_id.encode()).digest()[:8], "big")
    return RESUBMITTED_WITHIN_S * number / 2**64


def _refused(offer: OverflowOffer) -> Overflow:
    return Overflow(
        id=f"{offer.request_id}:refused", instance=offer.instance, outcome="refused", attempt=offer.attempt
    )
