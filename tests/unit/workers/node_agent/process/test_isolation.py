"""A job reaches neither other jobs nor the federation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.wait import wait_until
from tests.unit.workers.node_agent.process.scenes import (
    LIMITS,
    NO_NAMESPACES,
    USERS,
    as_nobody,
    cleared,
    driver_in,
    ended,
    is_root,
    needs_landlock,
    running,
    says,
    work,
)
from workers.node_agent.process import isolation, sandbox
from workers.node_agent.process.driver_protocol import DriverError
from workers.node_agent.process.isolation import Isolation, JobIsolation, JobUsers, choose_isolation
from workers.node_agent.process.process_driver import ProcessDriver
from workers.node_agent.process.process_tree import OsProcess

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes of Linux")


def forbidden(driver: ProcessDriver, directory: Path) -> str:
    """What a job says that tries what it must not: nothing where all is refused."""
    (directory / "api-key").write_text("k3y")
    driver.start(work("umask 000; echo mine > secret; chmod 777 . secret; echo up; sleep 1000"))
    says(driver, "up")
    other = driver._work_dirs["j.1.0"].directory
    script = f"""
    cat {other}/secret && echo READ ANOTHER JOB
    ls {other} && echo LISTED ANOTHER JOB
    echo x > {other}/secret && echo WROTE TO ANOTHER JOB
    cat {directory}/api-key && echo READ THE KEY
    ls {directory}/agents | grep j.1.0 && echo LISTED THE STATE
    cat {directory}/agents/k.1.0/state/task.json && echo READ ITS TASK
    cat {directory}/agents/k.1.0/work.json && echo READ ITS WORK
    cat /proc/{os.getpid()}/environ > /dev/null && echo READ THE ENVIRONMENT
    kill -0 {os.getpid()} && echo SIGNALLED THE AGENT
    kill -0 {started(driver, "j.1.0")} && echo SIGNALLED ANOTHER JOB
    kill -0 $PPID && echo SIGNALLED ITS SHIM
    echo mine > mine && cat mine > "$TMPDIR/mine" || echo "CANNOT WORK"
    exit 0
    """
    driver.start(work(script, "k.1.0"))
    assert ended(driver, "k.1.0").code == 0
    said = driver.read_log("k.1.0", 100_000)[1].decode()
    return "\n".join(line for line in said.splitlines() if line.isupper())


def started(driver: ProcessDriver, name: str) -> int:
    """The first process of running work."""
    running(driver, name)
    group = driver._work_dirs[name].process_tree()
    assert group is not None
    assert group.start.pid is not None
    return group.start.pid


def test_a_job_reaches_neither_others_nor_the_federation(driver: ProcessDriver, directory: Path) -> None:
    directory.chmod(0o755)
    assert forbidden(driver, directory) == ""


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_users_alone_keep_jobs_apart_where_nothing_can_be_mounted(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.chmod(0o711)
    (directory / "api-key").touch(0o600)
    monkeypatch.setattr(JobIsolation, "wanted_namespaces", lambda *_: ())
    driver = driver_in(directory)
    with cleared(driver):
        assert forbidden(driver, directory) == ""


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_a_directory_that_no_job_can_reach_is_told(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobIsolation, "wanted_namespaces", lambda *_: ())
    with pytest.raises(DriverError, match=r"it cannot be run: Permission denied.*SPOTFED_ISOLATION=none"):
        driver_in(directory)
    assert [path.name for path in (directory / "agents").iterdir()] == [".trash"]


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_each_piece_of_work_has_a_user_of_its_own_and_no_privileges(driver: ProcessDriver) -> None:
    script = "id -u; id -G; grep -E 'NoNewPrivs|CapEff' /proc/self/status; sleep 1000"
    for name in ("j.1.0", "k.1.0"):
        driver.start(work(script, name))
    said = [says(driver, "NoNewPrivs", name).split() for name in ("j.1.0", "k.1.0")]
    assert said[0][0] != said[1][0]
    for one in said:
        assert one[0] == one[1] != "0"
        assert int(one[one.index("CapEff:") + 1], 16) == 0
        assert one[one.index("NoNewPrivs:") + 1] == "1"


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_users_are_given_to_one_at_a_time(tmp_path: Path) -> None:
    homes = [tmp_path / name for name in "abc"]
    for home in homes:
        home.mkdir()
    first, second = (JobUsers(60490, 60491, tmp_path / "registry") for _ in range(2))
    assert {first.take(homes[0]), second.take(homes[1])} == {60490, 60491}
    with pytest.raises(DriverError, match="all 2 users of SPOTFED_JOB_USERS"):
        first.take(homes[2])
    homes[0].rmdir()  # its agent was killed before it could say so
    assert first.take(homes[2]) == 60490
    second.free(60491)
    assert first.take(homes[1]) == 60491


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_a_user_may_be_freed_while_another_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (JobUsers(60490, 60490, tmp_path / "registry") for _ in range(2))
    assert first.take(tmp_path) == 60490

    def freed_meanwhile() -> dict[int, OsProcess]:
        first.free(60490)
        return {}

    monkeypatch.setattr(isolation, "list_processes", freed_meanwhile)
    assert second.take(tmp_path) == 60490


UNPRIVILEGED = """
from tests.unit.workers.node_agent.process.test_isolation import forbidden
driver = driver_in(directory)
with cleared(driver):
    print(driver._isolation.isolation, repr(forbidden(driver, directory)))
    program = "import socket\\nsocket.socket(); print(1); socket.socket(socket.AF_UNIX); print(2)"
    driver.start(work(f"cat /etc/shadow /etc/hostname; /usr/bin/python3 -c '{program}'", "s.1.0"))
    ended(driver, "s.1.0")
    print(driver.read_log("s.1.0", 10_000)[1].decode())
