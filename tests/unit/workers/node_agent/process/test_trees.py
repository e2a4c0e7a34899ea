"""What jobs leave is copied and removed without following its names, however it is made."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import structlog

from broker.doctor import directories
from broker.doctor.installation import Installation
from broker.settings import Settings
from tests.support.wait import wait_until
from tests.unit.workers.node_agent.process.scenes import (
    cleared,
    driver_in,
    ended,
    is_root,
    running,
    says,
    work,
)
from workers.node_agent.process import safe_copy
from workers.node_agent.process.checkpoints import CheckpointStore
from workers.node_agent.process.isolation import JobUsers
from workers.node_agent.process.process_driver import ProcessDriver
from workers.node_agent.process.safe_copy import copy_tree, remove_tree
from workers.node_agent.process.trash import Trash

NOBODY = 65534
DEEP = 3_000
#: Python's limit of recursion is 1,000.
DEEPER_THAN_PYTHON = 1_200


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory for trees that Python's own means cannot remove; in memory, as disks can be busy."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="spotfed-trees-", dir=memory if os.access(memory, os.W_OK) else None))
    yield made
    subprocess.run(["chmod", "-R", "u+rwx", made], check=False, stderr=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", made], check=True)


def nest(top: Path, depth: int, name: str = "d") -> None:
    """Makes directories in one another, with a file in the last."""
    top.mkdir(exist_ok=True)
    opened = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=opened)
        below = os.open(name, os.O_RDONLY, dir_fd=opened)
        os.close(opened)
        opened = below
    os.close(os.open("last", os.O_CREAT | os.O_WRONLY, dir_fd=opened))
    os.close(opened)


def depth(top: Path, name: str = "d") -> int:
    """How many directories are in one another."""
    opened = os.open(top, os.O_RDONLY)
    found = 0
    with suppress(FileNotFoundError):
        while True:
            below = os.open(name, os.O_RDONLY, dir_fd=opened)
            os.close(opened)
            opened, found = below, found + 1
    os.close(opened)
    return found


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def beside(action: Callable[[], object]) -> Iterator[None]:
    """Repeats something on another thread, as a process does that a job left."""
    done = threading.Event()

    def repeat() -> None:
        while not done.is_set():
            with suppress(OSError):
                action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


# -- names are not followed ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gone", "link", "file", "directory"])
def test_no_mode_of_a_directory_above_is_changed(tmp_path: Path, name: str) -> None:
    shared = tmp_path / "shared"
    (shared / "directory").mkdir(parents=True)
    shared.chmod(0o1777)
    (shared / "file").touch()
    (shared / "link").symlink_to(tmp_path)
    remove_tree(shared / name)
    assert permissions(shared) == 0o1777
    assert not os.path.lexists(shared / name)


def test_a_directory_that_is_filled_for_ever_ends_with_its_time(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "left").mkdir(parents=True)
    shared.chmod(0o1777)
    (shared / "left").chmod(0o777)
    left = os.open(shared / "left", os.O_RDONLY)
    counter = iter(range(10**9))

    def fill() -> None:
        name = str(next(counter))
        os.mkdir(name, dir_fd=left)
        os.close(os.open(f"{name}/file", os.O_CREAT, dir_fd=left))

    with beside(fill):
        began_s = time.monotonic()
        with suppress(TimeoutError):  # it may also get a moment in which nothing is in there
            remove_tree(shared / "left", 0.3)
        assert time.monotonic() - began_s < 30
    os.close(left)
    assert permissions(shared) == 0o1777
    remove_tree(shared / "left")
    assert not (shared / "left").exists()


def swap_at(monkeypatch: pytest.MonkeyPatch, name: str, swap: Callable[[], object]) -> None:
    """Swaps it just before it is opened."""
    real = os.open
    swapped: list[str] = []

    def opened(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == name and not swapped:
            swapped.append(path)
            swap()
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", opened)


def test_a_directory_that_becomes_a_link_while_it_is_removed_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    for path in (outside, tree / "inner"):
        path.mkdir(parents=True)
        (path / "file").touch()
    outside.chmod(0o755)

    def swap() -> None:
        (tree / "inner").rename(tmp_path / "moved")
        (tree / "inner").symlink_to(outside)

    swap_at(monkeypatch, "inner", swap)
    with suppress(OSError):
        remove_tree(tree)
    remove_tree(tree)
    assert not tree.exists()
    assert (outside / "file").exists()
    assert permissions(outside) == 0o755


def test_a_directory_that_becomes_a_link_while_it_is_copied_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    outside.mkdir()
    (outside / "secret").write_text("s3cret")
    (tree / "inner").mkdir(parents=True)

    def swap() -> None:
        (tree / "inner").rmdir()
        (tree / "inner").symlink_to(outside)

    swap_at(monkeypatch, "inner", swap)
    with pytest.raises(OSError, match="inner"):
        copy_tree(tree, tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []


def test_a_file_that_becomes_a_pipe_while_it_is_copied_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").touch()

    def swap() -> None:
        (tmp_path / "tree" / "file").unlink()
        os.mkfifo(tmp_path / "tree" / "file")

    swap_at(monkeypatch, "file", swap)
    assert copy_tree(tmp_path / "tree", tmp_path / "copy") == 0
    assert list((tmp_path / "copy").iterdir()) == []


def test_a_directory_that_moves_away_while_it_is_copied_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree" / "inner" / "last").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("s3cret")
    swap_at(monkeypatch, "..", lambda: (tmp_path / "tree" / "inner").rename(tmp_path / "elsewhere" / "inner"))
    with pytest.raises(OSError, match="moved"):
        copy_tree(tmp_path / "tree", tmp_path / "copy")
    assert not list((tmp_path / "copy").rglob("secret"))


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_a_directory_of_another_user_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "tree" / "foreign").mkdir(parents=True)
    (tmp_path / "tree" / "own").mkdir()
    for path in (tmp_path / "tree", tmp_path / "tree" / "own"):
        os.chown(path, 60500, 60500)
    copy_tree(tmp_path / "tree", tmp_path / "copy", of=60500)
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["own"]


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_root_changes_no_mode_and_others_only_those_of_their_own(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[object] = []

    def watch(name: str) -> None:
        real = getattr(os, name)

        def change(*call: object, **more: object) -> None:
            changes.append(call)
            real(*call, **more)

        monkeypatch.setattr(os, name, change)

    for name in ("chmod", "fchmod"):
        watch(name)

    def lock_tree() -> None:
        nest(place / "tree", 3)
        subprocess.run(["chown", "-R", str(NOBODY), place], check=True)
        subprocess.run(["chmod", "-R", "a-rwx", place / "tree"], check=True)

    lock_tree()
    remove_tree(place / "tree")
    assert changes == []
    lock_tree()
    os.seteuid(NOBODY)
    try:
        remove_tree(place / "tree")
    finally:
        os.seteuid(0)
    assert changes
    assert not (place / "tree").exists()


# -- however it is made --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["d", "n" * 255])
def test_deep_trees_are_copied_and_removed(place: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # for each directory, on a busy disk
    nest(place / "tree", DEEP, name)
    copy_tree(place / "tree", place / "copy")
    assert depth(place / "copy", name) == DEEP
    for path in ("tree", "copy"):
        remove_tree(place / path)
    assert list(place.iterdir()) == []


def test_too_many_directories_to_remember_are_not_copied_but_removed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_copy, "MOST_REMEMBERED", 50)
    nest(place / "deep", 60)
    for number in range(60):
        (place / "wide" / str(number)).mkdir(parents=True)
    for name in ("deep", "wide"):
        with pytest.raises(OSError, match="more than 50 directories"):
            copy_tree(place / name, place / f"copy of {name}")
        remove_tree(place / name)
        assert not (place / name).exists()


def test_a_hole_takes_neither_time_nor_room(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    with (tmp_path / "tree" / "file").open("wb") as file:
        file.write(b"begin")
        file.seek(10**12)
        file.write(b"end")
    assert copy_tree(tmp_path / "tree", tmp_path / "copy") < 1_000_000
    copy = tmp_path / "copy" / "file"
    assert copy.stat().st_size == 10**12 + 3
    assert copy.stat().st_blocks * 512 < 1_000_000
    with copy.open("rb") as file:
        assert file.read(6) == b"begin\0"
        file.seek(10**12)
        assert file.read() == b"end"


def test_whatever_is_in_a_tree_is_removed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    tree = place / "tree"
    (tree / "closed" / "inner").mkdir(parents=True)
    (tree / "closed" / "inner" / ("n" * 255)).touch()
    os.close(os.open(os.fsencode(tree) + b"/\xff\n", os.O_CREAT))
    os.mkfifo(tree / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tree / "socket"))
    (place / "outside").mkdir()
    (tree / "link").symlink_to(place / "outside")
    (tree / "loop").symlink_to(tree / "loop")
    if is_root():
        os.mknod(tree / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    for number in range(300):
        (tree / str(number)).touch()
    copy_tree(tree, place / "copy")
    assert not [path for path in (place / "copy").iterdir() if path.name in {"pipe", "socket", "device"}]
    (tree / "closed" / "inner" / ("n" * 255)).chmod(0)  # which an ordinary user could not have copied
    (tree / "closed" / "inner").chmod(0)
    (tree / "closed").chmod(0o100)
    remove_tree(tree)
    assert sorted(path.name for path in place.iterdir()) == ["copy", "outside"]


# -- the trash -----------------------------------------------------------------------------------------------


def make_immutable(path: Path, *, on: bool = True) -> None:
    changed = subprocess.run(["chattr", "+i" if on else "-i", path], check=False, stderr=subprocess.DEVNULL)
    if changed.returncode != 0:
        pytest.skip("no immutable files here")


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_what_cannot_be_removed_is_put_aside_with_an_alarm(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = directory / "agents" / "A"
    trash = Trash(base)
    (base / "j.1.0" / "deep" / "er").mkdir(parents=True)
    stuck = base / "j.1.0" / "deep" / "er" / "stuck"
    for path in (stuck, base / "j.1.0" / "deep" / "other", base / "j.1.0" / "z"):
        path.touch()
    make_immutable(stuck)
    installation = Installation(Settings(state_dir=directory))
    with structlog.testing.capture_logs() as logs:
        assert trash.discard(base / "j.1.0")
        trash.empty().join()
        trash.empty().join()
    (left,) = trash.path.iterdir()
    try:
        assert not (base / "j.1.0").exists()
        assert left.name.startswith("j.1.0-")
        assert [path.name for path in left.rglob("*") if path.is_file()] == ["stuck"]
        (alarm,) = logs
        assert (alarm["log_level"], alarm["event"], alarm["path"]) == (
            "error", "what a job left cannot be removed", str(left)
        )  # fmt: skip
        assert directories.check_trash(installation) == []
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 3_700)
        (finding,) = directories.check_trash(installation)
        assert finding.found == f"1 entries of {trash.path} could not be removed, such as {left.name}"
    finally:
        make_immutable(next(path for path in left.rglob("stuck")), on=False)
    trash.empty().join()
    assert list(trash.path.iterdir()) == []
    assert directories.check_trash(installation) == []


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_an_agent_starts_whatever_it_finds(directory: Path) -> None:
    base = directory / "agents"
    for name in ("deep.1.0", "locked.1.0", f".probe-{os.getpid()}", "odd.1.0", "older.1.0"):
        (base / name).mkdir(parents=True)
    nest(base / "deep.1.0" / "job", DEEPER_THAN_PYTHON)
    (base / "odd.1.0" / "work.json").write_text("{")
    (base / "older.1.0" / "work.json").write_text('{"work": {}}')
    (base / "file").touch()
    make_immutable(base / "locked.1.0")
    try:
        with structlog.testing.capture_logs() as logs, cleared(driver_in(directory)) as _:
            pass
        assert {Path(line["path"]).name: line["event"] for line in logs} == {
            "locked.1.0": "what a job left cannot be put aside",
            "odd.1.0": "work cannot be taken up",
            "older.1.0": "work cannot be taken up",
            "file": "work cannot be taken up",
        }
        driver = driver_in(directory)
        with cleared(driver):
            driver.start(work("exit 0", "odd.1.0"))  # its name may be used again
            assert ended(driver, "odd.1.0").code == 0
        wait_until(lambda: list((base / ".trash").iterdir()) == [], "nothing is left")
    finally:
        make_immutable(base / "locked.1.0", on=False)


def test_deep_and_odd_directories_of_a_job_hold_up_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # for each directory, on a busy disk
    driver = driver_in(directory)
    below = "/".join(["d"] * (DEEPER_THAN_PYTHON // 2))
    script = (
        f"(for half in 1 2; do mkdir -p {below}; cd -P {below}; done); mkfifo pipe; ln -s / root; "
        "echo up; sleep 1000"
    )
    driver.start(work(script))
    says(driver, "up")
    top = driver._work_dirs["j.1.0"].directory
    assert depth(top) == DEEPER_THAN_PYTHON
    assert running(driver).usage.disk_gb >= 0
    driver.save_checkpoint("j.1.0", threading.Event())
    driver.forget("j.1.0")
    again = driver_in(directory)  # also starts with what the one before did not get to
    assert again.list_work() == []
    for thread in again.empty_trash():
        thread.join()
    assert [path.name for path in (directory / "agents").iterdir()] == [".trash"]
    assert list((directory / "agents" / ".trash").iterdir()) == []
    store = CheckpointStore(directory / "jobs")
    assert store.drop_old([], time.time() + 1) == ["j"]
    store.trash.empty().join()
    assert list(store.trash.path.iterdir()) == []


@pytest.mark.skipif(not is_root(), reason="needs root")
def test_no_other_work_is_given_a_user_that_is_being_freed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, homes = JobUsers.free, []

    def free(users: JobUsers, uid: int) -> None:
        home = Path((users._registry / str(uid)).read_text())
        homes.append((home.name, home.exists()))
        real(users, uid)

    monkeypatch.setattr(JobUsers, "free", free)
    driver: ProcessDriver = driver_in(directory)
    driver.start(work("exit 0"))
    assert ended(driver).code == 0
    driver.forget("j.1.0")
    assert homes == [(f".probe-{os.getpid()}", True), ("j.1.0", True)]
