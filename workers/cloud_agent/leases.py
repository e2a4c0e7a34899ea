"""Read the leases of the agent's cloud, and keep the agent's records of instances in Redis."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

import redis
import structlog
from pydantic import ValidationError

from broker.contract import Lease, read_message, write_message
from broker.contract.instances import InstanceRecord
from broker.storage.keys import RedisKeys
from workers.agents.lease_reader import LeaseReader

log = structlog.get_logger(__name__)


class CloudLeases:
    """Reads leases and keeps records of instances for one cloud.

    Its methods raise redis.RedisError while Redis is away.
    """

    def __init__(self, client: redis.Redis, keys: RedisKeys, cloud: str):
        self._client, self._keys, self._cloud = client, keys, cloud
        self._reader = LeaseReader(client, keys, cloud)
        self._written: dict[str, InstanceRecord] = {}

    def read_leases(self, known: Collection[str]) -> Mapping[str, Lease | None]:
        """Return all leases that have not ended, and the known ones; None for those that are not shown."""
        running = cast("set[bytes]", self._client.smembers(self._keys.running(self._cloud)))
        return self._reader.read_leases({lease_id.decode() for lease_id in running} | set(known))

    def wall_time(self, cloud_s: float) -> float:
        """Convert a time of the cloud to seconds since 1970."""
        return self._reader.wall_time(cloud_s)

    def read_records(self) -> dict[str, InstanceRecord]:
        """Return the records that the agent before this one kept, by name; unreadable ones are left out."""
        texts = cast("dict[bytes, bytes]", self._client.hgetall(self._keys.instances(self._cloud)))
        for name, text in texts.items():
            try:
                self._written[name.decode()] = read_message(InstanceRecord, text)
            except ValidationError:
                log.warning("what was kept of an instance cannot be read", name=name.decode())
        return dict(self._written)

    def write_record(self, name: str, record: InstanceRecord) -> None:
        """Keep a record under the lease's id, or under a foreign instance's id in the owner's books."""
        if self._written.get(name) != record:
            self._client.hset(self._keys.instances(self._cloud), name, write_message(record))
            self._written[name] = record

    def note_silence(self, words: str | None) -> None:
        """Say since when, and why, the cloud's API has not answered; None: it answers."""
        if words is None:
            self._client.delete(self._keys.silent_cloud(self._cloud))
        else:
            self._client.set(self._keys.silent_cloud(self._cloud), words)

    def drop_record(self, name: str) -> None:
        """Remove the record of that name."""
        if name in self._written:
            self._client.hdel(self._keys.instances(self._cloud), name)
            del self._written[name]
