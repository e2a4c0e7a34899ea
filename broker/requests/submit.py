"""Submission of spot requests: accept, offer to one cloud after the other, decide once, answer.

    wall time    reserve at the first candidate of ``routing.route`` → its answer → commit, or on to the next
    trace time   ask all targets at once and wait for all → rank → reserve at the first → commit, or the next

One path serves a single request, a list, and requests whose process died (``sweep``): a set of open requests
goes through rounds; in each round a cloud gets one inbox entry and one doorbell. What counts is written by
``broker.requests.store``: whoever loses a race there is told, and takes what stands.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar
from uuid import uuid4

import redis

from broker.contract import VERSION, Answer, Ask, QuoteView, RefusalView, Reserve, SpotRequest, read, written
from broker.contract.convert import quote_of
from broker.identity.models import MemberRecord
from broker.leases.store import record_kept_s
from broker.requests.candidates import Candidates
from broker.requests.members import MembershipView
from broker.requests.models import (
    Accept,
    Accepted,
    AcceptOutcome,
    AttemptDecision,
    Record,
    RequestAttempt,
    RequestState,
    RequestStatus,
    attempt_id,
)
from broker.requests.owner_commands import OwnerCommands, answers
from broker.requests.quota import QuotaHold
from broker.requests.routing import Member
from broker.requests.store import RequestStore
from broker.requests.validation import (
    InFlightError,
    OpenRequest,
    ReusedError,
    Settled,
    SilentError,
    SubmitError,
    ask_command,
    hold_of,
)
from broker.settings import Settings
from cloudsim.federation.ranking import tightest_fit
from cloudsim.model.instances import Quote

_SCRIPT_ITEMS = 200  # a script serves nobody else meanwhile
_SWEPT_AT_ONCE = 200
_MARGIN_S = 3.0  # what an attempt may take beside waiting for its owner
_ITEM_S = 0.005  # more patience for each request that comes with it

_T = TypeVar("_T")

Result = Settled | SubmitError | ValueError
#: Told what came of new requests of one call, after so many seconds, and whether there was only one.
Counting = Callable[[Sequence[Result], float, bool], None]


async def _nobody(_: str) -> MemberRecord | None:
    return None


class _Sent(NamedTuple):
    """A request as it was sent. ``fingerprint``: of all that makes two the same, their holder included."""

    id: str
    request: SpotRequest
    body: str
    fingerprint: str


class SubmissionService:
    """Submits requests for one process."""

    def __init__(
        self,
        settings: Settings,
        records: RequestStore,
        adverts: MembershipView,
        exchange: OwnerCommands,
        member_of: Callable[[str], Awaitable[MemberRecord | None]] = _nobody,
        counting: Counting | None = None,
    ):
        """``member_of``: whose cap on spot the requests of an origin count against."""
        self._settings, self._records, self._adverts, self._exchange = settings, records, adverts, exchange
        self._member_of, self._counting = member_of, counting

    async def submit(self, requests: Sequence[SpotRequest], principal: str) -> list[Result]:
        """One result a request, in order: its answer, or the error that it met. Every request has an id.

        Raises redis.RedisError when the queue is away. What was begun then is finished by some process
        (``sweep``), so that asking again with the same ids finds the answer.
        """
        sent = [_sent(request, principal, self._records.speaks()) for request in requests]
        first: dict[str, _Sent] = {}
        for one in sent:
            first.setdefault(one.id, one)
        results = await self._submit(list(first.values()))
        return [
            results[one.id] if one.fingerprint == first[one.id].fingerprint else ReusedError() for one in sent
        ]

    async def _submit(self, requests: list[_Sent]) -> dict[str, Result]:
        """Results of requests with different ids, by id."""
        clock = asyncio.get_running_loop().time
        began_s = clock()
        prospects = Candidates(await self._adverts.members())
        results: dict[str, Result] = {}
        opened: list[tuple[OpenRequest, _Sent]] = []
        for sent in requests:
            try:
                opened.append((self._open(sent.request, prospects, among=len(requests)), sent))
            except (SubmitError, ValueError) as error:
                results[sent.id] = error
        new, met = await self._accept(opened)
        results |= met
        results |= await self._settle([one for one in new if one.id not in results])
        if new and self._counting is not None:
            self._counting([results[one.id] for one in new], clock() - began_s, len(requests) == 1)
        return results

    async def _accept(
        self, opened: list[tuple[OpenRequest, _Sent]]
    ) -> tuple[list[OpenRequest], dict[str, Result]]:
        """Notes requests, each with its first attempt where the first candidate is known: one write for both.

        Returns what is new, and the results so far.
        """
        first: dict[str, str] = {}  # cloud of the first attempt, by request
        for one, _ in opened:
            if one.candidates:
                first[one.id] = one.candidates.pop(0)
                one.attempts = 1
        holds, token = await self._holds([one.request for one, _ in opened]), uuid4().hex
        new: list[OpenRequest] = []
        results: dict[str, Result] = {}
        with self._exchange.expecting(
            {one.command: first[one.id] for one, _ in opened if one.id in first}
        ) as futures:
            for chunk in _chunks(opened):
                accepts = [
                    self._note(one, sent, first.get(one.id), holds.get(one.id), token) for one, sent in chunk
                ]
                for (one, _), accepted in zip(chunk, await self._records.accept(accepts), strict=True):
                    if accepted.outcome is AcceptOutcome.NEW:
                        new.append(one)
                    else:
                        results[one.id] = _known(accepted)
                self._exchange.ring({first[one.id] for one, _ in chunk if one.id in first})
            attempting: dict[str, list[OpenRequest]] = {}
            for one in new:
                if one.id in first:
                    attempting.setdefault(first[one.id], []).append(one)
            concluded = (self._conclude(cloud, group, futures) for cloud, group in attempting.items())
            for more in await asyncio.gather(*concluded):
                results |= more
        return new, results

    def _note(
        self, one: OpenRequest, sent: _Sent, cloud: str | None, hold: QuotaHold | None, token: str
    ) -> Accept:
        attempt = None if cloud is None else self._attempt(one, cloud)
        return Accept(sent.id, sent.fingerprint, sent.body, _look_after_ms(one), attempt, hold, token)

    async def _holds(self, requests: Sequence[SpotRequest]) -> dict[str, QuotaHold]:
        """By request: what it takes of its member's cap."""
        origins = {request.origin for request in requests}
        members = {origin: await self._member_of(origin) for origin in origins}
        holds: dict[str, QuotaHold] = {}
        alike: dict[tuple[str, int], QuotaHold] = {}  # by origin and cores
        for request in requests:
            member = members[request.origin]
            if member is not None:
                assert request.id is not None
                what = request.origin, request.cores
                holds[request.id] = alike.get(what) or alike.setdefault(what, hold_of(request, member))
        return holds

    async def sweep(self) -> int:
        """Finishes requests that were not answered in time, as their process died. Returns how many it took.

        Raises redis.RedisError.
        """
        members = await self._adverts.members()
        records = await self._records.overdue(_SWEPT_AT_ONCE, self._longest_ms(members))
        await self._abandon_attempts(records)
        opened: list[OpenRequest] = []
        unusable: dict[str, str] = {}
        for record in records:
            try:
                wish = read(SpotRequest, record.body)
                one = self._open(wish, Candidates(members), among=len(records))
            except (SubmitError, ValueError):  # its federation has changed, or another version accepted it
                unusable[record.id] = Settled(lease=None, refusals=[]).model_dump_json()
            else:
                one.attempts = record.standing.attempt
                opened.append(one)
        await self._records.close(unusable)
        await self._settle(opened)
        return len(records)

    async def _abandon_attempts(self, records: Sequence[Record]) -> None:
        """Give up the attempts that are open: whoever made them may be dead."""
        await self._records.decide([
            AttemptDecision(record.id, record.standing.attempt, record.standing.cloud)
            for record in records
            if record.standing.state is RequestState.ATTEMPTING and record.standing.cloud is not None
        ])  # fmt: skip

    # -- before the first attempt -------------------------------------------------------------------------

    def _open(self, request: SpotRequest, prospects: Candidates, among: int) -> OpenRequest:
        """Raises SubmitError or ValueError for what this federation cannot be asked."""
        assert request.id is not None
        known = prospects.of(request)
        told = self._settings
        deadline_s = told.trace_reply_deadline_s if known.trace_time else told.reply_deadline_s
        one = OpenRequest(request.id, request, known.targets, known.trace_time, deadline_s + among * _ITEM_S)
        if known.survey is not None:
            one.candidates = list(known.survey.route(told.max_clouds_asked, prospects.booked).candidates)
            one.passed_over = known.passed_over
            if one.candidates:
                prospects.booked.add(one.candidates[0], request.cores)
        return one

    async def _ask(self, opened: list[OpenRequest]) -> dict[str, Result]:
        """Trace time: every target is asked. Sets the candidates; returns what cannot go on."""
        batches: dict[str, list[Ask]] = {}
        for one in opened:
            for target in one.targets:
                cloud = target.info.id
                batches.setdefault(cloud, []).append(
                    ask_command(f"{one.id}:quote:{cloud}", one.request, self._exchange.reply_to)
                )
        heard = await self._exchange.ask(batches, max(one.deadline_s for one in opened))
        silent: dict[str, Result] = {}
        for one in opened:
            quotes: list[tuple[int, Quote]] = []
            missing: list[str] = []
            for target in one.targets:
                answer = heard.get(f"{one.id}:quote:{target.info.id}")
                if isinstance(answer, QuoteView):
                    quotes.append((target.info.order, quote_of(answer)))
                elif isinstance(answer, RefusalView):
                    one.refused_by(answer)
                else:
                    missing.append(target.info.id)
            if missing:
                silent[one.id] = SilentError(missing)
            one.candidates = [quote.cloud for quote in tightest_fit(quotes)]
        return silent

    # -- rounds -------------------------------------------------------------------------------------------

    async def _settle(self, opened: list[OpenRequest]) -> dict[str, Result]:
        results = await self._ask(unasked) if (unasked := [o for o in opened if o.candidates is None]) else {}
        opened = [one for one in opened if one.id not in results]
        while opened:
            groups: dict[str, list[OpenRequest]] = {}
            without: list[OpenRequest] = []
            for one in opened:
                if one.candidates:
                    groups.setdefault(one.candidates.pop(0), []).append(one)
                else:
                    without.append(one)
            done = await asyncio.gather(
                self._close(without), *(self._round(cloud, group) for cloud, group in groups.items())
            )
            for more in done:
                results |= more
            opened = [one for one in opened if one.id not in results]
        return results

    async def _round(self, cloud: str, group: list[OpenRequest]) -> dict[str, Result]:
        """One attempt of each request, on one cloud. Those without a result go on."""
        results: dict[str, Result] = {}
        for one in group:
            one.attempts += 1
        with self._exchange.expecting({one.command: cloud for one in group}) as futures:
            attempting: list[OpenRequest] = []
            for chunk in _chunks(group):
                standings = await self._records.reserve([self._attempt(one, cloud) for one in chunk])
                for one, standing in zip(chunk, standings, strict=True):
                    if standing.attempts(one.attempts, cloud):
                        attempting.append(one)
                    else:
                        results[one.id] = _standing(standing)
                self._exchange.ring([cloud])
            return results | await self._conclude(cloud, attempting, futures)

    async def _conclude(
        self, cloud: str, attempting: Sequence[OpenRequest], futures: Mapping[str, asyncio.Future[Answer]]
    ) -> dict[str, Result]:
        """Awaits a cloud's answers to attempts that were sent, and decides. Those without a result go on."""
        results: dict[str, Result] = {}
        if not attempting:
            return results
        trace_time = attempting[0].trace_time
        clock = asyncio.get_running_loop().time
        until_s = clock() + max(one.deadline_s for one in attempting)
        for some in _chunks(attempting):  # the first are decided while the owner is at the next
            awaited = {one.command: futures[one.command] for one in some}
            heard = await answers(awaited, max(until_s - clock(), 0.0))
            decided: list[tuple[OpenRequest, Settled | None]] = []
            for one in some:
                answer = heard.get(one.command)
                if answer is None and trace_time:
                    results[one.id] = SilentError([cloud])  # stays open: who sweeps goes on with it
                else:
                    decided.append((one, one.heard(cloud, answer)))
            if decided:
                results |= await self._decide(cloud, decided)
        if not trace_time:  # there the next question rings
            self._exchange.bells.ring_soon([cloud])
        return results

    async def _decide(
        self, cloud: str, decided: Sequence[tuple[OpenRequest, Settled | None]]
    ) -> dict[str, Result]:
        """Commits what got a lease, abandons the rest; these have no result unless they were overtaken."""
        results: dict[str, Result] = {}
        speaks = self._records.speaks()
        answers = [None if settled is None else written(settled, speaks) for _, settled in decided]
        standings = await self._records.decide([
            AttemptDecision(one.id, one.attempts, cloud, answer, one.request.at_s)
            for (one, _), answer in zip(decided, answers, strict=True)
        ])  # fmt: skip
        granted = {one.id: record_kept_s(one.request.lifetime_s) for one, settled in decided if settled}
        with suppress(redis.RedisError):  # they are kept for some days anyhow
            await self._records.keep(granted)
        for (one, settled), answer, standing in zip(decided, answers, standings, strict=True):
            result = _decided(settled, answer, standing)
            if result is not None:
                results[one.id] = result
        return results

    async def _close(self, opened: list[OpenRequest]) -> dict[str, Result]:
        """Refuses for good."""
        results: dict[str, Result] = {}
        for chunk in _chunks(opened):
            closing = {one.id: written(one.settled(), self._records.speaks()) for one in chunk}
            for request, standing in zip(closing, await self._records.close(closing), strict=True):
                results[request] = _standing(standing)
        return results

    def _attempt(self, one: OpenRequest, cloud: str) -> RequestAttempt:
        wish = one.request
        command = Reserve(
            id=one.command,
            reply_to=self._exchange.reply_to,
            at_s=wish.at_s,
            attempt=attempt_id(one.id, one.attempts),
            request=one.id,
            origin=wish.origin,
            cores=wish.cores,
            lifetime_s=wish.lifetime_s,
            sla=wish.sla,
            **wish.told_needs(),
        )
        return RequestAttempt(one.id, one.attempts, cloud, command, _look_after_ms(one))

    def _longest_ms(self, members: Sequence[Member]) -> int:
        """For how long a sweep may claim what it takes up: should its process die, so long nobody else does.

        An owner in trace time may take minutes to answer; where there is none, nobody waits for one.
        """
        told = self._settings
        trace_time = any(member.info.time == "trace" for member in members)
        deadline_s = told.trace_reply_deadline_s if trace_time else told.reply_deadline_s
        return round((deadline_s + _SWEPT_AT_ONCE * _ITEM_S + _MARGIN_S) * 1000)


