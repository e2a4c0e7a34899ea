"""Measure what the processes of a piece of work use, about once a second.

``io_share`` is the share of its time in which it waited for something other than a processor. With n the
largest number of threads that were busy (running, or ready to run) at once, it is 1 minus the busy time of
all threads over n times the wall time. So a program with one thread is measured by that thread however many
cores it has, and a machine that is shared with others does not look like storage. Waiting for the network or
a timer counts as well: /proc does not tell them apart.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from broker.jobs.models import Usage
from workers.node_agent.process.process_tree import OsProcess

#: Seconds: shorter measurements say little about how many threads are busy.
_SHORTEST_S = 0.5
_LONGEST_MEASURE_S = 20.0


class UsageMeter:
    """Adds up usage. Times are seconds of a clock that never jumps."""

    def __init__(self) -> None:
        self._busy: dict[tuple[int, str], float] = {}  # by process and thread
        self._cpu_s = 0.0
        self._busy_s = 0.0
        self._measured_at: tuple[float, float] | None = None  # when, and how long it had been busy
        self._most_threads = 1.0
        self._peak_bytes = 0
        self._halted_s = 0.0

    def measure(self, members: Iterable[OsProcess], now_s: float) -> int:
        """Measure the processes as they are now; return the memory that they use, in bytes."""
        memory, cpu_s = 0, 0.0
        for process in members:
            memory += process.memory_bytes
            cpu_s += process.cpu_s
            for thread, busy_s in _threads(process.pid):
                before = self._busy.get((process.pid, thread), 0.0)
                self._busy_s += max(0.0, busy_s - before)
                self._busy[process.pid, thread] = busy_s
        self._cpu_s = max(self._cpu_s, cpu_s)
        self._peak_bytes = max(self._peak_bytes, memory)
        if self._measured_at is None:
            self._measured_at = (now_s, self._busy_s)
        elif now_s - self._measured_at[0] >= _SHORTEST_S:
            rate = (self._busy_s - self._measured_at[1]) / (now_s - self._measured_at[0])
            self._most_threads = max(self._most_threads, round(rate))
            self._measured_at = (now_s, self._busy_s)
        return memory

    def add_halt(self, lasted_s: float) -> None:
        """Note that the work was halted for that time, which is no waiting of its own."""
        self._halted_s += lasted_s
        self._measured_at = None

    def usage(self, wall_s: float, disk_gb: float, cpu_s: float | None = None, peak_gb: float = 0.0) -> Usage:
        """Return the usage until now.

        ``cpu_s``, ``peak_gb``: the kernel's figures, once the work has ended.
        """
        cpu_s = self._cpu_s if cpu_s is None else cpu_s
        wall_s = max(0.0, wall_s)
        going_s = wall_s - self._halted_s
        busy_s = max(cpu_s, self._busy_s)
        share = 1 - busy_s / (going_s * self._most_threads) if going_s > 0 else 0.0
        return Usage(
            wall_s=wall_s,
            cpu_s=cpu_s,
            peak_memory_gb=max(peak_gb, self._peak_bytes / 1e9),
            disk_gb=disk_gb,
            io_share=min(1.0, max(0.0, share)),
        )


def _threads(pid: int) -> list[tuple[str, float]]:
    """Return each thread with the seconds in which it ran or was ready to (proc(5), schedstat)."""
    threads = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError, ValueError):
                with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                    ran, ready, _ = file.read().split()
                threads.append((thread, (int(ran) + int(ready)) / 1e9))
    return threads


def disk_bytes(*directories: Path) -> list[int] | None:
    """Return the disk space of each directory with all that is in it; None if it takes too long to measure.

    du(1) measures it, which neither depth nor length of names stops. What two directories share counts once.
    """
    command = ["du", "--summarize", "--block-size=1", "--one-file-system", "--", *map(str, directories)]
    try:
        measured = subprocess.run(command, check=False, capture_output=True, timeout=_LONGEST_MEASURE_S)  # noqa: S603
    except subprocess.TimeoutExpired:
        return None
    return [int(line.split()[0]) for line in measured.stdout.splitlines()]
