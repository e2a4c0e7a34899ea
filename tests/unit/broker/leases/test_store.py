"""Where leases are shown, and whose word counts for which lease."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis

from broker.contract import Lease, LeaseState
from broker.journal.journal import Commit, Journal
from broker.leases.store import ENDED_S, LeaseStore, record_retention_s
from broker.requests.store import RequestStore
from broker.storage.connections import connect_async
from broker.storage.keys import RedisKeys
from tests.support.wakeups import no_wakeup
from tests.unit.broker.journal.test_journal import event, lease

KEYS = RedisKeys("shown-test:")


def of(cloud: str, name: str = "r.1", state: LeaseState = LeaseState.RUNNING, **changes: Any) -> Lease:
    made: Lease = lease(name, state)
    return made.model_copy(update={"cloud": cloud} | changes)


class Site:
    """A Redis, and what readers see there."""

    def __init__(self, client: redis.Redis, url: str):
        self.client, self.url = client, url
        for cloud in "ab":
            client.hset(KEYS.clouds, cloud, "{}")

    def show(self, cloud: str, told: Lease, name: str | None = None) -> None:
        """What that cloud may write: under its own name, whatever it says."""
        self.client.set(KEYS.lease(cloud, name or told.id), told.model_dump_json())

    def record(self, cloud: str | None, request: str = "r", attempt: int = 1) -> None:
        fields: dict[Any, Any] = (
            {"attempt": attempt} if cloud is None else {"attempt": attempt, "cloud": cloud}
        )
        self.client.hset(KEYS.request(request), mapping=fields)

    def seen(self, name: str = "r.1") -> Lease | None:
        async def look() -> Lease | None:
            async with connect_async(self.url) as client:
                return await LeaseStore(client, KEYS).get(name)

        return asyncio.run(look())


@pytest.fixture
def site(redis_client: redis.Redis, redis_url: str) -> Site:
    return Site(redis_client, redis_url)


def test_the_cloud_that_the_broker_attempted_is_believed_and_no_other(site: Site) -> None:
    site.record("a")
    assert site.seen() is None
    site.show("b", of("b"))
    site.show("b", of("a"))  # also not in another one's name
    assert site.seen() is None
    site.show("a", mine := of("a"))
    assert site.seen() == mine
    site.show("a", of("a", "s.1"), "r.1")
    assert site.seen() is None, "it shows another lease there"


def test_an_attempt_that_is_not_the_one_that_counts_is_none(site: Site) -> None:
    site.show("a", of("a"))
    site.record("b", attempt=2)
    assert site.seen("r.1") is None
    site.show("b", second := of("b", "r.2"))
    assert site.seen("r.2") == second
    site.record(None, "s")
    site.show("a", of("a", "s.1"))
    assert site.seen("s.1") is None, "nobody was asked yet"


def test_without_a_record_a_claim_counts_if_it_is_the_only_one(site: Site) -> None:
    site.show("b", mine := of("b", "lost.1"))
    assert site.seen("lost.1") == mine
    site.show("a", of("a", "lost.1"))
    assert site.seen("lost.1") is None
    assert site.seen("unknown.1") is None
    assert site.seen("no number") is None


def test_what_cannot_be_read_is_as_if_it_were_not_there(site: Site) -> None:
    site.record("a")
    site.client.set(KEYS.lease("a", "r.1"), '{"id": 1}')
    assert site.seen() is None


def test_a_running_lease_is_in_the_set_and_what_redis_lost_is_shown_again(site: Site) -> None:
    journal = Journal(site.client, KEYS, "a")
    assert journal.acquire("me", 60) == 1
    running, ended = of("a"), of("a", "s.1", LeaseState.EVICTED)
    journal.commit(Commit(1, "me", 60, 1, [event(1), event(2)], leases=[running, ended]))
    assert (site.seen("r.1"), site.seen("s.1")) == (running, ended)
    assert site.client.smembers(KEYS.running("a")) == {b"r.1"}
    site.client.delete(KEYS.lease("a", "r.1"))
    journal.entries.restore("me", 1, "", (), [running])
    assert site.seen("r.1") == running


def test_records_are_kept_for_longer_than_their_leases(site: Site) -> None:
    day_s = 86_400.0
    assert record_retention_s(day_s) is None
    assert record_retention_s(30 * day_s) == ENDED_S + 30 * day_s
    forever_s = record_retention_s(None)
    assert forever_s is not None
    assert forever_s > 365 * day_s
    for name in ("short", "long", "open"):
        site.record("a", name)
    for name in ("short", "long"):
        site.client.expire(KEYS.request(name), 604_800)

    async def keep() -> None:
        async with connect_async(site.url) as client:
            await RequestStore(client, KEYS, bell=no_wakeup).keep(
                {"short": 60.0, "long": 1e6, "open": 1e6, "none": None}
            )
            await RequestStore(client, KEYS, bell=no_wakeup).keep({})

    asyncio.run(keep())
    left_s = [site.client.ttl(KEYS.request(name)) for name in ("short", "long", "open")]
    assert left_s == [pytest.approx(604_800, abs=5), pytest.approx(1e6, abs=5), -1]
