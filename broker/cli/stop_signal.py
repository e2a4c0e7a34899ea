"""The signals with which a user stops a command that runs until it is stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signal() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C, SIGTERM and SIGHUP set.

    The signals do nothing else: a second Ctrl-C does not interrupt stopping.
    """
    stopped = threading.Event()
    with _handled(lambda *_: stopped.set()):
        yield stopped


@contextmanager
def end_on_signal() -> Iterator[None]:
    """Let the same signals end the process with exit code 0, while its command is only about to begin."""

    def end(*_: object) -> NoReturn:
        raise SystemExit(0)

    with _handled(end):
        yield


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    earlier = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, before in earlier.items():
            signal.signal(number, before)
