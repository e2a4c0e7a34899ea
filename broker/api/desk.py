"""Everything the API does beside submitting: quotes, leases, and what is asked of one cloud."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import redis.asyncio
from pydantic import ValidationError

from broker.adverts import Adverts
from broker.api.models import Cancellation, Quotes, Table
from broker.contract import (
    Answer,
    Cancel,
    Done,
    Event,
    Finish,
    Lease,
    LeaseGranted,
    LeaseState,
    OnDemandRequest,
    QuoteView,
    RefusalView,
    SpotRequest,
    StartOnDemand,
    StopOnDemand,
)
from broker.keys import Keys
from broker.routing import route
from broker.settings import Settings
from broker.submission.exchange import Exchange
from broker.submission.wishes import SilentError, admissible, ask_command
from broker.views import quote_of, refusal_view
from cloudsim.ranking import tightest_fit
from cloudsim.requests import Reason

OPEN_STATES = frozenset({LeaseState.RESERVED, LeaseState.RUNNING})
_PAGE = 500
_ENDS_LOOKED_THROUGH = 20_000


class Desk:
    """Answers for one process."""

    def __init__(
        self,
        settings: Settings,
        client: redis.asyncio.Redis,
        keys: Keys,
        adverts: Adverts,
        exchange: Exchange,
    ):
        self._settings, self._client, self._keys = settings, client, keys
        self._adverts, self._exchange = adverts, exchange

    # -- quotes -------------------------------------------------------------------------------------------

    async def quotes(self, request: SpotRequest) -> Quotes:
        """What each cloud would promise, or why not, in the order in which they would be asked.

        Raises SubmitError or ValueError for what this federation cannot be asked, SilentError in trace time.
        """
        members = await self._adverts.members()
        targets, trace_time = admissible(request, members)
        request = request.model_copy(update={"id": f"quote-{uuid4().hex}"})
        refusals: dict[str, RefusalView] = {}
        asked = [member.info.id for member in targets]
        deadline_s = self._settings.trace_reply_deadline_s
        if not trace_time:
            found = route(request, members, most=len(members))
            asked = list(found.candidates)
            refusals = {refusal.cloud: refusal_view(refusal) for refusal in found.passed_over}
            deadline_s = self._settings.reply_deadline_s
        commands = {
            cloud: [ask_command(f"{request.id}:{cloud}", request, self._exchange.reply_to)] for cloud in asked
        }
        heard = await self._exchange.ask(commands, deadline_s)
        quotes: dict[str, QuoteView] = {}
        for cloud in asked:
            answer = heard.get(f"{request.id}:{cloud}")
            if isinstance(answer, QuoteView):
                quotes[cloud] = answer
            elif isinstance(answer, RefusalView):
                refusals[cloud] = answer
            elif trace_time:
                raise SilentError([cloud])
            else:
                detail = "did not answer in time"
                refusals[cloud] = RefusalView(cloud=cloud, reason=Reason.UNREACHABLE, detail=detail)
        order = {member.info.id: member.info.order for member in members}
        ranked = tightest_fit((order[cloud], quote_of(quote)) for cloud, quote in quotes.items())
        by_order = sorted(refusals.values(), key=lambda refusal: order[refusal.cloud])
        return Quotes(quotes=[quotes[quote.cloud] for quote in ranked], refusals=by_order)

    # -- leases -------------------------------------------------------------------------------------------

    async def lease(self, lease_id: str) -> Lease | None:
        """A spot lease as it is now."""
        found = await self._client.get(self._keys.lease(lease_id))
        return None if found is None else Lease.model_validate_json(found)

    async def leases(
        self, state: LeaseState | None, cloud: str | None, origin: str | None, limit: int
    ) -> tuple[list[Lease], bool]:
        """Leases that have not ended, by cloud and id, then the ended, latest first; and if there are more.

        Of ended ones the last 20,000 ends of the federation are looked through.
        """
        found: list[Lease] = []
        for source, suits in (
            (self._open_leases(cloud), state is None or state in OPEN_STATES),
            (self._ended_leases(), state is None or state not in OPEN_STATES),
        ):
            if not suits:
                continue
            async for lease in source:
                if state not in (None, lease.state) or cloud not in (None, lease.cloud):
                    continue
                if origin not in (None, lease.origin):
                    continue
                if len(found) == limit:
                    return found, True
                found.append(lease)
        return found, False

    async def _open_leases(self, cloud: str | None) -> AsyncIterator[Lease]:
        for member in await self._adverts.members():
            if cloud not in (None, member.info.id):
                continue
            running: Any = self._client.smembers(self._keys.running(member.info.id))
            ids = sorted(lease.decode() for lease in await running)
            for start in range(0, len(ids), _PAGE):
                names = [self._keys.lease(lease) for lease in ids[start : start + _PAGE]]
                for text in await self._client.mget(names):
                    lease = None if text is None else Lease.model_validate_json(text)
                    if lease is not None and lease.state in OPEN_STATES:
                        yield lease

    async def _ended_leases(self) -> AsyncIterator[Lease]:
        newest, looked_through = "+", 0
        while looked_through < _ENDS_LOOKED_THROUGH:
            page: Any = await self._client.xrevrange(self._keys.all_events, newest, "-", _PAGE)
            for entry, fields in page:
                newest = f"({entry.decode()}"
                try:
                    lease = Event.model_validate_json(fields[b"e"]).lease
                except ValidationError:  # of another version
                    continue
                if lease is not None and lease.state not in OPEN_STATES:
                    yield lease
            looked_through += _PAGE
            if len(page) < _PAGE:
                return

    async def cancel(self, lease_id: str, principal: str) -> Cancellation | None:
        """Ends a lease for its holder; None: there is none. Kept in the inbox of an owner that is away."""
        lease = await self.lease(lease_id)
        if lease is None:
            return None
        if lease.state not in OPEN_STATES:
            return Cancellation(done=True, lease=lease)
        command = Cancel(
            id=f"{lease_id}:cancel", reply_to=self._exchange.reply_to, lease=lease_id, by=principal
        )
        member = await self._adverts.member(lease.cloud)
        # An owner that is known to be away is not waited for.
        deadline_s = self._settings.reply_deadline_s if member and member.reachable else 0.0
        answer = (await self._exchange.ask({lease.cloud: [command]}, deadline_s)).get(command.id)
        match answer:
            case LeaseGranted(lease=ended):
                return Cancellation(done=True, lease=ended)
            case None:
                return Cancellation(done=False, lease=lease)
            case _:  # the owner has forgotten its end
                return Cancellation(done=True, lease=await self.lease(lease_id) or lease)

    # -- one cloud ----------------------------------------------------------------------------------------

    async def table(self, cloud: str) -> Table | None:
        """The cloud's table as far as it shows it."""
        found = await self._client.get(self._keys.table(cloud))
        return None if found is None else Table.model_validate_json(found)

    async def start_on_demand(self, cloud: str, request: OnDemandRequest) -> Answer | None:
        """A request of the cloud's own users; the owner's answer, None: silence, the command is kept."""
        assert request.id is not None
        command = StartOnDemand(
            id=f"{request.id}:start",
            reply_to=self._exchange.reply_to,
            instance=request.id,
            cores=request.cores,
            lifetime_s=request.lifetime_s,
        )
        heard = await self._exchange.ask({cloud: [command]}, self._settings.reply_deadline_s)
        return heard.get(command.id)

    async def stop_on_demand(self, cloud: str, instance: str) -> Answer | None:
        """A user of the cloud stops an instance; the owner's answer, None: silence, the command is kept."""
        command = StopOnDemand(id=f"{instance}:stop", reply_to=self._exchange.reply_to, instance=instance)
        heard = await self._exchange.ask({cloud: [command]}, self._settings.reply_deadline_s)
        return heard.get(command.id)

    async def finish(self, cloud: str) -> Done:
        """Trace time: lets everything happen that is still to come. Raises SilentError."""
        command = Finish(id=f"finish-{uuid4().hex}", reply_to=self._exchange.reply_to)
        heard = await self._exchange.ask({cloud: [command]}, self._settings.trace_reply_deadline_s)
        answer = heard.get(command.id)
        if not isinstance(answer, Done):
            raise SilentError([cloud])
        return answer
