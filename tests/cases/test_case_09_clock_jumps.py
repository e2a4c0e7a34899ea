"""Case 9: +2 years, −90 s, a machine suspended for five minutes: no mass expiry, no negative lifetime,
and the jump is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from broker.contract import EventKind, LeaseGranted, LeaseState
from broker.requests.members import MembershipView
from broker.requests.models import Accept
from broker.requests.store import RequestStore
from broker.storage.connections import connect_async
from broker.storage.keys import RedisKeys
from tests.integration.test_workers_runtime import Bench, Make
from tests.support.wakeups import no_wakeup
from tests.unit.broker.requests.test_members import WALL, Clocks, publish, view
from tests.unit.workers.owners import Live, ask, check_journal, confirm, reserve, spec
from workers.owner.clock import JUMP_S, LONGEST_ABSENCE_S, JumpWatch, resume_s

JUMPS = [timedelta(days=730), timedelta(seconds=-90), timedelta(hours=1), timedelta(hours=-1)]
SUSPENDED_S = 300.0


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_is_logged_once_and_its_sample_set_aside(jump: timedelta) -> None:
    watch = JumpWatch()
    with capture_logs() as logs:
        assert watch.look(10.0, WALL) is None
        assert watch.look(11.0, WALL + timedelta(seconds=1)) is None
        by_s = watch.look(12.0, WALL + timedelta(seconds=2) + jump)
        assert by_s == pytest.approx(jump.total_seconds())
        assert watch.look(13.0, WALL + timedelta(seconds=3) + jump) is None, "the next sample is good again"
    assert [log["by_s"] for log in logs] == [by_s]


@pytest.mark.parametrize("step_s", [0.0, 1.0, -1.0, JUMP_S])
def test_a_small_step_is_nothing(step_s: float) -> None:
    watch = JumpWatch()
    watch.look(10.0, WALL)
    with capture_logs() as logs:
        assert watch.look(11.0, WALL + timedelta(seconds=1 + step_s)) is None
    assert not logs


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("speed", [1.0, 600.0])
def test_a_restart_over_a_jump_goes_on_from_the_latest_time_and_says_so(
    jump: timedelta, speed: float
) -> None:
    away = timedelta(seconds=20) + jump
    latest_s = 1000.0 + speed * 10.0
    with capture_logs() as logs:
        resumed_s = resume_s(1000.0, WALL, latest_s, WALL + away, speed)
    believed = timedelta(seconds=10) <= away <= timedelta(seconds=10 + LONGEST_ABSENCE_S)
    assert resumed_s >= latest_s, "time never goes back"
    assert resumed_s == (1000.0 + speed * away.total_seconds() if believed else latest_s)
    assert bool(logs) is not believed


class Wall(datetime):
    """A wall clock that a test sets."""

    ahead = timedelta(0)

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.now(tz) + cls.ahead


@pytest.mark.parametrize("jump", JUMPS)
def test_leases_and_reservations_outlive_a_jump_of_a_running_owner_and_its_restart(
    make_bench: Make, monkeypatch: pytest.MonkeyPatch, jump: timedelta
) -> None:
    monkeypatch.setattr("workers.owner.process.datetime", Wall)
    monkeypatch.setattr(Wall, "ahead", timedelta(0))
    bench = make_bench(spec((8,), reservation_ttl_s=30.0))
    bench.runtime.open()
    bench.tell(*(reserve(f"r{n}.1", lifetime_s=86_400.0) for n in range(4)), confirm("r0.1"), confirm("r1.1"))
    monkeypatch.setattr(Wall, "ahead", jump)
    for _ in range(3):
        bench.tell(ask())
        bench.runtime._keep_wall_time()
    assert held(bench) == {"r0.1", "r1.1", "r2.1", "r3.1"}
    bench.runtime.close()
    bench.runtime = bench.make()
    bench.runtime.open()
    bench.runtime._keep_wall_time()
    (answer,) = bench.tell(confirm("r2.1"))
    assert isinstance(answer.answer, LeaseGranted)
    assert answer.answer.lease.state is LeaseState.RUNNING
    # An hour ahead cannot be told from an hour's absence, and is believed; it ends no lease of a day.
    assert held(bench) == {"r0.1", "r1.1", "r2.1", "r3.1"}
    check_journal(bench.events())
    times = [event.at_s for event in bench.events()]
    assert times == sorted(times)
    leases = [event.lease for event in bench.events() if event.lease]
    assert all((lease.ends_at_s or 0.0) >= lease.starts_at_s for lease in leases), "no negative lifetime"


def held(bench: Bench) -> set[str]:
    """Leases that have begun and not ended, by the journal."""
    open_leases: set[str] = set()
    for event in bench.events():
        if event.lease is None:
            continue
        if event.kind in (EventKind.RESERVED, EventKind.ADMITTED):
            open_leases.add(event.lease.id)
        else:
            open_leases.discard(event.lease.id)
    return open_leases


def test_an_owner_suspended_for_five_minutes_takes_its_inbox_before_it_expires_anything(
    make_bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``_timetable`` does it: what was confirmed meanwhile lies in the inbox."""
    bench = make_bench(spec((8,), reservation_ttl_s=30.0))
    bench.runtime.open()
    bench.tell(*(reserve(f"r{n}.1", lifetime_s=86_400.0) for n in range(4)))
    bench.runtime._keep_wall_time()
    bench.journal.send("A", [confirm(f"r{n}.1") for n in range(3)])
    real = time.monotonic
    monkeypatch.setattr("workers.owner.process.time.monotonic", lambda: real() + SUSPENDED_S)
    assert bench.runtime.drain()
    bench.runtime._keep_wall_time()
    assert held(bench) == {"r0.1", "r1.1", "r2.1"}, "only what nobody confirmed is given up"
    check_journal(bench.events())


