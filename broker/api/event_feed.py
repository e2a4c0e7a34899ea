"""Feeds all event streams of an API process from one reader of the merged stream in Redis.

The feed keeps the newest events in memory. A stream that resumes further back reads what it misses from Redis
itself, and takes the rest from memory. Ids tell where the two meet: no event is missed, and none comes twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple, NoReturn

import redis.asyncio
from sse_starlette import ServerSentEvent

from broker.storage.outages import retry_through_outages
from broker.storage.replication import NO_BARRIER, ReplicationBarrier
from broker.storage.streams import (
    Entry,
    EventsLostError,
    parse_event,
    parse_id,
    read_all_after,
    read_newest_id,
)

_BLOCK_MS = 1000
_PAGE = 200
_KEPT = 2_000


class FeedEvent(NamedTuple):
    """A public event, as it is sent to whoever may see it. ``origin``: that of its lease, if it has one."""

    id: str
    place: tuple[int, int]
    cloud: str
    origin: str | None
    message: bytes


class EventFeed:
    """Reads the merged stream while there is a follower, and keeps its newest events for all of them."""

    def __init__(self, client: redis.asyncio.Redis, stream: str, replicated: ReplicationBarrier = NO_BARRIER):
        """Read nothing yet.

        ``client`` lends a connection that blocks while it reads. ``replicated`` is waited for after each
        read: a reader must not know more than the next primary.
        """
        self._client, self._stream, self._replicated = client, stream, replicated
        self._events: deque[FeedEvent] = deque()
        self._start: tuple[int, int] | None = None  # all events after this place are in memory
        self._position = ""
        self._followers = 0
        self._followed, self._grown = asyncio.Event(), asyncio.Event()

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Keep the feed reading while the context lasts."""
        self._followers += 1
        self._followed.set()
        try:
            yield
        finally:
            self._followers -= 1
            if not self._followers:
                self._followed.clear()

    @property
    def grown(self) -> asyncio.Event:
        """The event that is set as soon as the feed has more than now."""
        return self._grown

    def after(self, position: str) -> Sequence[FeedEvent] | None:
        """Return the next events in memory after an id; None if there may be others between in Redis only."""
        place = parse_id(position)
        if self._start is None or place < self._start:
            return None
        newer = 0
        for event in reversed(self._events):
            if event.place <= place:
                break
            newer += 1
        first = len(self._events) - newer
        return tuple(islice(self._events, first, min(first + _PAGE, len(self._events))))

    async def read_page(
        self, client: redis.asyncio.Redis, position: str, block_ms: int | None = None
    ) -> list[FeedEvent]:
        """Return the next events in Redis after an id, once replicas have them.

        Raises EventsLostError, redis.RedisError.
        """
        place = self._replicated.place
        entries = await read_all_after(client, self._stream, position, _PAGE, block_ms)
        if entries:
            await self._replicated.wait(place)
        return [make_feed_event(entry) for entry in entries]

    async def run(self) -> NoReturn:
        """Read for followers until the task is cancelled, through any number of outages."""
        while True:
            await self._followed.wait()
            await retry_through_outages(self._begin, "event feed")
            try:
                while self._followers:
                    await retry_through_outages(self._read, "event feed")
            except EventsLostError:
                pass  # begin again; followers that are behind find out by themselves
            finally:
                self._start = None
                self._events.clear()

    async def _begin(self) -> None:
        self._position = await read_newest_id(self._client, self._stream)
        self._start = parse_id(self._position)
        self._note_growth()

    async def _read(self) -> None:
        events = await self.read_page(self._client, self._position, _BLOCK_MS)
        if not events:
            return
        self._events.extend(events)
        self._position = events[-1].id
        while len(self._events) > _KEPT:
            self._start = self._events.popleft().place
        self._note_growth()

    def _note_growth(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()


def make_feed_event(entry: Entry) -> FeedEvent:
    """Return the event of an entry of the merged stream, and what to send of it.

    Raises pydantic.ValidationError if it is of a version that this one cannot read.
    """
    event_id, fields = entry
    event = parse_event(fields)
    message = ServerSentEvent(id=event_id, event=event.kind.value, data=event.model_dump_json()).encode()
    origin = None if event.lease is None else event.lease.origin
    return FeedEvent(event_id, parse_id(event_id), event.cloud, origin, message)
