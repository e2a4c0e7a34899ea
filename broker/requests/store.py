"""The life of a request in Redis: accepted, attempted on one cloud at a time, decided once.

    (none) ──accept──► open ──reserve k──► attempting ──commit──► committed   (answer: the lease)
                        │ ▲                    │
                        │ └──────abandon───────┘
                        └──close──► refused                                    (answer: the refusals)

Every arrow is one Lua script that looks at the state before it writes, so of two processes one wins and the
other is told what stands. Attempts are numbered and the number only grows. Hence a request never has two open
attempts, and a process that slept through its deadline cannot bring an abandoned one back.

Each call takes a list and costs one round trip. Redis serves nobody else meanwhile: some hundreds at a time.

What a call tells one cloud is one inbox entry with one signature (``broker.signing``), and only the whole of
it can be delivered. Where some of a cloud's items turn out to be overtaken, nothing is done for that cloud,
and the call is repeated without them, signed anew.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol, TypeVar, cast

import redis.asyncio

from broker.contract import Command, Confirm, Release, list_written, ours
from broker.failpoints import Failpoint, failpoint
from broker.observability.request_id import traced
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
from broker.requests.quota import hold_arguments
from broker.signing.signer import UNSIGNED, MessageSigner
from broker.storage.keys import RedisKeys
from broker.storage.scripts import read_script


class RequestStore:
    """The records of requests and of calls, and the brokers' end of the inboxes.

    Every method may raise `redis.RedisError` and may then be called again with the same arguments: what was
    written is recognised and not written twice, but for the commands of `send` (which carry an id).
    """

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        signing: MessageSigner = UNSIGNED,
        *,
        speaks: Callable[[], int] = ours,
        bell: Callable[[str], tuple[str, str]] | None = None,
    ) -> None:
        """``speaks``: the version of the contract that is written, see `broker.contract.negotiation`.
        ``bell``: the
        queue of a cloud's doorbells and one of them (`broker.queue.send.Wakeups`), which goes there with the
        attempts that are made; None: whoever calls rings."""
        self.redis = client
        self.keys = keys
        self._signing = signing
        self.speaks = speaks
        self.rings = bell is not None
        self._bell = bell or (lambda cloud: (keys.inbox(cloud), ""))
        self._accept = client.register_script(read_script("accept"))
        self._reserve = client.register_script(read_script("reserve"))
        self._decide = client.register_script(read_script("decide"))
        self._close = client.register_script(read_script("close"))
        self._overdue = client.register_script(read_script("overdue"))
        self._accept_call = client.register_script(read_script("accept_call"))
        self._answer_call = client.register_script(read_script("answer_call"))

    # -- requests ----------------------------------------------------------------------------------------

    async def accept(self, requests: Sequence[Accept]) -> list[Accepted]:
        """Note new requests, and make their first attempts; tell of the others what is known."""
        if not requests:
            return []
        clouds = _places(one.first.cloud for one in requests if one.first is not None)
        members = _places(one.hold.member for one in requests if one.hold is not None)
        names = [
            self.keys.open_requests,
            *(self.keys.inbox(cloud) for cloud in clouds),
            *(self.keys.request(one.id) for one in requests),
            *(self.keys.quota_holds(member) for member in members),
            *(self._bell(cloud)[0] for cloud in clouds),
        ]
        holds = _places(one.hold for one in requests if one.hold is not None)
        entries = self._entries((one.first.cloud, one.first.command) for one in requests if one.first)
        arguments: list[str | bytes | int] = [len(clouds), len(holds)]
        for cloud, entry in zip(clouds, entries, strict=True):
            arguments += [cloud, *entry, self._bell(cloud)[1]]
        for hold in holds:
            arguments += hold_arguments(hold, members[hold.member])
        for one in requests:
            assert one.first is None or one.first.number == 1
            arguments += [one.id, one.fingerprint, one.body, one.token, one.look_after_ms]
            arguments.append(0 if one.first is None else clouds[one.first.cloud])
            arguments.append(0 if one.hold is None else holds[one.hold])
        failpoint(Failpoint.BROKER_ACCEPTING)
        rows = await self._accept(names, arguments)
        failpoint(Failpoint.BROKER_ACCEPTED)
        later = [
            one.first for one, row in zip(requests, rows, strict=True) if row[0] == b"later" and one.first
        ]
        made = dict(zip((one.request for one in later), await self.reserve(later), strict=True))
        return [
            _attempted(one, made[one.id]) if row[0] == b"later" else _accepted(row)
            for one, row in zip(requests, rows, strict=True)
        ]

    async def reserve(self, attempts: Sequence[RequestAttempt]) -> list[RequestStatus]:
        """Write attempts to their records, and their commands to the clouds' inboxes (one entry a cloud).

        Returns:
            What stands; `Standing.attempts` tells whether it is this attempt. If not, no command was sent:
            the request has an answer, or another process attempts it.
        """
        return await _in_turns(attempts, self._reserve_once)

    async def _reserve_once(self, attempts: Sequence[RequestAttempt]) -> list[Any]:
        clouds, names = self._named(attempts)
        arguments: list[str | bytes | int] = [len(clouds)]
        for one in attempts:
            arguments += [one.request, one.number, one.cloud, clouds[one.cloud], one.look_after_ms]
        entries = self._entries((one.cloud, one.command) for one in attempts)
        for cloud, entry in zip(clouds, entries, strict=True):
            queue, bell = self._bell(cloud)
            names.append(queue)
            arguments += [*entry, bell]
        return cast("list[Any]", await self._reserve(names, arguments))

    async def decide(self, decisions: Sequence[AttemptDecision]) -> list[RequestStatus]:
        """Decide open attempts, once each, and tell their clouds (Confirm or Release; one entry a cloud).

        Returns:
            What stands. After a commit, `Standing.committed` tells whether it was this one; if not, this
            process has been overtaken and the answer, if there is one, is another's. After an abandonment the
            state is OPEN.
        """
        failpoint(Failpoint.BROKER_DECIDING)
        stands = await _in_turns(decisions, self._decide_once)
        failpoint(Failpoint.BROKER_DECIDED)
        return stands

    async def _decide_once(self, decisions: Sequence[AttemptDecision]) -> list[Any]:
        clouds, names = self._named(decisions)
        arguments: list[str | bytes | int] = [len(clouds)]
        told: list[tuple[str, Command]] = []
        for one in decisions:
            attempt = attempt_id(one.request, one.number)
            verb, kind = ("abandon", Release) if one.answer is None else ("commit", Confirm)
            told.append(
                (
                    one.cloud,
                    kind(id=f"{attempt}:{verb}", attempt=attempt, at_s=one.at_s, reply_to=one.reply_to),
                )
            )
            arguments += [one.request, one.number, verb, one.answer or "", one.cloud, clouds[one.cloud]]
        arguments += chain.from_iterable(self._entries(told))
        rows = cast("list[Any]", await self._decide(names, arguments))
        for one, row in zip(decisions, rows, strict=True):
            if row[0] == b"committed" and row[3] is None:  # ours: it is not sent back
                row[3] = one.answer
        return rows

    def _named(
        self, items: Sequence[RequestAttempt] | Sequence[AttemptDecision]
    ) -> tuple[dict[str, int], list[str]]:
        """The place of each cloud's inbox, and the keys of a script: open requests, inboxes, records."""
        clouds = _places(one.cloud for one in items)
        inboxes = (self.keys.inbox(cloud) for cloud in clouds)
        return clouds, [self.keys.open_requests, *inboxes, *(self.keys.request(one.request) for one in items)]

    def _entries(self, told: Iterable[tuple[str, Command]]) -> list[tuple[bytes, bytes]]:
        """What each cloud is told, in the order of ``_places``: an entry and its signature."""
        batches: defaultdict[str, list[Command]] = defaultdict(list)
        for cloud, command in told:
            batches[cloud].append(command)
        pairs: list[tuple[bytes, bytes]] = []
        for cloud, batch in batches.items():
            entry = list_written(traced(batch), self.speaks()).encode()
            pairs.append((entry, self._signing.sign(entry, self.keys.inbox(cloud))))
        return pairs

    async def close(self, answers: Mapping[str, str]) -> list[RequestStatus]:
        """Refuse requests for good; `answers` is JSON by request id. Returns what stands, in the same order.

        An attempt that is still open stands: abandon it first.
        """
        if not answers:
            return []
        names = [self.keys.open_requests, *(self.keys.request(request) for request in answers)]
        arguments = [self.keys.quota_holds(""), *(part for pair in answers.items() for part in pair)]
        failpoint(Failpoint.BROKER_CLOSING)
        rows = await self._close(names, arguments)
        failpoint(Failpoint.BROKER_CLOSED)
        return [_standing(row) for row in rows]

    async def overdue(self, limit: int, look_after_ms: int) -> list[Record]:
        """Claim requests that were not answered in time, the longest overdue first.

        The caller abandons the open attempt, if there is one, and goes on or closes the request. No other
        call claims them for the next `look_after_ms`. A process that was merely slow is not stopped by the
        claim; the scripts see to it that only one of the two succeeds.
        """
        rows = await self._overdue([self.keys.open_requests], [self.keys.request(""), limit, look_after_ms])
        return [
            Record(row[0].decode(), row[4].decode(), row[5].decode(), _standing([*row[1:4], None]))
            for row in rows
        ]

    async def keep(self, seconds: Mapping[str, float | None]) -> None:
        """Keep the records of answered requests for so long from now, where they would go earlier."""
        longer = {request: one for request, one in seconds.items() if one is not None}
        if longer:
            async with self.redis.pipeline(transaction=False) as pipeline:
                for request, one in longer.items():
                    pipeline.expire(self.keys.request(request), math.ceil(one), gt=True)
                await pipeline.execute()

    async def get(self, request: str) -> Record | None:
        """The record of a request, None if there is none (any more)."""
        names = ["state", "attempt", "cloud", "answer", "fingerprint", "body"]
        row = cast("list[bytes | None]", await _result(self.redis.hmget(self.keys.request(request), names)))
        if row[0] is None or row[4] is None or row[5] is None:
            return None
        return Record(request, row[4].decode(), row[5].decode(), _standing(row[:4]))

    # -- calls with an Idempotency-Key -------------------------------------------------------------------

    async def accept_call(
        self, principal: str, key: str, fingerprint: str, look_after_ms: int, token: str
    ) -> Accepted:
        """Note a call. NEW also for one that another process began and did not answer in `look_after_ms`.

        Args:
            principal: whose call it is.
            key: the Idempotency-Key.
            fingerprint: of the call's body.
            look_after_ms: from when on another process may take the call over.
            token: of this try, any fresh string; the same try, sent again, gets NEW again.
        """
        names = [self.keys.call(principal, key)]
        return _accepted(await self._accept_call(names, [fingerprint, token, look_after_ms]))

    async def answer_call(self, principal: str, key: str, answer: str) -> str | None:
        """Store a call's answer, once. Returns the one that stands; None if there is no such call."""
        stands = await self._answer_call([self.keys.call(principal, key)], [answer])
        return None if stands is None else stands.decode()

    # -- messages ----------------------------------------------------------------------------------------

    async def send(self, batches: Mapping[str, Sequence[Command]]) -> None:
        """Append commands to the inboxes of clouds, by cloud id, in one round trip."""
        failpoint(Failpoint.BROKER_SENDING)
        async with self.redis.pipeline(transaction=False) as pipeline:
            for cloud, batch in batches.items():
                entry = list_written(traced(batch), self.speaks()).encode()
                fields = self._signing.fields("c", entry, self.keys.inbox(cloud))
                pipeline.xadd(self.keys.inbox(cloud), cast("dict[Any, Any]", fields))
            await pipeline.execute()
        failpoint(Failpoint.BROKER_SENT)


