"""What the broker knows of the members: their CloudInfo, adverts and published tables, cached for a moment.

Whether a cloud is alive is judged by seeing its advert change, on this process's monotonic clock: the time
written in the advert is another machine's and only places the change within the time in which nobody looked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

import redis.asyncio
from pydantic import BaseModel, ValidationError

from broker.answers import BrokenPromise
from broker.contract import Advert, CloudInfo
from broker.keys import Keys
from broker.routing import Member, TableSummary

REFRESH_S = 0.1

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class _Seen:
    """An advert as it was read, and when (monotonic) it was at the latest written."""

    raw: bytes | None
    advert: Advert | None
    written_s: float


def _nothing_known(_: str, __: float) -> Mapping[float, BrokenPromise]:
    return {}


class Adverts:
    """The members, at most ``REFRESH_S`` old. One round trip a refresh, however many ask meanwhile."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: Keys,
        *,
        max_age_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        broken: Callable[[str, float], Mapping[float, BrokenPromise]] = _nothing_known,
    ):
        """``broken``: what promises a cloud does not keep at a time of its own, by SLA."""
        self._client, self._keys, self._max_age_s = client, keys, max_age_s
        self._monotonic, self._now, self._broken = monotonic, now, broken
        self._members: tuple[Member, ...] = ()
        self._refreshed_s = float("-inf")
        self._refreshing = asyncio.Lock()
        self._seen: dict[str, _Seen] = {}
        self._infos: dict[bytes, CloudInfo | None] = {}
        self._tables: dict[str, TableSummary | None] = {}
        self._asked_tables: dict[str, str] = {}  # the version an advert named when the table was read

    async def members(self) -> tuple[Member, ...]:
        """All members in cloud order. Raises redis.RedisError when Redis is away."""
        if self._monotonic() - self._refreshed_s >= REFRESH_S:
            async with self._refreshing:
                if self._monotonic() - self._refreshed_s >= REFRESH_S:
                    await self._refresh()
        return self._members

    async def member(self, cloud: str) -> Member | None:
        """One member, or None."""
        return next((member for member in await self.members() if member.info.id == cloud), None)

    async def _refresh(self) -> None:
        # One round trip while the membership stays as it was.
        pipe = self._client.pipeline(transaction=False)
        pipe.hgetall(self._keys.clouds)
        known = [member.info.id for member in self._members]
        if known:
            pipe.mget([self._keys.advert(cloud) for cloud in known])
        published, *adverts = await pipe.execute()
        infos = self._parsed_infos(published.values())
        clouds = [info.id for info in infos]
        if clouds == known:
            values = adverts[0] if known else []
        else:
            values = await self._client.mget([self._keys.advert(cloud) for cloud in clouds]) if clouds else []
        now_s = self._monotonic()
        seen = [self._look(cloud, raw, now_s) for cloud, raw in zip(clouds, values, strict=True)]
        await self._read_tables(
            {
                cloud: one.advert.table_version
                for cloud, one in zip(clouds, seen, strict=True)
                if one.advert is not None and one.advert.table_version is not None
            }
        )
        self._members = tuple(self._member(info, one, now_s) for info, one in zip(infos, seen, strict=True))
        self._refreshed_s = now_s

    def _parsed_infos(self, published: Iterable[bytes]) -> list[CloudInfo]:
        self._infos = {text: self._infos.get(text) or _parse(CloudInfo, text) for text in published}
        infos = [info for info in self._infos.values() if info is not None]
        return sorted(infos, key=lambda info: (info.order, info.id))

    async def _read_tables(self, versions: dict[str, str]) -> None:
        """Tables are large and change every few hours: they are read when an advert names another one."""
        changed = [cloud for cloud, version in versions.items() if self._asked_tables.get(cloud) != version]
        if changed:
            values = await self._client.mget([self._keys.table(cloud) for cloud in changed])
            for cloud, raw in zip(changed, values, strict=True):
                self._tables[cloud] = _summary(raw)
                self._asked_tables[cloud] = versions[cloud]

    def _look(self, cloud: str, raw: bytes | None, now_s: float) -> _Seen:
        seen = self._seen.get(cloud)
        if seen is None or seen.raw != raw:
            seen = self._seen[cloud] = self._read(raw, now_s)
        return seen

    def _read(self, raw: bytes | None, now_s: float) -> _Seen:
        advert = None if raw is None else _parse(Advert, raw)
        if advert is None:
            return _Seen(raw, None, now_s)
        try:
            said_s = (self._now() - datetime.fromisoformat(advert.at)).total_seconds()
        except (ValueError, TypeError):
            said_s = 0.0
        # It was written after we last looked; within that the two wall clocks have to do.
        return _Seen(raw, advert, now_s - min(max(said_s, 0.0), now_s - self._refreshed_s))

    def _member(self, info: CloudInfo, seen: _Seen, now_s: float) -> Member:
        if seen.advert is None:
            return Member(info, reachable=False)
        age_s = now_s - seen.written_s
        # In trace time nothing happens between two commands, and who is silent is waited for.
        reachable = info.time == "trace" or age_s <= self._max_age_s
        # Nor is the order changed there in which clouds are asked: a replay must come to the same.
        broken = {} if info.time == "trace" else self._broken(info.id, seen.advert.at_s)
        return Member(info, seen.advert, self._tables.get(info.id), reachable, age_s, broken)


def _parse(model: type[_Model], text: bytes) -> _Model | None:
    """None for what another version wrote: of such a cloud nothing is known, as if it were silent."""
    try:
        return model.model_validate_json(text)
    except ValidationError:
        return None


def _summary(text: bytes | str | None) -> TableSummary | None:
    """None for a table that is not shown, or not in the form we know."""
    if text is None:
        return None
    try:
        return TableSummary.from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
