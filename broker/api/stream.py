"""Server-sent events: ``id`` is that of the merged stream, ``event`` the kind, ``data`` the Event as JSON."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection

import redis.asyncio
from sse_starlette import EventSourceResponse, ServerSentEvent

from broker import events
from broker.api.problems import ProblemError, events_gone, invalid_field
from broker.keys import Keys

HEARTBEAT_S = 15.0
SLOW_S = 10.0  # a reader that takes nothing for so long is disconnected; it resumes by its last id
_BLOCK_MS = 1000
_PAGE = 200
_PAUSE_S = 0.5
_LARGEST = 2**64


async def event_stream(
    client: redis.asyncio.Redis,
    keys: Keys,
    *,
    last_event_id: str | None,
    cloud: str | None,
    origins: Collection[str] | None,
    follow: bool,
    let_in: Callable[[], Awaitable[None]],
) -> EventSourceResponse:
    """The response, with the events of leases of these origins (None: all). What is wrong with the id is told
    before the first event. It ends when ``let_in`` raises ProblemError: the key was revoked meanwhile.

    Raises ProblemError (410, 422), redis.RedisError.
    """
    if last_event_id is not None:
        if not _is_stream_id(last_event_id):
            raise invalid_field("Last-Event-ID", "is no id of this stream")
        after = last_event_id
        try:
            await events.read(client, keys, after, count=1)
        except events.EventsLost:
            # Taken before the reader looks at what is true now: what happens from here on is not missed.
            raise events_gone(await events.last_id(client, keys)) from None
    else:
        after = await events.last_id(client, keys) if follow else events.BEGINNING
    source = _events(client, keys, after, cloud, origins, follow, let_in)
    return EventSourceResponse(
        source,
        ping=HEARTBEAT_S,
        ping_message_factory=lambda: ServerSentEvent(comment="still here"),
        send_timeout=SLOW_S,
    )


def _is_stream_id(text: str) -> bool:
    parts = re.fullmatch(r"([0-9]{1,20})-([0-9]{1,20})", text)
    return parts is not None and all(int(part) < _LARGEST for part in parts.groups())


async def _events(
    client: redis.asyncio.Redis,
    keys: Keys,
    after: str,
    cloud: str | None,
    origins: Collection[str] | None,
    follow: bool,
    let_in: Callable[[], Awaitable[None]],
) -> AsyncIterator[ServerSentEvent]:
    """Ends when there are no more (unless ``follow``), or when the reader has fallen behind what is kept."""
    told = after
    while True:
        try:
            page = await events.read(client, keys, after, _PAGE, _BLOCK_MS if follow else None)
            await let_in()
        except events.EventsLost:
            return  # who comes back with its last id is told 410
        except ProblemError:
            return  # and who comes back with a revoked key, 401
        except (redis.RedisError, OSError):
            if not follow:
                raise  # a broken connection is resumed, an end is believed
            await asyncio.sleep(_PAUSE_S)
            continue
        for entry, event in page:
            after = entry
            lease = event.lease
            if cloud not in (None, event.cloud) or (
                origins is not None and (not lease or lease.origin not in origins)
            ):
                continue
            yield ServerSentEvent(id=after, event=event.kind.value, data=event.model_dump_json())
            told = after
        if after != told:  # what the reader did not want: its place moves on all the same
            yield ServerSentEvent(id=after)
            told = after
        if not page and not follow:
            return