_Thing = TypeVar("_Thing", bound=Hashable)


def _places(things: Iterable[_Thing]) -> dict[_Thing, int]:
    """Each once, with its place (from 1) among those that a script is given."""
    return {one: place for place, one in enumerate(dict.fromkeys(things), 1)}


async def _result(awaitable: Any) -> Any:
    # redis-py types a command's result as "awaitable or not".
    return await awaitable


class _OfRequest(Protocol):
    @property
    def request(self) -> str: ...


_Item = TypeVar("_Item", bound=_OfRequest)


async def _in_turns(
    items: Sequence[_Item], call: Callable[[Sequence[_Item]], Awaitable[list[Any]]]
) -> list[RequestStatus]:
    """Calls a script until all items have what stands: once, unless some are overtaken or of one request.

    Each call settles an item at least: of a cloud's items, all that were overtaken, or else all.
    """
    stands: dict[int, RequestStatus] = {}
    while len(stands) < len(items):
        turn: dict[str, int] = {}
        for place, one in enumerate(items):
            if place not in stands:
                turn.setdefault(one.request, place)
        rows = await call([items[place] for place in turn.values()])
        for place, row in zip(turn.values(), rows, strict=True):
            if row[0] != b"again":
                stands[place] = _standing(row)
    return [stands[place] for place in range(len(items))]


def _attempted(one: Accept, standing: RequestStatus) -> Accepted:
    """What became of a new request whose first attempt was made after it was noted."""
    ours = one.first is not None and standing.attempts(one.first.number, one.first.cloud)
    return Accepted(AcceptOutcome.NEW if ours else AcceptOutcome.IN_FLIGHT)


def _accepted(row: list[bytes | None]) -> Accepted:
    outcome, answer = row
    assert outcome is not None
    return Accepted(AcceptOutcome(outcome.decode()), None if answer is None else answer.decode())


def _standing(row: Sequence[bytes | str | int | None]) -> RequestStatus:
    state, attempt, cloud, answer = row
    assert isinstance(state, bytes)
    assert attempt is not None
    return RequestStatus(RequestState(state.decode()), int(attempt), _text(cloud), _text(answer))


def _text(value: bytes | str | int | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else None
