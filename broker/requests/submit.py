"""Submission of spot requests: accept, offer to one cloud after the other, decide once, answer.

    wall time    reserve at the first candidate of ``routing.route`` → its answer → commit, or on to the next
    trace time   ask all targets at once and wait for all → rank → reserve at the first → commit, or the next

One path serves a single request, a list, and requests whose process died (``sweep``): a set of open requests
goes through rounds; in each round a cloud gets one inbox entry and one wake-up. What counts is written by
``broker.requests.store``: a process that loses a race there is told so, and takes the answer that stands.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from pydantic import ValidationError

from broker.contract import (
    VERSION,
    Answer,
    Ask,
    Lease,
    LeaseState,
    QuoteView,
    RefusalView,
    Reserve,
    SpotRequest,
    read_message,
    write_message,
)
from broker.contract.convert import to_quote
from broker.contract.leases import format_attempt_id
from broker.identity.models import MemberRecord
from broker.leases.store import LeaseStore, record_retention_s
from broker.requests.candidates import MemberEvaluator
from broker.requests.errors import InFlightError, ReusedError, SilentError, SubmitError
from broker.requests.launches import LaunchSealer
from broker.requests.members import MembershipView
from broker.requests.models import (
    Accept,
    Accepted,
    AcceptOutcome,
    AttemptDecision,
    QuotaHold,
    Record,
    RequestAnswer,
    RequestAttempt,
    RequestState,
    RequestStatus,
)
from broker.requests.open_request import OpenRequest, make_ask
from broker.requests.owner_commands import OwnerCommands, await_answers
from broker.requests.quota import make_hold
from broker.requests.routing import Member, ReservedRoom
from broker.requests.store import MOST_TOGETHER, RequestStore
from broker.settings import Settings
from cloudsim.federation.ranking import rank_quotes
from cloudsim.model.instances import Quote

_SWEPT_AT_ONCE = 200
_MARGIN_S = 3.0  # what an attempt may take beside waiting for its owner
_ITEM_S = 0.005  # more patience for each request that comes with it

_T = TypeVar("_T")

Result = RequestAnswer | SubmitError | ValueError
#: Called with the results of new requests of one call, the seconds that it took, and whether it had only one.
ResultsListener = Callable[[Sequence[Result], float, bool], None]


async def _no_member(_: str) -> MemberRecord | None:
    return None


class _Submitted(NamedTuple):
    """A request of a call. ``fingerprint`` is a digest of all that makes two equal, their holder included."""

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
        commands: OwnerCommands,
        member_of: Callable[[str], Awaitable[MemberRecord | None]] = _no_member,
        on_results: ResultsListener | None = None,
    ):
        """Open nothing. ``member_of`` returns the member whose cap holds for the requests of an origin."""
        self._settings, self._records, self._adverts, self._commands = settings, records, adverts, commands
        self._member_of, self._on_results = member_of, on_results
        self._leases = LeaseStore(records.redis, records.keys)
        self._evaluator = MemberEvaluator(())
        self.sealer = LaunchSealer(records.redis, records.keys, records.signing, records.speaks)

    async def submit(
        self, requests: Sequence[SpotRequest], principal: str, *, is_sealed: bool = False
    ) -> list[Result]:
        """Submit requests, which all have ids, and return for each its answer or the error that it met.

        ``is_sealed``: an agent of this federation has encrypted the secrets of launches.

        Raises
        ------
        redis.RedisError
            When the queue is away. What was begun then is finished by some process (``sweep``), so that
            asking again with the same ids finds the answer.
        """
        submitted = [await self._fingerprint(request, principal) for request in requests]
        first: dict[str, _Submitted] = {}
        for request in submitted:
            first.setdefault(request.id, request)
        results = await self._submit(list(first.values()), is_sealed=is_sealed)
        return [
            results[request.id] if request.fingerprint == first[request.id].fingerprint else ReusedError()
            for request in submitted
        ]

    async def _fingerprint(self, request: SpotRequest, principal: str) -> _Submitted:
        assert request.id is not None
        # All that was asked, in our version, whatever older processes are told of it.
        whole = request.model_dump_json()
        digest = await self.sealer.digest(request, principal)
        fingerprint = hashlib.sha256(f"{principal}\n{whole}{digest}".encode()).hexdigest()
        body = whole if self._records.speaks() >= VERSION else self._body(request)
        return _Submitted(request.id, request, body, fingerprint)

    def _body(self, request: SpotRequest) -> str:
        return write_message(request, self._records.speaks())

    async def _submit(self, requests: list[_Submitted], *, is_sealed: bool = False) -> dict[str, Result]:
        """Submit requests with different ids and return their results by id."""
        clock = asyncio.get_running_loop().time
        began_s = clock()
        members = await self._adverts.members()
        evaluator, reserved = self._evaluate(members), ReservedRoom()
        names: dict[Hashable, str] = {}
        results: dict[str, Result] = {}
        opened: list[tuple[OpenRequest, _Submitted]] = []
        for submitted in requests:
            try:
                request = submitted.request
                if not is_sealed:
                    request = await self.sealer.seal(request, members, names)
                opening = self._open(request, evaluator, reserved, among=len(requests))
            except (SubmitError, ValueError) as error:
                results[submitted.id] = error
            else:
                opened.append((opening, submitted))
        new, accepted = await self._accept(opened)
        results |= accepted
        results |= await self._settle([request for request in new if request.id not in results])
        if new and self._on_results is not None:
            self._on_results([results[request.id] for request in new], clock() - began_s, len(requests) == 1)
        return results

    async def _accept(
        self, opened: list[tuple[OpenRequest, _Submitted]]
    ) -> tuple[list[OpenRequest], dict[str, Result]]:
        """Record requests and make their first attempts in the same write where the first candidate is known.

        Returns
        -------
        tuple
            The requests that are new, and the results so far.
        """
        first: dict[str, str] = {}  # cloud of the first attempt, by request
        for request, _ in opened:
            if request.candidates:
                first[request.id] = request.candidates.pop(0)
                request.attempts = 1
        holds, token = await self._make_holds([request.request for request, _ in opened]), uuid4().hex
        new: list[OpenRequest] = []
        results: dict[str, Result] = {}
        with self._commands.expecting(
            {request.command: first[request.id] for request, _ in opened if request.id in first}
        ) as futures:
            for chunk in _chunks(opened):
                accepts = [
                    self._make_accept(request, submitted, first.get(request.id), holds.get(request.id), token)
                    for request, submitted in chunk
                ]
                for (request, _), accepted in zip(chunk, await self._records.accept(accepts), strict=True):
                    if accepted.outcome is AcceptOutcome.NEW:
                        new.append(request)
                    else:
                        results[request.id] = _known_result(accepted, request.request)
                self._commands.note_attempts(
                    {first[request.id] for request, _ in chunk if request.id in first}
                )
            attempting: dict[str, list[OpenRequest]] = {}
            for request in new:
                if request.id in first:
                    attempting.setdefault(first[request.id], []).append(request)
            concluded = [self._conclude(cloud, group, futures) for cloud, group in attempting.items()]
            for group_results in await _gather(concluded):
                results |= group_results
        return new, results

    def _make_accept(
        self,
        request: OpenRequest,
        submitted: _Submitted,
        cloud: str | None,
        hold: QuotaHold | None,
        token: str,
    ) -> Accept:
        return Accept(
            submitted.id,
            submitted.fingerprint,
            self._body(request.request) if request.request.launch else submitted.body,
            _look_after_ms(request),
            None if cloud is None else self._make_attempt(request, cloud),
            hold,
            token,
        )

    async def _make_holds(self, requests: Sequence[SpotRequest]) -> dict[str, QuotaHold]:
        """Return what each request takes of its member's cap, by request id."""
        origins = {request.origin for request in requests}
        members = {origin: await self._member_of(origin) for origin in origins}
        holds: dict[str, QuotaHold] = {}
        equal: dict[tuple[str, int], QuotaHold] = {}  # by origin and cores
        for request in requests:
            member = members[request.origin]
            if member is not None:
                assert request.id is not None
                size = request.origin, request.cores
                holds[request.id] = equal.get(size) or equal.setdefault(size, make_hold(request, member))
        return holds

    async def sweep(self) -> int:
        """Finish requests that were not answered in time because their process died; return their number.

        Raises
        ------
        redis.RedisError
            When Redis is away.
        """
        members = await self._adverts.members()
        evaluator = self._evaluate(members)
        records = await self._records.overdue(_SWEPT_AT_ONCE, self._claim_ms(members))
        await self._abandon_attempts(records)
        opened: list[OpenRequest] = []
        unusable: dict[str, str] = {}
        for record in records:
            try:
                message = read_message(SpotRequest, record.body)
                request = self._open(message, evaluator, ReservedRoom(), among=len(records))
            except (SubmitError, ValueError):  # its federation has changed, or another version accepted it
                unusable[record.id] = RequestAnswer(lease=None, refusals=[]).model_dump_json()
            else:
                request.attempts = record.status.attempt
                opened.append(request)
        await self._records.close(unusable)
        await self._settle(opened)
        return len(records)

    async def _abandon_attempts(self, records: Sequence[Record]) -> None:
        """Abandon the attempts that are open: the processes that made them may be dead.

        A lease that runs was confirmed: then the record is older than it, from a Redis that was restored.
        """
        attempts = {
            (record.status.cloud, format_attempt_id(record.id, record.status.attempt)): record
            for record in records
            if record.status.state is RequestState.ATTEMPTING and record.status.cloud is not None
        }
        leases = dict(await self._leases.get_many(list(attempts)))
        decisions = []
        for (cloud, attempt), record in attempts.items():
            lease, answer = leases[attempt], None
            if lease is not None and lease.state is LeaseState.RUNNING:
                answer = write_message(RequestAnswer(lease=lease, refusals=[]), self._records.speaks())
            decisions.append(
                AttemptDecision(
                    record.id, record.status.attempt, cloud, answer, is_running=answer is not None
                )
            )
        await self._records.decide(decisions)

    # -- before the first attempt -------------------------------------------------------------------------

    def _evaluate(self, members: Sequence[Member]) -> MemberEvaluator:
        """Return the evaluator of these members: calls that see the same ones share it."""
        if self._evaluator.members is not members:
            self._evaluator = MemberEvaluator(members)
        return self._evaluator

    def _open(
        self, request: SpotRequest, evaluator: MemberEvaluator, reserved: ReservedRoom, among: int
    ) -> OpenRequest:
        """Return a request on its way, with its candidates in wall time.

        ``reserved`` is room that earlier requests of the call will take; what this one takes is added to it.
        ``among`` is the number of requests that come with it.

        Raises
        ------
        SubmitError, ValueError
            When this federation cannot be asked for this.
        """
        assert request.id is not None
        evaluation, settings = evaluator.evaluate(request), self._settings
        trace_time = evaluation.trace_time
        deadline_s = settings.trace_reply_deadline_s if trace_time else settings.reply_deadline_s
        opened = OpenRequest(
            request.id, request, evaluation.targets, trace_time, deadline_s + among * _ITEM_S
        )
        if evaluation.candidates is not None:
            route = evaluation.candidates.route(settings.max_clouds_asked, reserved)
            opened.candidates = list(route.candidates)
            opened.passed_over = evaluation.passed_over
            if opened.candidates:
                reserved.add(opened.candidates[0], request.cores)
        return opened

    async def _ask(self, opened: list[OpenRequest]) -> dict[str, Result]:
        """Ask every target for a quote (trace time) and set the candidates.

        Returns
        -------
        dict
            The results of requests that cannot go on, because a target did not answer.
        """
        batches: dict[str, list[Ask]] = {}
        for request in opened:
            for target in request.targets:
                cloud = target.info.id
                batches.setdefault(cloud, []).append(
                    make_ask(f"{request.id}:quote:{cloud}", request.request, self._commands.reply_to)
                )
        answers = await self._commands.ask(batches, max(request.deadline_s for request in opened))
        silent: dict[str, Result] = {}
        for request in opened:
            quotes: list[tuple[int, Quote]] = []
            missing: list[str] = []
            for target in request.targets:
                answer = answers.get(f"{request.id}:quote:{target.info.id}")
                if isinstance(answer, QuoteView):
                    quotes.append((target.info.order, to_quote(answer)))
                elif isinstance(answer, RefusalView):
                    request.add_refusal(answer)
                else:
                    missing.append(target.info.id)
            if missing:
                silent[request.id] = SilentError(missing)
            request.candidates = [quote.cloud for quote in rank_quotes(quotes)]
        return silent

    # -- rounds -------------------------------------------------------------------------------------------

    async def _settle(self, opened: list[OpenRequest]) -> dict[str, Result]:
        """Offer requests to their candidates, round by round, until all have results."""
        unasked = [request for request in opened if request.candidates is None]
        results = await self._ask(unasked) if unasked else {}
        opened = [request for request in opened if request.id not in results]
        while opened:
            groups: dict[str, list[OpenRequest]] = {}
            without: list[OpenRequest] = []
            for request in opened:
                if request.candidates:
                    groups.setdefault(request.candidates.pop(0), []).append(request)
                else:
                    without.append(request)
            attempted = [self._attempt(cloud, group) for cloud, group in groups.items()]
            for group_results in await _gather([*([self._close(without)] if without else []), *attempted]):
                results |= group_results
            opened = [request for request in opened if request.id not in results]
        return results

    async def _attempt(self, cloud: str, group: list[OpenRequest]) -> dict[str, Result]:
        """Attempt each request once on one cloud; those without a result go on."""
        results: dict[str, Result] = {}
        for request in group:
            request.attempts += 1
        with self._commands.expecting({request.command: cloud for request in group}) as futures:
            attempting: list[OpenRequest] = []
            for chunk in _chunks(group):
                statuses = await self._records.reserve(
                    [self._make_attempt(request, cloud) for request in chunk]
                )
                for request, status in zip(chunk, statuses, strict=True):
                    if status.attempts(request.attempts, cloud):
                        attempting.append(request)
                    else:
                        results[request.id] = _result_of(status)
                self._commands.note_attempts([cloud])
            return results | await self._conclude(cloud, attempting, futures)

    async def _conclude(
        self, cloud: str, attempting: Sequence[OpenRequest], futures: Mapping[str, asyncio.Future[Answer]]
    ) -> dict[str, Result]:
        """Await a cloud's answers to attempts that were sent, and decide; those without a result go on."""
        results: dict[str, Result] = {}
        if not attempting:
            return results
        trace_time = attempting[0].trace_time
        clock = asyncio.get_running_loop().time
        until_s = clock() + max(request.deadline_s for request in attempting)
        for chunk in _chunks(attempting):  # the first are decided while the owner is at the next
            awaited = {request.command: futures[request.command] for request in chunk}
            answers = await await_answers(awaited, max(until_s - clock(), 0.0))
            decided: list[tuple[OpenRequest, RequestAnswer | None]] = []
            for request in chunk:
                answer = answers.get(request.command)
                if answer is None and trace_time:
                    results[request.id] = SilentError([cloud])  # stays open: a sweep goes on with it
                else:
                    decided.append((request, request.conclude(cloud, answer)))
            if decided:
                results |= await self._decide(cloud, decided)
        if not trace_time:  # there the next question wakes the owner
            self._commands.notifier.ring_soon([cloud])
        return results

    async def _decide(
        self, cloud: str, decided: Sequence[tuple[OpenRequest, RequestAnswer | None]]
    ) -> dict[str, Result]:
        """Commit the attempts with an answer and abandon the others.

        The others have no result, unless another process was faster.
        """
        results: dict[str, Result] = {}
        speaks = self._records.speaks()
        texts = [None if answer is None else write_message(answer, speaks) for _, answer in decided]
        statuses = await self._records.decide(
            [
                AttemptDecision(
                    request.id,
                    request.attempts,
                    cloud,
                    text,
                    request.request.at_s,
                    kept_s=record_retention_s(request.request.lifetime_s),
                )
                for (request, _), text in zip(decided, texts, strict=True)
            ]
        )
        for (request, answer), text, status in zip(decided, texts, statuses, strict=True):
            result = _decided_result(answer, text, status)
            if result is not None:
                results[request.id] = result
        return results

    async def _close(self, opened: list[OpenRequest]) -> dict[str, Result]:
        """Refuse requests for good."""
        results: dict[str, Result] = {}
        speaks = self._records.speaks()
        for chunk in _chunks(opened):
            answers = {request.id: write_message(request.make_answer(), speaks) for request in chunk}
            for request_id, status in zip(answers, await self._records.close(answers), strict=True):
                results[request_id] = _result_of(status)
        return results

    def _make_attempt(self, opened: OpenRequest, cloud: str) -> RequestAttempt:
        command = Reserve(
            id=opened.command,
            reply_to=self._commands.reply_to,
            attempt=format_attempt_id(opened.id, opened.attempts),
            **opened.request.dump_terms(),
        )
        return RequestAttempt(opened.id, opened.attempts, cloud, command, _look_after_ms(opened))

    def _claim_ms(self, members: Sequence[Member]) -> int:
        """Return for how many milliseconds a sweep claims requests, should its process die.

        An owner in trace time may take minutes to answer; without one, no sweep waits for as long.
        """
        trace_time = any(member.info.time == "trace" for member in members)
        settings = self._settings
        deadline_s = settings.trace_reply_deadline_s if trace_time else settings.reply_deadline_s
        return round((deadline_s + _SWEPT_AT_ONCE * _ITEM_S + _MARGIN_S) * 1000)


