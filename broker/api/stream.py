"""Server-sent events: ``id`` is that of the merged stream, ``event`` the kind, ``data`` the Event as JSON."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing, suppress

import redis.asyncio
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from broker.api.event_feed import EventFeed, FeedEvent
from broker.api.problems import ProblemError, events_gone, invalid_field
from broker.storage.outages import retry_through_outages
from broker.storage.streams import (
    BEGINNING,
    EventsLostError,
    parse_id,
    read_all_after,
    read_id_before,
    read_newest_id,
)

log = logging.getLogger(__name__)

HEARTBEAT_S = 15.0
SLOW_S = 10.0  # a reader that takes nothing for this long is disconnected; it resumes by its last id
_CHECK_S = 1.0  # how often the key of a silent stream is checked
_TIME = re.compile(r"[0-9]{1,15}")
_AHEAD_MS = 86_400_000  # ids are times of Redis, whose clock may be ahead of ours, but not by a day


async def event_stream(
    client: redis.asyncio.Redis,
    stream: str,
    feed: EventFeed,
    *,
    last_event_id: str | None,
    cloud: str | None,
    origins: Collection[str] | None,
    follow: bool,
    check_key: Callable[[], Awaitable[None]],
) -> EventSourceResponse:
    """Return a response that streams events, from after ``last_event_id`` or, if that is None, from now on.

    Parameters
    ----------
    client
        A connection to Redis, for what is not in ``feed``.
    stream
        The key of the merged stream of events.
    feed
        The newest events of the stream.
    last_event_id
        The id of the last event that the reader has, which is checked before the response begins; or a time
        in milliseconds since 1970, for all that is kept from then on.
    cloud
        Only events of this cloud; None: of all.
    origins
        Only events of leases of these origins; None: all events.
    follow
        Continue with what happens later. Otherwise the stream begins with the oldest event that is kept,
        unless there is an id, and ends with the newest.
    check_key
        Called for each page; the stream ends if it raises ProblemError because the key was revoked.

    Raises
    ------
    ProblemError
        When the id is invalid (422), or the stream no longer reaches back to it (410).
    redis.RedisError
        When Redis does not answer.
    """
    if last_event_id is not None:
        is_time = _TIME.fullmatch(last_event_id) is not None
        after = f"{last_event_id}-0" if is_time else last_event_id
        try:
            if parse_id(after)[0] > 1000 * time.time() + _AHEAD_MS:
                raise invalid_field("Last-Event-ID", "is an id that lies in the future")
            if is_time:
                after = await read_id_before(client, stream, after)
            await read_all_after(client, stream, after, count=1)
        except ValueError:
            raise invalid_field("Last-Event-ID", "is no id of this stream") from None
        except EventsLostError:
            # Read before the reader looks at what is true now, so that it misses nothing from here on.
            raise events_gone(await read_newest_id(client, stream)) from None
    else:
        after = await read_newest_id(client, stream) if follow else BEGINNING
    pages = (_follow if follow else _read_to_end)(client, feed, after)
    return _EventStreamResponse(
        _messages(pages, after, cloud, origins, check_key),
        ping=HEARTBEAT_S,
        ping_message_factory=lambda: ServerSentEvent(comment="still here"),
        send_timeout=SLOW_S,
    )


class _EventStreamResponse(EventSourceResponse):
    """Sends events until the stream ends or its reader is gone or takes nothing for ``send_timeout``."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            log.info("event stream closed: its reader takes nothing")
            scope["state"]["abort"]()


Pages = AsyncGenerator[Sequence[FeedEvent], None]


async def _messages(
    pages: Pages,
    after: str,
    cloud: str | None,
    origins: Collection[str] | None,
    check_key: Callable[[], Awaitable[None]],
) -> AsyncIterator[bytes]:
    """Yield what a reader is sent of pages of events after an id."""
    sent = after
    async with aclosing(pages):
        async for events in pages:
            try:
                await retry_through_outages(check_key, None)
            except ProblemError:
                return  # a reader that returns with a revoked key is answered 401
            for event in events:
                if cloud in (None, event.cloud) and (origins is None or event.origin in origins):
                    yield event.message
                    sent = event.id
            if events and sent != events[-1].id:
                # The position of the reader moves on past events that it did not ask for.
                sent = events[-1].id
                yield ServerSentEvent(id=sent).encode()


async def _read_to_end(client: redis.asyncio.Redis, feed: EventFeed, after: str) -> Pages:
    """Yield pages of events until there are no more; a failure breaks the connection."""
    with suppress(EventsLostError):  # a reader that returns with its last id is answered 410
        while events := await feed.read_page(client, after):
            yield events
            after = events[-1].id


async def _follow(client: redis.asyncio.Redis, feed: EventFeed, after: str) -> Pages:
    """Yield pages of events for ever, and an empty one now and then; end if the reader has fallen behind."""

    async def next_page() -> Sequence[FeedEvent]:
        grown = feed.grown  # before looking, so that nothing in between is waited for
        events = feed.after(after)
        if events is None:
            events = await feed.read_page(client, after)
        if not events:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_S):
                    await grown.wait()
        return events

    with feed.follow(), suppress(EventsLostError):  # a reader that returns with its last id is answered 410
        while True:
            events = await retry_through_outages(next_page, None)
            yield events
            if events:
                after = events[-1].id