@pytest.mark.parametrize("jump_s", [63_072_000.0, -90.0, 3600.0])
def test_a_reservation_is_timed_by_the_monotonic_clock_alone(jump_s: float) -> None:
    live = Live(spec((8,), reservation_ttl_s=30.0))
    live.tell(reserve("r.1", lifetime_s=1e9), 1000.0)
    for monotonic_s in (5.0, 20.0, 34.9):
        live.take(live.owner.expire(max(1000.0 + jump_s, 0.0), "2026-01-01T00:00:00+00:00", monotonic_s))
    assert EventKind.RELEASED not in live.kinds()
    live.take(live.owner.expire(1000.0, "2026-01-01T00:00:00+00:00", 35.1))
    assert live.kinds()[-1] is EventKind.RELEASED


@pytest.mark.parametrize("jump", JUMPS)
def test_adverts_silence_nobody_and_revive_nobody_when_the_readers_clock_jumps(
    redis_client: redis.Redis, redis_url: str, jump: timedelta
) -> None:
    async def scenario(make: Callable[..., MembershipView]) -> None:
        clocks = Clocks()
        async with connect_async(redis_url) as client:
            adverts = make(client, clocks)
            publish(redis_client, WALL)
            assert await view(adverts)
            clocks.pass_s(1)
            publish(redis_client, WALL + timedelta(seconds=1))
            assert await view(adverts)
            clocks.wall += jump
            clocks.pass_s(1)
            assert await view(adverts), "the clock jumped, the owner lives"
            clocks.pass_s(1)
            publish(redis_client, WALL + timedelta(seconds=3))  # by the owner's clock, which did not jump
            assert await view(adverts)
            clocks.wall -= jump
            clocks.pass_s(SUSPENDED_S)
            assert not await view(adverts), "silent for five minutes"

    keys = RedisKeys("adverts:")
    asyncio.run(
        scenario(
            lambda client, clocks: MembershipView(
                client, keys, max_age_s=10, monotonic=lambda: clocks.monotonic_s, now=lambda: clocks.wall
            )
        )
    )


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_makes_no_request_overdue_for_the_sweeper(
    redis_client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch, jump: timedelta
) -> None:
    real = time.time

    async def scenario() -> None:
        async with connect_async(redis_url) as client:
            records = RequestStore(client, RedisKeys("sweep:"), bell=no_wakeup)
            await records.accept([Accept(f"r{n}", "f", "{}", look_after_ms=60_000) for n in range(50)])
            assert await records.overdue(100, 1000) == []
            monkeypatch.setattr(time, "time", lambda: real() + jump.total_seconds())
            assert await records.overdue(100, 1000) == [], "they are timed by the clock of Redis"

    assert redis_client.keys("sweep:*") == []
    asyncio.run(scenario())
