"""A job that takes all processes, all disk or the network harms itself only."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.jobs.models import WorkState
from tests.support.wait import wait_until
from tests.unit.workers.node_agent.process.scenes import (
    LIMITS,
    NO_NAMESPACES,
    NOBODY,
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
from workers.node_agent.process import process_driver
from workers.node_agent.process.driver_protocol import DriverError, EndedWork, StopCause
from workers.node_agent.process.isolation import JobIsolation
from workers.node_agent.process.process_driver import ProcessDriver
from workers.node_agent.process.shim import PART_BYTES
from workers.node_agent.task_runner import RunningTask

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes of Linux")
needs_root = pytest.mark.skipif(not is_root(), reason="needs root")


def python(program: str) -> str:
    """A command of a shell that runs the program."""
    return f"/usr/bin/python3 -c '{program}'"


# -- processes -----------------------------------------------------------------------------------------------

FORK = """
import os, signal
count = 0
try:
    while count < 500:
        if not os.fork():
            signal.pause()
        count += 1
    print("forks", count, flush=True)
except OSError:
    print("refused", count, flush=True)
signal.pause()
"""


def processes_of_a_bomb(directory: Path, *, others_go_on: bool = True) -> int:
    """How many processes a job could make that may have forty, while another that began before goes on."""
    driver = driver_in(directory, limits=replace(LIMITS, processes=40))
    with cleared(driver):
        driver.start(work("while sleep 0.02; do echo on; done"))
        says(driver, "on")
        driver.start(work(python(FORK), "k.1.0"))
        said = says(driver, "\n", "k.1.0")
        before = driver.written_bytes("j.1.0")
        wait_until(
            lambda: not others_go_on or driver.written_bytes("j.1.0") > before + 10, "the other goes on"
        )
        tree = driver._work_dirs["k.1.0"].process_tree()
        driver.stop("k.1.0", StopCause.STOPPED)
        ended(driver, "k.1.0")
        assert tree is not None
        assert tree.members() == []
    return int(said.split()[1])


BOMB = """
from tests.unit.workers.node_agent.process.test_limits import processes_of_a_bomb
print(processes_of_a_bomb(directory, others_go_on=GO_ON))
"""


def test_processes_of_a_job_are_limited(directory: Path) -> None:
    assert 30 <= processes_of_a_bomb(directory) <= 40


@needs_landlock
def test_so_they_are_without_privileges(directory: Path) -> None:
    assert 30 <= int(as_nobody(BOMB.replace("GO_ON", "True"), directory, NOBODY + 1)) <= 40


@needs_landlock
def test_where_all_are_one_user_the_limit_is_beside_those_that_run(directory: Path) -> None:
    assert 20 <= int(as_nobody(NO_NAMESPACES + BOMB.replace("GO_ON", "False"), directory, NOBODY + 2)) <= 60


LOWER = """
import resource
from tests.unit.workers.node_agent.process.test_limits import processes_of_a_bomb
resource.setrlimit(resource.RLIMIT_NPROC, (30, 30))
print(processes_of_a_bomb(directory))
"""


@needs_landlock
def test_a_limit_of_the_agent_that_is_lower_stays(directory: Path) -> None:
    assert 10 <= int(as_nobody(LOWER, directory, NOBODY + 3)) <= 30


def test_a_fork_bomb_is_killed_and_others_go_on(directory: Path) -> None:
    driver = driver_in(directory, limits=replace(LIMITS, processes=300))
    with cleared(driver):
        driver.start(work("while sleep 0.02; do echo on; done"))
        says(driver, "on")
        driver.start(work("f() { f | f & }; echo up; f; sleep 1000", "k.1.0"))
        says(driver, "up", "k.1.0")
        before = driver.written_bytes("j.1.0")
        wait_until(lambda: driver.written_bytes("j.1.0") > before + 30, "the other goes on")
        tree = driver._work_dirs["k.1.0"].process_tree()
        driver.stop("k.1.0", StopCause.EVICTED)
        ended(driver, "k.1.0")
        assert tree is not None
        assert tree.members() == []
        running(driver)


# -- disk ----------------------------------------------------------------------------------------------------

HIDE = """
import os
for name in range(1500):
    os.mkdir("d"); os.chdir("d")
