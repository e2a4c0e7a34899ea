"""Make slow calls to the cloud and to the owner on threads, and collect their results for the loop."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FinishedCall:
    """A call that has finished, with its result or its error."""

    kind: str
    about: str
    result: Any = None
    error: Exception | None = None


class BackgroundCalls:
    """Makes calls on threads, at most one of each kind about each subject at a time."""

    def __init__(self, executors: dict[str, Executor], wake: Callable[[], object]):
        """Take an executor for each kind of call, and ``wake``, which is called when a call has finished."""
        self._executors, self._wake = executors, wake
        self._done: queue.SimpleQueue[FinishedCall] = queue.SimpleQueue()
        self._busy: set[tuple[str, str]] = set()

    def is_busy(self, about: str) -> bool:
        """Return True while any call about the subject is under way."""
        return any(subject == about for _, subject in self._busy)

    def begin(self, kind: str, about: str, call: Callable[[], Any]) -> bool:
        """Begin a call; return False if one of that kind about that subject is under way."""
        if (kind, about) in self._busy:
            return False
        self._busy.add((kind, about))
        self._executors[kind].submit(self._run, kind, about, call)
        return True

    def _run(self, kind: str, about: str, call: Callable[[], Any]) -> None:
        try:
            called = FinishedCall(kind, about, call())
        except Exception as error:  # noqa: BLE001  (whatever it is, the loop goes on)
            called = FinishedCall(kind, about, error=error)
        self._done.put(called)
        self._wake()

    def take_finished(self) -> Iterator[FinishedCall]:
        """Yield the calls that have finished since the last time."""
        while not self._done.empty():
            called = self._done.get()
            self._busy.discard((called.kind, called.about))
            yield called
