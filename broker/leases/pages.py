"""Leases in pages: a walk through all of them that goes on where the page before ended.

First those that have not ended, by cloud and id; then those that ended, the latest first. A page is a place
in that order, not a number of leases that were seen: whatever comes or goes meanwhile moves nothing. Who was
there all the time is met once; one that ends during the walk may be met again, among the ended.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import redis.asyncio
from pydantic import ValidationError

from broker.contract import Event, Lease, LeaseState, read_message
from broker.leases.store import LeaseStore
from broker.requests.members import MembershipView
from broker.requests.validation import UnsuitableError
from broker.storage.keys import RedisKeys

_PAGE = 500
#: So many events are looked through for one answer; the next page goes on behind them.
_LOOKED_THROUGH = 20_000
_NEWEST = "+"


class _Place(NamedTuple):
    """Behind a lease that has not ended (``cloud``, ``lease``), or behind an event (``event``). Clouds go by
    their order, then by their id."""

    order: int = -1
    cloud: str = ""
    lease: str = ""
    event: str | None = None

    def __str__(self) -> str:
        text = json.dumps([self.order, self.cloud, self.lease, self.event], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def parsed(cls, cursor: str) -> _Place:
        """Raises UnsuitableError for what is no cursor of ours."""
        try:
            order, cloud, lease, event = json.loads(
                base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            )
        except (binascii.Error, ValueError, TypeError) as error:
            raise UnsuitableError("cursor", "is no place in the leases") from error
        right = type(order) is int and isinstance(cloud, str) and isinstance(lease, str)
        if not (right and (event is None or (isinstance(event, str) and _is_entry(event)))):
            raise UnsuitableError("cursor", "is no place in the leases")
        return cls(order, cloud, lease, event)


def _is_entry(text: str) -> bool:
    """Whether it can be an id in a stream."""
    parts = text.split("-")
    whole = all(part.isascii() and part.isdecimal() and int(part) < 2**64 for part in parts if len(part) < 21)
    return text == _NEWEST or (len(parts) == 2 and whole and all(0 < len(part) < 21 for part in parts))


@dataclass(frozen=True)
class LeaseFilter:
    """Which leases are meant; None: any. ``origins``: of these only."""

    state: LeaseState | None = None
    cloud: str | None = None
    origins: Collection[str] | None = None

    def suits(self, lease: Lease) -> bool:
        """Whether it is one of them."""
        if self.state not in (None, lease.state) or self.cloud not in (None, lease.cloud):
            return False
        return self.origins is None or lease.origin in self.origins


class LeasePages:
    """Reads pages. Methods may raise `redis.RedisError`."""

    def __init__(
        self, client: redis.asyncio.Redis, keys: RedisKeys, adverts: MembershipView, shown: LeaseStore
    ):
        self._client, self._keys, self._adverts, self._shown = client, keys, adverts, shown

    async def page(
        self, wanted: LeaseFilter, limit: int, cursor: str | None
    ) -> tuple[list[Lease], str | None]:
        """At most ``limit`` leases, and where the next page begins; None: there is none. A page may be empty
        while another one follows. Raises UnsuitableError for a cursor that is none.
        """
        place = _Place() if cursor is None else _Place.parsed(cursor)
        found: list[Lease] = []
        if place.event is None:
            if wanted.state is None or wanted.state.is_open:
                async for there, lease in self._open(wanted.cloud, place):
                    if len(found) == limit:
                        return found, str(place)
                    place = there
                    if wanted.suits(lease):
                        found.append(lease)
            place = place._replace(event=_NEWEST)
        if wanted.state is not None and wanted.state.is_open:
            return found, None
        async for there, ended in self._ended(place):
            if ended is None:  # enough was looked through
                return found, str(there)
            if wanted.suits(ended):
                if len(found) == limit:
                    return found, str(place)
                found.append(ended)
            place = there
        return found, None

    async def _open(self, cloud: str | None, behind: _Place) -> AsyncIterator[tuple[_Place, Lease]]:
        infos = [member.info for member in await self._adverts.members()]
        for info in sorted(infos, key=lambda one: (one.order, one.id)):
            if cloud not in (None, info.id) or (info.order, info.id) < (behind.order, behind.cloud):
                continue
            running: Any = self._client.smembers(self._keys.running(info.id))
            ids = sorted(lease.decode() for lease in await running)
            if info.id == behind.cloud:
                ids = [lease for lease in ids if lease > behind.lease]
            for start in range(0, len(ids), _PAGE):
                part = [(info.id, lease) for lease in ids[start : start + _PAGE]]
                for _, lease in await self._shown.of(part):
                    if lease is not None and lease.state.is_open:
                        yield _Place(info.order, info.id, lease.id), lease

    async def _ended(self, behind: _Place) -> AsyncIterator[tuple[_Place, Lease | None]]:
        """Ends with no lease where more events follow than are looked through at once."""
        assert behind.event is not None
        newest, looked_through = behind.event, 0
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
            looked_through += _PAGE
            if len(page) < _PAGE:
                return
            if looked_through >= _LOOKED_THROUGH:
                yield behind._replace(event=newest), None
                return
