"""Stores the work of node agents in Redis, for job managers, and what job managers remember together.

A node agent shows the last part of a piece of work's output under ``RedisKeys.work_log``, after a line with
the offset of that part (``encode_log``).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import redis
from pydantic import ValidationError

from broker.contract import Lease, read_message, write_message
from broker.jobs.models import Profile, Work, WorkReport
from broker.signing.signer import UNSIGNED, MessageSigner
from broker.storage.keys import RedisKeys

SHOWN_BYTES = 256 * 1024
LOG_KEPT_S = 7 * 86_400


def encode_log(offset: int, part: bytes) -> bytes:
    """Return the value for Redis. ``offset``: number of bytes written before ``part``."""
    return b"%d\n%b" % (offset, part)


def decode_log(value: bytes) -> tuple[int, bytes]:
    """Return the offset and the part.

    Raises
    ------
    ValueError
        When ``encode_log`` did not write the value.
    """
    offset, _, part = value.partition(b"\n")
    return int(offset), part


log = logging.getLogger(__name__)


class WorkStore:
    """Stores work; every call raises redis.RedisError when Redis is away, and can then be repeated."""

    def __init__(self, client: redis.Redis, keys: RedisKeys, signing: MessageSigner = UNSIGNED):
        self._client, self._keys, self._signing = client, keys, signing

    # -- work ---------------------------------------------------------------------------------------------

    def put(self, works: Sequence[Work]) -> None:
        """Hand work over to the node agents of its clouds.

        Work that is there already is not written again.
        """
        for cloud in sorted({work.cloud for work in works}):
            mine = [work for work in works if work.cloud == cloud]
            key = self._keys.work(cloud)
            texts = [work.model_dump_json().encode() for work in mine]
            stored = cast("list[bytes | None]", self._client.hmget(key, [work.id for work in mine]))
            with self._client.pipeline() as pipe:
                for work, text, before in zip(mine, texts, stored, strict=True):
                    if text != before:
                        signature = self._signing.sign(text, f"{key}:{work.id}")
                        pipe.hset(self._keys.work_signatures(cloud), work.id, signature.decode())
                        pipe.hset(key, work.id, text.decode())
                        pipe.publish(self._keys.work_channel(cloud), work.id)
                pipe.execute()

    def drop(self, cloud: str, works: Sequence[str]) -> None:
        """Take work away from the node agent of a cloud, which ends and forgets it."""
        keys = self._keys
        with self._client.pipeline() as pipe:
            for name in (keys.work(cloud), keys.work_signatures(cloud), keys.work_reports(cloud)):
                pipe.hdel(name, *works)
            for work in works:
                pipe.publish(keys.work_channel(cloud), work)
            pipe.execute()

    def read_reports(self, cloud: str, works: Sequence[str]) -> dict[str, WorkReport]:
        """Return the node agent's reports on pieces of work, as far as there are any."""
        if not works:
            return {}
        texts = cast("list[bytes | None]", self._client.hmget(self._keys.work_reports(cloud), list(works)))
        reports = {}
        for work, text in zip(works, texts, strict=True):
            if text is None:
                continue
            try:
                report = read_message(WorkReport, text)
            except ValidationError:
                log.warning("the agent of %s reports on %s in a way that cannot be read", cloud, work)
                continue
            if report.work == work:
                reports[work] = report
        return reports

    def write_report(self, cloud: str, report: WorkReport) -> None:
        """Write a node agent's report on a piece of work."""
        self._client.hset(self._keys.work_reports(cloud), report.work, write_message(report))

    def write_log(self, cloud: str, work: str, offset: int, part: bytes) -> None:
        """Show the last part of a piece of work's output. ``offset``: number of bytes before it."""
        self._client.set(self._keys.work_log(cloud, work), encode_log(offset, part), ex=LOG_KEPT_S)

    def find_agents(self, clouds: Collection[str]) -> set[str]:
        """Return those of the clouds whose node agents show signs of life."""
        names = sorted(clouds)
        if not names:
            return set()
        tokens = cast("list[bytes | None]", self._client.mget([self._keys.agent(name) for name in names]))
        return {name for name, token in zip(names, tokens, strict=True) if token is not None}

    def read_leases(self, wanted: Sequence[tuple[str, str]]) -> dict[str, Lease]:
        """Return spot leases by id, as their clouds show them. ``wanted``: pairs of cloud and lease."""
        if not wanted:
            return {}
        texts = cast(
            "list[bytes | None]",
            self._client.mget([self._keys.lease(cloud, lease) for cloud, lease in wanted]),
        )
        leases = {}
        for (cloud, lease), text in zip(wanted, texts, strict=True):
            if text is None:
                continue
            try:
                shown = read_message(Lease, text)
            except ValidationError:
                log.warning("%s shows a lease in a way that cannot be read", cloud)
                continue
            if (shown.cloud, shown.id) == (cloud, lease):
                leases[lease] = shown
        return leases

    # -- who looks after a job ----------------------------------------------------------------------------

    def claim(self, job: str, token: str, ttl_s: float) -> bool:
        """Claim a job for ``ttl_s`` seconds; return False if another job manager looks after it."""
        ttl_ms = int(ttl_s * 1000)
        return bool(self._client.set(self._keys.job_claim(job), token, nx=True, px=ttl_ms))

    def renew(self, job: str, ttl_s: float) -> None:
        """Extend the claim on a job to ``ttl_s`` seconds from now."""
        self._client.pexpire(self._keys.job_claim(job), int(ttl_s * 1000))

    def release(self, job: str, token: str) -> None:
        """Give the claim on a job back.

        If another job manager has claimed the job at this very moment, two look after it for a while, and the
        journal lets one write.
        """
        key = self._keys.job_claim(job)
        if self._client.get(key) == token.encode():
            self._client.delete(key)

    # -- what was learnt ----------------------------------------------------------------------------------

    def read_profile(self, holder: str, name: str) -> Profile | None:
        """Return the profile of a holder's jobs of a name, or None."""
        text = cast("bytes | None", self._client.hget(self._keys.profiles, f"{holder}\n{name}"))
        return None if text is None else read_message(Profile, text)

    def write_profile(self, holder: str, name: str, profile: Profile) -> None:
        """Set the profile of a holder's jobs of a name."""
        self._client.hset(self._keys.profiles, f"{holder}\n{name}", profile.model_dump_json())

    def note_eviction(self, holder: str, cloud: str, attempt: str, at: float, since: float) -> None:
        """Note that a cloud evicted an attempt of the holder at ``at``; forget those before ``since``."""
        field = f"{holder}\n{cloud}"
        known = self._parse_evictions(cast("bytes | None", self._client.hget(self._keys.cool_downs, field)))
        recent = {name: when for name, when in known.items() if when >= since} | {attempt: at}
        self._client.hset(self._keys.cool_downs, field, json.dumps(recent))

    def read_evictions(self, holder: str, clouds: Sequence[str]) -> dict[str, Mapping[str, float]]:
        """Return recent evictions of the holder's attempts: their times by attempt, by cloud."""
        if not clouds:
            return {}
        fields = [f"{holder}\n{cloud}" for cloud in clouds]
        texts = cast("Any", self._client.hmget(self._keys.cool_downs, fields))
        return {cloud: self._parse_evictions(text) for cloud, text in zip(clouds, texts, strict=True) if text}

    @staticmethod
    def _parse_evictions(text: bytes | None) -> dict[str, float]:
        return {} if text is None else {str(name): float(at) for name, at in json.loads(text).items()}
