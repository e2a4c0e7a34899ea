"""The process driver sits the exam, and what is particular to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.wait import wait_until
from tests.unit.workers.node_agent.process.exam import DriverExam, Make
from tests.unit.workers.node_agent.process.scenes import (
    alive,
    cleared,
    driver_in,
    ended,
    is_root,
    running,
    says,
    work,
)
from workers.node_agent.process.driver_protocol import StopCause
from workers.node_agent.process.process_driver import ProcessDriver
from workers.node_agent.process.shim import PART_BYTES

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="process groups of Linux")


class TestIsolated(DriverExam):
    @pytest.fixture
    def make(self, directory: Path) -> Make:
        return lambda: driver_in(directory)


class TestTogether(DriverExam):
    @pytest.fixture
    def make(self, directory: Path) -> Make:
        return lambda: driver_in(directory, "none")


DAEMON = """
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
print("daemon", os.getpid(), flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("isolation", ["auto", "none"])
def test_no_descendant_survives(directory: Path, isolation: str) -> None:
    driver = driver_in(directory, isolation)
    with cleared(driver):
        script = f"/usr/bin/python3 -c '{DAEMON}'; setsid sleep 1000 & echo sleeping; sleep 1000"
        driver.start(work(script))
        says(driver, "sleeping")
        pid = int(says(driver, "daemon").split("daemon ")[1].split()[0])
        assert alive(pid)
        driver.stop("j.1.0", StopCause.EVICTED)
        ended(driver)
        assert not alive(pid)


def test_what_a_command_leaves_behind_ends_with_it(driver: ProcessDriver) -> None:
    driver.start(work("setsid sleep 1000 & echo child $!; exit 0"))
    assert ended(driver).code == 0
    pid = int(driver.read_log("j.1.0", 100)[1].split()[1])
    assert not alive(pid)


def test_without_its_shim_work_is_lost_and_nothing_of_it_runs(driver: ProcessDriver) -> None:
    driver.start(work("echo pid $$; sleep 1000 & sleep 1000"))
    pid = int(says(driver, "pid").split()[1])
    running(driver)
    home = driver._work_dirs["j.1.0"]
    group = home.process_tree()
    assert group is not None
    os.kill(group.start.shim, 9)
    found = ended(driver)
    assert found.code is None
    assert found.why == "its processes were ended from outside, as when a machine restarts"
    wait_until(lambda: not alive(pid), "its first process is killed with the shim")
    if is_root():
        wait_until(lambda: not group.members(), "so are the others")


def test_memory_is_limited_for_each_process(driver: ProcessDriver) -> None:
    take = "/usr/bin/python3 -c 'print(len(bytearray(400_000_000)))'"
    driver.start(work(take, memory_mb=200))
    assert ended(driver).code == 1
    assert b"MemoryError" in driver.read_log("j.1.0", 10_000)[1]
    driver.start(work(take, "k.1.0", memory_mb=800))
    assert ended(driver, "k.1.0").code == 0


def test_memory_is_limited_for_all_processes_together(driver: ProcessDriver) -> None:
    one = "/usr/bin/python3 -c 'import time; x = b\"1\" * 70_000_000; time.sleep(1000)'"
    driver.start(work(f"{one} & {one} & {one} & wait", memory_mb=150))
    assert ended(driver).cause is StopCause.TOO_LARGE


def test_output_takes_bounded_room(driver: ProcessDriver) -> None:
    size = 5 * PART_BYTES
    driver.start(work(f"head -c {size} /dev/zero | tr '\\0' x; echo end"))
    assert ended(driver).code == 0
    offset, part = driver.read_log("j.1.0", 100)
    assert (offset, part) == (size - 96, b"x" * 96 + b"end\n")
    parts = list((driver._work_dirs["j.1.0"].state).glob("log.*"))
    assert sum(path.stat().st_size for path in parts) <= 2 * PART_BYTES


def test_a_job_is_told_what_it_needs_and_nothing_of_the_federation(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTFED_API_KEY", "s3cret")
    driver = driver_in(directory)
    with cleared(driver):
        driver.start(work("env; pwd; cat; ulimit -c", environment={"GREETING": "hello"}, rank=1, size=2))
        assert ended(driver).code == 0
        said = driver.read_log("j.1.0", 10_000)[1].decode().splitlines()
        names = {line.partition("=")[0] for line in said if "=" in line} - {"PWD", "OLDPWD", "_", "SHLVL"}
        assert names == {
            "PATH", "HOME", "LANG", "TMPDIR", "GREETING", "SPOTFED_JOB_ID", "SPOTFED_JOB_DIR",
            "SPOTFED_JOB_RANK", "SPOTFED_JOB_SIZE", "SPOTFED_JOB_ATTEMPT", "SPOTFED_JOB_RESTORED",
        }  # fmt: skip
        assert said[-1] == "0"
        assert said[-2] == f"{directory}/agents/j.1.0/job"


def test_cores_are_pinned(driver: ProcessDriver) -> None:
    driver.start(work("grep Cpus_allowed_list /proc/self/status; sleep 1000", cores=1))
    driver.start(work("grep Cpus_allowed_list /proc/self/status", "k.1.0", cores=1))
    ended(driver, "k.1.0")
    available = sorted(os.sched_getaffinity(0))
    found = [int(says(driver, "list", one).split()[-1]) for one in ("j.1.0", "k.1.0")]
    assert found == [available[0], available[1 % len(available)]]


def test_remote_storage_is_where_states_are_kept(driver: ProcessDriver, directory: Path) -> None:
    driver.start(work("echo here > f; pwd", storage="remote"))
    assert ended(driver).code == 0
    live = directory / "jobs" / "j" / "j.1.0" / "live"
    assert driver.read_log("j.1.0", 1_000)[1].decode().strip() == str(live)
    assert (live / "f").read_text() == "here\n"
    driver.forget("j.1.0")
    assert not live.exists()


def test_a_fork_bomb_is_killed(driver: ProcessDriver) -> None:
    if driver.lacks:
        pytest.skip(f"this kernel does not give {driver.lacks}")
    driver.start(work("f() { sleep 0.01; f & f & }; f; echo up; sleep 1000"))
    says(driver, "up")
    group = driver._work_dirs["j.1.0"].process_tree()
    assert group is not None
    driver.stop("j.1.0", StopCause.EVICTED)
    ended(driver)
    assert not group.members()
