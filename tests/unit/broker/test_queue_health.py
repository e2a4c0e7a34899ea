"""What is made of what a Redis server says of itself."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis

from broker.finding import State
from broker.queue_health import (
    ServerFacts,
    UnsafeQueueError,
    clock_finding,
    findings,
    look,
    memory_finding,
    mode_finding,
    persistence_finding,
    policy_finding,
    public_address,
    require_safe,
    version_finding,
)
from broker.redis_server import connect

SOUND = ServerFacts(
    address="redis://queue:6379",
    client="redis-cli -h queue -p 6379",
    version="7.2.4",
    policy="noeviction",
    append_only=True,
    fsync="always",
    snapshots="",
    cluster=False,
    replica=False,
    used_memory=2**20,
    max_memory=2**30,
    machine_memory=2**34,
    clock_ahead_s=0.01,
)
SILENT = ServerFacts(address="redis://queue:6379", client="redis-cli -h queue -p 6379")


def test_a_sound_server_has_nothing_to_do() -> None:
    found = findings(SOUND)
    assert {one.state for one in found} == {State.OK}
    assert not any(one.advice for one in found)
    assert len({one.name for one in found}) == len(found)


def test_what_may_not_be_read_is_a_warning_with_advice() -> None:
    found = findings(SILENT)
    assert {one.state for one in found} == {State.WARNING}
    assert all(one.advice for one in found)
    assert "neither CONFIG GET nor INFO" in policy_finding(SILENT).found


@pytest.mark.parametrize(
    "policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-ttl", "of-tomorrow"]
)
def test_any_policy_that_drops_keys_is_a_failure_that_names_key_and_command(policy: str) -> None:
    found = policy_finding(replace(SOUND, policy=policy))
    assert found.state is State.FAILURE
    assert policy in found.found
    assert "`redis-cli -h queue -p 6379 CONFIG SET maxmemory-policy noeviction`" in found.advice


@pytest.mark.parametrize(
    ("changed", "state", "says"),
    [
        ({"fsync": "everysec"}, State.WARNING, "last second"),
        ({"fsync": "no"}, State.WARNING, "operating system"),
        ({"fsync": None}, State.WARNING, "cannot be read"),
        ({"write_error": True}, State.FAILURE, "could not write"),
        ({"append_only": False}, State.WARNING, "everything: it makes no snapshots"),
        ({"append_only": False, "snapshots": "3600 1"}, State.WARNING, "last snapshot (save 3600 1)"),
        ({"append_only": False, "snapshots": None}, State.WARNING, "or everything since its last snapshot"),
        ({"append_only": None}, State.WARNING, "cannot be read"),
    ],
)
def test_persistence_says_what_a_crash_loses(changed: dict, state: State, says: str) -> None:
    found = persistence_finding(replace(SOUND, **changed))
    assert found.state is state
    assert says in found.found
    assert found.advice


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({"used_memory": 75 * 2**20, "max_memory": 100 * 2**20}, State.OK),
        ({"used_memory": 76 * 2**20, "max_memory": 100 * 2**20}, State.WARNING),
        ({"used_memory": 91 * 2**20, "max_memory": 100 * 2**20}, State.FAILURE),
        ({"used_memory": 50 * 2**20, "max_memory": 0, "machine_memory": 100 * 2**20}, State.OK),
        ({"used_memory": 51 * 2**20, "max_memory": 0, "machine_memory": 100 * 2**20}, State.WARNING),
        ({"max_memory": 0, "machine_memory": None}, State.WARNING),
    ],
)
def test_memory_is_judged_by_its_limit_or_its_machine(changed: dict, state: State) -> None:
    assert memory_finding(replace(SOUND, **changed)).state is state


@pytest.mark.parametrize(
    ("version", "state"),
    [("6.0.16", State.FAILURE), ("6.2.0", State.OK), ("10.0.0", State.OK), ("next", State.WARNING)],
)
def test_the_version_must_be_new_enough(version: str, state: State) -> None:
    assert version_finding(replace(SOUND, version=version)).state is state


def test_neither_a_cluster_nor_a_replica_will_do() -> None:
    cluster, replica = replace(SOUND, cluster=True), replace(SOUND, replica=True)
    assert mode_finding(cluster).state is mode_finding(replica).state is State.FAILURE


@pytest.mark.parametrize(
    ("ahead_s", "state", "says"),
    [
        (0.9, State.OK, "0.900 s ahead of"),
        (3600.0, State.WARNING, "ahead of"),
        (-1.5, State.WARNING, "behind"),
    ],
)
def test_a_clock_that_is_off_is_a_warning(ahead_s: float, state: State, says: str) -> None:
    found = clock_finding(replace(SOUND, clock_ahead_s=ahead_s))
    assert found.state is state
    assert says in found.found


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://me:s3cret@queue:6380/1", "redis://me:***@queue:6380/1"),
        ("rediss://:s3cret@queue", "rediss://:***@queue"),
        ("unix:///run/redis.sock?db=0&password=s3cret", "unix:///run/redis.sock?db=0&password=***"),
        ("redis://queue:6379/0", "redis://queue:6379/0"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert public_address(url) == shown


# -- on a real server ---------------------------------------------------------------------------------------


@pytest.fixture
def policy_of(redis_client: redis.Redis) -> Iterator[redis.Redis]:
    """The session's server, which gets its policy back."""
    yield redis_client
    redis_client.config_set("maxmemory-policy", "noeviction")


@pytest.mark.redis
def test_a_server_is_looked_at(policy_of: redis.Redis, redis_url: str) -> None:
    facts = look(policy_of, redis_url)
    assert (facts.policy, facts.append_only, facts.fsync, facts.snapshots) == ("noeviction", True, "no", "")
    assert (facts.cluster, facts.replica, facts.write_error) == (False, False, False)
    assert version_finding(facts).state is State.OK
    assert memory_finding(facts).state is State.OK
    ahead = look(policy_of, redis_url, now=lambda: 0.0)
    assert ahead.clock_ahead_s is not None
    assert ahead.clock_ahead_s > 1e9


@pytest.mark.redis
def test_a_replica_is_seen(policy_of: redis.Redis, redis_url: str) -> None:
    policy_of.execute_command("REPLICAOF", "127.0.0.1", "1")
    try:
        facts = look(policy_of, redis_url)
    finally:
        policy_of.execute_command("REPLICAOF", "NO", "ONE")
    assert facts.replica is True


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
    ("rights", "policy"),
    [(("-config",), "allkeys-lru"), (("-info",), "allkeys-lru"), (("-@dangerous",), None)],
)
def test_a_user_without_all_rights_sees_what_it_may(
    policy_of: redis.Redis, redis_url: str, rights: tuple[str, ...], policy: str | None
) -> None:
    policy_of.config_set("maxmemory-policy", "allkeys-lru")
    policy_of.execute_command("ACL", "SETUSER", "guest", "reset", "on", ">pw", "~*", "+@all", *rights)
    warned: list[str] = []
    try:
        with connect(redis_url, username="guest", password="pw") as client:
            facts = look(client, redis_url)
            if policy is None:
                require_safe(client, redis_url, warned.append)
    finally:
        policy_of.execute_command("ACL", "DELUSER", "guest")
    assert facts.policy == policy
    assert ("cannot be read" in " ".join(warned)) is (policy is None)


def test_a_server_that_is_away_is_an_error_of_redis(tmp_path) -> None:
    url = f"unix://{tmp_path}/nobody.sock"
    with connect(url) as client, pytest.raises(redis.ConnectionError):
        require_safe(client, url, print)
