"""The records of requests in Redis: accepted, attempted on one cloud at a time, and decided once.

    (none) ──accept──► open ──reserve k──► attempting ──commit──► committed   (answer: the lease)
                        │ ▲                    │
                        │ └──────abandon───────┘
                        └──close──► refused                                    (answer: the refusals)

Every arrow is one Lua script that looks at the state before it writes, so of two processes one wins and the
other is told what stands. Attempts are numbered and the number only grows. Hence a request never has two open
attempts, and a process that slept through its deadline cannot bring an abandoned one back.

Each call takes a list and costs one round trip. Redis serves nobody else meanwhile: some hundreds at a time.
Callers that come at the same time share a round trip (``broker.storage.shared_call``).

What a call sends to one cloud is one inbox entry with one signature (``broker.signing``), and only the
whole of
it can be delivered. Where some of a cloud's items turn out to be overtaken, nothing is done for that cloud,
and the call is repeated without them, signed anew.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar, cast

import redis.asyncio

from broker.contract import Command, Confirm, Release, current_version, write_messages
from broker.contract.leases import format_attempt_id
from broker.failpoints import Failpoint, failpoint
from broker.observability import request_id
from broker.requests.models import (
    Accept,
    Accepted,
    AcceptOutcome,
    AttemptDecision,
    Record,
    RequestAttempt,
    RequestState,
    RequestStatus,
)
from broker.requests.quota import hold_arguments
from broker.signing.signer import UNSIGNED, MessageSigner
from broker.storage.keys import RedisKeys
from broker.storage.scripts import read_script
from broker.storage.shared_call import SharedCall

#: Items of one script call: Redis serves nobody else meanwhile.
MOST_TOGETHER = 200


class RequestStore:
    """Writes and reads the records of requests and of calls, and writes to the inboxes of clouds.

    Every method may raise ``redis.RedisError`` and may then be called again with the same arguments: what was
    written is recognised and not written twice, but for the commands of ``send`` (which carry an id).
    """

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        signing: MessageSigner = UNSIGNED,
        *,
        speaks: Callable[[], int] = current_version,
        bell: Callable[[str], tuple[str, str]],
    ) -> None:
        """Load the scripts.

        Parameters
        ----------
        speaks:
            Returns the version of the contract to write, see ``broker.storage.negotiation``.
        bell:
            Returns the key of a cloud's queue of wake-ups, and a wake-up to put there with an attempt
            (``broker.queue.send.Wakeups``).
        """
        self.redis = client
        self.keys = keys
        self.speaks = speaks
        self.signing = signing
        self._bell = bell
        self._accept = client.register_script(read_script("accept"))
        self._reserve = client.register_script(read_script("reserve"))
        self._decide = client.register_script(read_script("decide"))
        self._close = client.register_script(read_script("close"))
        self._overdue = client.register_script(read_script("overdue"))
        self._accept_call = client.register_script(read_script("accept_call"))
        self._hold_call = client.register_script(read_script("hold_call"))
        self._answer_call = client.register_script(read_script("answer_call"))
        self._accepts = SharedCall(self._accept_once, MOST_TOGETHER)
        self._reserves = SharedCall(partial(_call_in_turns, call=self._reserve_once), MOST_TOGETHER)
        self._decides = SharedCall(partial(_call_in_turns, call=self._decide_once), MOST_TOGETHER)
        self._closes = SharedCall(self._close_once, MOST_TOGETHER)
        self._sends = SharedCall(self._send_once, MOST_TOGETHER)

    # -- requests ----------------------------------------------------------------------------------------

    async def accept(self, requests: Sequence[Accept]) -> list[Accepted]:
        """Record new requests and make their first attempts; return for the others what is known of them."""
        if not requests:
            return []
        rows = await self._accepts(requests)
        later = [
            request.first
            for request, row in zip(requests, rows, strict=True)
            if row[0] == b"later" and request.first
        ]
        attempts = zip((attempt.request for attempt in later), await self.reserve(later), strict=True)
        statuses = dict(attempts)
        return [
            _accepted_later(request, statuses[request.id]) if row[0] == b"later" else _parse_accepted(row)
            for request, row in zip(requests, rows, strict=True)
        ]

    async def _accept_once(self, requests: Sequence[Accept]) -> list[Any]:
        clouds = _number(request.first.cloud for request in requests if request.first is not None)
        members = _number(request.hold.member for request in requests if request.hold is not None)
        names = [
            self.keys.open_requests,
            *(self.keys.inbox(cloud) for cloud in clouds),
            *(self.keys.request(request.id) for request in requests),
            *(self.keys.quota_holds(member) for member in members),
            *(self._bell(cloud)[0] for cloud in clouds),
        ]
        holds = _number(request.hold for request in requests if request.hold is not None)
        entries = self._entries(
            (request.first.cloud, request.first.command, request.first.call)
            for request in requests
            if request.first
        )
        shown = self.keys.lease("", "").removesuffix(":")
        arguments: list[str | bytes | int] = [
            len(clouds),
            len(holds),
            self.keys.restored,
            self.keys.clouds,
            shown,
        ]
        for cloud, entry in zip(clouds, entries, strict=True):
            arguments += [cloud, *entry, self._bell(cloud)[1]]
        for hold in holds:
            arguments += hold_arguments(hold, members[hold.member])
        for request in requests:
            assert request.first is None or request.first.number == 1
            arguments += [request.id, request.fingerprint, request.body, request.token, request.look_after_ms]
            arguments.append(0 if request.first is None else clouds[request.first.cloud])
            arguments.append(0 if request.hold is None else holds[request.hold])
        failpoint(Failpoint.BROKER_ACCEPTING)
        rows = await self._accept(names, arguments)
        failpoint(Failpoint.BROKER_ACCEPTED)
        return cast("list[Any]", rows)

    async def reserve(self, attempts: Sequence[RequestAttempt]) -> list[RequestStatus]:
        """Write attempts to their records, and their commands to the clouds' inboxes (one entry a cloud).

        Returns
        -------
        list
            The status of each request. ``RequestStatus.attempts`` tells whether this attempt is the open one.
            If not, no command was sent: the request has an answer, or another process attempts it.
        """
        return await self._reserves(attempts) if attempts else []

    async def _reserve_once(self, attempts: Sequence[RequestAttempt]) -> list[Any]:
        clouds, names = self._script_keys(attempts)
        arguments: list[str | bytes | int] = [len(clouds)]
        for attempt in attempts:
            arguments += [
                attempt.request, attempt.number, attempt.cloud, clouds[attempt.cloud], attempt.look_after_ms
            ]  # fmt: skip
        entries = self._entries((attempt.cloud, attempt.command, attempt.call) for attempt in attempts)
        for cloud, entry in zip(clouds, entries, strict=True):
            queue, bell = self._bell(cloud)
            names.append(queue)
            arguments += [*entry, bell]
        return cast("list[Any]", await self._reserve(names, arguments))

    async def decide(self, decisions: Sequence[AttemptDecision]) -> list[RequestStatus]:
        """Decide open attempts, once each, and tell their clouds (Confirm or Release; one entry a cloud).

        Returns
        -------
        list
            The status of each request. If the answer of a committed request is not the decision's, another
            process was faster. After an abandonment the state is OPEN.
        """
        return await self._decides(decisions) if decisions else []

    async def commit_together(self, decisions: Sequence[AttemptDecision]) -> list[RequestStatus]:
        """Commit open attempts of different requests, all of them or none.

        Returns
        -------
        list
            The status of each request: all are committed, or this call has committed none.
        """
        assert len(decisions) <= MOST_TOGETHER
        return [_parse_status(row) for row in await self._decide_once(decisions, together=True)]

    async def _decide_once(
        self, decisions: Sequence[AttemptDecision], *, together: bool = False
    ) -> list[Any]:
        clouds, names = self._script_keys(decisions)
        arguments: list[str | bytes | int] = [len(clouds)]
        commands: list[tuple[str, Command, str | None]] = []
        for decision in decisions:
            attempt = format_attempt_id(decision.request, decision.number)
            verb, kind = ("abandon", Release) if decision.answer is None else ("commit", Confirm)
            command = kind(
                id=f"{attempt}:{verb}", attempt=attempt, at_s=decision.at_s, reply_to=decision.reply_to
            )
            commands.append((decision.cloud, command, decision.call))
            how = "together" if together else "running" if decision.is_running else verb
            arguments += [decision.request, decision.number, how, decision.answer or ""]
            arguments += [decision.cloud, clouds[decision.cloud], math.ceil(decision.kept_s or 0)]
        arguments += chain.from_iterable(self._entries(commands))
        failpoint(Failpoint.BROKER_DECIDING)
        rows = cast("list[Any]", await self._decide(names, arguments))
        failpoint(Failpoint.BROKER_DECIDED)
        for decision, row in zip(decisions, rows, strict=True):
            if (
                isinstance(row, list) and row[0] == b"committed" and row[3] is None
            ):  # ours: it is not sent back
                row[3] = decision.answer
        return rows

    def _script_keys(
        self, items: Sequence[RequestAttempt] | Sequence[AttemptDecision]
    ) -> tuple[dict[str, int], list[str]]:
        """Return the places of the inboxes, and the keys of a script: open requests, inboxes, records."""
        clouds = _number(item.cloud for item in items)
        inboxes = (self.keys.inbox(cloud) for cloud in clouds)
        records = (self.keys.request(item.request) for item in items)
        return clouds, [self.keys.open_requests, *inboxes, *records]

    def _entries(self, commands: Iterable[tuple[str, Command, str | None]]) -> list[tuple[bytes, bytes]]:
        """Return an inbox entry and its signature for each cloud, in the order of their first commands.

        Commands are given with their clouds and the API calls that they belong to.
        """
        batches: defaultdict[str, list[tuple[Command, str | None]]] = defaultdict(list)
        for cloud, command, call in commands:
            batches[cloud].append((command, call))
        entries: list[tuple[bytes, bytes]] = []
        for cloud, batch in batches.items():
            entry = write_messages(request_id.traced(batch), self.speaks()).encode()
            entries.append((entry, self.signing.sign(entry, self.keys.inbox(cloud))))
        return entries

    async def close(self, answers: Mapping[str, str]) -> list[RequestStatus]:
        """Refuse requests for good, and return their statuses in order; ``answers`` has JSON by request id.

        A request with an open attempt stays as it is: abandon the attempt first.
        """
        return await self._closes(list(answers.items())) if answers else []

    async def _close_once(self, answers: Sequence[tuple[str, str]]) -> list[RequestStatus]:
        names = [self.keys.open_requests, *(self.keys.request(request) for request, _ in answers)]
        arguments = [self.keys.quota_holds(""), *chain.from_iterable(answers)]
        failpoint(Failpoint.BROKER_CLOSING)
        rows = await self._close(names, arguments)
        failpoint(Failpoint.BROKER_CLOSED)
        return [_parse_status(row) for row in rows]

    async def overdue(self, limit: int, look_after_ms: int) -> list[Record]:
        """Claim requests that were not answered in time, the longest overdue first.

        The caller abandons the open attempt, if there is one, and goes on or closes the request. No other
        call claims them for the next ``look_after_ms``. A process that was merely slow is not stopped by the
        claim; the scripts see to it that only one of the two succeeds.
        """
        rows = await self._overdue([self.keys.open_requests], [self.keys.request(""), limit, look_after_ms])
        return [
            Record(row[0].decode(), row[4].decode(), row[5].decode(), _parse_status([*row[1:4], None]))
            for row in rows
        ]

    async def keep(self, seconds: Mapping[str, float | None]) -> None:
        """Keep the records of answered requests at least for these seconds from now; None changes nothing."""
        longer = {request: kept_s for request, kept_s in seconds.items() if kept_s is not None}
        if longer:
            async with self.redis.pipeline(transaction=False) as pipeline:
                for request, kept_s in longer.items():
                    pipeline.expire(self.keys.request(request), math.ceil(kept_s), gt=True)
                await pipeline.execute()

    async def get(self, request: str) -> Record | None:
        """Return the record of a request; None if there is none, or no longer."""
        names = ["state", "attempt", "cloud", "answer", "fingerprint", "body"]
        row = cast("list[bytes | None]", await _result(self.redis.hmget(self.keys.request(request), names)))
        if row[0] is None or row[4] is None or row[5] is None:
            return None
        return Record(request, row[4].decode(), row[5].decode(), _parse_status(row[:4]))

    # -- calls with an Idempotency-Key -------------------------------------------------------------------

    async def accept_call(
        self, principal: str, key: str, fingerprint: str, look_after_ms: int, token: str
    ) -> Accepted:
        """Record a call. It is NEW also if nobody has answered it or holds it any more.

        Parameters
        ----------
        principal:
            The caller.
        key:
            The Idempotency-Key.
        fingerprint:
            A digest of the call's body.
        look_after_ms:
            After how many milliseconds another process may take the call over, unless it is held for longer.
        token:
            Any fresh string that identifies this try; sent again, the same try gets NEW again.
        """
        names = [self.keys.call(principal, key)]
        return _parse_accepted(await self._accept_call(names, [fingerprint, token, look_after_ms]))

    async def hold_call(self, principal: str, key: str, look_after_ms: int, token: str) -> None:
        """Hold a call that the try of ``token`` began for so long from now; 0: give it up."""
        await self._hold_call([self.keys.call(principal, key)], [token, look_after_ms])

    async def answer_call(self, principal: str, key: str, answer: str) -> str | None:
        """Store a call's answer, once. Return the one that is stored; None if there is no such call."""
        stored = await self._answer_call([self.keys.call(principal, key)], [answer])
        return None if stored is None else stored.decode()

    # -- messages ----------------------------------------------------------------------------------------

    async def send(self, batches: Mapping[str, Sequence[Command]]) -> None:
        """Append commands to the inboxes of clouds, by cloud id, in one round trip."""
        call = request_id.current()
        entries = self._entries((cloud, command, call) for cloud in batches for command in batches[cloud])
        await self._sends([(cloud, *entry) for cloud, entry in zip(batches, entries, strict=True)])

    async def _send_once(self, entries: Sequence[tuple[str, bytes, bytes]]) -> list[None]:
        failpoint(Failpoint.BROKER_SENDING)
        async with self.redis.pipeline(transaction=False) as pipeline:
            for cloud, entry, token in entries:
                fields = {"s": token, "c": entry} if token else {"c": entry}
                pipeline.xadd(self.keys.inbox(cloud), cast("dict[Any, Any]", fields))
            await pipeline.execute()
        failpoint(Failpoint.BROKER_SENT)
        return [None] * len(entries)


