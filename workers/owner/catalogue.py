"""The catalogue of a real cloud: what its agent says that the instances of leases may be."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple, cast

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


class NoFlavour(NamedTuple):
    """Why a real cloud has no instance for a request, and the same in words."""

    reason: RefusalReason
    why: str


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


def fit_flavour(
    catalogue: InstanceCatalogue | None, request: Request, launch: Launch | None, resources: Collection[str]
) -> Request | NoFlavour:
    """Return a request for all that its instance takes of a node, or why the cloud has no instance for it.

    An instance takes what its flavour has, not only what the request names. Without a catalogue nothing is
    known of the cloud's flavours: then it has instances of cores alone, and none where nodes have more.

    Parameters
    ----------
    resources:
        What the nodes have beside cores; of nothing else is there an account.
    """
    if catalogue is None:
        if resources or request.amounts or request.labels or launch is not None:
            return NoFlavour(RefusalReason.NO_SUCH_FLAVOUR, "its agent has not described its flavours yet")
        return request
    faults = [] if launch is None else list(catalogue.rules.find_faults(launch))
    if faults:
        return NoFlavour(RefusalReason.NOT_ALLOWED, ", ".join(faults))
    name = None if launch is None else launch.instance_type
    flavour = find_flavour(catalogue.flavours, request.cores, request.amounts, request.labels, name)
    if isinstance(flavour, str):
        return NoFlavour(RefusalReason.NO_SUCH_FLAVOUR, flavour)
    if flavour.is_divisible:
        return request
    taken = {name: amount for name, amount in flavour.amounts if name in resources}
    return replace(request, amounts=tuple(sorted((dict(request.amounts) | taken).items())))
