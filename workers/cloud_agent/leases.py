"""Read the leases of the agent's cloud, and keep the agent's records of instances in Redis."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

import redis
import structlog
from joserfc.jwk import OKPKey
from pydantic import ValidationError

from broker.contract import CloudInfo, Lease, read_message, write_message
from broker.contract.instances import InstanceCatalogue, InstanceRecord
from broker.contract.launch import Launch, LaunchRules
from broker.contract.leases import OVERFLOW_PREFIX
from broker.leases.instances import KEPT_S, read_agent_public_key
from broker.signing.agent_keys import SealError, public_half, seal, unseal
from broker.signing.signer import MessageSigner
from broker.storage.keys import RedisKeys
from cloudsim.model.flavours import CloudFlavour
from workers.agents.lease_reader import LeaseReader

log = structlog.get_logger(__name__)


class CloudLeases:
    """Reads leases and keeps records of instances for one cloud.

    Its methods raise redis.RedisError while Redis is away.
    """

    def __init__(
        self,
        client: redis.Redis,
        keys: RedisKeys,
        cloud: str,
        signing: MessageSigner | None = None,
        key: OKPKey | None = None,
    ):
        """Set up the reader.

        Parameters
        ----------
        signing:
            Signs the catalogue.
        key:
            The agent's key pair, for which the broker encrypts the secrets of launches.
        """
        self._client, self._keys, self._cloud = client, keys, cloud
        self._signing, self._key = signing or MessageSigner(), key
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

    def write_catalogue(
        self, flavours: Sequence[CloudFlavour], rules: LaunchRules, faults: Sequence[str] = ()
    ) -> None:
        """Write what leases may be here, for the cloud's owner and for the broker."""
        public_key = None if self._key is None else public_half(self._key)
        catalogue = InstanceCatalogue(
            cloud=self._cloud, flavours=tuple(flavours), rules=rules, key=public_key, faults=tuple(faults)
        )
        body, name = write_message(catalogue).encode(), self._keys.catalogue(self._cloud)
        self._client.hset(name, mapping=cast("dict[Any, Any]", self._signing.fields("c", body, name)))

    def seal_launch(self, launch: Launch, lasting_s: float) -> Launch:
        """Return a launch without its secrets, which are kept encrypted for the agents of all other clouds.

        ``lasting_s``: seconds for which an instance may have to be started with them.
        """
        if not launch.carried:
            return launch
        public_keys: dict[str, OKPKey] = {}
        infos = cast("dict[bytes, bytes]", self._client.hgetall(self._keys.clouds))
        for cloud, info in ((name.decode(), read_message(CloudInfo, text)) for name, text in infos.items()):
            if cloud != self._cloud and info.instances is not None:
                fields = cast("dict[bytes, bytes]", self._client.hgetall(self._keys.catalogue(cloud)))
                public_key = read_agent_public_key(fields, cloud, self._keys, self._signing)
                if public_key is not None:
                    public_keys[cloud] = public_key
        sealed = uuid4().hex
        if public_keys:
            text = json.dumps(launch.carried, sort_keys=True)
            keep_s = KEPT_S + math.ceil(lasting_s)
            name = self._keys.overflow_launch(self._cloud, sealed)
            self._client.set(name, seal(text, public_keys), ex=keep_s)
        return launch.without_secrets(sealed)

    def open_launch(self, lease: Lease) -> Launch:
        """Return what a lease's holder has chosen, with the secrets. Raises SealError."""
        if lease.launch is None:
            return Launch()
        if not lease.launch.secrets:
            return lease.launch
        name = lease.launch.sealed or ""
        sealed = cast("bytes | None", self._client.get(self._keys.launch(name)))
        if sealed is None and lease.request.startswith(OVERFLOW_PREFIX):
            # Written by the agent of the cloud whose user it is, which can write no others.
            sealed = cast("bytes | None", self._client.get(self._keys.overflow_launch(lease.origin, name)))
        if sealed is None or self._key is None:
            raise SealError("the holder's user data is not kept any more, or not for this agent")
        opened = json.loads(unseal(sealed, self._cloud, self._key))
        return Launch.model_validate({**lease.launch.model_dump(exclude={"secrets", "sealed"}), **opened})
