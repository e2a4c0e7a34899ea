"""Replay a federation, of one cloud or many, in one process: traces + clouds + line-up → report.

It runs the same ``Cloud`` and the same ranking as the live federation, so both give the same report; except
that only a replay has overflow in trace time, and users who stop early.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from cloudsim.cloud.cloud import AFTER_EVERYTHING, Cloud
from cloudsim.cloud.renewals import RenewalTerms, first_request, renew
from cloudsim.cloud.spec import sampler_spec
from cloudsim.federation.direct_cloud import DirectCloud
from cloudsim.federation.model import FederatedCloud, Federation
from cloudsim.federation.ranking import rank_quotes
from cloudsim.federation.report import Tally
from cloudsim.federation.request_outcomes import RequestOutcomes
from cloudsim.history.event_log import PHASE_SPOT, PHASE_STOP, EventLog
from cloudsim.history.history import stop_phase
from cloudsim.model.changes import DRAIN, Change, End, Ended, Started, TurnedAway
from cloudsim.model.instances import Instance, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Amounts, Kind, Request
from cloudsim.model.reserved_ids import OVERFLOW, is_block
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.rule import PredictionRule
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.prediction.samples import Flavour
from cloudsim.prediction.tables import QuantileTable

#: Called with the time reached, in seconds of the federation.
Progress = Callable[[float], None]


class Predictor(Protocol):
    """Whatever makes a cloud's tables: it is told the history piece by piece."""

    def table(self, new_events: EventLog, boundary_s: float) -> QuantileTable:
        """Return the table that counts from ``boundary_s`` on; the new events are all before it."""
        ...


#: Makes the predictor of a cloud from its nodes, the flavours of spot that it is asked for, and its rule.
MakePredictor = Callable[[SamplerSpec, tuple[Flavour, ...], PredictionRule], Predictor]


def replay(
    federation: Federation,
    *,
    seed: int,
    births: int,
    progress: Progress | None = None,
    outcomes: RequestOutcomes | None = None,
    predictor: MakePredictor = LocalPredictor,
) -> dict[str, Any]:
    """Run the federation to its end, and on until every instance has ended; return the report (``report``).

    Parameters
    ----------
    seed
        Key of the random streams.
    births
        Number of Monte-Carlo samples a size that tables are made from.
    progress
        Called with the time reached, in seconds of the federation.
    outcomes
        Filled with one row for each spot request.
    predictor
        Makes what predicts for each cloud.
    """
    run = _ReplayRun(federation, seed, births, outcomes, predictor)
    for now_s, request, targets in federation.requests():
        run.go_on(now_s, PHASE_SPOT)
        run.ask(now_s, request, targets)
        if progress is not None:
            progress(now_s)
    run.go_on(*AFTER_EVERYTHING)
    return run.finish()


def complete_without_promise(federation: Federation) -> dict[str, float]:
    """Return the spot core-hours by origin that complete when all that fits is admitted and nothing promised.

    This is the papers' SLA-unaware baseline, on the same clouds.
    """
    workloads = tuple(replace(workload, sla=None, least_s=None) for workload in federation.workloads)
    report = replay(replace(federation, workloads=workloads), seed=0, births=1)
    return {origin: part["spot_core_hours"]["completed"] for origin, part in report["origins"].items()}


class ReplayMember:
    """A cloud of the replay with the predictor that makes its tables."""

    def __init__(
        self,
        member: FederatedCloud,
        order: int,
        federation: Federation,
        seed: int,
        births: int,
        predictor: MakePredictor = LocalPredictor,
    ):
        self.id, self.order = member.spec.id, order
        self.overflow, self.overflow_sla = member.overflow, member.overflow_sla
        self.cloud = (
            Cloud(member.spec, member.own_load, federation.ends_s)
            if member.retry_s is None
            else DirectCloud(member.spec, member.own_load, federation.ends_s, member.retry_s)
        )
        self.predictor = predictor(
            sampler_spec(member.spec, seed, births),
            federation.spot_flavours(member),
            member.spec.prediction,
        )

    def quote(self, request: Request, now_s: float) -> tuple[Request, Quote | Refusal]:
        """Return the request as the cloud is asked it first, and the answer, by a table that is not overdue.

        The cloud has been advanced to ``now_s``.
        """
        if self.cloud.needs_table(request):
            self.refresh(now_s)
        request = first_request(self.cloud, request)
        return request, self.cloud.consider(request)

    def refresh(self, now_s: float) -> None:
        """Make the table that is due, if one is."""
        boundary_s = self.cloud.table_due_s(now_s)
        if boundary_s is not None:
            self.cloud.table = self.predictor.table(self.cloud.history.cut(boundary_s), boundary_s)


