"""The processes of a piece of work, as /proc shows them: all beneath its shim, and all of its own user."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workers.node_agent.process.task_files import TaskStart

SHIM = Path(__file__).with_name("shim.py")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STOPPED = frozenset("TtZX")
_LONGEST_STOP_S = 2.0
_WAITS_S = 0.3
_LONGEST_KILL_S = 5.0


@dataclass(frozen=True)
class OsProcess:
    """One of them. state: a letter, see proc(5). cpu_s: with that of its children that were waited for."""

    pid: int
    parent: int
    uid: int
    state: str
    ticks: int
    cpu_s: float
    memory_bytes: int


def read_process(pid: int) -> OsProcess | None:
    """None: there is none of that id."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
            uid = os.stat(file.fileno()).st_uid
    except OSError:
        return None
    cpu_s = sum(map(int, fields[11:15])) / _TICKS_PER_S
    return OsProcess(pid, int(fields[1]), uid, fields[0], int(fields[19]), cpu_s, int(fields[21]) * _PAGE)


def list_processes() -> dict[int, OsProcess]:
    """All of this machine."""
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {one.pid: one for one in found if one is not None}


@dataclass(frozen=True)
class ProcessTree:
    """Those of one task. uid: of a user that nobody else has; None: it has none of its own."""

    begun: TaskStart
    uid: int | None

    def has_shim(self) -> bool:
        """Whether its shim lives."""
        found = read_process(self.begun.shim)
        return found is not None and found.ticks == self.begun.shim_ticks and found.state not in "ZX"

    def members(self, everybody: dict[int, OsProcess] | None = None) -> list[OsProcess]:
        """All of them but the shim. everybody: all processes, where they were looked at just now."""
        everybody = list_processes() if everybody is None else everybody
        below: dict[int, list[OsProcess]] = {}
        for one in everybody.values():
            below.setdefault(one.parent, []).append(one)
        found: dict[int, OsProcess] = {}
        shim = everybody.get(self.begun.shim)
        unseen = [shim.pid] if shim is not None and shim.ticks == self.begun.shim_ticks else []
        while unseen:
            for one in below.get(unseen.pop(), ()):
                found[one.pid] = one
                unseen.append(one.pid)
        if self.uid is not None:
            found |= {one.pid: one for one in everybody.values() if one.uid == self.uid}
        return [one for one in found.values() if one.state not in "ZX"]

    def proportional_bytes(self) -> int:
        """The memory that they use, with what several share counted once (proc(5), smaps_rollup)."""
        total = 0
        for one in self.members():
            with suppress(OSError), open(f"/proc/{one.pid}/smaps_rollup", encoding="ascii") as file:
                total += sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
        return total

    def warn(self) -> None:
        """SIGTERM to its process group."""
        self._signal_group(signal.SIGTERM)

    def halt(self) -> None:
        """Stops all of them, and returns when they stand still. Raises TimeoutError; then none is stopped."""
        began_s = time.monotonic()
        while (lasted_s := time.monotonic() - began_s) < _LONGEST_STOP_S:
            # One that waits in the kernel (D), as for a child between vfork and exec that is stopped already,
            # runs no code of its own before it stops.
            still = _STOPPED | {"D"} if lasted_s > _WAITS_S else _STOPPED
            going = [one for one in self.members() if one.state not in still]
            if not going:
                return
            for one in going:
                _send(one.pid, signal.SIGSTOP)
            time.sleep(0.002)
        self.go_on()
        raise TimeoutError("its processes cannot be stopped")

    def go_on(self) -> None:
        """After ``halt``."""
        for one in self.members():
            _send(one.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kills all of them; returns when none is left, or after some seconds."""
        self._signal_group(signal.SIGKILL)
        limit = time.monotonic() + _LONGEST_KILL_S
        if self.has_shim():
            _send(self.begun.shim, signal.SIGTERM)
        elif self.uid is not None:
            command = [sys.executable, "-I", "-S", str(SHIM), "--sweep", str(self.uid)]
            subprocess.run(command, check=False, env={}, timeout=_LONGEST_KILL_S)  # noqa: S603  (a program of ours)
        while members := self.members():
            for one in members:
                _send(one.pid, signal.SIGKILL)
            if time.monotonic() > limit:
                return
            time.sleep(0.005)

    def _signal_group(self, number: int) -> None:
        leader = None if self.begun.pid is None else read_process(self.begun.pid)
        if leader is not None and leader.ticks == self.begun.pid_ticks:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(leader.pid, number)


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
