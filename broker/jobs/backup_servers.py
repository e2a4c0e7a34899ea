"""On-demand instances at home whose cores backup replicas of several jobs share, as several job managers
agree on them: all in one hash, each change a transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import redis
from pydantic import Field

from broker.contract import CloudId, Cores, Id, Message, read_message
from broker.storage.keys import RedisKeys

#: Shares are sums of floats.
_TOLERANCE = 1e-9

_Answer = TypeVar("_Answer")


class BackupServer(Message):
    """claims: by work, the share of its cores. closing: nobody claims it any more; it is to be stopped."""

    id: Id
    cloud: CloudId
    cores: Cores
    claims: dict[str, float] = Field(default_factory=dict)
    closing: bool = False

    def fits(self, cloud: str, cores: int, share: float) -> bool:
        """Whether there is room for one replica more."""
        right = not self.closing and (self.cloud, self.cores) == (cloud, cores)
        return right and sum(self.claims.values()) + share <= 1.0 + _TOLERANCE


class BackupServers:
    """Every call raises redis.RedisError when the queue is away, and may then be made again."""

    def __init__(self, client: redis.Redis, keys: RedisKeys):
        self._client, self._key = client, keys.backup_servers

    def all(self) -> dict[str, BackupServer]:
        """By id."""
        return _read(cast("Any", self._client.hgetall(self._key)))

    def claim(self, work: str, cloud: str, cores: int, share: float) -> BackupServer:
        """The server that a replica shares: the one it has claimed before, else the fullest with room, else a
        new one."""

        def change(servers: dict[str, BackupServer]) -> BackupServer:
            mine = next((one for one in servers.values() if work in one.claims), None)
            if mine is not None:
                return mine
            with_room = [one for one in servers.values() if one.fits(cloud, cores, share)]
            with_room.sort(key=lambda one: (-sum(one.claims.values()), one.id))
            new = BackupServer(id=f"backup/{work}", cloud=cloud, cores=cores)
            taken = with_room[0] if with_room else new
            claimed = taken.model_copy(update={"claims": {**taken.claims, work: share}})
            servers[claimed.id] = claimed
            return claimed

        return self._changed(change)

    def widen(self, work: str, share: float) -> None:
        """Gives a replica a larger share of its server, as far as nobody else has claimed it."""

        def change(servers: dict[str, BackupServer]) -> None:
            mine = next((one for one in servers.values() if work in one.claims), None)
            if mine is not None:
                free = 1.0 - sum(claim for name, claim in mine.claims.items() if name != work)
                claims = {**mine.claims, work: max(min(share, free), mine.claims[work])}
                servers[mine.id] = mine.model_copy(update={"claims": claims})

        self._changed(change)

    def release(self, work: str) -> BackupServer | None:
        """Gives a claim back; the server, where it is to be stopped now since nobody claims it."""

        def change(servers: dict[str, BackupServer]) -> BackupServer | None:
            mine = next((one for one in servers.values() if work in one.claims), None)
            if mine is None:
                return None
            claims = {name: share for name, share in mine.claims.items() if name != work}
            left = mine.model_copy(update={"claims": claims, "closing": not claims})
            servers[left.id] = left
            return left if left.closing else None

        return self._changed(change)

    def forget(self, server: str) -> None:
        """It was stopped."""
        self._client.hdel(self._key, server)

    def _changed(self, change: Callable[[dict[str, BackupServer]], _Answer]) -> _Answer:
        """What ``change`` says, once what it changed is written on top of what it was shown."""

        def attempt(pipe: redis.client.Pipeline) -> _Answer:
            servers = _read(cast("Any", pipe.hgetall(self._key)))
            before = dict(servers)
            answer = change(servers)
            pipe.multi()
            for name, server in servers.items():
                if before.get(name) != server:
                    pipe.hset(self._key, name, server.model_dump_json())
            return answer

        run = cast("Any", self._client).transaction
        return cast("_Answer", run(attempt, self._key, value_from_callable=True))


def _read(found: Mapping[bytes, bytes]) -> dict[str, BackupServer]:
    return {name.decode(): read_message(BackupServer, text) for name, text in found.items()}