async def _gather(work: Sequence[Coroutine[Any, Any, _T]]) -> Sequence[_T]:
    """Wait for all of some work; one piece of it needs no task of its own."""
    return [await work[0]] if len(work) == 1 else await asyncio.gather(*work)


def _look_after_ms(request: OpenRequest) -> int:
    """Return after how many milliseconds other processes may believe that this one died over a request."""
    return round((request.deadline_s + _MARGIN_S) * 1000)


def _known_result(accepted: Accepted, request: SpotRequest) -> Result:
    """Return the result of a request that is not new."""
    if accepted.outcome is AcceptOutcome.ANSWERED:
        return read_message(RequestAnswer, accepted.answer or "")
    if accepted.outcome is AcceptOutcome.GRANTED:
        try:
            lease = read_message(Lease, accepted.answer or "")
        except ValidationError:  # its owner wrote something else
            return InFlightError()
        same = (lease.origin, lease.request, lease.cores) == (request.origin, request.id, request.cores)
        return RequestAnswer(lease=lease, refusals=[]) if same else ReusedError()
    return ReusedError() if accepted.outcome is AcceptOutcome.MISMATCH else InFlightError()


def _result_of(status: RequestStatus) -> Result:
    """Return what the record of a request says, written by another process or earlier by this one."""
    if status.answer:
        return read_message(RequestAnswer, status.answer)
    return InFlightError()


def _decided_result(answer: RequestAnswer | None, text: str | None, status: RequestStatus) -> Result | None:
    """Return the result of a request after a decision; None if it is open, and goes on.

    The record counts: another process may have made the same attempt.

    Parameters
    ----------
    answer, text:
        The answer that this process wanted to commit, and its JSON; None if it abandoned its attempt.
    status:
        The status in the record.
    """
    if answer is not None and text == status.answer:
        return answer  # it is in the record, and need not be read again
    if answer is not None or status.state is not RequestState.OPEN:
        return _result_of(status)
    return None


def _chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), MOST_TOGETHER):
        yield items[start : start + MOST_TOGETHER]
