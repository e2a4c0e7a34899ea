"""What an owner measures of itself: told now and then, and it holds up nobody where Redis is away."""

from __future__ import annotations

from typing import Any, cast

import fakeredis
import pytest
import redis

from broker.journal.journal import Journal
from broker.observability.owner_stats import OwnerStats
from broker.storage.keys import RedisKeys
from workers.owner.stats import EVERY_S, OwnerStatsPublisher

KEYS = RedisKeys("t:")


@pytest.fixture
def client() -> redis.Redis:
    return fakeredis.FakeRedis()


@pytest.fixture
def now_s() -> list[float]:
    return [100.0]


@pytest.fixture
def stats(client: redis.Redis, now_s: list[float]) -> OwnerStatsPublisher:
    return OwnerStatsPublisher(Journal(client, KEYS, "A"), lambda: now_s[0])


def told(client: redis.Redis) -> OwnerStats | None:
    return OwnerStats.parse(cast("dict[bytes, bytes]", client.hgetall(KEYS.owner_stats("A"))))


def test_tables_and_lengths_are_told(
    client: redis.Redis, stats: OwnerStatsPublisher, now_s: list[float]
) -> None:
    client.xadd(KEYS.journal("A"), {"e": "1"})
    client.xadd(KEYS.dead_letters("A"), {"c": "1"})
    for took_s in (2.0, 3.0):
        stats.note_table_begin()
        now_s[0] += took_s
        stats.note_table_end()
    stats.publish(4)
    assert told(client) == OwnerStats(2, 5.0, 3.0, 1, 1, 4)


def test_it_is_told_now_and_then_and_at_once_when_a_table_is_made(
    client: redis.Redis, stats: OwnerStatsPublisher, now_s: list[float]
) -> None:
    stats.publish(1)
    stats.publish(2)
    assert told(client) == OwnerStats(batches=1)
    now_s[0] += EVERY_S
    stats.publish(3)
    assert told(client) == OwnerStats(batches=3)
    stats.note_table_begin()
    stats.note_table_end()
    stats.publish(0)
    assert told(client) == OwnerStats(tables=1)


def test_a_table_is_late_from_when_it_was_due_until_it_is_made(
    client: redis.Redis, stats: OwnerStatsPublisher, now_s: list[float]
) -> None:
    stats.note_table_due(late_s=3.0)
    stats.note_table_begin()
    now_s[0] += 20.0
    stats.publish(5)
    assert told(client) == OwnerStats(batches=5, table_due_age_s=23.0)
    stats.note_table_end()
    stats.publish(0)
    assert told(client) == OwnerStats(1, 20.0, 20.0)


def test_that_redis_is_away_holds_up_nobody(
    client: redis.Redis, stats: OwnerStatsPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise redis.ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(client, "pipeline", away)
        stats.publish(1)
    assert told(client) is None
    stats.publish(2)  # the next look tells it, however soon
    assert told(client) == OwnerStats(batches=2)