open("file", "wb").write(b"x" * 30_000_000)
print("up", flush=True)
import time; time.sleep(1000)
"""
UNLINKED = """
import os, time
file = open("file", "wb"); os.unlink("file"); file.write(b"x" * 30_000_000); file.flush()
print("up", flush=True); time.sleep(1000)
"""


@pytest.fixture
def limited(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessDriver]:
    """A driver whose jobs may use twenty megabytes of disk."""
    monkeypatch.setattr(process_driver, "_DISK_S", 0.1)
    driver = driver_in(directory, limits=replace(LIMITS, disk_mb=20))
    with cleared(driver):
        yield driver


CLOSED = """
from tests.unit.workers.node_agent.process.test_limits import process_driver, replace
process_driver._DISK_S = 0.1
driver = driver_in(directory, limits=replace(LIMITS, disk_mb=20))
with cleared(driver):
    driver.start(work("mkdir d; head -c 30000000 /dev/urandom > d/file; chmod 0 d; echo up; sleep 1000"))
    print(ended(driver).cause)
"""


@needs_landlock
def test_a_job_that_hides_what_it_uses_is_ended(directory: Path) -> None:
    assert as_nobody(CLOSED, directory) == "too-much-disk\n"


@pytest.mark.parametrize(
    "script",
    [
        "head -c 30000000 /dev/urandom > file; echo up; sleep 1000",
        'mkdir -p "$TMPDIR/a"; head -c 30000000 /dev/urandom > "$TMPDIR/a/file"; echo up; sleep 1000',
        "for i in 1 2 3 4 5 6 7 8 9 10; do head -c 3000000 /dev/urandom > file$i; done; echo up; sleep 1000",
        python(HIDE),
        python(UNLINKED),
    ],
    ids=["file", "temporary", "files", "deep", "unlinked"],
)
def test_a_job_that_uses_more_disk_than_it_may_is_ended(limited: ProcessDriver, script: str) -> None:
    limited.start(work("echo mine > file; sleep 1000", "k.1.0"))
    limited.start(work(script))
    assert ended(limited).cause is StopCause.TOO_MUCH_DISK
    running(limited, "k.1.0")
    limited.forget("j.1.0")
    for thread in limited.empty_trash():
        thread.join()


def test_whoever_submitted_it_is_told_why(limited: ProcessDriver) -> None:
    task = RunningTask(limited, work("head -c 30000000 /dev/urandom > file; sleep 1000"), lambda: None)
    task.run()
    wait_until(lambda: task.is_ended, "it is ended")
    assert (task.report.state, task.report.exit_code) == (WorkState.EXITED, 137)
    assert (
        task.report.why == "it used more disk than a job may have here, or hid how much (SPOTFED_JOB_DISK_MB)"
    )


@pytest.fixture
def small_disk(directory: Path) -> Iterator[Path]:
    """A file system of forty megabytes."""
    disk = directory / "disk"
    disk.mkdir(mode=0o711)
    directory.chmod(0o711)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40m,mode=711", "none", disk], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"this kernel mounts nothing: {mounted.stderr.decode()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


FILL = "while true; do cat /dev/zero >> file 2>/dev/null; echo full; sleep 0.1; done"


@needs_root
def test_a_full_disk_ends_nobody_and_loses_no_end(small_disk: Path) -> None:
    driver = driver_in(small_disk)
    with cleared(driver):
        driver.start(work("until [ -e go ]; do sleep 0.02; done; exit 7", "k.1.0"))
        driver.start(work("trap '' TERM; while true; do sleep 0.02; echo on; done", "l.1.0"))
        says(driver, "on", "l.1.0")
        driver.start(work(f"head -c {PART_BYTES} /dev/zero; {FILL}"))
        wait_until(lambda: os.statvfs(small_disk).f_bavail == 0, "the disk is full")
        (driver._work_dirs["k.1.0"].directory / "go").symlink_to("/")  # which takes no room there
        assert ended(driver, "k.1.0").code == 7
        running(driver, "l.1.0")
        driver.give_notice("l.1.0")
        driver.stop("l.1.0", StopCause.EVICTED)
        found = ended(driver, "l.1.0")
        assert found.cause is StopCause.EVICTED
        assert found.noticed_at is not None
        with pytest.raises(DriverError, match="No space left on device"):
            driver.start(work("true", "m.1.0"))
        assert driver.list_work() == ["k.1.0", "l.1.0", "j.1.0"]
        running(driver)


@needs_root
def test_whoever_fills_the_disk_is_ended_and_its_files_are_removed(small_disk: Path) -> None:
    driver = driver_in(small_disk, limits=replace(LIMITS, disk_free_mb=10))
    with cleared(driver):
        driver.start(work("head -c 4000000 /dev/urandom > file; echo up; sleep 1000", "k.1.0"))
        says(driver, "up", "k.1.0")
        driver.start(work(FILL))
        assert ended(driver).cause is StopCause.DISK_FULL
        running(driver, "k.1.0")
        wait_until(lambda: os.statvfs(small_disk).f_bavail * 4096 > 30_000_000, "its files are removed")


@needs_root
def test_nobody_is_ended_for_a_disk_that_others_have_filled(small_disk: Path) -> None:
    (small_disk / "others").write_bytes(b"x" * 35_000_000)
    driver = driver_in(small_disk, limits=replace(LIMITS, disk_free_mb=10))
    with cleared(driver):
        driver.start(work("head -c 500000 /dev/urandom > file; echo up; sleep 1000"))
        says(driver, "up")
        running(driver)
        assert not isinstance(driver.inspect("j.1.0"), EndedWork)


# -- shared memory -------------------------------------------------------------------------------------------


def test_shared_memory_and_locks_are_bounded(driver: ProcessDriver) -> None:
    if "mnt" not in driver._isolation.namespaces:
        pytest.skip(f"this kernel does not give {driver._isolation.lacks}")
    fill = "for place in /dev/shm /run/lock; do head -c 70000000 /dev/zero > $place/x; wc -c < $place/x; done"
    driver.start(work(f"{fill}; df -i /run/lock", memory_mb=50))
    assert ended(driver).code == 0
    sizes = [int(line) for line in driver.read_log("j.1.0", 1_000)[1].decode().splitlines() if line.isdigit()]
    assert 49_000_000 <= sizes[0] <= 50_100_000
    assert sizes[1] <= 1 << 20
    assert int(driver.read_log("j.1.0", 1_000)[1].decode().splitlines()[-1].split()[1]) <= 10_240


# -- network -------------------------------------------------------------------------------------------------

CONNECT = """
import socket
def attempt(name, call):
    try: call(); print(name, "yes", flush=True)
    except OSError as error: print(name, "no", flush=True)
