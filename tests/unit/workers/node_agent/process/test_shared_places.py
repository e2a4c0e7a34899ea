"""What a job leaves in places that all may use is its own, and vanishes with it."""

from __future__ import annotations

import ctypes
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.unit.workers.node_agent.process.scenes import (
    as_nobody,
    cleared,
    driver_in,
    ended,
    is_root,
    needs_landlock,
    says,
    work,
)
from workers.node_agent.process import isolation, sandbox
from workers.node_agent.process.driver_protocol import DriverError
from workers.node_agent.process.isolation import JobIsolation, JobUsers
from workers.node_agent.process.process_driver import ProcessDriver

needs_root = pytest.mark.skipif(not is_root(), reason="needs root")
pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes of Linux"),
    # They look at places that all processes of this machine share.
    pytest.mark.xdist_group("shared-places"),
]
#: By which what one test leaves is told from what others leave, also those of another run of the tests.
MARK = secrets.randbelow(2**24) + 1
_NAMES = f"""
import ctypes, os
KEY, LEFT, OPEN = {MARK}, "spotfed-left-{MARK}", "spotfed-open-{MARK}"
"""
#: Leaves files, shared memory, a semaphore, a queue of either kind and a key, for itself alone.
LEAVE = (
    _NAMES
    + r"""
libc = ctypes.CDLL(None, use_errno=True)
for place in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/var/lock"):
    if os.path.isdir(place):
        os.makedirs(f"{place}/{OPEN}", 0o777, exist_ok=True)
        open(f"{place}/{LEFT}", "w").write("secret")
        os.chmod(f"{place}/{LEFT}", 0o600)
assert libc.shmget(KEY, 4096, 0o1600) >= 0
assert libc.semget(KEY, 1, 0o1600) >= 0
assert libc.msgget(KEY, 0o1600) >= 0
libc.mq_open(f"/{LEFT}".encode(), 0o102, 0o600, None)  # which Landlock refuses
key = libc.syscall(248, b"user", LEFT.encode(), b"secret", 6, -4) if os.uname().machine == "x86_64" else -1
print("key", key)
print("left", flush=True)
"""
)
FIND = (
    _NAMES
    + r"""
libc = ctypes.CDLL(None, use_errno=True)
for place in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/var/lock"):
    if os.path.isdir(place):
        for name in (OPEN, LEFT):
            if os.path.exists(f"{place}/{name}"): print("FOUND", place, name)
for name, found in (
    ("shm", libc.shmget(KEY, 0, 0)), ("sem", libc.semget(KEY, 0, 0)), ("msg", libc.msgget(KEY, 0)),
    ("mq", libc.mq_open(f"/{LEFT}".encode(), 0)),
):
    if found >= 0: print("FOUND", name)
print("looked", flush=True)
"""
)


def finds_what_another_left(driver: ProcessDriver) -> str:
    """What a job finds of what another left that still runs, and this process when both are gone."""
    driver.start(work(f"/usr/bin/python3 -c '{LEAVE}'&& sleep 1000"))
    said = says(driver, "left")
    driver.start(work(f"/usr/bin/python3 -c '{FIND}'", "k.1.0"))
    assert ended(driver, "k.1.0").code == 0
    said += driver.read_log("k.1.0", 10_000)[1].decode()
    for name in ("j.1.0", "k.1.0"):
        driver.forget(name)
    said += subprocess.run([sys.executable, "-c", FIND], check=True, capture_output=True, text=True).stdout
    return said


APART = """
from tests.unit.workers.node_agent.process.test_shared_places import finds_what_another_left
driver = driver_in(directory)
with cleared(driver):
    print(driver._isolation.namespaces, driver._isolation.lacks)
    print(finds_what_another_left(driver))
"""


def test_nobody_finds_what_a_job_left_and_it_vanishes_with_it(driver: ProcessDriver) -> None:
    if "mnt" not in driver._isolation.namespaces:
        pytest.skip(f"this kernel does not give {driver._isolation.lacks}")
    assert finds_what_another_left(driver).split() == ["key", "-1", "left", "looked", "looked"]


@needs_landlock
def test_so_it_is_without_privileges(directory: Path) -> None:
    lacks, *said = as_nobody(APART, directory).splitlines()
    if lacks != "('user', 'mnt', 'ipc') ()":
        pytest.skip(f"this kernel does not give namespaces to users: {lacks}")
    assert " ".join(said).split() == ["key", "-1", "left", "looked", "looked"]