"""


@needs_landlock
@pytest.mark.parametrize("before", ["", NO_NAMESPACES], ids=["namespaces", "none"])
def test_landlock_keeps_jobs_of_an_agent_without_privileges_apart(directory: Path, before: str) -> None:
    said = as_nobody(before + UNPRIVILEGED, directory).splitlines()
    assert said[:1] == ["landlock ''"]
    assert "cat: /etc/shadow: Permission denied" in said
    assert "cat: /etc/hostname: Permission denied" in said
    assert "1" in said
    assert "2" not in said
    assert any("Address family not supported" in line for line in said)


LACKS = """
from dataclasses import replace
for network in (True, False):
    for lack in driver_in(directory, limits=replace(LIMITS, network=network)).lacks:
        print(lack)
"""


@needs_landlock
def test_what_cannot_be_given_is_named(directory: Path) -> None:
    why = "(it cannot be run: unshare: No space left on device)"
    places = f"temporary files, shared memory, locks and IPC objects of their own {why}"
    processes = "a limit of processes each, but one for all (they run as the agent's user)"
    sockets = f"a loopback device of their own, so that they can open no sockets at all {why}"
    said = as_nobody(NO_NAMESPACES + LACKS, directory).splitlines()
    assert said == [places, processes, places, sockets, processes]


def test_an_agent_that_keeps_nothing_apart_says_so(directory: Path) -> None:
    lacks = driver_in(directory, "none").lacks
    assert lacks[0] == "anything that keeps them apart (SPOTFED_ISOLATION=none)"
    assert "limit of processes" in lacks[1]


def test_isolation_that_cannot_be_had_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(DriverError, match="users needs root"):
        choose_isolation("users")
    monkeypatch.setattr(sandbox, "landlock_version", lambda: 3)
    with pytest.raises(DriverError, match=r"version 3 of Landlock, and 6 is needed.*SPOTFED_ISOLATION=none"):
        choose_isolation("auto")
    assert choose_isolation("none") is Isolation.NONE
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert choose_isolation("auto") is Isolation.USERS


def test_a_probe_finds_out_that_nothing_keeps_jobs_apart(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobIsolation, "take_user", lambda *_: None)
    monkeypatch.setattr(JobIsolation, "wanted_namespaces", lambda *_: ())
    monkeypatch.setattr(JobIsolation, "readable_paths", lambda *_: None)
    with pytest.raises(DriverError, match="it can read files of the federation"):
        JobIsolation(Isolation.USERS, USERS, (), LIMITS).check(directory)
    wait_until(lambda: list(directory.iterdir()) == [], "nothing is left")
