"""Shares on-demand instances among the backup replicas of several jobs.

All servers are in one hash of Redis, and job managers agree on them by transactions.
"""

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
    """An on-demand instance whose cores backup replicas share.

    Attributes
    ----------
    claims
        Share of its cores, by piece of work.
    closing
        True if it is to be stopped and cannot be claimed any more.
    """

    id: Id
    cloud: CloudId
    cores: Cores
    claims: dict[str, float] = Field(default_factory=dict)
    closing: bool = False

    def fits(self, cloud: str, cores: int, share: float) -> bool:
        """Return True if there is room for one more replica."""
        right = not self.closing and (self.cloud, self.cores) == (cloud, cores)
        return right and sum(self.claims.values()) + share <= 1.0 + _TOLERANCE


class BackupServers:
    """Manages the servers; every call raises redis.RedisError when Redis is away, and can be repeated."""

    def __init__(self, client: redis.Redis, keys: RedisKeys):
        self._client, self._key = client, keys.backup_servers

    def read_all(self) -> dict[str, BackupServer]:
        """Return all servers, by id."""
        return _read(cast("Any", self._client.hgetall(self._key)))

    def claim(self, work: str, cloud: str, cores: int, share: float) -> BackupServer:
        """Claim a share of a server for a replica and return the server.

        It is the one that the replica has claimed before, else the fullest with room, else a new one.
        """

        def change(servers: dict[str, BackupServer]) -> BackupServer:
            mine = next((server for server in servers.values() if work in server.claims), None)
            if mine is not None:
                return mine
            with_room = [server for server in servers.values() if server.fits(cloud, cores, share)]
            with_room.sort(key=lambda server: (-sum(server.claims.values()), server.id))
            new = BackupServer(id=f"backup/{work}", cloud=cloud, cores=cores)
            taken = with_room[0] if with_room else new
            claimed = taken.model_copy(update={"claims": {**taken.claims, work: share}})
            servers[claimed.id] = claimed
            return claimed

        return self._change(change)

    def widen(self, work: str, share: float) -> None:
        """Give a replica a larger share of its server, as far as no other replica has claimed it."""

        def change(servers: dict[str, BackupServer]) -> None:
            mine = next((server for server in servers.values() if work in server.claims), None)
            if mine is not None:
                free = 1.0 - sum(claim for name, claim in mine.claims.items() if name != work)
                claims = {**mine.claims, work: max(min(share, free), mine.claims[work])}
                servers[mine.id] = mine.model_copy(update={"claims": claims})

        self._change(change)

    def release(self, work: str) -> BackupServer | None:
        """Give a claim back; return the server if it is to be stopped, because it has no claims left."""

        def change(servers: dict[str, BackupServer]) -> BackupServer | None:
            mine = next((server for server in servers.values() if work in server.claims), None)
            if mine is None:
                return None
            claims = {name: share for name, share in mine.claims.items() if name != work}
            left = mine.model_copy(update={"claims": claims, "closing": not claims})
            servers[left.id] = left
            return left if left.closing else None

        return self._change(change)

    def forget(self, server: str) -> None:
        """Remove a server that was stopped."""
        self._client.hdel(self._key, server)

    def _change(self, change: Callable[[dict[str, BackupServer]], _Answer]) -> _Answer:
        """Apply ``change`` to the servers in a transaction and return its result."""

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


def _read(texts: Mapping[bytes, bytes]) -> dict[str, BackupServer]:
    return {name.decode(): read_message(BackupServer, text) for name, text in texts.items()}
