"""What a federation speaks: the lowest version in use, which only rises. On a real server."""

import threading

import pytest
import redis

from broker.contract import OLDEST_VERSION, CloudInfo
from broker.journal.journal import Journal
from broker.storage.keys import RedisKeys
from broker.storage.negotiation import (
    ALIVE_TTL_S,
    ContractError,
    FederationVersion,
    list_older_processes,
    read_federation_version,
)

KEYS = RedisKeys("upgrading:")
NEXT = OLDEST_VERSION + 1  # spoken here, beside processes of the version before


@pytest.fixture(autouse=True)
def next_version(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("storage.negotiation", "journal.journal"):
        monkeypatch.setattr(f"broker.{module}.VERSION", NEXT)


@pytest.fixture
def client(redis_client: redis.Redis) -> redis.Redis:
    return redis_client


def owner(client: redis.Redis, cloud: str = "a", token: str = "t", version: int = NEXT) -> Journal:
    """An owner that has opened; of the version before if ``version`` says so."""
    journal = Journal(client, KEYS, cloud, speaks=lambda: OLDEST_VERSION)
    client.delete(KEYS.owner(cloud))
    assert journal.acquire(token, 60)
    journal.publish_info(CloudInfo(id=cloud, order=0, nodes="8", cores=8, largest_node=8, time="wall"))
    if version == OLDEST_VERSION:
        client.set(KEYS.owner_version(cloud), f"{version} 1")
    return journal


def test_a_federation_begins_with_the_version_of_its_first_process(client: redis.Redis) -> None:
    speaking = FederationVersion(client, KEYS)
    assert speaking() == OLDEST_VERSION, "until it is known"
    assert speaking.refresh() == speaking() == NEXT
    assert read_federation_version(client, KEYS) == NEXT


def test_one_that_speaks_the_version_before_goes_on_with_it(client: redis.Redis) -> None:
    client.set(KEYS.contract, OLDEST_VERSION)
    assert (
        FederationVersion(client, KEYS).refresh() == OLDEST_VERSION == read_federation_version(client, KEYS)
    )


def test_it_rises_when_the_last_owner_is_upgraded(client: redis.Redis) -> None:
    client.set(KEYS.contract, OLDEST_VERSION)
    owner(client, "a", version=OLDEST_VERSION)
    owner(client, "b")
    speaking = FederationVersion(client, KEYS)
    speaking.refresh()
    speaking.advance()
    assert list_older_processes(client, KEYS) == ["owner of a"]
    assert speaking() == read_federation_version(client, KEYS) == OLDEST_VERSION
    owner(client, "a", "next")
    speaking.advance()
    assert speaking() == read_federation_version(client, KEYS) == NEXT


def test_a_member_counts_while_its_owner_is_away(client: redis.Redis) -> None:
    owner(client, version=OLDEST_VERSION)
    client.delete(KEYS.owner("a"))
    assert list_older_processes(client, KEYS) == ["owner of a"]


@pytest.mark.parametrize("kind", ["API process", "Monte-Carlo worker"])
def test_a_process_counts_while_it_says_that_it_speaks_less(client: redis.Redis, kind: str) -> None:
    client.set(KEYS.process_version("one"), OLDEST_VERSION)
    if kind == "Monte-Carlo worker":
        client.set(KEYS.sampler("one"), 1)
    assert list_older_processes(client, KEYS) == [f"{kind} one"]
    FederationVersion(client, KEYS).announce("one")
    assert list_older_processes(client, KEYS) == []


def test_who_comes_too_late_is_told_what_to_install(client: redis.Redis) -> None:
    client.set(KEYS.contract, NEXT + 1)
    with pytest.raises(ContractError, match=f"version {NEXT + 1}"):
        FederationVersion(client, KEYS).refresh()


def test_a_federation_two_versions_behind_is_to_be_upgraded_to_the_one_between(client: redis.Redis) -> None:
    client.set(KEYS.contract, OLDEST_VERSION - 1)
    with pytest.raises(ContractError, match=f"at least {OLDEST_VERSION}"):
        FederationVersion(client, KEYS).refresh()


def test_it_never_falls(client: redis.Redis) -> None:
    speaking = FederationVersion(client, KEYS)
    speaking.refresh()
    client.set(KEYS.contract, OLDEST_VERSION)
    assert speaking.refresh() == OLDEST_VERSION
    assert speaking() == NEXT


def test_a_herald_raises_it_and_says_what_it_speaks_for_a_while(client: redis.Redis) -> None:
    client.set(KEYS.contract, OLDEST_VERSION)
    owner(client)
    stopping = threading.Event()
    stopping.set()
    speaking = FederationVersion(client, KEYS)
    speaking.keep_announced("me", stopping)
    assert read_federation_version(client, KEYS) == NEXT
    assert client.get(KEYS.process_version("me")) == b"%d" % NEXT
    assert 0 < client.ttl(KEYS.process_version("me")) <= ALIVE_TTL_S


def test_an_owner_follows(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    client.set(KEYS.contract, OLDEST_VERSION)
    owner(client)
    monkeypatch.setattr("broker.storage.negotiation.LOOK_S", 0.001)
    speaking = FederationVersion(client, KEYS)
    speaking.refresh()
    follower = threading.Thread(target=speaking.follow, args=(threading.Event(),))
    follower.start()
    client.set(KEYS.contract, NEXT)
    follower.join(60)
    assert speaking() == NEXT
