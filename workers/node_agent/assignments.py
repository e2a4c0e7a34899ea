"""What the agent of a cloud is to run, and what became of the leases, as Redis has it."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import redis
import structlog
from pydantic import ValidationError

from broker.contract import Advert, CloudInfo, Lease, read_message
from broker.jobs.models import Work
from broker.signing.parties import JOBS
from broker.signing.signer import UNSIGNED, MessageSigner, SignatureError
from broker.storage.keys import RedisKeys

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class AssignmentBatch:
    """works: by id, all that is asked for. leases: of those on spot, by id, None where none is shown."""

    works: Mapping[str, Work]
    leases: Mapping[str, Lease | None]


@dataclass(frozen=True)
class _Believed:
    """A piece of work that was read, and of what: its bytes, its signature, the trust of that time."""

    raw: tuple[bytes, bytes | None, int]
    work: Work | None
    last: Work | None


class Assignments:
    """Reads them. Methods raise redis.RedisError when Redis is away."""

    def __init__(self, client: redis.Redis, keys: RedisKeys, cloud: str, signing: MessageSigner = UNSIGNED):
        self._client, self._keys, self._cloud, self._signing = client, keys, cloud, signing
        self._known: dict[str, _Believed] = {}

    def read(self) -> AssignmentBatch:
        """All of it. What is not signed by a job manager counts as if it had not changed."""
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.hgetall(self._keys.works(self._cloud))
            pipeline.hgetall(self._keys.work_signatures(self._cloud))
            raw, tokens = pipeline.execute()
        self._known = {
            name.decode(): self._believed(name.decode(), text, tokens.get(name)) for name, text in raw.items()
        }
        works = {name: one.last for name, one in self._known.items() if one.last is not None}
        return AssignmentBatch(works, self.leases({work.instance for work in works.values() if work.spot}))

    def leases(self, wanted: Collection[str]) -> dict[str, Lease | None]:
        """As their owner shows them, by id."""
        if not wanted:
            return {}
        names = sorted(wanted)
        texts: Any = self._client.mget([self._keys.lease(self._cloud, one) for one in names])
        return {one: self._lease(one, text) for one, text in zip(names, texts, strict=True)}

    def _lease(self, name: str, text: bytes | None) -> Lease | None:
        if text is None:
            return None
        try:
            lease = read_message(Lease, text)
        except ValidationError:
            log.warning("lease cannot be read", lease=name)
            return None
        return lease if (lease.id, lease.cloud) == (name, self._cloud) else None

    def _believed(self, name: str, text: bytes, token: bytes | None) -> _Believed:
        before = self._known.get(name)
        raw = (text, token, self._signing.generation)
        if before is not None and before.raw == raw:
            return before
        last = None if before is None else before.last
        try:
            audience = f"{self._keys.works(self._cloud)}:{name}"
            self._signing.verify(token, text, audience, {JOBS})
            work = read_message(Work, text)
        except SignatureError as error:
            log.warning("work refused", work=name, why=str(error), reason=error.reason)
            return _Believed(raw, None, last)
        except ValidationError:
            log.warning("work cannot be read", work=name)
            return _Believed(raw, None, last)
        if (work.id, work.cloud) != (name, self._cloud):
            log.warning("work refused", work=name, why=f"it is {work.id} of {work.cloud}")
            return _Believed(raw, None, last)
        if last is not None and work.revision < last.revision:
            log.warning("work refused", work=name, why="a later order was seen")
            return _Believed(raw, None, last)
        return _Believed(raw, work, work)

    def wall_time(self, cloud_s: float) -> float:
        """When a time of the cloud is, in seconds since 1970, as it was told last; now, where nothing was."""
        info_text = cast("bytes | None", self._client.hget(self._keys.clouds, self._cloud))
        advert_text = cast("bytes | None", self._client.get(self._keys.advert(self._cloud)))
        now = time.time()
        if info_text is None or advert_text is None:
            return now
        try:
            info, advert = read_message(CloudInfo, info_text), read_message(Advert, advert_text)
        except (ValidationError, json.JSONDecodeError):
            return now
        told = datetime.fromisoformat(advert.at).timestamp()
        return told + (cloud_s - advert.at_s) / info.speed
