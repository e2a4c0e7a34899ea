"""What a node agent shows of the output of a piece of work (``Keys.work_log``): the last part of it, after a
line that says where in the whole that part begins."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import redis
from pydantic import ValidationError

from broker.contract import Lease, read
from broker.jobs.models import Profile, Work, WorkReport
from broker.signing.signer import UNSIGNED, MessageSigner
from broker.storage.keys import RedisKeys

SHOWN_BYTES = 256 * 1024


def encode_log(offset: int, part: bytes) -> bytes:
    """What is written to Redis. ``offset``: how many bytes had been written before ``part``."""
    return b"%d\n%b" % (offset, part)


def decode_log(value: bytes) -> tuple[int, bytes]:
    """The offset and the part. Raises ValueError for what ``shown_log`` does not write."""
    offset, _, part = value.partition(b"\n")
    return int(offset), part


log = logging.getLogger(__name__)


class WorkStore:
    """Every call raises redis.RedisError when the queue is away, and may then be made again."""

    def __init__(self, client: redis.Redis, keys: RedisKeys, signing: MessageSigner = UNSIGNED):
        self._client, self._keys, self._signing = client, keys, signing

    # -- work ---------------------------------------------------------------------------------------------

    def put(self, works: Sequence[Work]) -> None:
        """What the agent of their cloud is to run. What is there already is not written again."""
        for cloud in sorted({one.cloud for one in works}):
            mine = [one for one in works if one.cloud == cloud]
            key = self._keys.works(cloud)
            texts = [one.model_dump_json().encode() for one in mine]
            there = cast("list[bytes | None]", self._client.hmget(key, [one.id for one in mine]))
            with self._client.pipeline() as pipe:
                for one, text, before in zip(mine, texts, there, strict=True):
                    if text != before:
                        signature = self._signing.sign(text, f"{key}:{one.id}")
                        pipe.hset(self._keys.work_signatures(cloud), one.id, signature.decode())
                        pipe.hset(key, one.id, text.decode())
                        pipe.publish(self._keys.work_channel(cloud), one.id)
                pipe.execute()

    def drop(self, cloud: str, works: Sequence[str]) -> None:
        """Its agent runs them no more, and forgets them."""
        keys = self._keys
        with self._client.pipeline() as pipe:
            for name in (keys.works(cloud), keys.work_signatures(cloud), keys.work_reports(cloud)):
                pipe.hdel(name, *works)
            for one in works:
                pipe.publish(keys.work_channel(cloud), one)
            pipe.execute()

    def read_reports(self, cloud: str, works: Sequence[str]) -> dict[str, WorkReport]:
        """What the agent says of them, as far as it has said anything."""
        if not works:
            return {}
        found = cast("list[bytes | None]", self._client.hmget(self._keys.work_reports(cloud), list(works)))
        reports = {}
        for work, text in zip(works, found, strict=True):
            if text is None:
                continue
            try:
                report = read(WorkReport, text)
            except ValidationError:
                log.warning("the agent of %s reports on %s in a way that cannot be read", cloud, work)
                continue
            if report.work == work:
                reports[work] = report
        return reports

    def find_agents(self, clouds: Collection[str]) -> set[str]:
        """Those of the clouds whose node agents show signs of life."""
        names = sorted(clouds)
        if not names:
            return set()
        found = cast("list[bytes | None]", self._client.mget([self._keys.agent(one) for one in names]))
        return {name for name, token in zip(names, found, strict=True) if token is not None}

    def read_leases(self, wanted: Sequence[tuple[str, str]]) -> dict[str, Lease]:
        """By cloud and id: spot leases as their clouds show them, as far as they do."""
        if not wanted:
            return {}
        found = cast("list[bytes | None]", self._client.mget([self._keys.lease(*one) for one in wanted]))
        leases = {}
        for (cloud, lease), text in zip(wanted, found, strict=True):
            if text is None:
                continue
            try:
                shown = read(Lease, text)
            except ValidationError:
                log.warning("%s shows a lease in a way that cannot be read", cloud)
                continue
            if (shown.cloud, shown.id) == (cloud, lease):
                leases[lease] = shown
        return leases

    # -- who looks after a job ----------------------------------------------------------------------------

    def claim(self, job: str, token: str, ttl_s: float) -> bool:
        """Whether nobody else looks after the job; it is ours for so long then."""
        ttl_ms = int(ttl_s * 1000)
        return bool(self._client.set(self._keys.job_claim(job), token, nx=True, px=ttl_ms))

    def renew(self, job: str, ttl_s: float) -> None:
        """It is ours for longer."""
        self._client.pexpire(self._keys.job_claim(job), int(ttl_s * 1000))

    def release(self, job: str, token: str) -> None:
        """It is ours no more. Should it have become somebody else's just now, two look after it for a while,
        and the journal lets one write."""
        key = self._keys.job_claim(job)
        if self._client.get(key) == token.encode():
            self._client.delete(key)

    # -- what was learnt ----------------------------------------------------------------------------------

    def read_profile(self, holder: str, name: str) -> Profile | None:
        """Of a holder's jobs of that name."""
        found = cast("bytes | None", self._client.hget(self._keys.profiles, f"{holder}\n{name}"))
        return None if found is None else read(Profile, found)

    def write_profile(self, holder: str, name: str, profile: Profile) -> None:
        """From now on that is what they need."""
        self._client.hset(self._keys.profiles, f"{holder}\n{name}", profile.model_dump_json())

    def note_eviction(self, holder: str, cloud: str, attempt: str, at: float, since: float) -> None:
        """A cloud evicted an attempt of the holder's; those from before ``since`` are forgotten."""
        field = f"{holder}\n{cloud}"
        found = self._evictions(cast("bytes | None", self._client.hget(self._keys.cool_downs, field)))
        kept = {name: when for name, when in found.items() if when >= since} | {attempt: at}
        self._client.hset(self._keys.cool_downs, field, json.dumps(kept))

    def read_evictions(self, holder: str, clouds: Sequence[str]) -> dict[str, Mapping[str, float]]:
        """By cloud: attempts of the holder's that were evicted lately, and when."""
        if not clouds:
            return {}
        fields = [f"{holder}\n{one}" for one in clouds]
        found = cast("Any", self._client.hmget(self._keys.cool_downs, fields))
        return {cloud: self._evictions(text) for cloud, text in zip(clouds, found, strict=True) if text}

    @staticmethod
    def _evictions(text: bytes | None) -> dict[str, float]:
        return {} if text is None else {str(name): float(at) for name, at in json.loads(text).items()}
