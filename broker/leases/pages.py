"""Pages of leases: a walk through all of them that goes on where the page before ended.

Open leases come first, by cloud and id, then those that have ended, the latest first. A page is a place in
that
order and not a number of leases that were skipped: leases that come or go meanwhile move nothing. A lease
that is there all the time is met once; one that ends during the walk may be met again, among the ended.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import redis.asyncio
from pydantic import ValidationError

from broker.contract import CloudInfo, Event, Lease, LeaseState, read_message
from broker.leases.store import LeaseStore
from broker.storage.keys import RedisKeys
from broker.storage.streams import is_entry_id

_PAGE = 500
#: The number of events that are searched for one answer; the next page goes on behind them.
_SEARCHED_EVENTS = 20_000
_NEWEST = "+"


class CursorError(ValueError):
    """A cursor is not one that a page of leases gave."""


class _Place(NamedTuple):
    """A place in the walk: behind an open lease (``cloud``, ``lease``), or behind an ``event``.

    Clouds go by their order, then by their id.
    """

    order: int = -1
    cloud: str = ""
    lease: str = ""
    event: str | None = None

    def __str__(self) -> str:
        text = json.dumps([self.order, self.cloud, self.lease, self.event], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, cursor: str) -> _Place:
        """Read a place from a cursor.

        Raises
        ------
        CursorError
            When it is not a cursor of ours.
        """
        try:
            order, cloud, lease, event = json.loads(
                base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            )
        except (binascii.Error, ValueError, TypeError) as error:
            raise CursorError("is no place in the leases") from error
        typed = type(order) is int and isinstance(cloud, str) and isinstance(lease, str)
        if not (typed and (event in (None, _NEWEST) or (isinstance(event, str) and is_entry_id(event)))):
            raise CursorError("is no place in the leases")
        return cls(order, cloud, lease, event)


@dataclass(frozen=True)
class LeaseFilter:
    """Selects leases by state, cloud and origins; None selects any."""

    state: LeaseState | None = None
    cloud: str | None = None
    origins: Collection[str] | None = None

    @property
    def open_only(self) -> bool:
        """True if no lease that has ended is selected."""
        return self.state is not None and self.state.is_open

    @property
    def ended_only(self) -> bool:
        """True if no open lease is selected."""
        return self.state is not None and not self.state.is_open

    def selects(self, lease: Lease) -> bool:
        """Return True if a lease is selected."""
        if self.state not in (None, lease.state) or self.cloud not in (None, lease.cloud):
            return False
        return self.origins is None or lease.origin in self.origins


class LeasePages:
    """Reads pages of the leases of all clouds. Its methods may raise ``redis.RedisError``."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        clouds: Callable[[], Awaitable[Sequence[CloudInfo]]],
        store: LeaseStore,
    ):
        """Keep what is needed; ``clouds`` returns the descriptions of all members."""
        self._client, self._keys, self._clouds, self._store = client, keys, clouds, store

    async def read_page(
        self, selection: LeaseFilter, limit: int, cursor: str | None
    ) -> tuple[list[Lease], str | None]:
        """Return at most ``limit`` leases, and the cursor of the next page or None after the last one.

        A page may be empty while another one follows.

        Raises
        ------
        CursorError
            When the cursor is not one that a page gave.
        """
        place = _Place() if cursor is None else _Place.parse(cursor)
        leases: list[Lease] = []
        if place.event is None:
            if not selection.ended_only:
                async for position, lease in self._walk_open(selection.cloud, place):
                    if len(leases) == limit:
                        return leases, str(place)
                    place = position
                    if selection.selects(lease):
                        leases.append(lease)
            place = place._replace(event=_NEWEST)
        if selection.open_only:
            return leases, None
        async for position, ended in self._walk_ended(place):
            if ended is None:
                return leases, str(position)
            if selection.selects(ended):
                if len(leases) == limit:
                    return leases, str(place)
                leases.append(ended)
            place = position
        return leases, None

    async def _walk_open(self, cloud: str | None, behind: _Place) -> AsyncIterator[tuple[_Place, Lease]]:
        for info in sorted(await self._clouds(), key=lambda info: (info.order, info.id)):
            if cloud not in (None, info.id) or (info.order, info.id) < (behind.order, behind.cloud):
                continue
            running: Any = self._client.smembers(self._keys.running(info.id))
            ids = sorted(lease.decode() for lease in await running)
            if info.id == behind.cloud:
                ids = [lease for lease in ids if lease > behind.lease]
            for start in range(0, len(ids), _PAGE):
                chunk = [(info.id, lease) for lease in ids[start : start + _PAGE]]
                for _, lease in await self._store.get_many(chunk):
                    if lease is not None and lease.state.is_open:
                        yield _Place(info.order, info.id, lease.id), lease

    async def _walk_ended(self, behind: _Place) -> AsyncIterator[tuple[_Place, Lease | None]]:
        """Yield ended leases, and at last None if there are more events than are searched for one answer."""
        assert behind.event is not None
        newest, searched = behind.event, 0
        while True:
            upto = newest if newest == _NEWEST else f"({newest}"
            page: Any = await self._client.xrevrange(self._keys.all_events, upto, "-", _PAGE)
            for entry, fields in page:
                newest = entry.decode()
                try:
                    lease = read_message(Event, fields[b"e"]).lease
                except ValidationError:  # of another version
                    continue
                if lease is not None and not lease.state.is_open:
                    yield behind._replace(event=newest), lease
            searched += _PAGE
            if len(page) < _PAGE:
                return
            if searched >= _SEARCHED_EVENTS:
                yield behind._replace(event=newest), None
                return
