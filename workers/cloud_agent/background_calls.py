"""Calls that take a while, to the cloud and to the owner, on threads; what came of them, for the loop."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FinishedCall:
    """What came of a call: ``error``, or ``result``."""

    kind: str
    about: str
    result: Any = None
    error: Exception | None = None


class BackgroundCalls:
    """At most one call of a kind about one thing at a time."""

    def __init__(self, executors: dict[str, Executor], wake: Callable[[], object]):
        """``executors``: by kind, so that ends never wait for starts. ``wake``: something came of one."""
        self._executors, self._wake = executors, wake
        self._done: queue.SimpleQueue[FinishedCall] = queue.SimpleQueue()
        self._busy: set[tuple[str, str]] = set()

    def busy(self, about: str) -> bool:
        """Whether there is any call about it."""
        return any(one == about for _, one in self._busy)

    def begin(self, kind: str, about: str, call: Callable[[], Any]) -> bool:
        """False: there is such a call already."""
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

    def done(self) -> Iterator[FinishedCall]:
        """Those that have ended since it was asked last."""
        while not self._done.empty():
            called = self._done.get()
            self._busy.discard((called.kind, called.about))
            yield called