def saved_from_own_places(directory: Path) -> str:
    """What a save command finds in the places of its job, and a restore command leaves there."""
    driver = driver_in(directory)
    look = ("/bin/sh", "-c", "cat /dev/shm/state /tmp/state > saved")
    with cleared(driver):
        script = "echo shm > /dev/shm/state; echo tmp > /tmp/state; echo up; sleep 1000"
        driver.start(work(script, save=look, checkpoint_s=1000.0))
        says(driver, "up")
        checkpoint = driver.save_checkpoint("j.1.0", threading.Event())
        more = {"restore": ("j.1.0", checkpoint.number), "resume": ("/bin/sh", "-c", "cp saved /dev/shm/new")}
        driver.start(work("cat /dev/shm/new; ls /dev/shm", "j.2.0", **more))
        assert ended(driver, "j.2.0").code == 0
        return " ".join(driver.read_log("j.2.0", 1_000)[1].decode().split())


SAVED = """
from tests.unit.workers.node_agent.process.test_shared_places import saved_from_own_places
print(driver_in(directory).lacks or saved_from_own_places(directory))
"""


def test_save_and_restore_commands_share_the_places_of_their_job(directory: Path) -> None:
    if lacks := driver_in(directory).lacks:
        pytest.skip(f"this kernel does not give {lacks}")
    assert saved_from_own_places(directory) == "shm tmp new"


@needs_landlock
def test_so_they_do_without_privileges(directory: Path) -> None:
    said = as_nobody(SAVED, directory).strip()
    if said.startswith("("):
        pytest.skip(f"this kernel does not give {said}")
    assert said == "shm tmp new"


@needs_root
def test_without_namespaces_what_it_left_is_removed_before_its_user_is_used_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobIsolation, "wanted_namespaces", lambda *_: ())
    directory.chmod(0o711)
    driver = driver_in(directory)
    with ExitStack() as stack:
        stack.callback(ctypes.CDLL(None).mq_unlink, f"/spotfed-left-{MARK}".encode())
        stack.enter_context(cleared(driver))
        driver.start(work(f"/usr/bin/python3 -c '{LEAVE}'"))
        assert ended(driver).code == 0
        uid = driver._work_dirs["j.1.0"].uid
        assert Path(f"/tmp/spotfed-left-{MARK}").stat().st_uid == uid
        assert {kind for kind, _, owner in sandbox.list_ipc_objects() if owner == uid} == {
            "shm",
            "sem",
            "msg",
        }
        assert uid in isolation.list_owners()
        driver.forget("j.1.0")
        assert uid not in isolation.list_owners()
        driver.start(work(f"/usr/bin/python3 -c '{FIND}'", "k.1.0"))
        assert ended(driver, "k.1.0").code == 0
        assert "FOUND /" not in driver.read_log("k.1.0", 10_000)[1].decode()
        assert driver._work_dirs["k.1.0"].uid != uid


@needs_root
def test_users_rest_while_something_of_theirs_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = [tmp_path / name for name in "abcdefgh"]
    for home in homes:
        home.mkdir()
    shared = tmp_path / "shared" / "open" / "deep"
    shared.mkdir(parents=True)
    for path in (shared.parent, shared):
        path.chmod(0o777)
    monkeypatch.setattr(sandbox, "shared_directories", lambda: {str(tmp_path / "shared"): "/tmp"})
    users = JobUsers(60490, 60493, tmp_path / "registry")
    assert [users.take(home) for home in homes[:2]] == [60490, 60491]
    users.free(60490)
    users.free(60491)
    assert users.take(homes[2]) == 60492  # not the first again, which is free
    users.free(60492)
    (shared / "left").touch()
    os.chown(shared / "left", 60493, 60493)
    with as_user(60490, "prctl(4, 0)"):  # a process whose files in /proc belong to root
        with as_user(60491, f"shmget({MARK}, 4096, 0o1600)"):
            assert users.take(homes[3]) == 60492
            with pytest.raises(DriverError, match="all 4 users of SPOTFED_JOB_USERS run jobs, or own"):
                users.take(homes[4])
        with pytest.raises(DriverError):  # its segment is still there
            users.take(homes[4])
        users.free(60491)
        assert users.take(homes[4]) == 60491
    (shared / "left").unlink()
    assert users.take(homes[5]) == 60493
    assert users.take(homes[6]) == 60490


@contextmanager
def as_user(uid: int, call: str) -> Iterator[None]:
    """A process of that user that has made the call of libc, while the context lasts."""
    code = f"import ctypes; ctypes.CDLL(None).{call}; print(flush=True); input()"
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=uid, group=uid
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.communicate(b"\n")
