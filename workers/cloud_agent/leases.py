"""The leases of the agent's cloud as their owner shows them, and what the agent keeps of instances."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

import redis
import structlog
from pydantic import ValidationError

from broker.contract import Lease, read_message, write_message
from broker.contract.instances import InstanceRecord
from broker.storage.keys import RedisKeys
from workers.node_agent.assignments import Assignments

log = structlog.get_logger(__name__)


class CloudLeases:
    """Of one cloud. Methods raise redis.RedisError when Redis is away."""

    def __init__(self, client: redis.Redis, keys: RedisKeys, cloud: str):
        self._client, self._keys, self._cloud = client, keys, cloud
        self._orders = Assignments(client, keys, cloud)
        self._written: dict[str, InstanceRecord] = {}

    def shown(self, known: Collection[str]) -> Mapping[str, Lease | None]:
        """Those that have not ended, and these; None where none is shown."""
        running = cast("set[bytes]", self._client.smembers(self._keys.running(self._cloud)))
        return self._orders.leases({one.decode() for one in running} | set(known))

    def wall_time(self, cloud_s: float) -> float:
        """When a time of the cloud is, seconds since 1970."""
        return self._orders.wall_time(cloud_s)

    def records(self) -> dict[str, InstanceRecord]:
        """What an agent before this one kept, by name; what cannot be read is left out."""
        found = cast("dict[bytes, bytes]", self._client.hgetall(self._keys.instances(self._cloud)))
        for name, text in found.items():
            try:
                self._written[name.decode()] = read_message(InstanceRecord, text)
            except ValidationError:
                log.warning("what was kept of an instance cannot be read", name=name.decode())
        return dict(self._written)

    def keep(self, name: str, record: InstanceRecord) -> None:
        """Under that name: the lease's id, or that of a foreign instance in the owner's books."""
        if self._written.get(name) != record:
            self._client.hset(self._keys.instances(self._cloud), name, write_message(record))
            self._written[name] = record

    def drop(self, name: str) -> None:
        """It is not kept any more."""
        if name in self._written:
            self._client.hdel(self._keys.instances(self._cloud), name)
            del self._written[name]
