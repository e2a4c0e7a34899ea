from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import kombu.transport.redis
import pytest

from broker.queue.celery_config import make_app
from broker.settings import Settings, SettingsError
from cloudsim.cloud.spec import CloudSpec
from cloudsim.history.event_log import EventLog, HistoryChunk
from tests.unit.workers.owners import ask, cancel
from workers.owner.clock import LONGEST_ABSENCE_S, CloudClock, resume_s
from workers.owner.epoch_file import EpochFile
from workers.owner.refresh_schedule import BROUGHT_FORWARD_S, MOST_SIZES, RefreshSchedule, wall_time_sizes

OPENED = datetime(2026, 1, 1, tzinfo=UTC)
DAY_S = 86_400.0


def test_a_clock_runs_at_its_speed_and_never_back() -> None:
    clock = CloudClock(100.0, 50.0, 600.0)
    assert [clock.now_s(second) for second in (40.0, 50.0, 51.0)] == [100.0, 100.0, 700.0]


@pytest.mark.parametrize(
    ("away", "latest_s", "expected_s"),
    [
        (timedelta(seconds=60), 1100.0, 1600.0),  # as if nobody had been away
        (timedelta(seconds=5), 1100.0, 1100.0),  # the wall clock went back
        (timedelta(seconds=-90), 1100.0, 1100.0),
        (timedelta(days=730), 1100.0, 1100.0),  # or far ahead
        (timedelta(seconds=LONGEST_ABSENCE_S + 11), 1100.0, 1100.0),
    ],
)
def test_a_restart_goes_on_where_the_time_is(away: timedelta, latest_s: float, expected_s: float) -> None:
    assert resume_s(1000.0, OPENED, latest_s, OPENED + away, 10.0) == expected_s


def test_the_epoch_file_only_grows(tmp_path: Path) -> None:
    file = EpochFile(tmp_path / "new", "A")
    assert file.read() == 0
    file.write(3)
    file.write(2)
    assert EpochFile(tmp_path / "new", "A").read() == 3
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["A"]


def test_an_epoch_file_of_an_older_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "A").write_text("41")
    file = EpochFile(tmp_path, "A")
    assert (file.read(), file.dead()) == (41, "")
    file.write(42, "token")
    assert file.read() == 42


def test_who_is_dead_is_known_on_its_own_machine_only(tmp_path: Path) -> None:
    file = EpochFile(tmp_path, "A")
    file.write(1, "mine")
    assert file.dead() == "", "this process lives"
    written = json.loads((tmp_path / "A").read_text())
    for changes, token in (
        ({"started": 1.0}, "mine"),
        ({"pid": 2**22 + 1}, "mine"),
        ({"started": 1.0, "where": "elsewhere"}, ""),
        ({"pid": "x"}, ""),
    ):
        (tmp_path / "A").write_text(json.dumps(written | changes))
        assert file.dead() == token, changes


def test_tables_come_in_time_and_sooner_for_a_missing_size() -> None:
    schedule = RefreshSchedule(CloudSpec("A", (16,)), {1, 2})
    assert not schedule.due(DAY_S - 1, 0.0)
    assert schedule.due(DAY_S, 0.0)
    assert schedule.late_s(9 * DAY_S) == 0  # the first: the cloud has just opened
    schedule.note_begin(DAY_S, 0.0)
    assert not schedule.due(DAY_S + 1, 100.0)
    assert schedule.due(DAY_S + 6 * 3600, 100.0)
    assert schedule.late_s(DAY_S + 6 * 3600 + 30) == 30
    schedule.note_size(ask(cores=2))
    schedule.note_size(ask(cores=17))
    schedule.note_size(cancel("x"))
    assert not schedule.due(DAY_S + 1, 100.0)
    schedule.note_size(ask(cores=3))
    assert not schedule.due(DAY_S + 1, BROUGHT_FORWARD_S / 2)
    assert schedule.due(DAY_S + 1, BROUGHT_FORWARD_S)
    assert schedule.sizes == {1, 2, 3}


def test_sizes_are_bounded_whatever_is_asked() -> None:
    schedule = RefreshSchedule(CloudSpec("A", (1000,)), {1})
    for cores in range(1, 1001):
        schedule.note_size(ask(cores=cores))
    assert len(schedule.sizes) == MOST_SIZES


def test_sizes_to_begin_with() -> None:
    assert wall_time_sizes((4, 8), [1]) == set(range(1, 9))
    assert wall_time_sizes((12, 12), [3, 12, 24]) == {1, 2, 4, 8, 3, 12}
    assert len(wall_time_sizes((4096,), range(1, 4000))) <= MOST_SIZES


def test_a_chunk_travels_whole() -> None:
    chunk = HistoryChunk.from_bytes(HistoryChunk(math.pi, EventLog.empty()).to_bytes())
    assert (chunk.until_s, len(chunk.events)) == (math.pi, 0)
    with pytest.raises(ValueError, match="no chunk"):
        HistoryChunk.from_bytes(b"1234")


def test_the_queue_needs_an_address_and_takes_json_only(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="SPOTFED_REDIS_URL"):
        make_app(Settings(redis_url=None))
    conf = make_app(Settings(redis_url=f"unix://{tmp_path}/redis.sock?db=0", key_prefix="x:")).conf
    assert conf.accept_content == ["json"]
    assert conf.task_acks_late
    assert conf.broker_transport_options["global_keyprefix"] == "x:"


def test_every_form_of_address_gets_the_transport_that_survives_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for scheme in ("redis", "rediss"):  # somebody asked kombu before we did
        monkeypatch.setitem(kombu.transport._transport_cache, scheme, kombu.transport.redis.Transport)
    for url in ("unix:///tmp/redis.sock?db=0", "redis://localhost:1/0", "rediss://localhost:1/0"):
        with make_app(Settings(redis_url=url)).connection() as connection:
            assert connection.get_transport_cls().__module__ == "broker.queue.celery_transport"
