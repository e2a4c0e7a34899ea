"""Server-sent events: ``id`` is that of the merged stream, ``event`` the kind, ``data`` the Event as JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection

import redis.asyncio
from sse_starlette import EventSourceResponse, ServerSentEvent

from broker.api.problems import ProblemError, events_gone, invalid_field
from broker.storage.keys import RedisKeys
from broker.storage.outages import retry_through_outages
from broker.storage.streams import (
    BEGINNING,
    Entry,
    EventsLostError,
    parse_event,
    read_all_after,
    read_newest_id,
)

HEARTBEAT_S = 15.0
SLOW_S = 10.0  # a reader that takes nothing for this long is disconnected; it resumes by its last id
_BLOCK_MS = 1000
_PAGE = 200


async def event_stream(
    client: redis.asyncio.Redis,
    keys: RedisKeys,
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
        A connection to Redis that may block.
    keys
        The keys of the events in Redis.
    last_event_id
        The id of the last event that the reader has; it is checked before the response begins.
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
        after = last_event_id
        try:
            await read_all_after(client, keys.all_events, after, count=1)
        except ValueError:
            raise invalid_field("Last-Event-ID", "is no id of this stream") from None
        except EventsLostError:
            # Read before the reader looks at what is true now, so that it misses nothing from here on.
            raise events_gone(await read_newest_id(client, keys.all_events)) from None
    else:
        after = await read_newest_id(client, keys.all_events) if follow else BEGINNING
    source = _events(client, keys, after, cloud, origins, follow, check_key)
    return EventSourceResponse(
        source,
        ping=HEARTBEAT_S,
        ping_message_factory=lambda: ServerSentEvent(comment="still here"),
        send_timeout=SLOW_S,
    )


async def _events(
    client: redis.asyncio.Redis,
    keys: RedisKeys,
    after: str,
    cloud: str | None,
    origins: Collection[str] | None,
    follow: bool,
    check_key: Callable[[], Awaitable[None]],
) -> AsyncIterator[ServerSentEvent]:
    """Yield events until there are no more, or for ever; end early if the reader has fallen behind."""

    async def read_entries() -> list[Entry]:
        entries = await read_all_after(client, keys.all_events, after, _PAGE, _BLOCK_MS if follow else None)
        await check_key()
        return entries

    sent = after
    while True:
        try:
            if follow:
                entries = await retry_through_outages(read_entries, None)
            else:
                entries = await read_entries()  # a failure breaks the connection; the reader resumes
        except EventsLostError:
            return  # a reader that returns with its last id is answered 410
        except ProblemError:
            return  # a reader that returns with a revoked key is answered 401
        for entry, fields in entries:
            after, event = entry, parse_event(fields)
            lease = event.lease
            if cloud not in (None, event.cloud) or (
                origins is not None and (not lease or lease.origin not in origins)
            ):
                continue
            yield ServerSentEvent(id=after, event=event.kind.value, data=event.model_dump_json())
            sent = after
        if after != sent:  # the position of the reader moves on past events that it did not ask for
            yield ServerSentEvent(id=after)
            sent = after
        if not entries and not follow:
            return
