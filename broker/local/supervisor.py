"""Starts processes, starts again what died, stops all of them.

Each process leads a process group of its own, so that Ctrl-C reaches the supervisor alone, which then stops
the others in order. On Linux the kernel stops them when the supervisor is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from broker.backoff import Backoff
from broker.child_process import die_with_parent
from broker.local.process_list import ProcessSpec

STOP_LIMIT_S = 8.0
_LOOK_S = 0.1
_RESTART_BACKOFF = Backoff(first_s=0.1, longest_s=10.0, factor=4.0, jitter=(1.0, 1.0))
_SETTLED_S = 10.0  # who ran for so long starts again without a long pause
_LAST_WORDS = 12  # lines of a log that an error shows


@dataclass
class Child:
    """A process and how it fares. ``running`` is None while it waits to be started again."""

    process: ProcessSpec
    log: Path
    environment: Mapping[str, str]
    running: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    started_s: float = 0.0
    failures: int = 0  # ends since it last ran for `_SETTLED_S`
    due_s: float = 0.0


class Supervisor:
    """Keeps processes running. ``changed`` is called after each start, ``say`` with what there is to tell."""

    def __init__(
        self,
        logs: Path,
        environment: Mapping[str, str],
        *,
        say: Callable[[str], None],
        changed: Callable[[Sequence[Child]], None],
    ):
        """``environment`` is added to that of this process; ``logs`` is a directory that is there."""
        self.children: list[Child] = []
        self._logs, self._say, self._changed = logs, say, changed
        self._environment = {**os.environ, **environment}  # noqa: TID251  (handed on, not read)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._watcher = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self, processes: Sequence[ProcessSpec], environment: Mapping[str, str]) -> None:
        """Starts further processes, with further variables in their environment."""
        with self._lock:
            for process in processes:
                log = self._logs / f"{process.name}.log"
                child = Child(process, log, {**self._environment, **environment})
                child.log.unlink(missing_ok=True)
                self.children.append(child)
                self._launch(child)
            self._changed(self.children)
        if not self._watcher.is_alive():
            self._watcher.start()

    def stop(self) -> None:
        """Stops all processes, the first one last; those that do not end within some seconds are killed."""
        self._stopping.set()
        if self._watcher.is_alive():
            self._watcher.join()
        first, others = self.children[:1], self.children[1:]
        _stop([child.running for child in others if child.running is not None])
        for child in others:
            _clear_up(child)
        _stop([child.running for child in first if child.running is not None])
        self.children.clear()

    def _launch(self, child: Child) -> None:
        command = [sys.executable, *child.process.arguments]
        with child.log.open("ab") as log:
            child.running = subprocess.Popen(  # noqa: S603  (modules of ours)
                die_with_parent(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=child.environment,
                process_group=0,
            )
        child.started_s = time.monotonic()

    def _watch(self) -> None:
        # The kernel stops what this thread starts again when the thread ends, which it does in ``stop``.
        while not self._stopping.wait(_LOOK_S):
            with self._lock:
                for child in self.children:
                    self._look_after(child)

    def _look_after(self, child: Child) -> None:
        now_s = time.monotonic()
        if child.running is None:
            if now_s >= child.due_s:
                child.restarts += 1
                self._launch(child)
                self._changed(self.children)
        elif child.running.poll() is not None:
            _signal(child.running, signal.SIGKILL)  # what it forked and left behind
            if now_s - child.started_s > _SETTLED_S:
                child.failures = 0
            child.failures += 1
            how = _how_it_ended(child.running.returncode)
            self._say(f"{child.process.name} {how}; starting it again (its log: {child.log})")
            child.running, child.due_s = None, now_s + _RESTART_BACKOFF.pause_s(child.failures)


def last_words(log: Path) -> str:
    """The end of a log."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return "\n".join([*lines[-_LAST_WORDS:], f"(from {log})"])


def _clear_up(child: Child) -> None:
    """What is to be run once it has been stopped for good."""
    if child.process.afterwards:
        with child.log.open("ab") as log, suppress(subprocess.TimeoutExpired):
            subprocess.run(  # noqa: S603  (a module of ours)
                [sys.executable, *child.process.afterwards],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=child.environment,
                timeout=STOP_LIMIT_S,
                check=False,
            )


def _stop(running: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in running:
        _signal(process, signal.SIGTERM)
    limit_s = time.monotonic() + STOP_LIMIT_S
    for process in running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, limit_s - time.monotonic()))
        _signal(process, signal.SIGKILL)  # its whole group, even if it has ended itself
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """SIGTERM goes to the process, which stops what it forked; SIGKILL to its group."""
    with suppress(ProcessLookupError, PermissionError):
        if number is signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid, number)


def _how_it_ended(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
