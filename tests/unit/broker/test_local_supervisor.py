"""The supervisor goes on whatever writing does, and commands show one that is gone."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
import typer

from broker.cli import up
from broker.doctor import CheckResult, Installation, State
from broker.doctor.directories import check_supervisor
from broker.local import supervisor as module
from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList, ProcessSpec
from broker.local.process_record import is_supervised, read_record, write_record
from broker.local.supervisor import Child, Supervisor
from broker.settings import Settings, settings
from tests.support.wait import wait_until
from tests.unit.broker.running import runner

NO_SPACE = os.strerror(errno.ENOSPC)


class Disk:
    """Takes the list of processes until it is full."""

    def __init__(self) -> None:
        self.is_full = False
        self.restarts: list[int] = []

    def write(self, children: Sequence[Child]) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, NO_SPACE)
        self.restarts = [child.restarts for child in children]


@contextmanager
def supervised(logs: Path, disk: Disk, said: list[str], *code: str) -> Iterator[Supervisor]:
    supervisor = Supervisor(logs, {}, say=said.append, changed=disk.write)
    supervisor.start([ProcessSpec(f"p{n}", ("-c", text)) for n, text in enumerate(code)], {})
    try:
        yield supervisor
    finally:
        supervisor.stop()


def kill(child: Child) -> None:
    if child.running is not None:
        child.running.kill()


def is_running_again(child: Child, restarts: int) -> bool:
    return child.restarts == restarts and child.running is not None


SLEEP = "import time; time.sleep(600)"


def test_what_ends_is_started_again_while_nothing_can_be_written(tmp_path: Path) -> None:
    disk, said = Disk(), list[str]()
    logs = tmp_path / "logs"
    logs.mkdir()
    with supervised(logs, disk, said, SLEEP) as supervisor:
        (child,) = supervisor.children
        disk.is_full = True
        (logs / "p0.log").unlink()
        logs.rmdir()  # so that not even a log can be opened
        for restarts in (1, 2):
            kill(child)
            wait_until(partial(is_running_again, child, restarts), "it runs again")
        assert disk.restarts == [0]
        assert said.count(f"the list of processes cannot be written: [Errno {errno.ENOSPC}] {NO_SPACE}") == 1
        assert sum("p0 has no log" in text for text in said) == 1
        disk.is_full = False
        wait_until(lambda: disk.restarts == [2], "the list is written once there is room")


def test_a_process_that_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()
    with supervised(tmp_path, Disk(), said, SLEEP) as supervisor:
        (child,) = supervisor.children
        with monkeypatch.context() as patch:
            patch.setattr(module, "die_with_parent", lambda _: [str(tmp_path / "missing")])
            kill(child)
            wait_until(lambda: any("cannot be looked after" in text for text in said))
        wait_until(lambda: child.running is not None, "it runs again")


def test_a_process_that_ends_as_it_was_told_to_waits_no_longer_each_time(tmp_path: Path) -> None:
    """An owner that was told to stop five times in a minute was started again after 10 s."""
    with supervised(tmp_path, Disk(), [], "", "import sys; sys.exit(3)") as supervisor:
        told, failing = supervisor.children
        wait_until(lambda: told.restarts >= 4)
        assert told.failures <= 1
        wait_until(lambda: failing.failures >= 2)


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("closed"), SystemExit(1)])
def test_what_cannot_be_said_is_told_in_the_log_and_on_standard_error(
    tmp_path: Path, error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(_: str) -> None:
        raise error

    (tmp_path / "logs").mkdir()
    local = LocalFederation(ProcessList(Path("f.toml"), ("a",)), tmp_path, say=say)
    local.tell("api ended")
    assert capsys.readouterr().err == "api ended\n"
    log = tmp_path / "logs" / "supervisor.log"
    assert (log.read_text().endswith(" api ended\n"), log.stat().st_mode & 0o777) == (True, 0o600)


def test_nothing_at_all_can_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def say(_: str) -> None:
        raise ZeroDivisionError

    with Path("/dev/null").open() as unwritable:
        monkeypatch.setattr(sys, "stderr", unwritable)
        processes = ProcessList(Path("f.toml"), ("a",))
        LocalFederation(processes, tmp_path / "gone", say=say).tell("api ended")


def test_a_stop_while_the_queue_starts_is_no_error(tmp_path: Path) -> None:
    stopped = threading.Event()
    stopped.set()
    with LocalFederation(ProcessList(Path("f.toml"), ("a",)), tmp_path, stopped=stopped) as local:
        assert list(local.pids) == ["queue"]
    assert read_record(tmp_path) is None


def test_modules_of_the_current_directory_are_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "limits.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with supervised(tmp_path, Disk(), [], "import limits; print(limits.__file__, flush=True)") as supervisor:
        (child,) = supervisor.children
        told = wait_until(child.log.read_text, "it tells")
    assert str(tmp_path / "limits.py") not in told


def test_nobody_else_reads_a_log(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with supervised(tmp_path, Disk(), [], "pass") as supervisor:
            (child,) = supervisor.children
            assert child.log.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_nobody_else_changes_where_commands_send_the_key(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_record(tmp_path, ProcessList(tmp_path / "federation.toml", ("a",), port=1), [])
    finally:
        os.umask(before)
    assert (tmp_path / "processes.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["processes.json"]


def test_ps_and_doctor_show_a_supervisor_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPOTFED_STATE_DIR", str(tmp_path))
    settings.cache_clear()
    spotfed = runner(monkeypatch, capsys)
    processes = ProcessList(tmp_path / "federation.toml", ("a",), port=1)
    write_record(tmp_path, processes, [Child(ProcessSpec("api", ()), tmp_path / "api.log", {})])
    assert spotfed("ps").code == 0
    assert [result.state for result in _checked(tmp_path)] == [State.OK]

    record = json.loads((tmp_path / "processes.json").read_text())
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    later = {**record, "supervisor_started_s": psutil.Process().create_time() - 3600.0}
    for changed in ({**record, "supervisor": gone.pid}, later):  # its number belongs to another process
        (tmp_path / "processes.json").write_text(json.dumps(changed))
        shown = spotfed("ps")
        assert (shown.code, "is gone" in shown.err) == (4, True)
        (result,) = _checked(tmp_path)
        assert (result.state, result.advice) == (State.FAILURE, "start it with `spotfed up`")
    (tmp_path / "processes.json").write_text("{")
    assert spotfed("ps").code == 4
    assert not _checked(tmp_path)


def _checked(state_dir: Path) -> list[CheckResult]:
    record = read_record(state_dir)
    supervised = None if record is None else is_supervised(record)
    return check_supervisor(Installation(Settings(state_dir=state_dir), supervised=supervised))


def test_a_reader_that_leaves_does_not_end_the_federation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    output = os.fdopen(writing, "w")
    monkeypatch.setattr(sys, "stdout", output)
    (tmp_path / "logs").mkdir()
    processes = ProcessList(Path("f.toml"), ("a",))
    local = LocalFederation(processes, tmp_path, say=typer.echo)
    local._supervisor = Supervisor(tmp_path, {}, say=local.tell, changed=lambda _: None)
    for as_json in (False, True):
        local.tell("waiting")
        up._welcome(local, processes, tmp_path / "api-key", as_json=as_json)
    assert "The federation runs. 1 clouds: a." in (tmp_path / "logs" / "supervisor.log").read_text()
    with suppress(BrokenPipeError):
        output.close()
