"""What the rules want grows as it should; the doctor compares it; deploy/README.md has the same numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from broker.doctor import CheckResult, State, size_rules
from broker.doctor.redis import RedisServer
from broker.doctor.size_rules import DAY_S, MB, RULES, FederationLoad, check_size, size_federation
from broker.observability.owner_stats import OwnerStats
from broker.settings import Settings
from tests.unit.broker.doctor.test_federation import Federation

README = Path(__file__).resolve().parents[4] / "deploy" / "README.md"
SHOWN = (10, 50, 200)
SIZES = {
    "memory of Redis": "redis",
    "disk of Redis": "redis_disk",
    "disk of archives": "archives",
    "memory of owners": "owners",
    "memory of Monte-Carlo workers": "workers_memory",
}
LOAD = FederationLoad(clouds=10, requests_per_day=1000, own_per_day=10_000, days=30)
AT_REST = FederationLoad(clouds=10, requests_per_day=0, own_per_day=0, days=30)


def test_the_rules_are_those_of_the_page() -> None:
    section = README.read_text(encoding="utf-8").split("## How much it wants")[1].split("\n## ")[0]
    for rule in RULES:
        assert f"| {rule.what} | {rule.amount:g} {rule.unit} |" in section
    sizes = [
        size_federation(FederationLoad(clouds, 100 * clouds, 1000 * clouds, 30), Settings())
        for clouds in SHOWN
    ]
    for what, name in SIZES.items():
        amounts = (f"{getattr(size, name) / MB:,.0f} MB" for size in sizes)
        assert f"| {what} | {' | '.join(amounts)} |" in section
    assert f"| Monte-Carlo workers | {' | '.join(str(size.workers) for size in sizes)} |" in section
    assert f"one for {size_rules.CLOUDS_A_WORKER} clouds" in section
    slow = size_federation(AT_REST, Settings().model_copy(update={"inbox_poll_s": 10.0}))
    part = slow.owner_cores / size_federation(AT_REST, Settings()).owner_cores
    assert f"{part:.0%} of it with ten seconds" in section.replace("\n  ", " ")
    assert f"{size_rules.PEAK:g} times the mean" in section


def test_what_is_kept_for_a_while_stops_growing() -> None:
    settings = Settings()
    month, decade, later = (size_federation(replace(LOAD, days=days), settings) for days in (30, 3650, 7300))
    assert month.redis < decade.redis
    instances = (LOAD.requests_per_day + LOAD.own_per_day) * 3650
    assert later.redis - decade.redis == pytest.approx(2 * instances * size_rules.HISTORY_EVENT.amount)
    assert later.owners == decade.owners
    assert later.archives > 1.9 * decade.archives
    smaller = size_federation(replace(LOAD, days=3650), settings.model_copy(update={"journal_kept": 10_000}))
    assert decade.redis - smaller.redis == pytest.approx(10 * 90_000 * size_rules.JOURNAL_ENTRY.amount)


def test_workers_are_as_many_as_keep_their_samplers() -> None:
    counts = [
        size_federation(replace(LOAD, clouds=clouds), Settings()).workers for clouds in (1, 64, 65, 200)
    ]
    assert counts == [1, 1, 2, 4]


class Server(RedisServer):
    """The server of a test, of a certain size."""

    max_memory = 2_000 * MB

    def info(self) -> Any:
        return {"maxmemory": self.max_memory}


def check(federation: Federation, clouds: int, requests: int = 0, entries: int = 0) -> dict[str, CheckResult]:
    """The results by their last word, after two days of so many requests and, for each cloud, entries."""
    made = federation.installation
    made.redis_server = Server(federation.redis, "redis://queue")
    for number in range(clouds):
        federation.join(f"c{number}", order=number)
        federation.advertise(f"c{number}", at_s=2 * DAY_S)
        fields = OwnerStats(journal_entries=entries).to_fields()
        federation.redis.hset(
            federation.keys.owner_stats(f"c{number}"), mapping=cast("dict[Any, Any]", fields)
        )
    for number in range(2 * requests):  # the first one two days before the others
        at_ms = 1_000_000 + int(2 * DAY_S * 1e3) * (number > 0)
        federation.redis.xadd(federation.keys.all_events, {"e": "1"}, id=f"{at_ms}-{number}")
    return {result.name.split()[-1]: result for result in federation.check(check_size)}


@pytest.fixture
def federation() -> Federation:
    return Federation()


def test_a_small_federation_is_large_enough(federation: Federation) -> None:
    federation.redis.set(federation.keys.sampler("m"), "1")
    results = check(federation, 3, requests=20, entries=460)
    assert {result.state for result in results.values()} == {State.OK}
    assert "3 clouds with 10 requests and 330 instances of their own users a day" in results["redis"].found


def test_what_is_too_small_is_named(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    federation.redis.set(federation.keys.sampler("m"), "1")
    monkeypatch.setattr(Server, "max_memory", 100 * MB)
    federation.installation.supervised = True
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"total": 500 * MB}))
    results = check(federation, 70, entries=6000)
    assert results["workers"].state is State.WARNING
    assert "want 2 Monte-Carlo workers; 1 run" in results["workers"].found
    assert results["machine"].state is State.WARNING
    assert results["redis"].state is State.WARNING
    assert "raise maxmemory" in results["redis"].advice


def test_clouds_in_trace_time_have_no_rate(federation: Federation) -> None:
    federation.join("A", time="trace")
    assert federation.check(check_size) == []
