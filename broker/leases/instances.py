"""Reading of the instance records that a cloud's cloud agent keeps in Redis."""

from __future__ import annotations

from typing import cast

import redis
from pydantic import ValidationError

from broker.contract import read_message
from broker.contract.instances import InstanceRecord
from broker.storage.keys import RedisKeys


def read_instance_records(client: redis.Redis, keys: RedisKeys, cloud: str) -> list[InstanceRecord]:
    """Return the records of all instances of a cloud, without those that cannot be read.

    Raises
    ------
    redis.RedisError
        When Redis is away.
    """
    records: list[InstanceRecord] = []
    for text in cast("dict[bytes, bytes]", client.hgetall(keys.instances(cloud))).values():
        try:
            records.append(read_message(InstanceRecord, text))
        except ValidationError:
            continue
    return records
