"""The version of the contract that a federation speaks: the lowest one in use, and who holds it back.

It is one number in Redis, and it only rises: once every process speaks a higher version, it is written. From
then on the version before cannot come back (its processes could not read what is written). A federation
begins with the version of its first process.

* An owner says with its epoch what it speaks. A member counts whether or not its owner runs: it will come
  back, and its inbox is not empty.
* API processes and Monte-Carlo workers say so in a key of their own for as long as they live.

A process that has not looked lately writes an older version than it might, which everybody reads.
"""

from __future__ import annotations

import logging
import threading
from typing import cast

import redis

from broker.contract.version import OLDEST_VERSION, VERSION
from broker.storage.keys import RedisKeys
from broker.storage.scripts import read_script

log = logging.getLogger(__name__)

LOOK_S = 1.0  # between two looks at what the federation speaks
_HERALD_S = 5.0
#: A process that is paused for less does not lose its say.
ALIVE_TTL_S = 90


class ContractError(Exception):
    """The federation speaks a later version of the contract than this process."""


class Speaking:
    """What this process may write; call it for the version."""

    def __init__(self, client: redis.Redis, keys: RedisKeys):
        self._redis, self._keys = client, keys
        self._look = client.register_script(read_script("contract"))
        self._version = OLDEST_VERSION

    def __call__(self) -> int:
        """The version to write now."""
        return self._version

    @property
    def settled(self) -> bool:
        """Nothing can change any more for this process."""
        return self._version >= VERSION

    def look(self) -> int:
        """Reads and returns what the federation speaks; it begins with ours.

        Raises:
            ContractError: it is later than ours, or earlier than the oldest one that we work with.
            redis.RedisError: call again.
        """
        found = cast("int", self._look([self._keys.contract], [VERSION]))
        if found > VERSION:
            raise ContractError(
                f"the federation speaks version {found} of the contract, and this spotfed up to {VERSION}: "
                "install the version that the others have"
            )
        if found < OLDEST_VERSION:
            raise ContractError(
                f"the federation speaks version {found} of the contract, and this spotfed needs at least "
                f"{OLDEST_VERSION}: upgrade to a version between them first"
            )
        self._version = max(self._version, found)
        return found

    def announce(self, process: str) -> None:
        """Says for a while that this process, an API's or a Monte-Carlo worker, speaks our version."""
        self._redis.set(self._keys.process_version(process), VERSION, ex=ALIVE_TTL_S)

    def rise(self) -> None:
        """Lets the federation speak our version if nobody holds it back. Raises redis.RedisError."""
        if not holding_back(self._redis, self._keys):
            self._redis.set(self._keys.contract, VERSION)
            self._version = VERSION
            log.info("the federation speaks version %d of the contract", VERSION)

    def follow(self, stopping: threading.Event) -> None:
        """Looks every moment until nothing can change any more or ``stopping`` is set; outlives outages."""
        while not self.settled and not stopping.wait(LOOK_S):
            try:
                self.look()
            except redis.RedisError as error:
                log.info("what the federation speaks cannot be read: %s", error)

    def herald(self, process: str, stopping: threading.Event) -> None:
        """The same for an API process or a Monte-Carlo worker, which also says what it speaks, and lets the
        federation rise. Until ``stopping`` is set."""
        while True:
            try:
                self.announce(process)
                if self.look() < VERSION:
                    self.rise()
            except redis.RedisError as error:
                log.info("what this process speaks cannot be said: %s", error)
            if stopping.wait(_HERALD_S):
                return


def spoken(client: redis.Redis, keys: RedisKeys) -> int:
    """What the federation speaks, as it is written there."""
    found = cast("bytes | None", client.get(keys.contract))
    return OLDEST_VERSION if found is None else int(found)


def holding_back(client: redis.Redis, keys: RedisKeys) -> list[str]:
    """Who speaks less than our version, for people: ``owner of A``, ``API process 1f…``."""
    return [*(f"owner of {cloud}" for cloud in _clouds(client, keys)), *_processes(client, keys)]


def _clouds(client: redis.Redis, keys: RedisKeys) -> list[str]:
    clouds = sorted(name.decode() for name in cast("list[bytes]", client.hkeys(keys.clouds)))
    if not clouds:
        return []
    said = cast("list[bytes | None]", client.mget([keys.owner_version(cloud) for cloud in clouds]))
    epochs = cast("list[bytes | None]", client.mget([keys.epoch(cloud) for cloud in clouds]))
    # Said in an earlier epoch, it was another process that said it.
    return [
        cloud
        for cloud, one, epoch in zip(clouds, said, epochs, strict=True)
        if one is None or int(one.split()[0]) < VERSION or one.split()[1] != epoch
    ]


def _processes(client: redis.Redis, keys: RedisKeys) -> list[str]:
    """API processes and Monte-Carlo workers that say they speak less."""
    start = keys.process_version("")
    names = sorted(key.decode()[len(start) :] for key in client.scan_iter(f"{start}*", count=10_000))
    if not names:
        return []
    said = cast("list[bytes | None]", client.mget([keys.process_version(name) for name in names]))
    samplers = cast("list[bytes | None]", client.mget([keys.sampler(name) for name in names]))
    return [
        f"API process {name}" if sampler is None else f"Monte-Carlo worker {name}"
        for name, one, sampler in zip(names, said, samplers, strict=True)
        if one is not None and int(one) < VERSION
    ]
