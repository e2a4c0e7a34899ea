"""What is made of what a Redis server says of itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from broker.doctor import CheckResult, Installation, State
from broker.doctor.redis import (
    DANGERS,
    RedisServer,
    UnsafeQueueError,
    check_redis_clock,
    check_redis_memory,
    check_redis_mode,
    check_redis_persistence,
    check_redis_policy,
    check_redis_version,
    find_dangers,
    require_safe,
)
from broker.storage.connections import connect

CHECKS = (
    check_redis_version,
    check_redis_mode,
    check_redis_policy,
    check_redis_persistence,
    check_redis_memory,
    check_redis_clock,
)
INFO = {
    "redis_version": "7.2.4",
    "cluster_enabled": 0,
    "role": "master",
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "used_memory": 2**20,
    "maxmemory": 2**30,
    "total_system_memory": 2**34,
}
CONFIG = {"maxmemory-policy": "noeviction", "appendonly": "yes", "appendfsync": "always", "save": ""}


class FakeServer:
    """Answers what it is told to; None: this user may not ask."""

    def __init__(self, info: dict | None, config: dict | None, ahead_s: float | None):
        self._info, self._config, self._ahead_s = info, config, ahead_s

    def info(self) -> dict:
        return self._allowed(self._info)

    def config_get(self, name: str) -> dict:
        config = self._allowed(self._config)
        return {name: config[name]} if config.get(name) is not None else {}

    def time(self) -> tuple[int, int]:
        microseconds = int((time.time() + self._allowed(self._ahead_s)) * 1e6)
        return divmod(microseconds, 1_000_000)

    @staticmethod
    def _allowed(value: Any) -> Any:
        if value is None:
            raise redis.exceptions.NoPermissionError
        return value


def installation(
    info: dict | None = None,
    config: dict | None = None,
    *,
    ahead_s: float | None = 0.01,
    silent: bool = False,
) -> Installation:
    """A sound server with the given differences; None in them: it does not say. silent: it says nothing."""
    merged = {name: value for name, value in (INFO | (info or {})).items() if value is not None}
    fake = FakeServer(None, None, None) if silent else FakeServer(merged, CONFIG | (config or {}), ahead_s)
    made = Installation()
    made.redis_server = RedisServer(cast("redis.Redis", fake), "redis://me:s3cret@queue:6379")
    return made


def results(made: Installation) -> list[CheckResult]:
    return [result for check in CHECKS for result in check(made)]


def test_a_sound_server_has_nothing_to_do() -> None:
    sound = results(installation())
    assert {result.state for result in sound} == {State.OK}
    assert not any(result.advice or "s3cret" in result.found for result in sound)
    assert len({result.name for result in sound}) == len(CHECKS)


def test_what_may_not_be_read_is_a_warning_with_advice() -> None:
    unread = results(installation(silent=True))
    assert {result.state for result in unread} == {State.WARNING}
    assert all(result.advice for result in unread)
    assert "neither CONFIG GET nor INFO" in unread[2].found


@pytest.mark.parametrize(
    "policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-ttl", "of-tomorrow"]
)
def test_any_policy_that_drops_keys_is_a_failure_that_names_key_and_command(policy: str) -> None:
    (result,) = check_redis_policy(installation(config={"maxmemory-policy": policy}))
    assert result.state is State.FAILURE
    assert policy in result.found
    assert "`redis-cli -h queue -p 6379 CONFIG SET maxmemory-policy noeviction`" in result.advice


@pytest.mark.parametrize(
    ("info", "config", "state", "says"),
    [
        ({}, {"appendfsync": "everysec"}, State.WARNING, "last second"),
        ({}, {"appendfsync": "no"}, State.WARNING, "operating system"),
        ({}, {"appendfsync": None}, State.WARNING, "cannot be read"),
        ({"aof_last_write_status": "err"}, {}, State.FAILURE, "could not write"),
        ({"aof_last_bgrewrite_status": "err"}, {}, State.FAILURE, "could not write"),
        ({"aof_enabled": 0}, {}, State.WARNING, "everything: it makes no snapshots"),
        ({"aof_enabled": 0}, {"save": "3600 1"}, State.WARNING, "last snapshot (save 3600 1)"),
        ({"aof_enabled": 0}, {"save": None}, State.WARNING, "or everything since its last snapshot"),
        ({"aof_enabled": None}, {"appendonly": None}, State.WARNING, "cannot be read"),
        ({"aof_enabled": None}, {"appendonly": "no"}, State.WARNING, "makes no snapshots"),
    ],
)
def test_persistence_says_what_a_crash_loses(info: dict, config: dict, state: State, says: str) -> None:
    (result,) = check_redis_persistence(installation(info, config))
    assert result.state is state
    assert says in result.found
    assert result.advice


@pytest.mark.parametrize(
    ("info", "state"),
    [
        ({"used_memory": 75 * 2**20, "maxmemory": 100 * 2**20}, State.OK),
        ({"used_memory": 76 * 2**20, "maxmemory": 100 * 2**20}, State.WARNING),
        ({"used_memory": 91 * 2**20, "maxmemory": 100 * 2**20}, State.FAILURE),
        ({"used_memory": 50 * 2**20, "maxmemory": 0, "total_system_memory": 100 * 2**20}, State.OK),
        ({"used_memory": 51 * 2**20, "maxmemory": 0, "total_system_memory": 100 * 2**20}, State.WARNING),
        ({"maxmemory": 0, "total_system_memory": None}, State.WARNING),
    ],
)
def test_memory_is_judged_by_its_limit_or_its_machine(info: dict, state: State) -> None:
    (result,) = check_redis_memory(installation(info))
    assert result.state is state


@pytest.mark.parametrize(
    ("version", "state"),
    [("6.0.16", State.FAILURE), ("6.2.0", State.OK), ("10.0.0", State.OK), ("next", State.WARNING)],
)
def test_the_version_must_be_new_enough(version: str, state: State) -> None:
    (result,) = check_redis_version(installation({"redis_version": version}))
    assert result.state is state


@pytest.mark.parametrize("info", [{"cluster_enabled": 1}, {"role": "slave"}])
def test_neither_a_cluster_nor_a_replica_will_do(info: dict) -> None:
    (result,) = check_redis_mode(installation(info))
    assert result.state is State.FAILURE


@pytest.mark.parametrize(
    ("ahead_s", "state", "says"),
    [
        (0.9, State.OK, "ahead of"),
        (3600.0, State.WARNING, "ahead of"),
        (-1.5, State.WARNING, "behind"),
    ],
)
def test_a_clock_that_is_off_is_a_warning(ahead_s: float, state: State, says: str) -> None:
    (result,) = check_redis_clock(installation(ahead_s=ahead_s))
    assert result.state is state
    assert says in result.found


# -- on a real server ---------------------------------------------------------------------------------------


@pytest.fixture
def policy_of(redis_client: redis.Redis) -> Iterator[redis.Redis]:
    """The session's server, which gets its policy back."""
    yield redis_client
    redis_client.config_set("maxmemory-policy", "noeviction")


