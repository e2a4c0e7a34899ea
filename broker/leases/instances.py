"""Reading of what a cloud's cloud agent keeps in Redis: instance records, and the catalogue of the cloud."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import redis
import structlog
from joserfc.jwk import OKPKey
from pydantic import ValidationError

from broker.contract import read_message
from broker.contract.instances import InstanceCatalogue, InstanceRecord
from broker.signing.agent_keys import SealError, read_public_key
from broker.signing.parties import cloud_party
from broker.signing.signer import MessageSigner, SignatureError
from broker.storage.keys import RedisKeys

#: Seconds for which secrets of launches are kept. An instance starts within minutes of its lease, or its
#: lease fails.
KEPT_S = 86_400

log = structlog.get_logger(__name__)


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


def read_catalogue(
    fields: Mapping[bytes, bytes], cloud: str, keys: RedisKeys, signing: MessageSigner
) -> InstanceCatalogue | None:
    """Return the catalogue of a cloud from the fields of its hash, None if there is none.

    Raises
    ------
    SignatureError
        When its agent has not signed it.
    ValidationError
        When it cannot be read.
    """
    if not fields:
        return None
    signing.verify(fields.get(b"s"), fields[b"c"], keys.catalogue(cloud), {cloud_party(cloud)})
    return read_message(InstanceCatalogue, fields[b"c"])


def read_agent_public_key(
    fields: Mapping[bytes, bytes], cloud: str, keys: RedisKeys, signing: MessageSigner
) -> OKPKey | None:
    """Return the public key of a cloud's agent from the fields of its catalogue; None if it tells none."""
    try:
        catalogue = read_catalogue(fields, cloud, keys, signing)
        text = None if catalogue is None else catalogue.key
        return None if text is None else read_public_key(text)
    except (SignatureError, ValidationError, SealError) as error:
        log.warning("the catalogue of a cloud cannot be read", cloud=cloud, why=str(error))
        return None
