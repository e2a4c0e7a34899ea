"""Tells which processes wait to own a cloud: its standbys, which say so among the statistics of its owner.

No decision depends on it, and members do not see it.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import redis

from broker.storage.keys import RedisKeys

#: Seconds between two announcements of a standby, and the age from which on it counts no more.
ANNOUNCE_S, GONE_S = 5.0, 20.0
_FIELD = "standby "


@dataclass(frozen=True)
class StandbyView:
    """A process that waits for a cloud: its host, its id there, and seconds since its last sign of life."""

    host: str
    pid: int
    age_s: float


def announce_standby(client: redis.Redis, keys: RedisKeys, cloud: str) -> None:
    """Record that this process waits for a cloud now, and forget others that are gone.

    Raises redis.RedisError.
    """
    key = keys.owner_stats(cloud)
    now_s, views = _read(client, key)
    client.hset(key, _field(socket.gethostname(), os.getpid()), f"{now_s:.3f}")
    if gone := [_field(view.host, view.pid) for view in views if view.age_s > GONE_S]:
        client.hdel(key, *gone)


def withdraw_standby(client: redis.Redis, keys: RedisKeys, cloud: str) -> None:
    """Record that this process waits for a cloud no longer. Raises redis.RedisError."""
    client.hdel(keys.owner_stats(cloud), _field(socket.gethostname(), os.getpid()))


def list_standbys(client: redis.Redis, keys: RedisKeys, cloud: str) -> list[StandbyView]:
    """Return the processes that wait for a cloud, by host. Raises redis.RedisError."""
    views = [view for view in _read(client, keys.owner_stats(cloud))[1] if view.age_s <= GONE_S]
    return sorted(views, key=lambda view: (view.host, view.pid))


def _field(host: str, pid: int) -> str:
    return f"{_FIELD}{host} {pid}"


def _read(client: redis.Redis, key: str) -> tuple[float, list[StandbyView]]:
    """Return the time of the server in seconds, and all that is recorded."""
    pipe = client.pipeline(transaction=False)
    pipe.time()
    pipe.hgetall(key)
    (seconds, micros), fields = cast("tuple[tuple[int, int], dict[bytes, bytes]]", tuple(pipe.execute()))
    now_s, views = seconds + micros / 1e6, []
    for name, seen_s in fields.items():
        with suppress(ValueError):  # another field, or one that an owner has spoiled
            word, host, pid = name.decode().split(" ")
            if word == _FIELD.strip():
                views.append(StandbyView(host, int(pid), max(0.0, now_s - float(seen_s))))
    return now_s, views
