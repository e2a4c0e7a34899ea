"""The catalogue of a real cloud: what its agent says that the instances of leases may be."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast

import redis
import structlog
from pydantic import ValidationError

from broker.contract.instances import InstanceCatalogue
from broker.contract.launch import Launch
from broker.leases.instances import read_catalogue
from broker.signing.signer import MessageSigner, SignatureError
from broker.storage.keys import RedisKeys
from cloudsim.model.flavours import find_flavour
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Request

#: Seconds for which an owner promises by a catalogue before it reads it again.
_KEPT_S = 2.0

log = structlog.get_logger(__name__)


class CatalogueReader:
    """Returns the catalogue of one cloud, None while there is none. Without Redis it returns the last one."""

    def __init__(
        self,
        client: redis.Redis,
        keys: RedisKeys,
        cloud: str,
        signing: MessageSigner,
        now_s: Callable[[], float] = time.monotonic,
    ):
        self._client, self._keys, self._cloud = client, keys, cloud
        self._signing, self._now_s = signing, now_s
        self._catalogue: InstanceCatalogue | None = None
        self._until_s = float("-inf")

    def __call__(self) -> InstanceCatalogue | None:
        """Return the catalogue as it was read at most two seconds ago."""
        if self._now_s() >= self._until_s:
            self._until_s = self._now_s() + _KEPT_S
            try:
                self._catalogue = self._read()
            except (redis.RedisError, SignatureError, ValidationError) as error:
                log.warning("the catalogue cannot be read", cloud=self._cloud, why=str(error))
        return self._catalogue

    def _read(self) -> InstanceCatalogue | None:
        fields = cast("dict[bytes, bytes]", self._client.hgetall(self._keys.catalogue(self._cloud)))
        return read_catalogue(fields, self._cloud, self._keys, self._signing)


def find_misfit(
    catalogue: InstanceCatalogue | None, request: Request, launch: Launch | None
) -> tuple[RefusalReason, str] | None:
    """Return why the cloud has no instance for a request, None if it has one.

    Without a catalogue nothing is known of the cloud's flavours: then it has instances of cores alone.
    """
    if catalogue is None:
        if request.amounts or request.labels or launch is not None:
            return RefusalReason.NO_SUCH_FLAVOUR, "its agent has not described its flavours yet"
        return None
    faults = [] if launch is None else list(catalogue.rules.find_faults(launch))
    if faults:
        return RefusalReason.NOT_ALLOWED, ", ".join(faults)
    name = None if launch is None else launch.instance_type
    flavour = find_flavour(catalogue.flavours, request.cores, request.amounts, request.labels, name)
    return (RefusalReason.NO_SUCH_FLAVOUR, flavour) if isinstance(flavour, str) else None
