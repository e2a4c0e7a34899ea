"""Starts processes, restarts those that die, and stops all of them.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from broker.backoff import Backoff
from broker.local.process_list import ProcessSpec
from broker.storage.child_process import die_with_parent
from broker.storage.private_files import append_to_private_file

STOP_LIMIT_S = 8.0
_LOOK_S = 0.1
_RESTART_BACKOFF = Backoff(first_s=0.1, longest_s=10.0, factor=4.0, jitter=(1.0, 1.0))
#: A process that ran longer than this, or ended as it was told to, restarts without a long pause.
_SETTLED_S = 10.0
_RECORD = "the list of processes cannot be written"
_LAST_LINES = 12  # lines of a log that an error shows


@dataclass
class Child:
    """A process under supervision.

    log: file of its output. running: None while it waits to be restarted. started_s: monotonic time of its
    last start. failures: number of failures since it last ran for ``_SETTLED_S``. due_s: monotonic time of
    the next start.
    """

    process: ProcessSpec
    log: Path
    environment: Mapping[str, str]
    running: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    started_s: float = 0.0
    failures: int = 0
    due_s: float = 0.0


class Supervisor:
    """Keeps processes running, whatever else fails.

    ``changed`` is called with all processes after each start, and again after it has raised OSError. ``say``
    is called with each message for people, and raises nothing.
    """

    def __init__(
        self,
        logs: Path,
        environment: Mapping[str, str],
        *,
        say: Callable[[str], None],
        changed: Callable[[Sequence[Child]], None],
    ):
        """Prepare a supervisor.

        ``environment`` is added to that of this process; ``logs`` is an existing directory.
        """
        self.children: list[Child] = []
        self._logs, self._say, self._changed = logs, say, changed
        # Else modules of the current directory, which may be anybody's, come before those of packages.
        safe = {"PYTHONSAFEPATH": "1"}
        self._environment = {**os.environ, **safe, **environment}  # noqa: TID251  (handed on, not read)
        self._problems: dict[str, str] = {}  # what could not be done last time, by what it was
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._watcher = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self, processes: Sequence[ProcessSpec], environment: Mapping[str, str]) -> None:
        """Start further processes, with further variables in their environment."""
        with self._lock:
            for process in processes:
                log = self._logs / f"{process.name}.log"
                child = Child(process, log, {**self._environment, **environment})
                child.log.unlink(missing_ok=True)
                self.children.append(child)
                self._launch(child)
            self._report_change()
        if not self._watcher.is_alive():
            self._watcher.start()

    def stop(self) -> None:
        """Stop all processes, the first one last; kill those that do not end within ``STOP_LIMIT_S``."""
        self._stopping.set()
        if self._watcher.is_alive():
            self._watcher.join()
        first, others = self.children[:1], self.children[1:]
        _stop([child.running for child in others if child.running is not None])
        for child in others:
            self._run_afterwards(child)
        _stop([child.running for child in first if child.running is not None])
        self.children.clear()

    def _run_afterwards(self, child: Child) -> None:
        """Run the command that belongs after a process was stopped for good."""
        if child.process.afterwards:
            with self._open_log(child) as log, suppress(subprocess.TimeoutExpired, OSError):
                subprocess.run(  # noqa: S603  (a module of ours)
                    [sys.executable, *child.process.afterwards],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=child.environment,
                    timeout=STOP_LIMIT_S,
                    check=False,
                )

    def _launch(self, child: Child) -> None:
        command = [sys.executable, *child.process.arguments]
        with self._open_log(child) as log:
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
        # The kernel stops what this thread restarts when the thread ends, which it does in ``stop``.
        while not self._stopping.wait(_LOOK_S):
            with self._lock:
                for child in self.children:
                    with self._noting_problem(f"{child.process.name} cannot be looked after"):
                        self._check(child)
                if _RECORD in self._problems:
                    self._report_change()

    @contextmanager
    def _noting_problem(self, what: str) -> Iterator[None]:
        """Go on after whatever fails, and say it."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (whatever it is, supervision goes on)
            self._note_problem(what, error)
        else:
            self._note_problem(what, None)

    def _note_problem(self, what: str, error: Exception | None) -> None:
        """Say what cannot be done, once for as long as it fails in the same way."""
        if error is None:
            self._problems.pop(what, None)
        elif self._problems.get(what) != str(error):
            self._problems[what] = str(error)
            self._say(f"{what}: {error}")

    def _report_change(self) -> None:
        with self._noting_problem(_RECORD):
            self._changed(self.children)

    def _open_log(self, child: Child) -> BinaryIO:
        """Open the log of a process, or what takes and forgets everything if it cannot be opened."""
        what = f"{child.process.name} has no log"
        try:
            log = append_to_private_file(child.log)
        except OSError as error:
            self._note_problem(what, error)
            return Path(os.devnull).open("ab")
        self._note_problem(what, None)
        return log

    def _check(self, child: Child) -> None:
        """Restart a process that has ended, once its pause is over."""
        now_s = time.monotonic()
        if child.running is None:
            if now_s >= child.due_s:
                child.restarts += 1
                try:
                    self._launch(child)
                except OSError:
                    self._note_failure(child, now_s)
                    raise
                self._report_change()
        elif child.running.poll() is not None:
            _signal(child.running, signal.SIGKILL)  # children that it left behind
            if now_s - child.started_s > _SETTLED_S or child.running.returncode == os.EX_OK:
                child.failures = 0
            ending = _ending_text(child.running.returncode)
            child.running = None
            self._note_failure(child, now_s)
            self._say(f"{child.process.name} {ending}; starting it again (its log: {child.log})")

    @staticmethod
    def _note_failure(child: Child, now_s: float) -> None:
        child.failures += 1
        child.due_s = now_s + _RESTART_BACKOFF.pause_s(child.failures)


def last_lines(log: Path) -> str:
    """Return the end of a log, and its path."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return "\n".join([*lines[-_LAST_LINES:], f"(from {log})"])


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
    """Send SIGKILL to the group of a process, other signals to the process, which stops its children."""
    with suppress(ProcessLookupError, PermissionError):
        if number is signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid, number)


def _ending_text(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
