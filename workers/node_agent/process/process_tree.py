"""Find and signal the processes of a piece of work: all beneath its shim, and all of its own user."""

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
    """A process as /proc shows it.

    state: a letter, see proc(5). ticks: when it began. cpu_s: with that of its children that were waited for.
    """

    pid: int
    parent: int
    uid: int
    state: str
    ticks: int
    cpu_s: float
    memory_bytes: int


def read_process(pid: int) -> OsProcess | None:
    """Read a process from /proc, None if there is none of that id."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        uid = os.stat(
            f"/proc/{pid}"
        ).st_uid  # the files in it may belong to root, see PR_SET_DUMPABLE in prctl(2)
    except OSError:
        return None
    cpu_s = sum(map(int, fields[11:15])) / _TICKS_PER_S
    return OsProcess(pid, int(fields[1]), uid, fields[0], int(fields[19]), cpu_s, int(fields[21]) * _PAGE)


def list_processes() -> dict[int, OsProcess]:
    """Read all processes of this machine, by id."""
    snapshots = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in snapshots if process is not None}


@dataclass(frozen=True)
class ProcessTree:
    """The processes of one task. uid: a user that only this task has, None if it has none of its own."""

    start: TaskStart
    uid: int | None

    def has_shim(self) -> bool:
        """Return True while its shim lives."""
        shim = read_process(self.start.shim)
        return shim is not None and shim.ticks == self.start.shim_ticks and shim.state not in "ZX"

    def members(self, all_processes: dict[int, OsProcess] | None = None) -> list[OsProcess]:
        """Return all its processes but the shim.

        ``all_processes``: those of the machine, if they were read just now.
        """
        all_processes = list_processes() if all_processes is None else all_processes
        below: dict[int, list[OsProcess]] = {}
        for process in all_processes.values():
            below.setdefault(process.parent, []).append(process)
        members: dict[int, OsProcess] = {}
        shim = all_processes.get(self.start.shim)
        unseen = [shim.pid] if shim is not None and shim.ticks == self.start.shim_ticks else []
        while unseen:
            for process in below.get(unseen.pop(), ()):
                members[process.pid] = process
                unseen.append(process.pid)
        if self.uid is not None:
            members |= {process.pid: process for process in all_processes.values() if process.uid == self.uid}
        return [process for process in members.values() if process.state not in "ZX"]

    def proportional_bytes(self) -> int:
        """Return the memory of all its processes; what several share counts once (proc(5), smaps_rollup)."""
        total = 0
        for process in self.members():
            with suppress(OSError), open(f"/proc/{process.pid}/smaps_rollup", encoding="ascii") as file:
                total += sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
        return total

    def unlinked_bytes(self, device: int) -> int:
        """Return the space on a device of files that have no name any more, but are open in its processes."""
        sizes: dict[int, int] = {}
        for process in self.members():
            with suppress(OSError):
                for name in os.listdir(f"/proc/{process.pid}/fd"):
                    with suppress(OSError):
                        status = os.stat(f"/proc/{process.pid}/fd/{name}")
                        if status.st_dev == device and status.st_nlink == 0:
                            sizes[status.st_ino] = status.st_blocks * 512
        return sum(sizes.values())

    def send_warning(self) -> None:
        """Send SIGTERM to its process group."""
        self._signal_group(signal.SIGTERM)

    def halt(self) -> None:
        """Stop all its processes, and return when they stand still.

        Raises
        ------
        TimeoutError
            When they cannot be stopped; all of them go on then.
        """
        began_s = time.monotonic()
        while (lasted_s := time.monotonic() - began_s) < _LONGEST_STOP_S:
            # One that waits in the kernel (D), as for a child between vfork and exec that is stopped already,
            # runs no code of its own before it stops.
            still = _STOPPED | {"D"} if lasted_s > _WAITS_S else _STOPPED
            going = [process for process in self.members() if process.state not in still]
            if not going:
                return
            for process in going:
                _send(process.pid, signal.SIGSTOP)
            time.sleep(0.002)
        self.resume()
        raise TimeoutError("its processes cannot be stopped")

    def resume(self) -> None:
        """Let its processes go on after ``halt``."""
        for process in self.members():
            _send(process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill all its processes; return when none is left, or after some seconds."""
        self._signal_group(signal.SIGKILL)
        limit = time.monotonic() + _LONGEST_KILL_S
        if self.has_shim():
            _send(self.start.shim, signal.SIGTERM)
        elif self.uid is not None:
            command = [sys.executable, "-I", "-S", str(SHIM), "--sweep", str(self.uid)]
            subprocess.run(command, check=False, env={}, timeout=_LONGEST_KILL_S)  # noqa: S603  (a program of ours)
        while members := self.members():
            for process in members:
                _send(process.pid, signal.SIGKILL)
            if time.monotonic() > limit:
                return
            time.sleep(0.005)

    def _signal_group(self, number: int) -> None:
        leader = None if self.start.pid is None else read_process(self.start.pid)
        if leader is not None and leader.ticks == self.start.pid_ticks:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(leader.pid, number)


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
