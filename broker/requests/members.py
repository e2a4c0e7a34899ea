"""What the broker knows of the members: their CloudInfo, adverts and published tables, cached for a moment.

Whether a cloud is alive is judged by seeing its advert change, on this process's monotonic clock: the time
written in the advert is another machine's and only places the change within the time in which nobody looked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import redis.asyncio
from pydantic import BaseModel, ValidationError

from broker.contract import Advert, BrokenPromise, CloudInfo, read_message
from broker.requests.routing import Member, TableSummary
from broker.signing.parties import cloud_party
from broker.signing.signer import UNSIGNED, MessageSigner, SignatureError
from broker.storage.keys import RedisKeys

log = logging.getLogger(__name__)

REFRESH_S = 0.1

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class _Seen:
    """An advert as it was read, and when (monotonic) it was at the latest written."""

    raw: tuple[bytes | None, bytes | None]  # with its signature
    advert: Advert | None
    written_s: float
    number: tuple[str, int] = (
        "",
        0,
    )  # session of the owner that signed it, and which of its signatures this is


def _nothing_known(_: str, __: float) -> Mapping[float, BrokenPromise]:
    return {}


class MembershipView:
    """The members, at most ``REFRESH_S`` old. One round trip a refresh, however many ask meanwhile."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        *,
        max_age_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        broken: Callable[[str, float], Mapping[float, BrokenPromise]] = _nothing_known,
        signing: MessageSigner = UNSIGNED,
    ):
        """``broken``: what promises a cloud does not keep at a time of its own, by SLA. ``signing``: who is
        believed; what a cloud did not sign itself is as if it were not there."""
        self._client, self._keys, self._max_age_s, self._signing = client, keys, max_age_s, signing
        self._monotonic, self._now, self._broken = monotonic, now, broken
        self._members: tuple[Member, ...] = ()
        self._refreshed_s = float("-inf")
        self._refreshing = asyncio.Lock()
        self._seen: dict[str, _Seen] = {}
        self._infos: dict[tuple[bytes, bytes, bytes | None], CloudInfo | None] = {}
        self._trust = 0
        self._tables: dict[str, TableSummary | None] = {}
        self._asked_tables: dict[str, str] = {}  # the version an advert named when the table was read

    async def members(self) -> tuple[Member, ...]:
        """All members in cloud order. Raises redis.RedisError when Redis is away."""
        if self._monotonic() - self._refreshed_s >= REFRESH_S:
            async with self._refreshing:
                if self._monotonic() - self._refreshed_s >= REFRESH_S:
                    await self._refresh()
        return self._members

    async def infos(self) -> list[CloudInfo]:
        """Return the descriptions of all members in cloud order.

        Raises
        ------
        redis.RedisError
            When Redis is away.
        """
        return [member.info for member in await self.members()]

    async def member(self, cloud: str) -> Member | None:
        """One member, or None."""
        return next((member for member in await self.members() if member.info.id == cloud), None)

    async def _refresh(self) -> None:
        # One round trip while the membership stays as it was.
        pipe = self._client.pipeline(
            transaction=self._signing.verifies
        )  # signatures change with what they sign
        pipe.hgetall(self._keys.clouds)
        if self._signing.verifies:
            pipe.hgetall(self._keys.cloud_signatures)
        known = [member.info.id for member in self._members]
        if known:
            pipe.mget(self._advert_keys(known))
        found = await pipe.execute()
        if self._trust != self._signing.generation:
            self._trust = self._signing.generation
            self._infos.clear()
            self._seen.clear()
        infos = self._parsed_infos(found[0], found[1] if self._signing.verifies else {})
        clouds = [info.id for info in infos]
        if clouds == known:
            texts = found[-1] if known else []
        else:
            texts = await self._client.mget(self._advert_keys(clouds)) if clouds else []
        signatures = texts[len(clouds) :] or [None] * len(clouds)
        values = list(zip(texts[: len(clouds)], signatures, strict=True))
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

    def _advert_keys(self, clouds: Sequence[str]) -> list[str]:
        """All adverts, then all their signatures."""
        adverts = [self._keys.advert(cloud) for cloud in clouds]
        if not self._signing.verifies:
            return adverts
        return adverts + [self._keys.advert_signature(cloud) for cloud in clouds]

    def _parsed_infos(
        self, published: Mapping[bytes, bytes], signatures: Mapping[bytes, bytes]
    ) -> list[CloudInfo]:
        before, self._infos = self._infos, {}
        for cloud, text in published.items():
            raw = cloud, text, signatures.get(cloud)
            self._infos[raw] = before[raw] if raw in before else self._info(*raw)
        infos = [info for info in self._infos.values() if info is not None]
        return sorted(infos, key=lambda info: (info.order, info.id))

    def _info(self, cloud: bytes, text: bytes, token: bytes | None) -> CloudInfo | None:
        info = _parse(CloudInfo, text)
        if info is None or not self._signing.verifies:
            return info
        if info.id != cloud.decode(errors="replace"):
            log.warning("%r is said to be %s, which is not believed", cloud, info.id)
            return None
        try:
            self._signing.verify(
                token, text, self._keys.clouds, {cloud_party(cloud.decode(errors="replace"))}
            )
        except SignatureError as error:
            log.warning("what %s says it is, is not believed: %s", cloud.decode(errors="replace"), error)
            return None
        return info

    async def _read_tables(self, versions: dict[str, str]) -> None:
        """Tables are large and change every few hours: they are read when an advert names another one."""
        changed = [cloud for cloud, version in versions.items() if self._asked_tables.get(cloud) != version]
        if changed:
            for cloud, text in zip(changed, await self._shown_tables(changed), strict=True):
                self._tables[cloud] = _summary(text)
                self._asked_tables[cloud] = versions[cloud]

    async def table(self, cloud: str) -> bytes | None:
        """The table that a cloud shows, as JSON; None where there is none, or none to be believed: what the
        cloud did not sign itself, or what is older than the table that its advert names."""
        text = (await self._shown_tables([cloud]))[0]
        if text is None or not self._signing.verifies:
            return text
        member, shown = await self.member(cloud), _summary(text)
        named_s = member.advert.table_made_at_s if member and member.advert else None
        if shown is None or (named_s is not None and shown.made_at_s < named_s):
            return None
        return text

    async def _shown_tables(self, clouds: Sequence[str]) -> list[bytes | None]:
        """As they are in Redis, with None for those that are not to be believed."""
        names = [self._keys.table(cloud) for cloud in clouds]
        signatures = [*map(self._keys.table_signature, clouds)] if self._signing.verifies else []
        found: list[Any] = await self._client.mget([*names, *signatures])
        if not signatures:
            return found
        for place, (cloud, name) in enumerate(zip(clouds, names, strict=True)):
            text = found[place]
            if text is None:
                continue
            try:
                self._signing.verify(found[len(clouds) + place], text, name, {cloud_party(cloud)})
            except SignatureError as error:
                log.warning("the table of %s is not believed: %s", cloud, error)
                found[place] = None
        return found[: len(clouds)]

    def _look(self, cloud: str, raw: tuple[bytes | None, bytes | None], now_s: float) -> _Seen:
        seen = self._seen.get(cloud)
        if seen is not None and seen.raw == raw:
            return seen
        try:
            self._seen[cloud] = self._read(cloud, raw, seen, now_s)
        except SignatureError as error:
            log.warning("an advert of %s is not believed: %s", cloud, error)
            # What it last said itself stands, and ages.
            self._seen[cloud] = _Seen(raw, None, now_s) if seen is None else replace(seen, raw=raw)
        return self._seen[cloud]

    def _read(
        self, cloud: str, raw: tuple[bytes | None, bytes | None], before: _Seen | None, now_s: float
    ) -> _Seen:
        text, token = raw
        if text is None:
            return _Seen(raw, None, now_s)
        signature = self._signing.verify(token, text, self._keys.advert(cloud), {cloud_party(cloud)})
        number = ("", 0) if signature is None else (signature.session, signature.number)
        advert = _parse(Advert, text)
        if advert is None:
            return _Seen(raw, None, now_s)
        if signature is not None and advert.cloud != cloud:
            raise SignatureError("issuer", f"it is that of {advert.cloud}")
        if signature is not None and before is not None and before.advert is not None:
            if number == before.number:
                return replace(before, raw=raw)  # it was away for a moment, and is no younger
            older = number[0] == before.number[0] and number[1] < before.number[1]
            if older or advert.epoch < before.advert.epoch:
                raise SignatureError("replayed", "it is older than one that was read before")
        try:
            said_s = (self._now() - datetime.fromisoformat(advert.at)).total_seconds()
        except (ValueError, TypeError):
            said_s = 0.0
        # It was written after we last looked; within that the two wall clocks have to do.
        written_s = now_s - min(max(said_s, 0.0), now_s - self._refreshed_s)
        return _Seen(raw, advert, written_s, number)

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
        return read_message(model, text)
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
