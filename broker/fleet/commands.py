"""The user's commands for the instances of a fleet: one while an instance lives, one when it has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from broker.storage.child_process import die_with_parent

#: Time between SIGTERM and SIGKILL, for a command whose instance has ended.
_GRACE_S = 10.0
#: Time that the last ``on_end`` commands have when the fleet ends.
_LAST_COMMANDS_S = 60.0


@dataclass
class _RunningCommand:
    lease: str
    process: subprocess.Popen[bytes]
    kill_at_s: float | None = None

    def signal_group(self, number: int) -> None:
        """Signal the process group, unless it has ended: then its number may be another group's."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)


class Commands:
    """Runs the user's commands with ``/bin/sh``, each in a process group that ends with this process (Linux).

    on_start: runs as long as its instance does: when that has ended, its group gets SIGTERM, and SIGKILL ten
    seconds later. Or it starts something elsewhere and ends, with status 0. on_end: runs when an instance has
    ended.
    """

    def __init__(self, on_start: str | None, on_end: str | None):
        self._on_start, self._on_end = on_start, on_end
        self._started: dict[str, _RunningCommand] = {}
        self._stopping: list[_RunningCommand] = []
        self._ending: list[_RunningCommand] = []

    def start(self, lease: str, variables: Mapping[str, str]) -> None:
        """Run the start command of an instance, with further variables in its environment."""
        if self._on_start is not None and lease not in self._started:
            self._started[lease] = _RunningCommand(lease, _run(self._on_start, variables))

    def end(self, lease: str, variables: Mapping[str, str]) -> None:
        """Stop the start command of an instance that has ended, and run its end command."""
        command = self._started.pop(lease, None)
        if command is not None:
            command.signal_group(signal.SIGTERM)
            command.kill_at_s = time.monotonic() + _GRACE_S
            self._stopping.append(command)
        if self._on_end is not None:
            self._ending.append(_RunningCommand(lease, _run(self._on_end, variables)))

    def poll(self) -> Iterator[tuple[str, str, int]]:
        """Kill commands that had their time; yield each that failed: lease, "start" or "end", exit status."""
        for command in list(self._stopping):
            if command.kill_at_s is not None and time.monotonic() >= command.kill_at_s:
                command.signal_group(signal.SIGKILL)
            if command.process.poll() is not None:
                self._stopping.remove(command)
        for command in list(self._started.values()):
            # It stays in the dictionary, so that it is not started again.
            if command.kill_at_s is None and (status := command.process.poll()) is not None:
                command.kill_at_s = time.monotonic()
                if status:
                    yield command.lease, "start", status
        for command in list(self._ending):
            if (status := command.process.poll()) is not None:
                self._ending.remove(command)
                if status:
                    yield command.lease, "end", status

    def close(self) -> Iterator[tuple[str, str, int]]:
        """Stop all start commands and wait for the end commands; yield failures as ``poll`` does."""
        limit_s = time.monotonic() + _LAST_COMMANDS_S
        for command in self._started.values():
            command.signal_group(signal.SIGTERM)
            command.kill_at_s = time.monotonic() + _GRACE_S
        self._stopping += self._started.values()
        self._started.clear()
        while (self._stopping or self._ending) and time.monotonic() < limit_s:
            yield from self.poll()
            time.sleep(0.05)
        for command in self._ending:
            command.signal_group(signal.SIGKILL)


def _run(command: str, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **variables}  # noqa: TID251  (handed on, not read)
    return subprocess.Popen(  # noqa: S603  (the command that the user gave)
        die_with_parent(["/bin/sh", "-c", command]),
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
