"""Commands of this machine for each instance of a fleet: one while it lives, one when it has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from broker.child_process import die_with_parent

#: A command that was told to end has so long.
_GRACE_S = 10.0
#: At the very end commands that tidy up have so long.
_TIDYING_S = 60.0


@dataclass
class _Running:
    lease: str
    process: subprocess.Popen[bytes]
    killed_at_s: float | None = None

    def end(self, number: int) -> None:
        """Signals its group, unless it has ended: then the group's number may be somebody else's."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)


class Commands:
    """Runs them with ``/bin/sh``, each in a process group of its own, which ends with this process (Linux).

    on_start: runs as long as its instance does: when that has ended its group gets SIGTERM, and SIGKILL ten
    seconds later. Or it starts something elsewhere and ends, with status 0. on_end: run when an instance has
    ended.
    """

    def __init__(self, on_start: str | None, on_end: str | None):
        self._on_start, self._on_end = on_start, on_end
        self._started: dict[str, _Running] = {}
        self._leaving: list[_Running] = []
        self._tidying: list[_Running] = []

    def start(self, lease: str, told: Mapping[str, str]) -> None:
        """The lease's instance is there; ``told`` goes into the environment."""
        if self._on_start is not None and lease not in self._started:
            self._started[lease] = _Running(lease, _run(self._on_start, told))

    def end(self, lease: str, told: Mapping[str, str]) -> None:
        """It has ended."""
        running = self._started.pop(lease, None)
        if running is not None:
            running.end(signal.SIGTERM)
            running.killed_at_s = time.monotonic() + _GRACE_S
            self._leaving.append(running)
        if self._on_end is not None:
            self._tidying.append(_Running(lease, _run(self._on_end, told)))

    def look(self) -> Iterator[tuple[str, str, int]]:
        """Ends what has had its time; yields leases whose commands have failed: "start" or "end", status."""
        for running in list(self._leaving):
            if running.killed_at_s is not None and time.monotonic() >= running.killed_at_s:
                running.end(signal.SIGKILL)
            if running.process.poll() is not None:
                self._leaving.remove(running)
        for running in list(self._started.values()):
            # It stays known, so that it is not started again.
            if running.killed_at_s is None and (status := running.process.poll()) is not None:
                running.killed_at_s = time.monotonic()
                if status:
                    yield running.lease, "start", status
        for running in list(self._tidying):
            if (status := running.process.poll()) is not None:
                self._tidying.remove(running)
                if status:
                    yield running.lease, "end", status

    def close(self) -> Iterator[tuple[str, str, int]]:
        """Waits for those that tidy up, and ends the others. Yields as ``look``."""
        limit_s = time.monotonic() + _TIDYING_S
        for running in self._started.values():
            running.end(signal.SIGTERM)
            running.killed_at_s = time.monotonic() + _GRACE_S
        self._leaving += self._started.values()
        self._started.clear()
        while (self._leaving or self._tidying) and time.monotonic() < limit_s:
            yield from self.look()
            time.sleep(0.05)
        for running in self._tidying:
            running.end(signal.SIGKILL)


def _run(command: str, told: Mapping[str, str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **told}  # noqa: TID251  (handed on, not read)
    return subprocess.Popen(  # noqa: S603  (the command that the user gave)
        die_with_parent(["/bin/sh", "-c", command]),
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