attempt("out", lambda: socket.create_connection(("127.0.0.1", PORT), 5))
attempt("datagram", lambda: socket.socket(2, 2).sendto(b"x", ("192.0.2.1", 9)))
def within():
    server = socket.create_server(("127.0.0.1", 0)); socket.create_connection(server.getsockname(), 5)
attempt("within", within)
attempt("pair", socket.socketpair)
"""


def reaches(directory: Path, *, network: bool) -> str:
    """What a job can reach."""
    driver = driver_in(directory, limits=replace(LIMITS, network=network))
    with cleared(driver), socket.create_server(("127.0.0.1", 0)) as server:
        program = CONNECT.replace("PORT", str(server.getsockname()[1])).replace("'", "")
        driver.start(work(python(program)))
        assert ended(driver).code == 0
        return driver.read_log("j.1.0", 1_000)[1].decode().replace("\n", ", ")


REACH = """
from tests.unit.workers.node_agent.process.test_limits import reaches
print(reaches(directory, network=False))
"""
NOTHING_BUT_ITSELF = "out no, datagram no, within yes, pair yes, "
NOTHING = "out no, datagram no, within no, pair yes, "


def test_a_job_reaches_the_network_unless_its_node_is_told_otherwise(directory: Path) -> None:
    assert reaches(directory, network=True).startswith("out yes, datagram ")
    assert reaches(directory, network=False) in {NOTHING_BUT_ITSELF, NOTHING}


@needs_root
def test_without_namespaces_a_job_that_may_reach_no_network_opens_no_sockets(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.chmod(0o711)
    monkeypatch.setattr(JobIsolation, "wanted_namespaces", lambda *_: ())
    assert reaches(directory, network=False) == NOTHING


@needs_landlock
@pytest.mark.parametrize(
    ("before", "reached"), [("", NOTHING_BUT_ITSELF), (NO_NAMESPACES, NOTHING)], ids=["namespaces", "none"]
)
def test_so_it_is_without_privileges_too(directory: Path, before: str, reached: str) -> None:
    found = as_nobody(before + REACH, directory).strip("\n")
    if not before and found == NOTHING:
        pytest.skip("this kernel gives no namespaces to users")
    assert found == reached
