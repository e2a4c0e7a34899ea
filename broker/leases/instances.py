"""What the instance agent of a cloud knows of its instances: shown to holders of leases, and the agent's own
memory over a restart."""

from __future__ import annotations

from typing import cast

import redis
from pydantic import ValidationError

from broker.contract.instances import InstanceRecord
from broker.contract.version import read_message
from broker.storage.keys import RedisKeys


def read_instance_records(client: redis.Redis, keys: RedisKeys, cloud: str) -> list[InstanceRecord]:
    """All of a cloud; what cannot be read is left out. Raises redis.RedisError."""
    found: list[InstanceRecord] = []
    for text in cast("dict[bytes, bytes]", client.hgetall(keys.instances(cloud))).values():
        try:
            found.append(read_message(InstanceRecord, text))
        except ValidationError:
            continue
    return found
