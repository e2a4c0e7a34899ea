"""An append-only file whose end cannot be read is repaired, and a copy of it is kept."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.settings import settings
from broker.storage.append_only_file import find_end
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis, RedisServerError
from tests.unit.broker.running import Run, runner

FIRST = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"
SET = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n"
MULTI, EXEC = b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n"
WHOLE = FIRST + SET + b"#TS:1\r\n" + MULTI + SET + EXEC


@pytest.mark.parametrize(
    "end", [b"", b"\0" * 4096, b"*3\r\n$3\r\nSET\r\n$1\r\n\0\0\0", MULTI + SET, SET[:-1], b"\n"]
)
def test_what_is_complete_is_kept(end: bytes) -> None:
    assert find_end(io.BytesIO(WHOLE + end)) == len(WHOLE)


def test_a_file_that_is_cut_anywhere_keeps_whole_commands_only() -> None:
    ends = {0, len(FIRST), len(FIRST + SET), len(WHOLE) - len(MULTI + SET + EXEC), len(WHOLE)}
    found = [find_end(io.BytesIO(WHOLE[:size])) for size in range(len(WHOLE) + 1)]
    assert set(found) == ends
    assert all(kept <= size for size, kept in enumerate(found))
    assert found == sorted(found)


@pytest.fixture
def spotfed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Run]:
    monkeypatch.setenv("SPOTFED_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("SPOTFED_REDIS_URL", raising=False)
    settings.cache_clear()
    yield runner(monkeypatch, capsys)
    settings.cache_clear()


def test_the_doctor_repairs_the_queue(spotfed: Run, tmp_path: Path) -> None:
    redis = EmbeddedRedis(tmp_path / "redis", appendfsync="no")
    assert "there is none" in spotfed("doctor", "--repair-queue").err
    with redis, connect(redis.url) as client:
        client.set("answered", "kept")
        refused = spotfed("doctor", "--repair-queue")
        assert (refused.code, "its server runs: stop it first" in refused.err) == (1, True)
    assert "nothing to repair" in spotfed("doctor", "--repair-queue").out
    (file,) = (tmp_path / "redis").rglob("*.incr.aof")
    sound = file.read_bytes()
    file.write_bytes(sound + b"\0" * 4096)

    with pytest.raises(RedisServerError, match="spotfed doctor --repair-queue") as refusal:
        redis.start()
    assert "check-aof" not in str(refusal.value)

    done = spotfed("doctor", "--repair-queue", "--json")
    assert done.code == 0
    report = json.loads(done.out)
    assert (report["cut_bytes"], report["clouds"]) == (4096, [])
    assert Path(report["copy"]).read_bytes() == sound + b"\0" * 4096
    with redis, connect(redis.url) as client:
        assert client.get("answered") == b"kept"


def test_damage_before_other_commands_is_not_cut_off(spotfed: Run, tmp_path: Path) -> None:
    redis = EmbeddedRedis(tmp_path / "redis", appendfsync="no")
    with redis, connect(redis.url) as client:
        client.set("one", "x" * 100)
        client.set("two", "y")
    (file,) = (tmp_path / "redis").rglob("*.incr.aof")
    damaged = file.read_bytes().replace(b"x" * 100 + b"\r\n", b"\0" * 102)
    file.write_bytes(damaged)
    done = spotfed("doctor", "--repair-queue")
    assert (done.code, "commands follow that would be lost" in done.err) == (1, True)
    assert file.read_bytes() == damaged


def test_a_queue_elsewhere_is_not_touched(spotfed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTFED_REDIS_URL", "redis://127.0.0.1:1")
    assert spotfed("doctor", "--repair-queue").code == 2