@dataclass(frozen=True)
class _Offer:
    """An own request that ``home`` turned away, offered to the others, as in the live federation.

    Attributes
    ----------
    remaining_s
        Seconds of the lifetime that are left.
    amounts
        Amounts of other resources that it needs.
    avoid
        The cloud that has just evicted it.
    """

    home: str
    instance: str
    cores: int
    remaining_s: float
    amounts: Amounts = ()
    attempt: int = 1
    avoid: str | None = None

    @property
    def request_id(self) -> str:
        return f"{OVERFLOW}{self.home}/{self.instance}/{self.attempt}"


@dataclass(frozen=True)
class _Release:
    """A user stops a spot instance before the lifetime that was asked for."""

    cloud: str
    instance: str


@dataclass(frozen=True)
class _Renewal:
    """A spot instance, last promised at ``promised_at_s``, is due to be promised more of what it wants."""

    cloud: str
    instance: str
    terms: RenewalTerms
    promised_at_s: float


@dataclass(frozen=True)
class _NodeChange:
    """Nodes (None: all) are drained, or open again."""

    cloud: str
    nodes: tuple[int, ...] | None
    closed: bool


class _ReplayRun:
    """All clouds, and the queue of what happens between them.

    A cloud is advanced when it is asked something. If a cloud overflows, things happen that nobody asked for:
    then all clouds go from event to event together, so that an offer, or the next one after an eviction,
    meets the others as they are at that very instant, after its stops and on-demand starts
    (docs/design/prediction.md "Order of events") and before the spot requests of the workloads.
    """

    def __init__(
        self,
        federation: Federation,
        seed: int,
        births: int,
        outcomes: RequestOutcomes | None,
        predictor: MakePredictor,
    ):
        self._members = {
            member.spec.id: ReplayMember(member, order, federation, seed, births, predictor)
            for order, member in enumerate(federation.clouds)
        }
        overflows = any(member.overflow for member in federation.clouds)
        self._together = list(self._members.values()) if overflows else []
        self._queue: list[
            tuple[float, int, int, _Offer | _Release | _Renewal | _NodeChange]
        ] = []  # heap of time, phase, number
        self._queued = 0
        self._offers: dict[str, _Offer] = {}  # by request id
        self._tally = Tally(federation)
        self._outcomes = outcomes
        for member in federation.clouds:
            for drain in member.drains:
                self._push(drain.at_s, PHASE_STOP, _NodeChange(member.spec.id, drain.nodes, closed=True))
                if drain.until_s is not None:
                    opens = _NodeChange(member.spec.id, drain.nodes, closed=False)
                    self._push(drain.until_s, PHASE_SPOT, opens)

    def go_on(self, at_s: float, phase: int) -> None:
        """Play releases, offers and all that leads to offers, up to and including this moment."""
        while self._queue or self._together:
            upcoming = self._queue[0][:2] if self._queue else AFTER_EVERYTHING
            for member in self._together:
                upcoming = min(upcoming, member.cloud.next_event())
            if upcoming > (at_s, phase) or upcoming == AFTER_EVERYTHING:
                return
            for member in self._together:
                self._advance(member, upcoming[0], upcoming[1] + 1)
            while self._queue and self._queue[0][:2] <= upcoming:
                now_s, now_phase, _, item = heapq.heappop(self._queue)
                match item:
                    case _Offer():
                        self._offer(now_s, item)
                    case _Release():
                        self._release(now_s, now_phase, item)
                    case _Renewal():
                        self._renew(now_s, item)
                    case _NodeChange():
                        self._change_nodes(now_s, now_phase, item)

    def ask(self, now_s: float, request: Request, targets: Iterable[str], *, overflow: bool = False) -> None:
        """Send a spot request to its targets; the tightest fit of those that quote takes it."""
        self._tally.asked(request, overflow=overflow)
        if self._outcomes is not None:
            self._outcomes.asked(request, now_s, overflow=overflow)
        quotes: list[tuple[int, Quote]] = []
        asked: dict[str, Request] = {}
        for target in targets:
            member = self._members[target]
            self._advance(member, now_s, PHASE_SPOT)
            asked[target], answer = member.quote(request, now_s)
            if isinstance(answer, Quote):
                quotes.append((member.order, answer))
            else:
                self._tally.refused(request.id, target, answer.reason)
                if self._outcomes is not None:
                    self._outcomes.refused(request.id, answer)
        for quote in rank_quotes(quotes)[:1]:
            member = self._members[quote.cloud]
            changes = member.cloud.admit(asked[quote.cloud], now_s)
            assert not isinstance(changes, Refusal), "nothing happened between quote and admission"
            self._tally.admitted(request.id, quote.cloud)
            if self._outcomes is not None:
                self._outcomes.admitted(request.id, quote)
            self._count(member, changes)
            if asked[quote.cloud] is not request:
                started = member.cloud.inventory.get(request.id)
                assert started is not None
                assert request.lifetime_s is not None
                terms = RenewalTerms(started.start_s + request.lifetime_s)
                self._await_renewal(_Renewal(quote.cloud, request.id, terms, started.start_s))
            if request.actual_lifetime_s is not None:
                stop_s = now_s + request.actual_lifetime_s
                self._push(stop_s, stop_phase(now_s, stop_s), _Release(quote.cloud, request.id))

    def finish(self) -> dict[str, Any]:
        """Let every instance end, and return the report."""
        for member in self._members.values():
            self._advance(member, *AFTER_EVERYTHING)
            if isinstance(member.cloud, DirectCloud):
                self._tally.delayed(member.id, member.cloud.delays_s)
        return self._tally.as_dict()

    def _push(self, at_s: float, phase: int, item: _Offer | _Release | _Renewal | _NodeChange) -> None:
        self._queued += 1
        heapq.heappush(self._queue, (at_s, phase, self._queued, item))

    def _release(self, now_s: float, phase: int, release: _Release) -> None:
        member = self._members[release.cloud]
        self._advance(member, now_s, phase)
        self._count(member, member.cloud.end(release.instance, now_s, End.CANCELLED))

    def _change_nodes(self, now_s: float, phase: int, change: _NodeChange) -> None:
        member = self._members[change.cloud]
        self._advance(member, now_s, phase)
        if change.closed:
            self._count(member, member.cloud.drain(change.nodes, now_s, f"{DRAIN}schedule"))
        else:
            self._count(member, member.cloud.reopen(change.nodes, now_s))

    def _await_renewal(self, renewal: _Renewal, refused_at_s: float | None = None) -> None:
        instance = self._members[renewal.cloud].cloud.inventory.get(renewal.instance)
        assert instance is not None
        due_s = renewal.terms.due_s(renewal.promised_at_s, instance.end_s, refused_at_s)
        if due_s is not None:
            self._push(due_s, PHASE_SPOT, renewal)

    def _renew(self, now_s: float, renewal: _Renewal) -> None:
        member = self._members[renewal.cloud]
        self._advance(member, now_s, PHASE_SPOT)
        if member.cloud.inventory.get(renewal.instance) is None:
            return
        member.refresh(now_s)
        if isinstance(renew(member.cloud, renewal.instance, renewal.terms, now_s), Refusal):
            self._await_renewal(renewal, now_s)
        else:
            self._tally.renewed(renewal.instance)
            self._await_renewal(replace(renewal, promised_at_s=now_s))

    def _offer(self, now_s: float, offer: _Offer) -> None:
        request = Request(
            offer.request_id,
            Kind.SPOT,
            offer.cores,
            offer.remaining_s,
            self._members[offer.home].overflow_sla,
            offer.home,
            amounts=offer.amounts,
        )
        others = [cloud for cloud in self._members if cloud not in (offer.home, offer.avoid)]
        if offer.avoid is not None and not others:  # only clouds that had no room a moment ago are left
            others = list(self._members)
        if offer.attempt == 1:
            self._tally.overflowed(offer.home, "offered")
        self._offers[request.id] = offer
        self.ask(now_s, request, others, overflow=True)

    def _advance(self, member: ReplayMember, now_s: float, phase: int) -> None:
        changes = member.cloud.advance(now_s, phase)
        if changes:
            self._count(member, changes)

    def _count(self, member: ReplayMember, changes: list[Change]) -> None:
        tally, cloud = self._tally, member.id
        for change in changes:
            match change:
                case Started(instance) if instance.kind is Kind.ON_DEMAND:
                    if not is_block(instance.id):
                        tally.on_demand(cloud, requests=1, admitted=1)
                case TurnedAway(request, at_s, refusal):
                    tally.on_demand(cloud, requests=1, admitted=0)
                    if member.overflow and refusal.reason is RefusalReason.NO_CAPACITY and request.lifetime_s:
                        offer = _Offer(cloud, request.id, request.cores, request.lifetime_s, request.amounts)
                        self._push(at_s, PHASE_SPOT, offer)
                case Ended(instance, at_s, how, _) if not is_block(instance.id):
                    tally.used(cloud, instance.cores, instance.start_s, at_s)
                    if instance.kind is Kind.SPOT:
                        tally.ended(instance.id, cloud, how, at_s - instance.start_s)
                        if self._outcomes is not None:
                            self._outcomes.ended(instance.id, how, at_s)
                        if instance.id in self._offers:
                            self._overflow_ended(cloud, instance, at_s, how)
                case _:
                    pass

    def _overflow_ended(self, cloud: str, instance: Instance, at_s: float, how: End) -> None:
        offer = self._offers.pop(instance.id)
        if how is End.COMPLETED:
            self._tally.overflowed(offer.home, "completed")
            return
        remaining_s = instance.end_s - at_s
        again = replace(offer, remaining_s=remaining_s, attempt=offer.attempt + 1, avoid=cloud)
        self._push(at_s, PHASE_SPOT, again)
