"""The members as the broker sees them: their descriptions, adverts and published tables, cached for a moment.

A cloud is alive if its advert changes, by this process's monotonic clock. The time written in the advert is
another machine's, and only places the change within the time between two looks.
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
class _ReadAdvert:
    """An advert as it was read, and the latest (monotonic) time at which it may have been written."""

    raw: tuple[bytes | None, bytes | None]  # with its signature
    advert: Advert | None
    written_s: float
    #: The session of the owner that signed it, and the number of the signature in that session.
    number: tuple[str, int] = ("", 0)


def _no_evidence(_: str, __: float) -> Mapping[float, BrokenPromise]:
    return {}


class MembershipView:
    """Reads all members, at most every ``REFRESH_S`` seconds and in one round trip; two if some are real."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        keys: RedisKeys,
        *,
        max_age_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        broken: Callable[[str, float], Mapping[float, BrokenPromise]] = _no_evidence,
        signing: MessageSigner = UNSIGNED,
    ):
        """Read nothing yet.

        Parameters
        ----------
        max_age_s:
            The age of an advert, in seconds, from which its cloud counts as unreachable.
        broken:
            Returns the evidence that a cloud breaks promises, by SLA, at a time of the cloud.
        signing:
            Verifies signatures; what a cloud did not sign itself is ignored.
        """
        self._client, self._keys, self._max_age_s, self._signing = client, keys, max_age_s, signing
        self._monotonic, self._now, self._broken = monotonic, now, broken
        self._members: tuple[Member, ...] = ()
        self._refreshed_s = float("-inf")
        self._refreshing = asyncio.Lock()
        self._adverts: dict[str, _ReadAdvert] = {}
        self._silent: frozenset[str] = frozenset()  # real clouds whose API does not answer their agent
        self._infos: dict[tuple[bytes, bytes, bytes | None], CloudInfo | None] = {}
        self._trust = 0
        self._tables: dict[str, TableSummary | None] = {}
        self._read_versions: dict[str, str] = {}  # the version an advert named when the table was read

    async def members(self) -> tuple[Member, ...]:
        """Return all members in cloud order.

        Raises
        ------
        redis.RedisError
            When Redis is away.
        """
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
        """Return a member, or None if there is none of this id."""
        return next((member for member in await self.members() if member.info.id == cloud), None)

    async def _refresh(self) -> None:
        # One round trip while the membership stays as it was. Signatures change with what they sign.
        pipe = self._client.pipeline(transaction=self._signing.verifies)
        pipe.hgetall(self._keys.clouds)
        if self._signing.verifies:
            pipe.hgetall(self._keys.cloud_signatures)
        known = [member.info.id for member in self._members]
        if known:
            pipe.mget(self._advert_keys(known))
        results = await pipe.execute()
        if self._trust != self._signing.generation:
            self._trust = self._signing.generation
            self._infos.clear()
            self._adverts.clear()
        infos = self._parse_infos(results[0], results[1] if self._signing.verifies else {})
        clouds = [info.id for info in infos]
        if clouds == known:
            texts = results[-1] if known else []
        else:
            texts = await self._client.mget(self._advert_keys(clouds)) if clouds else []
        signatures = texts[len(clouds) :] or [None] * len(clouds)
        values = list(zip(texts[: len(clouds)], signatures, strict=True))
        self._silent = await self._read_silent_clouds(infos)
        now_s = self._monotonic()
        adverts = [self._note_advert(cloud, raw, now_s) for cloud, raw in zip(clouds, values, strict=True)]
        await self._read_tables(
            {
                cloud: read.advert.table_version
                for cloud, read in zip(clouds, adverts, strict=True)
                if read.advert is not None and read.advert.table_version is not None
            }
        )
        self._members = tuple(
            self._member(info, read, now_s) for info, read in zip(infos, adverts, strict=True)
        )
        self._refreshed_s = now_s

    def _advert_keys(self, clouds: Sequence[str]) -> list[str]:
        """Return the keys of all adverts, then of all their signatures."""
        adverts = [self._keys.advert(cloud) for cloud in clouds]
        if not self._signing.verifies:
            return adverts
        return adverts + [self._keys.advert_signature(cloud) for cloud in clouds]

    async def _read_silent_clouds(self, infos: Sequence[CloudInfo]) -> frozenset[str]:
        """Return the real clouds whose API does not answer their agent."""
        real = [info.id for info in infos if info.instances is not None]
        texts = await self._client.mget([self._keys.silent_cloud(cloud) for cloud in real]) if real else []
        return frozenset(cloud for cloud, text in zip(real, texts, strict=True) if text is not None)

    def _parse_infos(
        self, published: Mapping[bytes, bytes], signatures: Mapping[bytes, bytes]
    ) -> list[CloudInfo]:
        before, self._infos = self._infos, {}
        for cloud, text in published.items():
            raw = cloud, text, signatures.get(cloud)
            self._infos[raw] = before[raw] if raw in before else self._parse_info(*raw)
        infos = [info for info in self._infos.values() if info is not None]
        return sorted(infos, key=lambda info: (info.order, info.id))

    def _parse_info(self, cloud: bytes, text: bytes, token: bytes | None) -> CloudInfo | None:
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
        """Read the tables that adverts have named anew: they are large and change every few hours."""
        changed = [cloud for cloud, version in versions.items() if self._read_versions.get(cloud) != version]
        if changed:
            for cloud, text in zip(changed, await self._get_tables(changed), strict=True):
                self._tables[cloud] = _summarise_table(text)
                self._read_versions[cloud] = versions[cloud]

    async def table(self, cloud: str) -> bytes | None:
        """Return the table that a cloud publishes, as JSON, or None if there is none to be believed.

        Not believed is a table that the cloud did not sign itself, or one older than its advert names.
        """
        text = (await self._get_tables([cloud]))[0]
        if text is None or not self._signing.verifies:
            return text
        member, summary = await self.member(cloud), _summarise_table(text)
        named_s = member.advert.table_made_at_s if member and member.advert else None
        if summary is None or (named_s is not None and summary.made_at_s < named_s):
            return None
        return text

    async def _get_tables(self, clouds: Sequence[str]) -> list[bytes | None]:
        """Return the published tables, with None for those that are not believed."""
        names = [self._keys.table(cloud) for cloud in clouds]
        signatures = [*map(self._keys.table_signature, clouds)] if self._signing.verifies else []
        values: list[Any] = await self._client.mget([*names, *signatures])
        if not signatures:
            return values
        for place, (cloud, name) in enumerate(zip(clouds, names, strict=True)):
            text = values[place]
            if text is None:
                continue
            try:
                self._signing.verify(values[len(clouds) + place], text, name, {cloud_party(cloud)})
            except SignatureError as error:
                log.warning("the table of %s is not believed: %s", cloud, error)
                values[place] = None
        return values[: len(clouds)]

    def _note_advert(self, cloud: str, raw: tuple[bytes | None, bytes | None], now_s: float) -> _ReadAdvert:
        before = self._adverts.get(cloud)
        if before is not None and before.raw == raw:
            return before
        try:
            self._adverts[cloud] = self._read(cloud, raw, before, now_s)
        except SignatureError as error:
            log.warning("an advert of %s is not believed: %s", cloud, error)
            # The last one that is believed stays, and ages.
            self._adverts[cloud] = (
                _ReadAdvert(raw, None, now_s) if before is None else replace(before, raw=raw)
            )
        return self._adverts[cloud]

    def _read(
        self, cloud: str, raw: tuple[bytes | None, bytes | None], before: _ReadAdvert | None, now_s: float
    ) -> _ReadAdvert:
        text, token = raw
        if text is None:
            return _ReadAdvert(raw, None, now_s)
        signature = self._signing.verify(token, text, self._keys.advert(cloud), {cloud_party(cloud)})
        number = ("", 0) if signature is None else (signature.session, signature.number)
        advert = _parse(Advert, text)
        if advert is None:
            return _ReadAdvert(raw, None, now_s)
        if signature is not None and advert.cloud != cloud:
            raise SignatureError("issuer", f"it is that of {advert.cloud}")
        if signature is not None and before is not None and before.advert is not None:
            if number == before.number:
                return replace(before, raw=raw)  # it was away for a moment, and is no younger
            older = number[0] == before.number[0] and number[1] < before.number[1]
            if older or advert.epoch < before.advert.epoch:
                raise SignatureError("replayed", "it is older than one that was read before")
        try:
            age_s = (self._now() - datetime.fromisoformat(advert.at)).total_seconds()
        except (ValueError, TypeError):
            age_s = 0.0
        # It was written after the last look; for the time since then the two wall clocks must do.
        written_s = now_s - min(max(age_s, 0.0), now_s - self._refreshed_s)
        return _ReadAdvert(raw, advert, written_s, number)

    def _member(self, info: CloudInfo, read: _ReadAdvert, now_s: float) -> Member:
        if read.advert is None:
            return Member(info, reachable=False)
        age_s = now_s - read.written_s
        # In trace time nothing happens between two commands, and a silent owner is waited for.
        reachable = info.time == "trace" or age_s <= self._max_age_s
        reachable = reachable and info.id not in self._silent
        # Nor does evidence change the order of clouds there: a replay must come to the same.
        broken = {} if info.time == "trace" else self._broken(info.id, read.advert.at_s)
        return Member(info, read.advert, self._tables.get(info.id), reachable, age_s, broken)


def _parse(model: type[_Model], text: bytes) -> _Model | None:
    """Parse a message; None if another version wrote it: its cloud then counts as silent."""
    try:
        return read_message(model, text)
    except ValidationError:
        return None


def _summarise_table(text: bytes | str | None) -> TableSummary | None:
    """Parse a table; None if there is none, or if it has an unknown form."""
    if text is None:
        return None
    try:
        return TableSummary.from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
