"""Drivers in directories of their own, and what they are to run."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.jobs.models import Work
from tests.support.wait import wait_until
from workers.node_agent.process import sandbox
from workers.node_agent.process.checkpoints import CheckpointStore
from workers.node_agent.process.cores import CoreAllocator
from workers.node_agent.process.driver_protocol import EndedWork, RunningWork, WorkDriver
from workers.node_agent.process.isolation import JobIsolation, JobUsers, choose_isolation
from workers.node_agent.process.limits import JobLimits
from workers.node_agent.process.process_driver import ProcessDriver

#: Not those of the setting: a federation on this machine may use them.
USERS = JobUsers(60500, 60699)
LIMITS = JobLimits(processes=4_096, disk_mb=100_000, disk_free_mb=0, network=True)

ROOT = Path(__file__).resolve().parents[5]
NOBODY = 60480
#: What a script for ``as_nobody`` begins with to have no namespaces: as on a kernel that gives none to users.
NO_NAMESPACES = """
sandbox.enter_namespaces(("user",))
Path("/proc/sys/user/max_user_namespaces").write_text("0")
"""
_AS_NOBODY = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.unit.workers.node_agent.process.scenes import *
from workers.node_agent.process import sandbox
directory = Path({directory!r})
"""
needs_landlock = pytest.mark.skipif(
    sandbox.landlock_version() < sandbox.LANDLOCK_NEEDED or not sandbox.can_refuse_calls(),
    reason="needs Landlock of Linux 6.12",
)


def as_nobody(script: str, directory: Path, uid: int = NOBODY) -> str:
    """Runs a script without privileges; returns what it prints. Processes are limited by user."""
    python = sys.executable
    if is_root():  # whose interpreter may be where nobody else can read it
        python = "/usr/bin/python3"
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        if not Path(python).exists() or not os.path.realpath(python).endswith(version):
            pytest.skip(f"needs {python} of version {version}")
        os.chown(directory, uid, uid)
    found = subprocess.run(
        [python, "-c", _AS_NOBODY.format(root=str(ROOT), directory=str(directory)) + script],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",
        env={
            "PYTHONPATH": f"{ROOT}:{sysconfig.get_paths()['purelib']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(directory),
        },
        user=uid if is_root() else None,
        group=uid if is_root() else None,
        extra_groups=[] if is_root() else None,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def work(script: str, name: str = "j.1.0", **more: Any) -> Work:
    """A shell's script as work."""
    told: dict[str, Any] = {
        "id": name, "job": name.partition(".")[0], "attempt": 1, "cloud": "A", "instance": f"{name}.1",
        "spot": True, "node": 0, "cores": 1, "command": ("/bin/sh", "-c", script), **more,
    }  # fmt: skip
    return Work(**told)


def driver_in(directory: Path, setting: str = "auto", limits: JobLimits = LIMITS) -> ProcessDriver:
    """A process driver whose state is there; made again, it is the next one of the same cloud."""
    isolation = JobIsolation(choose_isolation(setting), USERS, (directory,), limits)
    checkpoints = CheckpointStore(directory / "jobs")
    return ProcessDriver(directory / "agents", checkpoints, CoreAllocator((4, 4)), isolation, limits)


@contextmanager
def cleared(driver: WorkDriver) -> Iterator[None]:
    """Forgets all work in the end."""
    try:
        yield
    finally:
        for name in driver.list_work():
            driver.forget(name)


def ended(driver: WorkDriver, name: str = "j.1.0") -> EndedWork:
    """Waits for its end."""
    return wait_until(
        lambda: found if isinstance(found := driver.inspect(name), EndedWork) else None, f"{name} ends"
    )


def says(driver: WorkDriver, text: str, name: str = "j.1.0") -> str:
    """Waits until it has written that."""

    def look() -> str | None:
        said = driver.read_log(name, 1_000_000)[1].decode(errors="replace")
        return said if text in said else None

    return wait_until(look, f"{name} says {text}")


def running(driver: WorkDriver, name: str = "j.1.0") -> RunningWork:
    """Waits until its command runs."""

    def look() -> RunningWork | None:
        found = driver.inspect(name)
        return found if isinstance(found, RunningWork) and found.started_at is not None else None

    return wait_until(look, f"{name} runs")


def alive(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:  # also one that ends while it is read
        return False


def is_root() -> bool:
    """Whether users can be told apart here."""
    return os.geteuid() == 0
