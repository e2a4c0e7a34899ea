"""Copies, kept states, cores and meters by themselves."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.unit.workers.node_agent.process.scenes import is_root, work
from workers.node_agent.process import usage_meter
from workers.node_agent.process.checkpoints import CheckpointStore, checked_id
from workers.node_agent.process.cores import CoreAllocator
from workers.node_agent.process.driver_protocol import DriverError
from workers.node_agent.process.process_tree import OsProcess
from workers.node_agent.process.safe_copy import AbandonedCopyError, copy_tree, remove_tree
from workers.node_agent.process.usage_meter import UsageMeter, disk_bytes


def test_a_copy_follows_no_link_and_takes_files_only(tmp_path: Path) -> None:
    secret, source = tmp_path / "secret", tmp_path / "source"
    secret.write_text("s3cret")
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / "file").write_text("hello")
    (source / "deep" / "er" / "file").chmod(0o4755)
    (source / "link").symlink_to(secret)
    (source / "away").symlink_to(tmp_path)
    os.mkfifo(source / "pipe")
    assert copy_tree(source, tmp_path / "target") == 5
    target = tmp_path / "target"
    assert sorted(path.name for path in target.iterdir()) == ["away", "deep", "link"]
    assert (target / "link").is_symlink()
    assert (target / "away").is_symlink()
    found = target / "deep" / "er" / "file"
    assert found.read_text() == "hello"
    assert found.stat().st_mode & 0o7777 == 0o755
    assert found.stat().st_mtime_ns == (source / "deep" / "er" / "file").stat().st_mtime_ns


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_a_hard_link_to_another_users_file_is_not_copied(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (tmp_path / "secret").write_text("s3cret")
    os.link(tmp_path / "secret", source / "mine")
    (source / "own").write_text("own")
    os.chown(source / "own", 60500, 60500)
    assert copy_tree(source, tmp_path / "target", of=60500, to=60501) == 3
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["own"]
    assert (tmp_path / "target" / "own").stat().st_uid == 60501


def test_a_copy_can_be_abandoned(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").touch()
    with pytest.raises(AbandonedCopyError):
        copy_tree(tmp_path / "source", tmp_path / "target", abandoned=lambda: True)


def test_what_its_owner_made_unreadable_is_removed(tmp_path: Path) -> None:
    closed = tmp_path / "tree" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    closed.chmod(0)
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_kept_states_without_a_record_do_not_count(tmp_path: Path) -> None:
    kept, one = CheckpointStore(tmp_path / "jobs"), work("true")
    source = tmp_path / "source"
    source.mkdir()
    (source / "n").write_text("12")
    assert kept.newest("j", "j.1.0") is None
    for at in (10.0, 20.0, 30.0):
        draft, size = kept.make_draft(one, source, None, lambda: False)
        made = kept.commit(draft, at, size, lambda: False, last=False)
    assert (made.number, made.at, made.gb) == (3, 30.0, 2e-9)
    place = kept.directory_of("j", "j.1.0")
    (place / "4").mkdir()  # as of a machine that failed
    assert kept.newest("j", "j.1.0") == made
    assert sorted(path.name for path in place.iterdir()) == ["2", "3", "4"]
    kept.restore("j", "j.1.0", 3, tmp_path / "target", None)
    assert (tmp_path / "target" / "n").read_text() == "12"
    with pytest.raises(DriverError, match="there is no state 4"):
        kept.restore("j", "j.1.0", 4, tmp_path / "other", None)


def test_what_was_kept_of_jobs_that_ended_long_ago_is_removed(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path / "jobs")
    assert kept.drop_old([], time.time()) == []
    for job in ("ended", "fresh", "open"):
        (kept.directory / job / f"{job}.1.0" / "1").mkdir(parents=True)
    long_ago = time.time() - 1000
    for job in ("ended", "open", "fresh"):
        for path in (kept.directory / job / f"{job}.1.0", kept.directory / job):
            os.utime(path, (long_ago, long_ago))
    (kept.directory / "fresh" / "fresh.1.0" / "2").mkdir()  # a state that has just been kept
    assert kept.drop_old(["open"], long_ago + 500) == ["ended"]
    assert sorted(path.name for path in kept.directory.iterdir()) == [".trash", "fresh", "open"]
    assert kept.drop_old([], time.time() + 1) == ["fresh", "open"]


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "a:b"])
def test_what_names_no_directory_is_refused(name: str) -> None:
    with pytest.raises(DriverError, match="cannot name a directory"):
        checked_id(name)


def test_cores_belong_to_one_instance_and_backups_share_those_of_their_server() -> None:
    cores = CoreAllocator((4, 2), cpus=(0, 1, 2))
    first, second = work("", "a.1.0", cores=2), work("", "b.1.0", cores=2)
    assert cores.take(first) == (0, 1)
    assert cores.take(first) == (0, 1)
    assert cores.take(second) == (2, 3)
    backups = [work("", f"{name}.1.0", cores=2, node=1, server="s", spot=False) for name in "cd"]
    assert [cores.take(one) for one in backups] == [(0, 1), (0, 1)]
    assert cores.cpus(0, (2, 3)) == (0, 2)
    assert cores.cpus(1, (0, 1)) == (1, 2)
    cores.free("a.1.0")
    assert cores.take(work("", "e.1.0", cores=1)) == (0,)
    assert cores.take(work("", "f.1.0", cores=4)) == (0, 1, 2, 3)  # more than is free: it shares


def process_of(pid: int, cpu_s: float, memory: int) -> OsProcess:
    return OsProcess(pid, 1, 0, "R", 1, cpu_s, memory)


def test_io_share_is_of_as_many_threads_as_were_busy_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    busy: dict[str, float] = {}
    monkeypatch.setattr("workers.node_agent.process.usage_meter._threads", lambda _: list(busy.items()))
    one = UsageMeter()
    for second in range(11):  # one thread, half of the time
        busy["1"] = second / 2
        one.measure([process_of(1, second / 2, 100)], second)
    found = one.usage(10.0, 0.0)
    assert (found.io_share, found.cpu_s) == (0.5, 5.0)
    assert found.peak_memory_gb == 1e-7
    four = UsageMeter()
    for second in range(11):  # four threads, all of the time, of which they ran half
        busy = dict.fromkeys("1234", float(second))
        four.measure([process_of(1, 2.0 * second, 100)], second)
    assert four.usage(10.0, 0.0).io_share == 0.0
    halted = UsageMeter()
    busy = {"1": 0.0}
    halted.measure([process_of(1, 0.0, 100)], 0.0)
    busy = {"1": 5.0}
    halted.measure([process_of(1, 5.0, 100)], 5.0)
    halted.add_halt(5.0)
    assert halted.usage(10.0, 0.0).io_share == 0.0
    assert UsageMeter().usage(0.0, 0.0).io_share == 0.0


def test_what_takes_too_long_to_measure_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_meter, "_LONGEST_MEASURE_S", 0.0)
    assert disk_bytes(tmp_path) is None


def test_what_a_directory_takes(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"x" * 100_000)
    (tmp_path / "hole").touch()
    os.truncate(tmp_path / "hole", 10**9)
    (size,) = disk_bytes(tmp_path) or [0]
    assert 100_000 <= size < 200_000
