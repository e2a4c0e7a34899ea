"""The version of the contract that a federation speaks: the lowest one in use, and who holds it back.

It is one number in Redis, and it only rises: once every process speaks a higher version, it is written. From
then on the version before cannot come back (its processes could not read what is written). A federation
begins with the version of its first process.

* An owner says with its epoch what it speaks. A member counts whether or not its owner runs: it will come
  back, and its inbox is not empty.
* API processes and Monte-Carlo workers say so in a key of their own for as long as they live. Those of
  version 1 say nothing, but are seen: the first as readers of the merged events, the second by their sign of
  life.

A process that has not looked lately writes an older version than it might, which everybody reads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import redis

from broker.finding import Finding, failure, ok, warning
from broker.keys import Keys
from broker.lua import read_script
from broker.versions import OLDEST_VERSION, VERSION

if TYPE_CHECKING:
    from broker.doctor import CloudFacts

log = logging.getLogger(__name__)

LOOK_S = 1.0  # between two looks at what the federation speaks
_HERALD_S = 5.0
#: Longer than a process is seen that is no more, so that its end is not taken for an older version.
ALIVE_TTL_S = 90
#: An API process reads about once a second, so one that has not for so long is gone.
QUIET_MS = 30_000
#: A reply stream lives for 600 s; its process renews that every 30 s.
_ASKING_MS = 600_000 - 2 * QUIET_MS
_READERS = "migration"  # consumer group of all API processes, see broker.api.migration


class ContractError(Exception):
    """The federation speaks a later version of the contract than this process."""


class Speaking:
    """What this process may write; call it for the version."""

    def __init__(self, client: redis.Redis, keys: Keys):
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
        """Reads and returns what the federation speaks; begins with ours where there is no federation yet.

        Raises:
            ContractError: it is later than ours.
            redis.RedisError: call again.
        """
        keys = self._keys
        names = [keys.contract, keys.clouds, keys.all_events, keys.overflow]
        found = cast("int", self._look(names, [VERSION, OLDEST_VERSION]))
        if found > VERSION:
            raise ContractError(
                f"the federation speaks version {found} of the contract, and this spotfed up to {VERSION}: "
                "install the version that the others have"
            )
        self._version = max(self._version, found)
        return found

    def announce(self, process: str) -> None:
        """Says for a while that this process, an API's or a Monte-Carlo worker, speaks our version."""
        self._redis.set(self._keys.speaks(process), VERSION, ex=ALIVE_TTL_S)

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


def spoken(client: redis.Redis, keys: Keys) -> int:
    """What the federation speaks, as it is written there."""
    found = cast("bytes | None", client.get(keys.contract))
    return OLDEST_VERSION if found is None else int(found)


def holding_back(client: redis.Redis, keys: Keys) -> list[str]:
    """Who speaks less than our version, for people: ``owner of A``, ``API process 1f…``."""
    found = [f"owner of {cloud}" for cloud in _clouds(client, keys)]
    found += [f"API process {name}" for name in _silent(client, keys, _readers(client, keys))]
    found += [f"Monte-Carlo worker {name}" for name in _silent(client, keys, _samplers(client, keys))]
    return found


def _clouds(client: redis.Redis, keys: Keys) -> list[str]:
    clouds = sorted(name.decode() for name in cast("list[bytes]", client.hkeys(keys.clouds)))
    if not clouds:
        return []
    said = cast("list[bytes | None]", client.mget([keys.spoken_by(cloud) for cloud in clouds]))
    epochs = cast("list[bytes | None]", client.mget([keys.epoch(cloud) for cloud in clouds]))
    # Said in an earlier epoch, it was another process that said it.
    return [
        cloud
        for cloud, one, epoch in zip(clouds, said, epochs, strict=True)
        if one is None or int(one.split()[0]) < VERSION or one.split()[1] != epoch
    ]


def _readers(client: redis.Redis, keys: Keys) -> list[str]:
    """API processes. Redis before 7.2 sees a reader only when there is something to read; those that have
    asked owners are seen by their reply streams, whose time to live they renew."""
    try:
        found = client.xinfo_consumers(keys.all_events, _READERS)
    except redis.ResponseError:  # neither the stream nor the group is there: nobody has ever read
        found = []
    readers = {one["name"].decode() for one in found if one["idle"] < QUIET_MS}
    streams = _named(client, keys.replies(""))
    lives_ms = [client.pttl(keys.replies(name)) for name in streams]
    asking = {name for name, left_ms in zip(streams, lives_ms, strict=True) if left_ms > _ASKING_MS}
    return sorted(readers | asking)


def _samplers(client: redis.Redis, keys: Keys) -> list[str]:
    return _named(client, keys.sampler(""))


def _named(client: redis.Redis, start: str) -> list[str]:
    return sorted(key.decode()[len(start) :] for key in client.scan_iter(f"{start}*", count=10_000))


def _silent(client: redis.Redis, keys: Keys, names: list[str]) -> list[str]:
    if not names:
        return []
    said = cast("list[bytes | None]", client.mget([keys.speaks(name) for name in names]))
    return [name for name, one in zip(names, said, strict=True) if one is None or int(one) < VERSION]


def contract_finding(
    clouds: Sequence[CloudFacts], spoken: int = VERSION, held_back_by: Sequence[str] = ()
) -> Finding:
    """Whether all owners write what this version reads, and who still speaks the version before."""
    name = "contract"
    newer = [facts.cloud for facts in clouds if (facts.writes or 0) > VERSION]
    unread = [facts.cloud for facts in clouds if facts.info is None]
    if newer or unread:
        return failure(
            name,
            f"this version (contract {VERSION}) cannot read what is written by: "
            f"{', '.join(sorted({*newer, *unread}))}",
            "install the same spotfed here as on their owners' machines",
        )
    if spoken > VERSION:
        return failure(
            name,
            f"the federation speaks version {spoken} of the contract, and this spotfed up to {VERSION}",
            "install the version that the others have",
        )
    if held_back_by:
        return warning(
            name,
            f"the federation speaks version {spoken} of the contract instead of {VERSION}, because of: "
            f"{', '.join(held_back_by)}",
            "upgrade them (README, Upgrading); a member that will not come back is to be taken out",
        )
    if spoken < VERSION:
        return ok(name, f"everybody speaks version {VERSION} of the contract; in a moment it is written")
    return ok(name, f"the federation speaks version {VERSION} of the contract")
