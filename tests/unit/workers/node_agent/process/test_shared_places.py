"""What a job leaves in places that all may use is its own, and vanishes with it."""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.workers.node_agent.process.scenes import (
    LIMITS,
    USERS,
    as_nobody,
    cleared,
    driver_in,
    ended,
    is_root,
    says,
    work,
)
from workers.node_agent.process import isolation, sandbox
from workers.node_agent.process.driver_protocol import DriverError
from workers.node_agent.process.isolation import JobIsolation, JobUsers
from workers.node_agent.process.process_driver import ProcessDriver

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes of Linux")
#: Leaves files, a segment of shared memory, a semaphore, a queue of either kind and a key, all for itself alone.
LEAVE = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for place in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/var/lock"):
    if os.path.isdir(place):
        os.mkdir(f"{place}/spotfed-open", 0o777)
        open(f"{place}/spotfed-left", "w").write("secret")
        os.chmod(f"{place}/spotfed-left", 0o600)
assert libc.shmget(0x5F0, 4096, 0o1600) >= 0
assert libc.semget(0x5F0, 1, 0o1600) >= 0
assert libc.msgget(0x5F0, 0o1600) >= 0
assert libc.mq_open(b"/spotfed-left", 0o102, 0o600, None) >= 0
print("key", libc.syscall(248, b"user", b"left", b"secret", 6, -4) if os.uname().machine == "x86_64" else -1)
print("left", flush=True)
"""
FIND = r"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for place in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/var/lock"):
    if os.path.isdir(place):
        for name in ("spotfed-open", "spotfed-left"):
            if os.path.exists(f"{place}/{name}"): print("FOUND", place, name)
for name, found in (
    ("shm", libc.shmget(0x5F0, 0, 0)), ("sem", libc.semget(0x5F0, 0, 0)), ("msg", libc.msgget(0x5F0, 0)),
    ("mq", libc.mq_open(b"/spotfed-left", 0)),
):
    if found >= 0: print("FOUND", name)
print("looked", flush=True)
"""


def finds_what_another_left(driver: ProcessDriver) -> str:
    """What a job finds of what another left that still runs, and this process when both are gone."""
    driver.start(work(f"/usr/bin/python3 -c '{LEAVE}'; sleep 1000"))
    said = says(driver, "left")
    driver.start(work(f"/usr/bin/python3 -c '{FIND}'", "k.1.0"))
    assert ended(driver, "k.1.0").code == 0
    said += driver.read_log("k.1.0", 10_000)[1].decode()
    for name in ("j.1.0", "k.1.0"):
        driver.forget(name)
    said += subprocess.run([sys.executable, "-c", FIND], check=True, capture_output=True, text=True).stdout
    return said