_Value = TypeVar("_Value", bound=Hashable)


def _number(values: Iterable[_Value]) -> dict[_Value, int]:
    """Return each value once, with its place (from 1) among those that a script is given."""
    return {value: place for place, value in enumerate(dict.fromkeys(values), 1)}


async def _result(awaitable: Any) -> Any:
    # redis-py types a command's result as "awaitable or not".
    return await awaitable


class _ForRequest(Protocol):
    @property
    def request(self) -> str: ...


_Item = TypeVar("_Item", bound=_ForRequest)


async def _call_in_turns(
    items: Sequence[_Item], call: Callable[[Sequence[_Item]], Awaitable[list[Any]]]
) -> list[RequestStatus | Exception]:
    """Call a script until all items have a status: once, unless some are overtaken or share a request.

    An item whose record cannot be read has an error in the place of a status.

    Each call settles at least one item: of a cloud's items all that were overtaken, or else all.
    """
    statuses: dict[int, RequestStatus | Exception] = {}
    while len(statuses) < len(items):
        turn: dict[str, int] = {}
        for place, item in enumerate(items):
            if place not in statuses:
                turn.setdefault(item.request, place)
        rows = await call([items[place] for place in turn.values()])
        for place, row in zip(turn.values(), rows, strict=True):
            if isinstance(row, Exception):
                statuses[place] = row
            elif row[0] != b"again":
                statuses[place] = _parse_status(row)
    return [statuses[place] for place in range(len(items))]


def _accepted_later(request: Accept, status: RequestStatus) -> Accepted:
    """Return the result for a new request whose first attempt was made after it was recorded."""
    made = request.first is not None and status.attempts(request.first.number, request.first.cloud)
    return Accepted(AcceptOutcome.NEW if made else AcceptOutcome.IN_FLIGHT)


def _parse_accepted(row: list[bytes | None]) -> Accepted:
    outcome, answer = row
    assert outcome is not None
    return Accepted(AcceptOutcome(outcome.decode()), None if answer is None else answer.decode())


def _parse_status(row: Sequence[bytes | str | int | None]) -> RequestStatus:
    state, attempt, cloud, answer = row
    assert isinstance(state, bytes)
    assert attempt is not None
    return RequestStatus(RequestState(state.decode()), int(attempt), _text(cloud), _text(answer))


def _text(value: bytes | str | int | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else None
