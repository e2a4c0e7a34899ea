"""Owners begin their tables in the order of urgency, a few at a time, and none waits for ever."""

from __future__ import annotations

import fakeredis
import pytest
import redis

from broker.storage.keys import RedisKeys
from cloudsim.cloud.spec import CloudSpec
from tests.unit.workers.owners import ask, cancel
from workers.owner.refresh_schedule import RefreshSchedule
from workers.owner.table_turns import SILENT_S, TABLES_A_WORKER, TableTurns

KEYS = RedisKeys("t:")
HOUR_S = 3600.0


@pytest.fixture
def client() -> redis.Redis:
    return fakeredis.FakeRedis()


@pytest.fixture
def now_s() -> list[float]:
    return [0.0]


def turns(client: redis.Redis, now_s: list[float], cloud: str) -> TableTurns:
    return TableTurns(client, KEYS, cloud, 6 * HOUR_S, lambda: now_s[0])


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_the_most_urgent_begin_first_and_a_few_at_a_time(
    client: redis.Redis, now_s: list[float], workers: int
) -> None:
    for number in range(workers):
        client.zadd(KEYS.samplers, {f"w{number}": 1})
    places = TABLES_A_WORKER * max(workers, 1)
    waiting = {f"c{number}": float(number * 7 % 20) for number in range(20)}  # by its urgency
    owners = {cloud: turns(client, now_s, cloud) for cloud in waiting}
    others = [turns(client, now_s, f"other{number}") for number in range(places)]
    assert all(other.take(0.0) for other in others), "there is room for them"
    begun: list[str] = []
    busy = list(others)
    while waiting:
        took = [cloud for cloud, urgency in waiting.items() if owners[cloud].take(urgency)]
        begun += took
        busy += [owners[cloud] for cloud in took]
        assert len(busy) <= places
        for cloud in took:
            del waiting[cloud]
        busy[-1].hold()
        busy.pop(0).leave()
    assert begun == sorted(owners, key=lambda cloud: int(cloud[1:]) * 7 % 20, reverse=True)


def test_who_shows_no_sign_of_life_loses_its_turn(client: redis.Redis, now_s: list[float]) -> None:
    dead = [turns(client, now_s, f"dead{number}") for number in range(TABLES_A_WORKER)]
    assert all(owner.take(1.0) for owner in dead)
    waiting = turns(client, now_s, "A")
    assert not waiting.take(100.0)
    long_ago_s = client.time()[0] - SILENT_S
    client.zadd(KEYS.table_signs, {f"dead{number}": long_ago_s for number in range(TABLES_A_WORKER)})
    assert not waiting.take(100.0), "they are only found now"
    assert waiting.take(100.0)


def test_who_has_waited_for_a_whole_period_begins_in_any_case(
    client: redis.Redis, now_s: list[float]
) -> None:
    for number in range(TABLES_A_WORKER):
        assert turns(client, now_s, f"busy{number}").take(1.0)
    waiting = turns(client, now_s, "A")
    assert not waiting.take(1.0)
    now_s[0] = 6 * HOUR_S - 1
    assert not waiting.take(1.0)
    now_s[0] += 1
    assert waiting.take(1.0)
    waiting.leave()
    assert not waiting.take(1.0), "it waits anew for the next table"


def test_an_old_table_and_one_that_is_asked_for_are_urgent() -> None:
    def schedule(made_s: float, requests: int) -> RefreshSchedule:
        made = RefreshSchedule(CloudSpec("A", (16,)), {1, 2})
        made.note_begin(made_s, 0.0)
        for _ in range(requests):
            made.note_size(ask(cores=2))
        made.note_size(cancel("x"))
        return made

    now_s = 100 * HOUR_S
    fresh, old = schedule(94 * HOUR_S, 0), schedule(88 * HOUR_S, 0)
    asked, missing = schedule(94 * HOUR_S, 9), schedule(94 * HOUR_S, 0)
    missing.note_size(ask(cores=3))
    assert fresh.urgency(now_s) == pytest.approx(1.0)
    assert old.urgency(now_s) == pytest.approx(2.0)
    assert asked.urgency(now_s) == pytest.approx(10.0)
    assert missing.urgency(now_s) == pytest.approx(2 * 100 / 6), "one size was never in a table"
    asked.note_begin(now_s, 0.0)
    assert asked.urgency(now_s) == 0.0
