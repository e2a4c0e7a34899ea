"""Read the leases of one cloud as its owner shows them in Redis."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from datetime import datetime
from typing import Any, cast

import redis
import structlog
from pydantic import ValidationError

from broker.contract import Advert, CloudInfo, Lease, read_message
from broker.storage.keys import RedisKeys

log = structlog.get_logger(__name__)


class LeaseReader:
    """Reads the leases of one cloud. Its methods raise redis.RedisError while Redis is away."""

    def __init__(self, client: redis.Redis, keys: RedisKeys, cloud: str):
        self._client, self._keys, self._cloud = client, keys, cloud

    def read_leases(self, lease_ids: Collection[str]) -> dict[str, Lease | None]:
        """Return the leases by id; None for one that the owner does not show, or that cannot be read."""
        if not lease_ids:
            return {}
        ids = sorted(lease_ids)
        texts: Any = self._client.mget([self._keys.lease(self._cloud, lease_id) for lease_id in ids])
        return {lease_id: self._parse(lease_id, text) for lease_id, text in zip(ids, texts, strict=True)}

    def _parse(self, lease_id: str, text: bytes | None) -> Lease | None:
        if text is None:
            return None
        try:
            lease = read_message(Lease, text)
        except ValidationError:
            log.warning("lease cannot be read", lease=lease_id)
            return None
        return lease if (lease.id, lease.cloud) == (lease_id, self._cloud) else None

    def wall_time(self, cloud_s: float) -> float:
        """Convert a time of the cloud, in its own seconds, to seconds since 1970.

        The cloud's last advert says how the two clocks compare; without one, the answer is now.
        """
        info_text = cast("bytes | None", self._client.hget(self._keys.clouds, self._cloud))
        advert_text = cast("bytes | None", self._client.get(self._keys.advert(self._cloud)))
        now = time.time()
        if info_text is None or advert_text is None:
            return now
        try:
            info, advert = read_message(CloudInfo, info_text), read_message(Advert, advert_text)
        except (ValidationError, json.JSONDecodeError):
            return now
        advert_at = datetime.fromisoformat(advert.at).timestamp()
        return advert_at + (cloud_s - advert.at_s) / info.speed