def real(client: redis.Redis, url: str) -> Installation:
    made = Installation()
    made.redis_server = RedisServer(client, url)
    return made


@pytest.mark.redis
def test_a_server_is_looked_at(policy_of: redis.Redis, redis_url: str) -> None:
    judged = {result.name: result for result in results(real(policy_of, redis_url))}
    assert judged.pop("redis persistence").state is State.WARNING  # the session's does not wait for the disk
    assert {result.state for result in judged.values()} == {State.OK}


@pytest.mark.redis
def test_a_replica_is_seen(policy_of: redis.Redis, redis_url: str) -> None:
    policy_of.execute_command("REPLICAOF", "127.0.0.1", "1")
    try:
        (result,) = check_redis_mode(real(policy_of, redis_url))
    finally:
        policy_of.execute_command("REPLICAOF", "NO", "ONE")
    assert "is a replica" in result.found


@pytest.mark.redis
def test_a_start_is_refused_or_warned_of(policy_of: redis.Redis, redis_url: str) -> None:
    warned: list[str] = []
    require_safe(policy_of, redis_url, warned.append)
    assert len(warned) == 1
    assert "appendfsync no" in warned[0]

    policy_of.config_set("maxmemory-policy", "volatile-ttl")
    with pytest.raises(UnsafeQueueError, match=r"volatile-ttl.*CONFIG SET maxmemory-policy noeviction"):
        require_safe(policy_of, redis_url, warned.append)
    assert len(warned) == 1


@pytest.mark.redis
@pytest.mark.parametrize(
    ("rights", "readable"),
    [(("-config",), True), (("-info",), True), (("-@dangerous",), False)],
)
def test_a_user_without_all_rights_sees_what_it_may(
    policy_of: redis.Redis, redis_url: str, rights: tuple[str, ...], readable: bool
) -> None:
    policy_of.config_set("maxmemory-policy", "allkeys-lru")
    policy_of.execute_command("ACL", "SETUSER", "guest", "reset", "on", ">pw", "~*", "+@all", *rights)
    warned: list[str] = []
    try:
        with connect(redis_url, username="guest", password="pw") as client:
            (result,) = check_redis_policy(real(client, redis_url))
            if not readable:
                require_safe(client, redis_url, warned.append)
    finally:
        policy_of.execute_command("ACL", "DELUSER", "guest")
    assert ("is allkeys-lru" in result.found) is readable
    assert ("cannot be read" in " ".join(warned)) is not readable


def test_a_server_that_is_away_is_an_error_of_redis(tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/nobody.sock"
    with connect(url) as client, pytest.raises(redis.ConnectionError):
        require_safe(client, url, print)


SOUND = INFO | {"maxmemory_policy": "noeviction", "slave0": {"state": "online", "lag": 1}}


@pytest.mark.parametrize(
    ("changed", "was_persistent", "dangers"),
    [
        ({}, True, {}),
        ({"maxmemory_policy": "allkeys-lru"}, True, {"policy": True}),
        ({"aof_enabled": 0}, True, {"persistence": True}),
        ({"aof_enabled": 0}, False, {}),
        ({"aof_last_write_status": "err"}, True, {"persistence": True}),
        ({"slave0": {"state": "online", "lag": 30}}, True, {"replicas": False}),
        ({"used_memory": 0.95 * 2**30}, True, {"memory": False}),
    ],
)
def test_what_becomes_unsafe_is_named(changed: dict, was_persistent: bool, dangers: dict) -> None:
    found = find_dangers(SOUND | changed, "redis://h:6379/0", 1, was_persistent=was_persistent)
    assert {name: danger.loses_writes for name, danger in found.items()} == dangers
    assert found.keys() <= set(DANGERS)
