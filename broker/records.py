"""The life of a request in Redis: accepted, attempted on one cloud at a time, decided once.

    (none) ──accept──► open ──reserve k──► attempting ──commit──► committed   (answer: the lease)
                        │ ▲                    │
                        │ └──────abandon───────┘
                        └──close──► refused                                    (answer: the refusals)

Every arrow is one Lua script that looks at the state before it writes, so of two processes one wins and the
other is told what stands. Attempts are numbered and the number only grows. Hence a request never has two open
attempts, and a process that slept through its deadline cannot bring an abandoned one back.

Each call takes a list and costs one round trip. Redis serves nobody else meanwhile: some hundreds at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast
from uuid import uuid4

import redis.asyncio

from broker.contract import Command, Confirm, Release, Reserve, commands
from broker.journal import read_script
from broker.keys import Keys


class Outcome(StrEnum):
    """What accepting a request or a call found."""

    NEW = "new"  # ours to carry out
    ANSWERED = "answered"  # known, and this was the answer
    IN_FLIGHT = "in_flight"  # known, another process is at it
    MISMATCH = "mismatch"  # the id or key was used for something else


class State(StrEnum):
    """Where a request is in its life. The last two have an answer and never change."""

    UNKNOWN = "unknown"  # no such record
    OPEN = "open"
    ATTEMPTING = "attempting"
    COMMITTED = "committed"
    REFUSED = "refused"


def _token() -> str:
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class Attempt:
    """Attempt `number` (from 1) of a request, on one cloud; `look_after_ms` as in `Accept`."""

    request: str
    number: int
    cloud: str
    command: Reserve
    look_after_ms: int


@dataclass(frozen=True, slots=True)
class Accept:
    """A request to be noted. Sent again, the same object is recognised by its `token`.

    Attributes:
        id: of the request.
        fingerprint: of everything that makes two requests the same, its holder included.
        body: JSON, kept for the process that takes over.
        look_after_ms: from when on another process may take over.
        first: an attempt, number 1, that is made in the same step; None: none yet.
        token: of this call.
    """

    id: str
    fingerprint: str
    body: str
    look_after_ms: int
    first: Attempt | None = None
    token: str = field(default_factory=_token)


@dataclass(frozen=True, slots=True)
class Accepted:
    """What accepting found; `answer` is JSON where `outcome` is ANSWERED, else None."""

    outcome: Outcome
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What shall become of an attempt: with an answer (JSON) it is committed, without one abandoned.

    `at_s` and `reply_to` go into the Confirm or Release that is sent to the attempt's cloud.
    """

    request: str
    number: int
    answer: str | None = None
    at_s: float | None = None
    reply_to: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands in a record after a call, whoever wrote it. `cloud` is that of the latest attempt."""

    state: State
    attempt: int = 0
    cloud: str | None = None
    answer: str | None = None

    def attempts(self, number: int, cloud: str) -> bool:
        """Whether this very attempt is the open one."""
        return self.state is State.ATTEMPTING and (self.attempt, self.cloud) == (number, cloud)


@dataclass(frozen=True, slots=True)
class Record:
    """Everything that is known of a request."""

    id: str
    fingerprint: str
    body: str
    standing: Standing


def attempt_id(request: str, number: int) -> str:
    """The id of an attempt, which becomes that of its lease."""
    return f"{request}.{number}"


class Records:
    """The records of requests and of calls, and the brokers' end of the inboxes.

    Every method may raise `redis.RedisError` and may then be called again with the same arguments: what was
    written is recognised and not written twice, but for the commands of `send` (which carry an id).
    """

    def __init__(self, client: redis.asyncio.Redis, keys: Keys) -> None:
        self.redis = client
        self.keys = keys
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
        names = [
            self.keys.open_requests,
            *(self.keys.inbox(cloud) for cloud in clouds),
            *(self.keys.request(one.id) for one in requests),
        ]
        arguments: list[str | int] = [len(clouds)]
        for one in requests:
            arguments += [one.id, one.fingerprint, one.body, one.token, one.look_after_ms]
            if one.first is None:
                arguments += ["", 0, ""]
            else:
                assert one.first.number == 1
                cloud = one.first.cloud
                arguments += [cloud, clouds[cloud], one.first.command.model_dump_json()]
        return [_accepted(row) for row in await self._accept(names, arguments)]

    async def reserve(self, attempts: Sequence[Attempt]) -> list[Standing]:
        """Write attempts to their records, and their commands to the clouds' inboxes (one entry a cloud).

        Returns:
            What stands; `Standing.attempts` tells whether it is this attempt. If not, no command was sent:
            the request has an answer, or another process attempts it.
        """
        if not attempts:
            return []
        clouds = _places(one.cloud for one in attempts)
        names = [
            self.keys.open_requests,
            *(self.keys.inbox(cloud) for cloud in clouds),
            *(self.keys.request(one.request) for one in attempts),
        ]
        arguments: list[str | int] = [len(clouds)]
        for one in attempts:
            arguments += [one.request, one.number, one.cloud, clouds[one.cloud]]
            arguments += [one.command.model_dump_json(), one.look_after_ms]
        return [_standing(row) for row in await self._reserve(names, arguments)]

    async def decide(self, decisions: Sequence[Decision]) -> list[Standing]:
        """Decide open attempts, once each, and tell their clouds (Confirm or Release).

        Returns:
            What stands. After a commit, `Standing.committed` tells whether it was this one; if not, this
            process has been overtaken and the answer, if there is one, is another's. After an abandonment the
            state is OPEN.
        """
        if not decisions:
            return []
        names = [self.keys.open_requests, *(self.keys.request(one.request) for one in decisions)]
        arguments: list[str | int] = [self.keys.inbox("")]
        for one in decisions:
            attempt = attempt_id(one.request, one.number)
            verb, kind = ("abandon", Release) if one.answer is None else ("commit", Confirm)
            command = kind(id=f"{attempt}:{verb}", attempt=attempt, at_s=one.at_s, reply_to=one.reply_to)
            arguments += [one.request, one.number, verb, one.answer or "", command.model_dump_json()]
        return [_standing(row) for row in await self._decide(names, arguments)]

    async def close(self, answers: Mapping[str, str]) -> list[Standing]:
        """Refuse requests for good; `answers` is JSON by request id. Returns what stands, in the same order.

        An attempt that is still open stands: abandon it first.
        """
        if not answers:
            return []
        names = [self.keys.open_requests, *(self.keys.request(request) for request in answers)]
        arguments = [part for pair in answers.items() for part in pair]
        return [_standing(row) for row in await self._close(names, arguments)]

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
        async with self.redis.pipeline(transaction=False) as pipeline:
            for cloud, batch in batches.items():
                pipeline.xadd(self.keys.inbox(cloud), {"c": commands.dump_json(list(batch))})
            await pipeline.execute()


async def read_stream(
    client: redis.asyncio.Redis, stream: str, after: str, count: int, block_ms: int | None
) -> list[tuple[str, dict[bytes, bytes]]]:
    """The next entries of one stream (of replies, of events), as pairs of id and fields.

    Args:
        client: of the queue.
        stream: name of its key.
        after: id of the last entry already read.
        count: at most so many entries.
        block_ms: wait so long for one; stay below the client's socket timeout. None does not wait.
    """
    found: Any = await client.xread({stream: after}, count=count, block=block_ms)
    # A list of pairs of stream and entries, or None; there is one stream.
    return [(entry.decode(), fields) for _, page in found or () for entry, fields in page]


def _places(clouds: Iterable[str]) -> dict[str, int]:
    """Each cloud once, with its place (from 1) among the inboxes of a script."""
    return {cloud: place for place, cloud in enumerate(dict.fromkeys(clouds), 1)}


async def _result(awaitable: Any) -> Any:
    # redis-py types a command's result as "awaitable or not".
    return await awaitable


def _accepted(row: list[bytes | None]) -> Accepted:
    outcome, answer = row
    assert outcome is not None
    return Accepted(Outcome(outcome.decode()), None if answer is None else answer.decode())


def _standing(row: Sequence[bytes | int | None]) -> Standing:
    state, attempt, cloud, answer = row
    assert isinstance(state, bytes)
    assert attempt is not None
    return Standing(State(state.decode()), int(attempt), _text(cloud), _text(answer))


def _text(value: bytes | int | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else None
