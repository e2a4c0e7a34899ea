"""Readers of Redis streams: of public events, of answers, of anything that is appended to.

Every public event is in three places, written by the script that writes it to the journal. All hold it whole,
as the JSON of `contract.Event`.

* The merged stream ``spotfed:events`` holds the events of all clouds, the last 200,000, under ids of its own.
  `Cursor` and `ConsumerGroup` read it, and `EventConsumer` drives either for ever.
* The stream ``spotfed:events:<cloud>`` holds the cloud's event with `sequence` n under the id ``0-n``.
* The channel of the same name, ``spotfed:events:<cloud>``, carries it at once, to any Redis client. Pub/sub
  forgets: a reader that is slow or reconnects loses messages without notice, and finds the missing numbers in
  the cloud's stream. ``docs/how-to/user/webhooks.md`` does that in ten lines of redis-py.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple, NoReturn

import redis
import redis.asyncio
from pydantic import ValidationError

from broker.contract import Event, version
from broker.storage.outages import retry_through_outages

BEGINNING = "0-0"
CLAIM_AFTER_MS = 15_000  # an entry that its consumer has not finished by then goes to another
_PAGE = 200
_BLOCK_MS = 1000
_IDLE_S = 1.0
_LARGEST_PART = 2**64 - 1  # of an id's two numbers

Entry = tuple[str, dict[bytes, bytes]]  # an id and the fields under it


class EventsLostError(Exception):
    """Entries that were asked for are not there: begin again from the present state of the clouds.

    They are no longer kept, or Redis lost the latest ones, and the position is ahead of all that it has.
    """


class Page(NamedTuple):
    """Consecutive entries of one stream."""

    stream: str
    entries: list[Entry]


#: Handles a page and returns the ids of entries that it did not finish, or None if it finished all of them.
#: Unfinished entries come again, to any consumer of the `ConsumerGroup`; a `Cursor` allows none.
PageHandler = Callable[[Page], Awaitable[Collection[str] | None]]


# -- ids and entries ------------------------------------------------------------------------------------


def parse_id(stream_id: str) -> tuple[int, int]:
    """Return the two numbers of a stream id. Raises ValueError if it is none."""
    match = re.fullmatch(r"([0-9]{1,20})-([0-9]{1,20})", stream_id)
    numbers = (int(match[1]), int(match[2])) if match is not None else None
    if numbers is None or max(numbers) > _LARGEST_PART:
        raise ValueError(f"not a stream id: {stream_id!r}")
    return numbers


def is_entry_id(text: str) -> bool:
    """Return True if an entry of a stream can have this id: Redis refuses to look before or after others."""
    try:
        return parse_id(text) > (0, 0)
    except ValueError:
        return False


def parse_event(fields: Mapping[bytes, bytes]) -> Event:
    """Return the event in an entry of an event stream.

    Raises pydantic.ValidationError if it is of a version that this one cannot read.
    """
    return version.read_message(Event, fields[b"e"])


def try_parse_event(text: bytes) -> Event | None:
    """Return the event of this JSON, or None if it is of a version that this one cannot read."""
    try:
        return version.read_message(Event, text)
    except ValidationError:
        return None


async def read_newest_id(client: redis.asyncio.Redis, stream: str) -> str:
    """Return the id of the newest entry: reading after it yields only what is appended from now on."""
    entries: Any = await client.xrevrange(stream, count=1)
    return _text(entries[0][0]) if entries else BEGINNING


async def read_id_before(client: redis.asyncio.Redis, stream: str, position: str) -> str:
    """Return the id of the newest entry before a position, which need not be that of an entry."""
    entries: Any = await client.xrevrange(stream, f"({position}", count=1)
    return _text(entries[0][0]) if entries else BEGINNING


async def read_oldest_position(client: redis.asyncio.Redis, stream: str) -> str:
    """Return the position just before the oldest entry that is kept.

    Unlike reading after `BEGINNING`, reading after it notices what is trimmed meanwhile.
    """
    oldest: Any = await client.xrange(stream, count=1)
    if not oldest:
        return BEGINNING
    high, low = _predecessor(parse_id(_text(oldest[0][0])))
    return f"{high}-{low}"


async def read_after(
    client: redis.asyncio.Redis, stream: str, position: str, count: int, block_ms: int | None
) -> list[Entry]:
    """Return the next entries of a stream, whether or not earlier ones were trimmed.

    Parameters
    ----------
    client
        Connection to Redis; a blocking read occupies it.
    stream
        Key of the stream.
    position
        Id of the last entry already read.
    count
        Largest number of entries to return.
    block_ms
        Time to wait for an entry if there is none; stay below the client's socket timeout. None does not
        wait.
    """
    pages: Any = await client.xread({stream: position}, count=count, block=block_ms)
    return [entry for page in parse_pages(pages) for entry in page.entries]


async def read_all_after(
    client: redis.asyncio.Redis, stream: str, position: str, count: int = 100, block_ms: int | None = None
) -> list[Entry]:
    """Return the next entries of a stream, making sure that none in between was trimmed or lost.

    After `BEGINNING` come the oldest entries that are kept. See `read_after` for the parameters.

    Raises
    ------
    EventsLostError
        When entries after ``position`` were trimmed, or the stream does not reach to it.
    ValueError
        When ``position`` is not a stream id.
    """
    numbers = parse_id(position)
    async with client.pipeline(transaction=False) as pipeline:
        pipeline.xrange(stream, count=1)
        pipeline.xrange(stream, f"({position}", "+", count)
        pipeline.xrevrange(stream, count=1)
        oldest, entries, newest = await pipeline.execute()
    # Only entries have ids: an id that is older than the oldest entry belonged to one that was trimmed.
    if position != BEGINNING and oldest and numbers < _predecessor(parse_id(_text(oldest[0][0]))):
        raise EventsLostError(f"events after {position} are no longer kept")
    # Nobody was given the id of an entry that is not there yet: Redis came back without the latest ones.
    if position != BEGINNING and (not newest or numbers > parse_id(_text(newest[0][0]))):
        raise EventsLostError(f"the stream does not reach to {position}")
    if entries or block_ms is None:
        return [(_text(entry), fields) for entry, fields in entries]
    return await read_after(client, stream, position, count, block_ms)


# -- where entries come from ----------------------------------------------------------------------------


@dataclass
class Cursor:
    """Reads one stream for one reader, which keeps its own position. It may skip what was trimmed.

    Attributes
    ----------
    client
        Connection to Redis, used by this cursor alone: it blocks while it reads.
    stream
        Key of the stream.
    position
        Id of the last entry that was finished; None reads what is appended after `locate` or the first read.
    count
        Largest number of entries in a page.
    block_ms
        Time that a read waits for an entry.
    rewinds
        Go back to `BEGINNING` after a failure, for a stream whose ids may be lower once Redis is back without
        its data. Entries that were handled come again.
    """

    client: redis.asyncio.Redis
    stream: str
    position: str | None = None
    _: KW_ONLY
    count: int = _PAGE
    block_ms: int = _BLOCK_MS
    rewinds: bool = False

    async def locate(self) -> str:
        """Return the position, which is now if none was given and nothing was read yet."""
        if self.position is None:
            self.position = await read_newest_id(self.client, self.stream)
        return self.position

    async def read(self) -> list[Page]:
        """Return the next page, or none if nothing comes while it waits. The position stays."""
        position = await self.locate()
        entries = await read_after(self.client, self.stream, position, self.count, self.block_ms)
        return [Page(self.stream, entries)] if entries else []

    async def finish(self, page: Page, unfinished: Collection[str] = ()) -> None:
        """Move the position behind the page."""
        assert not unfinished, "a cursor does not come back to single entries"
        self.position = page.entries[-1][0]

    def recover(self) -> None:
        """Prepare to read again after a failure."""
        if self.rewinds:
            self.position = BEGINNING


@dataclass(frozen=True)
class GroupStream:
    """Describes one stream of a consumer group.

    ``start`` is where the group begins when it is created: ``0`` with the oldest entry, ``$`` with what is
    appended afterwards. With ``deletes``, entries are deleted once they are finished.
    """

    start: str
    deletes: bool = False


@dataclass
class ConsumerGroup:
    """Reads streams that all API processes share: each entry goes to one of them.

    An entry that its process does not finish goes to another. A group that is missing, at first or because
    Redis lost its data, is created.

    Attributes
    ----------
    client
        Connection to Redis, used by this group alone: it blocks while it reads.
    group
        Name of the group.
    consumer
        Name of this process in the group.
    streams
        Options of each stream, by key.
    count
        Largest number of entries in a page.
    block_ms
        Time that a read waits for an entry.
    claim_after_ms
        Age from which unfinished entries of any consumer are taken over.
    pause_s
        Wait after a read that returned entries. Reading in a group is a write, which other clients wait for;
        a pause collects more entries for the next read.
    """

    client: redis.asyncio.Redis
    group: str
    consumer: str
    streams: Mapping[str, GroupStream]
    _: KW_ONLY
    count: int = _PAGE
    block_ms: int = _BLOCK_MS
    claim_after_ms: int = CLAIM_AFTER_MS
    pause_s: float = 0.0
    _is_busy: bool = field(default=False, init=False)

    async def read(self) -> list[Page]:
        """Return entries that other consumers left behind, each a page of its own, or else new ones.

        One that cannot be handled then keeps no others from being finished.
        """
        if self._is_busy:
            await asyncio.sleep(self.pause_s)
        try:
            abandoned = [page for stream in self.streams for page in await self._claim(stream)]
            pages = abandoned or await self._read_new()
        except redis.ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
            await self._create()
            pages = []
        self._is_busy = bool(pages)
        return pages

    async def finish(self, page: Page, unfinished: Collection[str] = ()) -> None:
        """Acknowledge the entries of the page, except the unfinished ones."""
        finished = [entry for entry, _ in page.entries if entry not in unfinished]
        if finished:
            await self.client.xack(page.stream, self.group, *finished)
            if self.streams[page.stream].deletes:
                await self.client.xdel(page.stream, *finished)

    def recover(self) -> None:
        """Do nothing: Redis knows which entries are finished."""

    async def _claim(self, stream: str) -> list[Page]:
        claimed: Any = await self.client.xautoclaim(
            stream, self.group, self.consumer, min_idle_time=self.claim_after_ms, count=self.count
        )
        return [Page(stream, [(_text(entry), fields)]) for entry, fields in claimed[1] if fields]

    async def _read_new(self) -> list[Page]:
        pages: Any = await self.client.xreadgroup(
            self.group,
            self.consumer,
            dict.fromkeys(self.streams, ">"),
            count=self.count,
            block=self.block_ms,
        )
        return parse_pages(pages)

    async def _create(self) -> None:
        for stream, options in self.streams.items():
            try:
                await self.client.xgroup_create(stream, self.group, id=options.start, mkstream=True)
            except redis.ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):  # another process was faster
                    raise


# -- who reads them -------------------------------------------------------------------------------------


async def _always() -> bool:
    return True


@dataclass(frozen=True)
class EventConsumer:
    """Hands entries of streams to a handler, page by page and in order, each at least once.

    A page is finished when its handler returns. If Redis goes away before, the page comes again after the
    outage. Any other exception of the handler ends `run`, with the page unfinished.

    Attributes
    ----------
    name
        Name of the consumer, for the log.
    source
        Cursor or group that reads the entries.
    handle
        Handler of a page.
    prepare
        Called before each read; if it returns False, nothing is read for a second.
    """

    name: str
    source: Cursor | ConsumerGroup
    handle: PageHandler
    prepare: Callable[[], Awaitable[bool]] = _always

    async def run(self) -> NoReturn:
        """Read until the task is cancelled, through any number of outages."""
        while True:
            await retry_through_outages(self.step, self.name, recover=self.source.recover)

    async def step(self) -> None:
        """Read once and handle what came. Raises redis.RedisError when Redis is away."""
        if not await self.prepare():
            await asyncio.sleep(_IDLE_S)
            return
        for page in await self.source.read():
            await self.source.finish(page, await self.handle(page) or ())


def parse_pages(answer: Any) -> list[Page]:
    """Return the pages in an answer to XREAD or XREADGROUP."""
    if isinstance(answer, dict):  # in RESP 3; a list of pairs in RESP 2
        answer = [(key, pages[0]) for key, pages in answer.items()]
    return [
        Page(_text(key), [(_text(entry), fields) for entry, fields in entries])
        for key, entries in answer or ()
    ]


def _predecessor(numbers: tuple[int, int]) -> tuple[int, int]:
    """Return the largest id below one of an entry."""
    high, low = numbers
    return (high, low - 1) if low else (high - 1, _LARGEST_PART)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
