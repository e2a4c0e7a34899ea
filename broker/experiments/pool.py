"""Cases run in a pool of processes; a case that fails or dies leaves the others alone.

Processes are spawned, not forked: the parent may have threads. They ignore Ctrl-C, which the parent handles,
and end by themselves when the parent is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path

from cloudsim.experiments.experiment import Case, Row

#: There is a process a core, so that their libraries must not start threads.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

#: Seconds between two checks for Ctrl-C.
_GLANCE_S = 0.1


@dataclass(frozen=True)
class FinishedRun:
    """The rows of a case, and the seconds that it took."""

    rows: list[Row]
    seconds: float


@dataclass(frozen=True)
class FailedRun:
    """The error that left a case without rows."""

    error: str


Answer = FinishedRun | FailedRun
_DIED = "its process died (killed, out of memory, or crashed in compiled code)"


def run_cases(
    cases: Sequence[Case], data: Path | None, processes: int
) -> Generator[tuple[Case, Answer], None, None]:
    """Run cases and yield each with its answer as they finish. Closing the generator ends the processes.

    Call it in the main thread, which alone receives signals.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C.
    """
    waiting = deque(cases)
    with _interruptible() as interrupted:
        while waiting:
            suspects = yield from _until_one_dies(waiting, data, processes, interrupted)
            # A process that dies takes the whole pool with it: alone, each shows whether it was the cause.
            for case in suspects:
                if (yield from _until_one_dies(deque([case]), data, 1, interrupted)):
                    yield case, FailedRun(_DIED)


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Let Ctrl-C set an event: raised at any point, KeyboardInterrupt can break the locks of the pool."""
    interrupted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda _signal, _frame: interrupted.set())
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _until_one_dies(
    waiting: deque[Case], data: Path | None, processes: int, interrupted: threading.Event
) -> Generator[tuple[Case, Answer], None, list[Case]]:
    """Take cases from ``waiting`` until none is left or a process died; return the cases it then ran."""
    running: dict[Future[Answer], Case] = {}
    with _pool(min(processes, len(waiting))) as pool:
        while waiting or running:
            while waiting and len(running) < processes:
                try:
                    future = pool.submit(_work, waiting[0], data)
                except BrokenProcessPool:
                    return list(running.values())
                running[future] = waiting.popleft()
            done = wait(running, _GLANCE_S, FIRST_COMPLETED).done
            if interrupted.is_set():
                raise KeyboardInterrupt
            for future in done:
                if isinstance(future.exception(), BrokenProcessPool):
                    return list(running.values())
                yield running.pop(future), future.result()
    return []


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Open a pool, which ends when its processes are done, or at once after an error."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _initialise)
    try:
        with _one_thread_each():
            yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Set the environment of new processes so that their libraries use one thread each."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}  # noqa: TID251  (put back, not used)
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # noqa: TID251  (handed on)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]  # noqa: TID251
            else:
                os.environ[name] = value  # noqa: TID251


def _initialise() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a process of a pool has a parent"
    connection.wait([parent.sentinel])
    os._exit(1)


def _work(case: Case, data: Path | None) -> Answer:
    began = time.perf_counter()
    try:
        rows = case.function(data, **case.options)
    except Exception as error:  # noqa: BLE001  (the result names it with its case)
        return FailedRun(f"{type(error).__name__}: {error}")
    return FinishedRun(rows, time.perf_counter() - began)
