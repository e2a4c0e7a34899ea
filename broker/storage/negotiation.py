"""The version of the contract that a federation speaks: the lowest one in use, kept as a number in Redis.

The number only rises: once every process speaks a higher version, it is written. From then on the version
before cannot come back, for its processes could not read what is written. A federation begins with the
version of its first process.

* An owner says with its epoch which version it speaks. A member counts whether or not its owner runs: it will
  come back, and its inbox is not empty.
* API processes and Monte-Carlo workers say so in a key of their own for as long as they live.

A process that has not looked lately writes an older version than it might, which everybody reads.
"""

from __future__ import annotations

import logging
import threading
from typing import cast

import redis

from broker.contract import OLDEST_VERSION, VERSION
from broker.storage.keys import RedisKeys
from broker.storage.scripts import read_script

log = logging.getLogger(__name__)

LOOK_S = 1.0  # between two looks at what the federation speaks
_ANNOUNCE_S = 5.0
#: A process that pauses for less than this still counts.
ALIVE_TTL_S = 90


class ContractError(Exception):
    """The federation speaks a version of the contract that this process does not."""


class FederationVersion:
    """The version that this process writes. Call the object for the number."""

    def __init__(self, client: redis.Redis, keys: RedisKeys):
        self._redis, self._keys = client, keys
        self._read = client.register_script(read_script("contract"))
        self._version = OLDEST_VERSION

    def __call__(self) -> int:
        """Return the version to write now."""
        return self._version

    @property
    def is_final(self) -> bool:
        """True when the version cannot rise any more for this process."""
        return self._version >= VERSION

    def refresh(self) -> int:
        """Read and return the version of the federation, which begins with ours.

        Raises
        ------
        ContractError
            When it is later than ours, or earlier than the oldest one that we work with.
        redis.RedisError
            When Redis is away; call again.
        """
        spoken = cast("int", self._read([self._keys.contract], [VERSION]))
        if spoken > VERSION:
            raise ContractError(
                f"the federation speaks version {spoken} of the contract, and this spotfed up to {VERSION}: "
                "install the version that the others have"
            )
        if spoken < OLDEST_VERSION:
            raise ContractError(
                f"the federation speaks version {spoken} of the contract, and this spotfed needs at least "
                f"{OLDEST_VERSION}: upgrade to a version between them first"
            )
        self._version = max(self._version, spoken)
        return spoken

    def announce(self, process: str) -> None:
        """Record for ``ALIVE_TTL_S`` seconds that an API process or Monte-Carlo worker speaks our version."""
        self._redis.set(self._keys.process_version(process), VERSION, ex=ALIVE_TTL_S)

    def advance(self) -> None:
        """Let the federation speak our version if no process speaks an older one.

        Raises
        ------
        redis.RedisError
            When Redis is away.
        """
        if not list_older_processes(self._redis, self._keys):
            self._redis.set(self._keys.contract, VERSION)
            self._version = VERSION
            log.info("the federation speaks version %d of the contract", VERSION)

    def follow(self, stopping: threading.Event) -> None:
        """Read the version again and again until it is final or ``stopping`` is set; outlives outages."""
        while not self.is_final and not stopping.wait(LOOK_S):
            try:
                self.refresh()
            except redis.RedisError as error:
                log.info("the version that the federation speaks cannot be read: %s", error)

    def keep_announced(self, process: str, stopping: threading.Event) -> None:
        """Announce this process and let the federation advance until ``stopping`` is set, through outages."""
        while True:
            try:
                self.announce(process)
                if self.refresh() < VERSION:
                    self.advance()
            except redis.RedisError as error:
                log.info("the version that this process speaks cannot be announced: %s", error)
            if stopping.wait(_ANNOUNCE_S):
                return


def read_federation_version(client: redis.Redis, keys: RedisKeys) -> int:
    """Return the version in Redis, without beginning it."""
    version = cast("bytes | None", client.get(keys.contract))
    return OLDEST_VERSION if version is None else int(version)


def list_older_processes(client: redis.Redis, keys: RedisKeys) -> list[str]:
    """Return the processes that speak an older version, for people: ``owner of A``, ``API process 1f…``."""
    return [*(f"owner of {cloud}" for cloud in _older_owners(client, keys)), *_older_others(client, keys)]


def _older_owners(client: redis.Redis, keys: RedisKeys) -> list[str]:
    clouds = sorted(name.decode() for name in cast("list[bytes]", client.hkeys(keys.clouds)))
    if not clouds:
        return []
    stated = cast("list[bytes | None]", client.mget([keys.owner_version(cloud) for cloud in clouds]))
    epochs = cast("list[bytes | None]", client.mget([keys.epoch(cloud) for cloud in clouds]))
    # A statement of an earlier epoch is that of another process.
    return [
        cloud
        for cloud, statement, epoch in zip(clouds, stated, epochs, strict=True)
        if statement is None or int(statement.split()[0]) < VERSION or statement.split()[1] != epoch
    ]


def _older_others(client: redis.Redis, keys: RedisKeys) -> list[str]:
    """Return the API processes and Monte-Carlo workers that speak an older version."""
    start = keys.process_version("")
    names = sorted(key.decode()[len(start) :] for key in client.scan_iter(f"{start}*", count=10_000))
    if not names:
        return []
    versions = cast("list[bytes | None]", client.mget([keys.process_version(name) for name in names]))
    samplers = cast("list[bytes | None]", client.mget([keys.sampler(name) for name in names]))
    return [
        f"API process {name}" if sampler is None else f"Monte-Carlo worker {name}"
        for name, version, sampler in zip(names, versions, samplers, strict=True)
        if version is not None and int(version) < VERSION
    ]
