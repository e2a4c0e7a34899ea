"""Public events, as they happen and without gaps.

Every event is published whole, as the JSON of `contract.Event`, on the channel ``spotfed:events:<cloud>``, in
the same script that writes it to the journal. Any Redis client can listen:

    pubsub = redis.Redis.from_url(url, socket_timeout=None).pubsub()
    pubsub.psubscribe("spotfed:events:*")
    for message in pubsub.listen():
        if message["type"] == "pmessage":
            event = json.loads(message["data"])  # {"cloud": "a", "kind": "evicted", "sequence": 7, ...}

Pub/sub forgets: who is slow, or reconnects, loses messages without being told. Two streams beside it do not.
``spotfed:events:<cloud>`` holds the event with `sequence` n under the id ``0-n``: who misses numbers reads
them there (`Subscriber` does). ``spotfed:events`` holds the events of all clouds, merged, under ids of its
own, and keeps the last 200,000 (`read`).
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Collection, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, cast

import redis.asyncio
from pydantic import ValidationError

from broker import versions
from broker.contract import Event
from broker.keys import Keys
from broker.records import read_stream

BEGINNING = "0-0"
_PAGE = 500
_RETRY_S = 0.2
_ANSWER_S = 5.0


class EventsLost(Exception):  # noqa: N818 (says what happened)
    """Events that were asked for are not kept any more: begin again from what the clouds are now."""


# -- the merged stream -----------------------------------------------------------------------------------


async def read(
    client: redis.asyncio.Redis, keys: Keys, after: str, count: int = 100, block_ms: int | None = None
) -> list[tuple[str, Event]]:
    """The next events of all clouds, as pairs of stream id and event.

    Args:
        client: of the queue.
        keys: where its events are.
        after: id of the last event already read; `BEGINNING` for the oldest that is kept.
        count: at most so many events.
        block_ms: wait so long for one; stay below the client's socket timeout. None does not wait.

    Raises:
        ValueError: `after` is not a stream id.
        EventsLost: events after `after` were trimmed.
        redis.RedisError: call again.
    """
    entries = await read_fields(client, keys, after, count, block_ms)
    return [(entry, _event(fields)) for entry, fields in entries]


async def read_fields(
    client: redis.asyncio.Redis, keys: Keys, after: str, count: int = 100, block_ms: int | None = None
) -> list[tuple[str, dict[bytes, bytes]]]:
    """The same as the stream has them (field ``e`` is an Event), for who hands on what a later version wrote.

    Arguments and errors are those of `read`.
    """
    position = _position(after)
    async with client.pipeline(transaction=False) as pipeline:
        pipeline.xrange(keys.all_events, count=1)
        pipeline.xrange(keys.all_events, f"({after}", "+", count)
        oldest, entries = await pipeline.execute()
    # Ids are given out with events only: one that is older than the oldest event was that of a trimmed one.
    if after != BEGINNING and oldest and position < _before(_position(oldest[0][0].decode())):
        raise EventsLost(f"events after {after} are no longer kept")
    if entries:
        return [(entry.decode(), fields) for entry, fields in entries]
    if block_ms is None:
        return []
    return await read_stream(client, keys.all_events, after, count, block_ms)


async def before_oldest(client: redis.asyncio.Redis, keys: Keys) -> str:
    """The place in the merged stream after which comes the oldest event that is kept now.

    Unlike after `BEGINNING`, `read` after it notices what is trimmed meanwhile.
    """
    oldest: Any = await client.xrange(keys.all_events, count=1)
    if not oldest:
        return BEGINNING
    high, low = _before(_position(cast("bytes", oldest[0][0]).decode()))
    return f"{high}-{low}"


def is_before(one: str, other: str) -> bool:
    """Whether a place in the merged stream is before another. Raises ValueError."""
    return _position(one) < _position(other)


async def last_id(client: redis.asyncio.Redis, keys: Keys) -> str:
    """Id of the newest event of the merged stream: `read` after it yields only what happens from now on."""
    entries: Any = await client.xrevrange(keys.all_events, count=1)
    return cast("bytes", entries[0][0]).decode() if entries else BEGINNING


# -- one or all clouds, at once and in order -------------------------------------------------------------


class Subscriber:
    """Follows clouds: every event exactly once, in order per cloud, for one reader.

    Pub/sub brings events at once; the clouds' streams fill what it lost: after a gap, after a reconnect, and
    every `poll_s` in case the last message was the lost one.

        async with Subscriber(client, keys) as events:
            async for event in events:
                ...

    Entering raises `redis.RedisError` where there is no server; once entered, it waits for a lost one to come
    back. Cancelling a wait for the next event loses nothing. `seen` is where to resume: pass it as `after` to
    the next subscriber.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: Keys,
        clouds: Collection[str] | None = None,
        after: Mapping[str, int] | None = None,
        poll_s: float = 1.0,
    ) -> None:
        """Connect to nothing yet.

        Args:
            client: of the queue.
            keys: where its events are.
            clouds: whom to follow; None follows all, those too that join later.
            after: last sequence seen, by cloud; a cloud that is not in it is followed from its first event.
                None: only what happens from now on (from entering the context).
            poll_s: how long a lost message may stay unnoticed.
        """
        self.seen: dict[str, int] = dict(after or {})
        self._client = client
        self._keys = keys
        self._clouds = None if clouds is None else sorted(set(clouds))
        self._poll_s = poll_s
        self._from_now = after is None
        self._queued = dict(self.seen)
        self._ready: deque[Event] = deque()
        self._pubsub: redis.asyncio.client.PubSub | None = None
        self._poll_at = 0.0

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        """The next event; waits for it, through any number of reconnects.

        Raises:
            EventsLost: events between `seen` and now are not kept any more.
        """
        task = asyncio.current_task()
        assert task is not None
        cancelled = task.cancelling()
        while not self._ready:
            try:
                await self._step()
            except (redis.ConnectionError, redis.TimeoutError):
                await self.aclose()
                await asyncio.sleep(_RETRY_S)
            # redis-py sends under asyncio.wait_for, and that of Python 3.11 may swallow a cancellation.
            if task.cancelling() > cancelled:
                raise asyncio.CancelledError
        event = self._ready.popleft()
        self.seen[event.cloud] = _sequence(event)
        return event

    async def aclose(self) -> None:
        """Stop listening. The next event asked for begins to listen again, without a gap."""
        pubsub, self._pubsub = self._pubsub, None
        if pubsub is not None:
            await _close(pubsub)

    async def _step(self) -> None:
        """Do one thing that may make events ready."""
        now = asyncio.get_running_loop().time()
        if self._pubsub is None:
            await self._open()
        elif now >= self._poll_at:
            await self._poll(await self._followed())
        else:
            message = await self._pubsub.get_message(
                ignore_subscribe_messages=True, timeout=self._poll_at - now
            )
            if message is not None:
                await self._take(message["data"])

    async def _open(self) -> None:
        """Listen first, then look where the streams are: what happens in between is in both."""
        pubsub = self._client.pubsub()
        try:
            await self._subscribe(pubsub)
            await self._catch_up()
        except BaseException:
            await _close(pubsub)
            raise
        self._pubsub = pubsub

    async def _subscribe(self, pubsub: redis.asyncio.client.PubSub) -> None:
        if self._clouds is None:
            await pubsub.psubscribe(self._keys.channel("*"))
        else:
            await pubsub.subscribe(*map(self._keys.channel, self._clouds))
        # The streams are read on another connection: not before the server says that it has subscribed us.
        for _ in range(1 if self._clouds is None else len(self._clouds)):
            if await pubsub.get_message(timeout=_ANSWER_S) is None:
                raise redis.TimeoutError("no answer to a subscription")

    async def _catch_up(self) -> None:
        followed = await self._followed()
        newest = await self._newest(followed)
        if self._from_now:
            self._from_now = False
            self.seen.update(newest)
            self._queued.update(newest)
        for cloud, sequence in newest.items():
            # A server that restarted without its last events would give their numbers to others.
            if sequence < self._queued.get(cloud, 0):
                raise EventsLost(
                    f"cloud {cloud}: event {self._queued[cloud]} was seen, {sequence} is the newest"
                )
        await self._poll(followed)

    async def _followed(self) -> list[str]:
        if self._clouds is not None:
            return self._clouds
        joined: Any = await cast("Any", self._client.hkeys(self._keys.clouds))
        return sorted({*self._queued, *(cloud.decode() for cloud in joined)})

    async def _newest(self, clouds: Iterable[str]) -> dict[str, int]:
        clouds = list(clouds)
        async with self._client.pipeline(transaction=False) as pipeline:
            for cloud in clouds:
                pipeline.xrevrange(self._keys.events(cloud), count=1)
            tops = await pipeline.execute()
        return {
            cloud: _position(top[0][0].decode())[1] if top else 0
            for cloud, top in zip(clouds, tops, strict=True)
        }

    async def _poll(self, clouds: Iterable[str]) -> None:
        self._poll_at = asyncio.get_running_loop().time() + self._poll_s
        await self._fill(clouds)

    async def _fill(self, clouds: Iterable[str]) -> None:
        """Take the next page of each cloud's stream."""
        clouds = list(clouds)
        async with self._client.pipeline(transaction=False) as pipeline:
            for cloud in clouds:
                after = f"(0-{self._queued.get(cloud, 0)}"
                pipeline.xrange(self._keys.events(cloud), after, "+", _PAGE)
            pages = await pipeline.execute()
        if any(len(page) == _PAGE for page in pages):
            self._poll_at = 0.0  # There is more: come back before anything else.
        for cloud, page in zip(clouds, pages, strict=True):
            for entry, fields in page:
                self._queue(cloud, _position(entry.decode())[1], _event(fields))

    def _queue(self, cloud: str, sequence: int, event: Event) -> None:
        expected = self._queued.get(cloud, 0) + 1
        if sequence != expected:
            raise EventsLost(f"cloud {cloud}: events {expected} to {sequence - 1} are no longer kept")
        self._queued[cloud] = sequence
        self._ready.append(event)

    async def _take(self, data: bytes) -> None:
        """A message: the next event, one that is known, or the sign of a gap."""
        try:
            event = versions.read(Event, data)
        except ValidationError:
            return  # Not from an owner of this version. What an owner published is in its stream.
        last = self._queued.get(event.cloud, 0)
        if event.sequence == last + 1:
            self._queue(event.cloud, event.sequence, event)
        elif event.sequence is not None and event.sequence > last:
            await self._fill([event.cloud])


async def _close(pubsub: redis.asyncio.client.PubSub) -> None:
    await cast("Awaitable[None]", pubsub.aclose())  # type: ignore[no-untyped-call]


def _event(fields: dict[bytes, bytes]) -> Event:
    return versions.read(Event, fields[b"e"])


def _sequence(event: Event) -> int:
    assert event.sequence is not None, "a public event without a sequence"
    return event.sequence


def _position(stream_id: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,20})-(\d{1,20})", stream_id)
    if match is None:
        raise ValueError(f"not a stream id: {stream_id!r}")
    return int(match[1]), int(match[2])


def _before(position: tuple[int, int]) -> tuple[int, int]:
    """The largest id below that of an event."""
    high, low = position
    return (high, low - 1) if low else (high - 1, 2**64 - 1)
