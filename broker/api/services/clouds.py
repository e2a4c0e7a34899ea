"""Everything the API does beside submitting: quotes, leases, and what is asked of one cloud.

Whatever is asked of one owner raises SetAsideError where that breaks over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

import redis.asyncio

from broker.api.schemas.clouds import DrainRequest, Table
from broker.api.schemas.leases import Cancellation
from broker.api.schemas.on_demand import OnDemandOffer
from broker.api.schemas.requests import Quotes
from broker.api.services.on_demand_offers import on_demand_offers
from broker.contract import (
    Acknowledge,
    Answer,
    Ask,
    Cancel,
    Command,
    Done,
    Drain,
    Extend,
    ExtensionRequest,
    Finish,
    Lease,
    LeaseGranted,
    OnDemandRequest,
    QuoteRequest,
    QuoteView,
    RefusalView,
    Reopen,
    Show,
    SpotRequest,
    StartAll,
    StartOnDemand,
    StopOnDemand,
    read_message,
)
from broker.contract.convert import to_quote, to_refusal_view
from broker.contract.leases import parse_attempt_id
from broker.leases.pages import CursorError, LeaseFilter, LeasePages
from broker.leases.store import LeaseStore, record_retention_s
from broker.requests.errors import SetAsideError, SilentError, UnsuitableError
from broker.requests.members import MembershipView
from broker.requests.open_request import make_ask
from broker.requests.owner_commands import OwnerCommands
from broker.requests.quota import BROKER, QuotaUse
from broker.requests.routing import Member, route
from broker.requests.validation import check_request
from broker.settings import Settings
from broker.storage.keys import RedisKeys
from cloudsim.federation.ranking import rank_quotes
from cloudsim.model.refusals import RefusalReason

#: Whoever is passed over for another reason is asked what would be accepted instead.
_NOT_ASKED = frozenset({RefusalReason.UNREACHABLE, RefusalReason.NOT_A_TARGET})


@dataclass(frozen=True)
class _Question:
    """One size, whom it is put to, and what is known of the others and of those who stay silent."""

    request: SpotRequest
    clouds: list[str]
    passed_over: dict[str, RefusalView] = field(default_factory=dict)
    trace_time: bool = False

    def command(self, cloud: str) -> str:
        return f"{self.request.id}:{cloud}"

    def answers(self, heard: Mapping[str, Answer]) -> dict[str, QuoteView | RefusalView]:
        """By cloud. Raises SilentError in trace time."""
        found: dict[str, QuoteView | RefusalView] = dict(self.passed_over)
        for cloud in self.clouds:
            answer = heard.get(self.command(cloud))
            if isinstance(answer, QuoteView | RefusalView):
                found[cloud] = answer
            elif self.trace_time:
                raise SilentError([cloud])
            elif cloud not in found:
                detail = "did not answer in time"
                found[cloud] = RefusalView(
                    cloud=cloud, reason=RefusalReason.UNREACHABLE, cores=self.request.cores, detail=detail
                )
        return found


def _question(
    request: SpotRequest, members: Sequence[Member], trace_targets: Sequence[Member] | None
) -> _Question:
    """``trace_targets``: all of them are asked in trace time; None: wall time."""
    if trace_targets is not None:
        return _Question(request, [member.info.id for member in trace_targets], trace_time=True)
    found = route(request, members, most=len(members))
    at_s = {member.info.id: member.advert.at_s for member in members if member.advert}
    passed_over = {
        refusal.cloud: to_refusal_view(refusal, cores=request.cores, cloud_time_s=at_s.get(refusal.cloud))
        for refusal in found.passed_over
    }
    # An advert tells whom to pass over; what would be accepted instead only the owner knows.
    worth_asking = [cloud for cloud, one in passed_over.items() if one.reason not in _NOT_ASKED]
    return _Question(request, [*found.candidates, *worth_asking], passed_over)


def _instead(
    wish: QuoteRequest, quotes: Sequence[QuoteView], members: Sequence[Member]
) -> list[OnDemandOffer]:
    promised = {quote.cores for quote in quotes}
    refused = [request for request in wish.requests() if request.cores not in promised]
    return [offer for request in refused for offer in on_demand_offers(request, members)]


class CloudService:
    """Answers for one process."""

    def __init__(
        self,
        settings: Settings,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        adverts: MembershipView,
        exchange: OwnerCommands,
    ):
        self._settings = settings
        self._adverts, self._exchange = adverts, exchange
        self._shown = LeaseStore(client, keys)
        self._listed = LeasePages(client, keys, adverts.infos, self._shown)

    # -- quotes -------------------------------------------------------------------------------------------

    async def quotes(self, wish: QuoteRequest, holding: QuotaUse | None = None) -> Quotes:
        """What each cloud would promise, or why not: by size, in the order in which they would be asked.

        ``holding``: no cloud is asked for what its member may not hold, as none is asked to reserve it.
        Raises SubmitError or ValueError for what this federation cannot be asked, SilentError in trace time.
        """
        members = await self._adverts.members()
        order = {member.info.id: member.info.order for member in members}
        broken = {member.info.id: member.broken_at(wish.sla) for member in members}
        asked: list[_Question] = []
        for number, request in enumerate(wish.requests()):
            targets, trace_time = check_request(request, members)
            named = request.model_copy(update={"id": f"quote-{uuid4().hex}-{number}"})
            question = _question(named, members, targets if trace_time else None)
            refusal = holding.refusal(request) if holding else None
            asked.append(_Question(named, [], {BROKER: refusal}) if refusal else question)
        commands: dict[str, list[Ask]] = {}
        for question in asked:
            for cloud in question.clouds:
                command = make_ask(
                    question.command(cloud), question.request, self._exchange.reply_to, other_sizes=True
                )
                commands.setdefault(cloud, []).append(command)
        told = self._settings
        trace_time = any(question.trace_time for question in asked)
        heard = await self._exchange.ask(
            commands, told.trace_reply_deadline_s if trace_time else told.reply_deadline_s
        )
        quotes: list[QuoteView] = []
        refusals: list[RefusalView] = []
        for question in asked:
            answered = {
                cloud: one.model_copy(update={"broken_promise": broken.get(cloud)})
                for cloud, one in question.answers(heard).items()
            }
            views = {cloud: one for cloud, one in answered.items() if isinstance(one, QuoteView)}
            ranked = rank_quotes((order[cloud], to_quote(one)) for cloud, one in views.items())
            ranked.sort(key=lambda quote: broken[quote.cloud] is not None)
            quotes += [views[quote.cloud] for quote in ranked]
            refusals += [
                one
                for cloud, one in sorted(answered.items(), key=lambda item: order.get(item[0], -1))
                if isinstance(one, RefusalView)
            ]
        return Quotes(quotes=quotes, refusals=refusals, on_demand=_instead(wish, quotes, members))

    async def on_demand(self, requests: Sequence[SpotRequest]) -> list[list[OnDemandOffer]]:
        """Of each request that was refused: where it could be had on-demand."""
        members = await self._adverts.members() if requests else ()
        return [on_demand_offers(request, members) for request in requests]

    # -- leases -------------------------------------------------------------------------------------------

    async def lease(self, lease_id: str) -> Lease | None:
        """A spot lease as it is now."""
        return await self._shown.get(lease_id)

    async def leases(
        self, wanted: LeaseFilter, limit: int, cursor: str | None = None
    ) -> tuple[list[Lease], str | None]:
        """A page of leases, and where the next one begins; see ``LeasePages.read_page``."""
        try:
            return await self._listed.read_page(wanted, limit, cursor)
        except CursorError as error:
            raise UnsuitableError("cursor", str(error)) from error

    async def cancel(self, lease_id: str, principal: str) -> None:
        """Ends a lease, if there is such a one. Nobody waits for what comes of it."""
        lease = await self.lease(lease_id)
        if lease is not None:
            with suppress(SetAsideError):  # its owner has logged it
                await self.end(lease, principal)

    async def end(self, lease: Lease, principal: str) -> Cancellation:
        """Ends a lease for its holder. Kept in the inbox of an owner that is away. Raises SetAsideError."""
        if not lease.state.is_open:
            return Cancellation(done=True, lease=lease)
        command = Cancel(
            id=f"{lease.id}:cancel", reply_to=self._exchange.reply_to, lease=lease.id, by=principal
        )
        member = await self._adverts.member(lease.cloud)
        # An owner that is known to be away is not waited for.
        deadline_s = self._settings.reply_deadline_s if member and member.reachable else 0.0
        match await self._answer(lease.cloud, command, deadline_s):
            case LeaseGranted(lease=ended):
                return Cancellation(done=True, lease=ended)
            case None:
                return Cancellation(done=False, lease=lease)
            case _:  # the owner has forgotten its end
                return Cancellation(done=True, lease=await self.lease(lease.id) or lease)

    async def extend(self, lease: Lease, until_s: float, wish: ExtensionRequest, name: str) -> Answer | None:
        """A later end for a lease; the owner's answer, None: silence, the command is kept. ``name``: of the
        wish; the same name gets the same answer.

        Raises UnsuitableError when it does not suit the time that the cloud lives in.
        """
        member = await self._adverts.member(lease.cloud)
        trace_time = member is not None and member.info.time == "trace"
        if trace_time != (wish.at_s is not None):
            raise UnsuitableError("at_s", "say it in trace time, and only there")
        if wish.sla is not None and (lease.promised_sla is None or lease.promised_sla >= 1):
            raise UnsuitableError("sla", "this lease was promised nothing, and gives way to those that were")
        command = Extend(
            id=f"{lease.id}:extend:{name}",
            reply_to=self._exchange.reply_to,
            at_s=wish.at_s,
            lease=lease.id,
            extension=name,
            until_s=until_s,
            sla=wish.sla,
        )
        kept_s = record_retention_s(until_s - lease.starts_at_s)
        await self._exchange.records.keep({parse_attempt_id(lease.id)[0]: kept_s})
        told = self._settings
        deadline_s = told.trace_reply_deadline_s if trace_time else told.reply_deadline_s
        return await self._answer(lease.cloud, command, deadline_s)

    async def acknowledge(self, lease: Lease, principal: str) -> Answer | None:
        """Its holder is done with a lease that was told to leave; the owner's answer, None: silence, the
        command is kept."""
        command = Acknowledge(
            id=f"{lease.id}:acknowledge", reply_to=self._exchange.reply_to, lease=lease.id, by=principal
        )
        return await self._answer(lease.cloud, command)

    # -- one cloud ----------------------------------------------------------------------------------------

    async def table(self, cloud: str) -> Table | None:
        """The cloud's table as far as it shows it."""
        found = await self._adverts.table(cloud)
        return None if found is None else read_message(Table, found)

    async def start_on_demand(
        self, cloud: str, request: OnDemandRequest, origin: str | None = None
    ) -> Answer | None:
        """A request of the cloud's own users, or of the member ``origin``; the owner's answer, None: silence,
        the command is kept."""
        assert request.id is not None
        command = StartOnDemand(
            id=f"{request.id}:start",
            reply_to=self._exchange.reply_to,
            instance=request.id,
            cores=request.cores,
            lifetime_s=request.lifetime_s,
            origin=origin,
            **request.dump_needs(),
        )
        return await self._answer(cloud, command)

    async def start_all(
        self, cloud: str, requests: Sequence[OnDemandRequest], origin: str | None = None
    ) -> Answer | None:
        """Several of them, all or none; the owner's answer, None: silence, the command is kept."""
        command = StartAll(
            id=f"{requests[0].id}:start_all",
            reply_to=self._exchange.reply_to,
            requests=tuple(requests),
            origin=origin,
        )
        return await self._answer(cloud, command)

    async def stop_on_demand(self, cloud: str, instance: str, origin: str | None = None) -> Answer | None:
        """Who started an instance stops it (``origin`` None: an operator); the owner's answer, None: silence,
        the command is kept."""
        command = StopOnDemand(
            id=f"{instance}:stop", reply_to=self._exchange.reply_to, instance=instance, origin=origin
        )
        return await self._answer(cloud, command)

    async def show(self, cloud: str, instance: str, origin: str | None = None) -> Answer | None:
        """An on-demand instance as it is, if it is of this origin; the owner's answer, None: silence."""
        name = f"show-{uuid4().hex}"
        command = Show(id=name, reply_to=self._exchange.reply_to, instance=instance, origin=origin)
        return await self._answer(cloud, command)

    async def drain(self, cloud: str, wish: DrainRequest, principal: str) -> Answer | None:
        """Closes nodes; the owner's answer, None: silence, the command is kept."""
        command = Drain(
            id=f"drain-{uuid4().hex}",
            reply_to=self._exchange.reply_to,
            nodes=wish.nodes,
            by=principal,
            dry_run=wish.dry_run,
        )
        return await self._answer(cloud, command)

    async def reopen(self, cloud: str, nodes: tuple[int, ...] | None, principal: str) -> Answer | None:
        """Opens nodes; the owner's answer, None: silence, the command is kept."""
        name = f"reopen-{uuid4().hex}"
        return await self._answer(
            cloud, Reopen(id=name, reply_to=self._exchange.reply_to, nodes=nodes, by=principal)
        )

    async def _answer(self, cloud: str, command: Command, deadline_s: float | None = None) -> Answer | None:
        """The owner's, None: silence. Raises SetAsideError: it broke over the command."""
        deadline_s = self._settings.reply_deadline_s if deadline_s is None else deadline_s
        answer = (await self._exchange.ask({cloud: [command]}, deadline_s)).get(command.id)
        if isinstance(answer, RefusalView) and answer.reason is RefusalReason.UNREACHABLE:
            raise SetAsideError(cloud)
        return answer

    async def finish(self, cloud: str) -> Done:
        """Trace time: lets everything happen that is still to come. Raises SilentError."""
        command = Finish(id=f"finish-{uuid4().hex}", reply_to=self._exchange.reply_to)
        answer = await self._answer(cloud, command, self._settings.trace_reply_deadline_s)
        if not isinstance(answer, Done):
            raise SilentError([cloud])
        return answer