def _look_after_ms(one: OpenRequest) -> int:
    """When another process may believe that this one died over the request."""
    return round((one.deadline_s + _MARGIN_S) * 1000)


def _sent(request: SpotRequest, principal: str, speaks: int) -> _Sent:
    assert request.id is not None
    # Of all that was asked, whatever older processes are told of it; what is not used is not in it.
    whole = request.model_dump_json()
    fingerprint = hashlib.sha256(f"{principal}\n{whole}".encode()).hexdigest()
    return _Sent(request.id, request, whole if speaks >= VERSION else written(request, speaks), fingerprint)


def _known(accepted: Accepted) -> Result:
    if accepted.outcome is AcceptOutcome.ANSWERED:
        return read(Settled, accepted.answer or "")
    return ReusedError() if accepted.outcome is AcceptOutcome.MISMATCH else InFlightError()


def _standing(standing: RequestStatus) -> Result:
    """What another process made of a request, or we did earlier."""
    if standing.answer:
        return read(Settled, standing.answer)
    return InFlightError()


def _decided(settled: Settled | None, answer: str | None, standing: RequestStatus) -> Result | None:
    """Return the result of a request after a decision; None if it is open, and goes on.

    What stands is the answer, also to us: another process may have made the same attempt.

    Args:
        settled: what this process wanted to commit; None: it abandoned its attempt.
        answer: the text of ``settled``.
        standing: what stands in the record.
    """
    if settled is not None and answer == standing.answer:
        return settled  # so it stands, and need not be read again
    if settled is not None or standing.state is not RequestState.OPEN:
        return _standing(standing)
    return None


def _chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), _SCRIPT_ITEMS):
        yield items[start : start + _SCRIPT_ITEMS]
