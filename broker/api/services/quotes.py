"""Answers requests for quotes: what each cloud would promise now, without side effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from broker.api.services.on_demand_offers import on_demand_offers
from broker.api.services.owner_calls import OwnerCalls
from broker.contract import Answer, Ask, QuoteRequest, QuoteView, RefusalView, SpotRequest
from broker.contract.convert import to_quote, to_refusal_view
from broker.requests.errors import SilentError
from broker.requests.members import MembershipView
from broker.requests.open_request import make_ask
from broker.requests.quota import BROKER, QuotaUse
from broker.requests.routing import Member, route
from broker.requests.validation import check_request
from broker.schemas.on_demand import OnDemandOffer
from broker.schemas.quotes import Quotes
from cloudsim.federation.ranking import rank_quotes
from cloudsim.model.refusals import RefusalReason

#: Clouds that are passed over for any other reason are asked what they would accept instead.
_NOT_ASKED = frozenset({RefusalReason.UNREACHABLE, RefusalReason.NOT_A_TARGET})


@dataclass(frozen=True)
class _SizeQuestion:
    """One size, the clouds to ask about it, and the refusals that are known without asking."""

    request: SpotRequest
    clouds: list[str]
    passed_over: dict[str, RefusalView] = field(default_factory=dict)
    trace_time: bool = False

    def command_id(self, cloud: str) -> str:
        return f"{self.request.id}:{cloud}"

    def answers(self, received: Mapping[str, Answer]) -> dict[str, QuoteView | RefusalView]:
        """Return a quote or a refusal for each cloud. Raises SilentError in trace time."""
        by_cloud: dict[str, QuoteView | RefusalView] = dict(self.passed_over)
        for cloud in self.clouds:
            answer = received.get(self.command_id(cloud))
            if isinstance(answer, QuoteView | RefusalView):
                by_cloud[cloud] = answer
            elif self.trace_time:
                raise SilentError([cloud])
            elif cloud not in by_cloud:
                detail = "did not answer in time"
                by_cloud[cloud] = RefusalView(
                    cloud=cloud, reason=RefusalReason.UNREACHABLE, cores=self.request.cores, detail=detail
                )
        return by_cloud


def _size_question(
    request: SpotRequest, members: Sequence[Member], trace_targets: Sequence[Member] | None
) -> _SizeQuestion:
    """Choose the clouds to ask: in trace time all of ``trace_targets``; None means wall time."""
    if trace_targets is not None:
        return _SizeQuestion(request, [member.info.id for member in trace_targets], trace_time=True)
    routing = route(request, members, most=len(members))
    at_s = {member.info.id: member.advert.at_s for member in members if member.advert}
    passed_over = {
        refusal.cloud: to_refusal_view(refusal, cores=request.cores, cloud_time_s=at_s.get(refusal.cloud))
        for refusal in routing.passed_over
    }
    # An advert shows which clouds to pass over; only their owners know what they would accept instead.
    worth_asking = [cloud for cloud, refusal in passed_over.items() if refusal.reason not in _NOT_ASKED]
    return _SizeQuestion(request, [*routing.candidates, *worth_asking], passed_over)


class QuoteService:
    """Asks owners what they would promise, and finds on-demand offers for what they would not."""

    def __init__(self, owners: OwnerCalls, membership: MembershipView):
        self._owners, self._membership = owners, membership

    async def quotes(self, request: QuoteRequest, holding: QuotaUse | None = None) -> Quotes:
        """Return what each cloud would promise, or why not: by size, in the order of asking.

        ``holding``: what the member of the request's origin holds; no cloud is asked for what exceeds its
        cap.

        Raises
        ------
        SubmitError, ValueError
            When this federation cannot be asked that.
        SilentError
            When an owner does not answer in trace time.
        """
        members = await self._membership.members()
        questions: list[_SizeQuestion] = []
        for number, spot_request in enumerate(request.requests()):
            targets, trace_time = check_request(spot_request, members)
            launch = spot_request.launch
            named = spot_request.model_copy(
                update={
                    "id": f"quote-{uuid4().hex}-{number}",
                    "launch": launch.without_secrets() if launch and launch.carried else launch,
                }
            )
            question = _size_question(named, members, targets if trace_time else None)
            refusal = holding.refusal(spot_request) if holding else None
            questions.append(_SizeQuestion(named, [], {BROKER: refusal}) if refusal else question)
        received = await self._ask(questions)
        order = {member.info.id: member.info.order for member in members}
        broken = {member.info.id: member.broken_at(request.sla) for member in members}
        quotes: list[QuoteView] = []
        refusals: list[RefusalView] = []
        for question in questions:
            answers = {
                cloud: answer.model_copy(update={"broken_promise": broken.get(cloud)})
                for cloud, answer in question.answers(received).items()
            }
            views = {cloud: answer for cloud, answer in answers.items() if isinstance(answer, QuoteView)}
            ranked = rank_quotes((order[cloud], to_quote(view)) for cloud, view in views.items())
            ranked.sort(key=lambda quote: broken[quote.cloud] is not None)
            quotes += [views[quote.cloud] for quote in ranked]
            refusals += [
                answer
                for cloud, answer in sorted(answers.items(), key=lambda item: order.get(item[0], -1))
                if isinstance(answer, RefusalView)
            ]
        promised = {quote.cores for quote in quotes}
        refused = [size for size in request.requests() if size.cores not in promised]
        on_demand = [offer for size in refused for offer in on_demand_offers(size, members)]
        return Quotes(quotes=quotes, refusals=refusals, on_demand=on_demand)

    async def on_demand_offers(self, requests: Sequence[SpotRequest]) -> list[list[OnDemandOffer]]:
        """Return for each of the refused ``requests`` where it could be had on-demand."""
        members = await self._membership.members() if requests else ()
        return [on_demand_offers(request, members) for request in requests]

    async def _ask(self, questions: Sequence[_SizeQuestion]) -> dict[str, Answer]:
        """Send the questions to all their clouds at once; return the answers by command id."""
        commands: dict[str, list[Ask]] = {}
        for question in questions:
            for cloud in question.clouds:
                command = make_ask(
                    question.command_id(cloud), question.request, self._owners.reply_to, other_sizes=True
                )
                commands.setdefault(cloud, []).append(command)
        trace_time = any(question.trace_time for question in questions)
        return await self._owners.commands.ask(commands, self._owners.deadline_s(trace_time=trace_time))
