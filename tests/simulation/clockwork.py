"""Virtual time: an asyncio loop that never waits, and threads of which one runs, when the loop says so.

Everything that happens is a callback of the loop, in the order of (time, number). Code that blocks, as the
owner's does, runs on a ``Fiber``: a thread that holds the baton until it pauses. So a run is a function of
its seed, and yet between any two steps of one process all others may act.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any


class Killed(BaseException):
    """The process of this fiber is no more."""


class Loop(asyncio.BaseEventLoop):
    """Time passes when there is nothing to do. Of timers that are due at once the first set comes first."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_s, self._timers = 0.0, 0
        self._due: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._selector = self
        self.call_delay_s: Callable[..., float] = lambda *_: 0.0  # of a call to be made elsewhere

    def time(self) -> float:
        return self._virtual_s

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers += 1
        heapq.heappush(self._due, (when, self._timers, timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._virtual_s + delay, callback, *args, context=context)

    def nobody_before(self, when_s: float) -> bool:
        """Whether nothing else happens until then, that moment included."""
        return not self._ready and not (self._due and self._due[0][0] <= when_s)  # type: ignore[attr-defined]

    def pass_until(self, when_s: float) -> None:
        """Time passes, with nothing in it."""
        self._virtual_s = when_s

    # -- what BaseEventLoop does with a selector: here nothing ever comes from outside -----------------------

    def _run_once(self) -> None:
        due, ready = self._due, self._ready  # type: ignore[attr-defined]
        if not ready:
            if not due:
                raise RuntimeError("everybody waits, and nothing will happen any more")
            self._virtual_s = max(self._virtual_s, due[0][0])
        while due and due[0][0] <= self._virtual_s:
            ready.append(heapq.heappop(due)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass  # it is passed over when it is due

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        pass

    # -- threads of others ---

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """A call that blocks somewhere else for a moment."""
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 (whoever awaits it gets it)
                future.set_exception(error)

        self.call_later(self.call_delay_s(*args), run)
        return future


class Fiber:
    """One blocking call on a thread of its own. Runs only while the loop waits for it."""

    def __init__(self, clock: Loop, work: Callable[[], None], process: Any = None):
        self._clock, self._work, self.process = clock, work, process
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread: threading.Thread | None = None
        self.killed = self.ended = False
        self._resumption = 0  # a wake-up that was meant for an earlier pause is none

    def start(self) -> None:
        """At the loop's next turn."""
        self._clock.call_soon(self._switch, self._resumption)

    def kill(self) -> None:
        """Called from the loop, or from another fiber of its process; it unwinds at the loop's next turn."""
        self.killed = True
        self._resumption += 1
        self._clock.call_soon(self._switch, self._resumption)

    def waker(self) -> Callable[[], None]:
        """Ends the next pause, once."""
        number = self._resumption
        return lambda: self._switch(number)

    def pause(self, delay_s: float | None) -> None:
        """Called on the fiber itself. None: until a waker is called."""
        if self.killed:
            raise Killed
        if delay_s is not None:
            until_s = self._clock.time() + delay_s
            if self._clock.nobody_before(until_s) and getattr(self.process, "held_until_s", 0.0) <= until_s:
                self._clock.pass_until(until_s)  # it would come next anyhow, and a change of threads is dear
                self._resumption += 1
                return
            self._clock.call_at(until_s, self._switch, self._resumption)
        self._back.release()
        self._go.acquire()
        if self.killed:
            raise Killed

    def _switch(self, resumption: int) -> None:
        if self._is_over() or resumption != self._resumption:
            return
        held = getattr(self.process, "held_until_s", 0.0)
        if held > self._clock.time() and not self.killed:
            self._clock.call_at(held, self._switch, resumption)  # the machine stands still
            return
        self._resumption += 1
        if self._thread is None and self.killed:
            self.ended = True
            return
        global _running  # noqa: PLW0603 (one at a time is the point)
        _running = self
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        else:
            self._go.release()
        self._back.acquire()
        _running = None
        if self._is_over():
            self._thread.join()

    def _is_over(self) -> bool:
        return self.ended

    def _run(self) -> None:
        try:
            self._work()
        except Killed:
            pass
        except Exception as error:  # noqa: BLE001 (whatever it is, it is a find)
            self.process.world.crash(f"I8: a thread of {self.process.name} ends", error)
        finally:
            self.ended = True
            self._back.release()


_running: Fiber | None = None


def running() -> Fiber:
    """The fiber that holds the baton."""
    assert _running is not None, "blocking code outside of a fiber"
    return _running


class Threading:
    """Stands for the module ``threading`` in code that runs on fibers."""

    def __init__(self, clock: Loop):
        self._clock = clock

    def Thread(  # noqa: N802 (its name there)
        self, *, target: Callable[..., None], args: tuple[Any, ...] = (), name: str, daemon: bool
    ) -> Fiber:
        """A fiber of the same process."""
        process = running().process
        fiber = Fiber(self._clock, lambda: target(*args), process)
        process.fibers.append(fiber)
        return fiber

    def Event(self) -> Event:  # noqa: N802
        """A flag to wait for."""
        return Event(self._clock)

    def Lock(self) -> Lock:  # noqa: N802
        """A lock."""
        return Lock(self._clock)


class Event:
    """A flag that fibers wait for."""

    def __init__(self, clock: Loop):
        self._clock, self._set = clock, False
        self._waiting: list[Callable[[], None]] = []

    def set(self) -> None:
        self._set = True
        for wake in self._waiting:
            self._clock.call_soon(wake)
        self._waiting.clear()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            fiber = running()
            self._waiting.append(fiber.waker())
            fiber.pause(timeout)
        return self._set


class Lock:
    """A lock that fibers wait for, in order."""

    def __init__(self, clock: Loop):
        self._clock, self._held = clock, False
        self._waiting: deque[Callable[[], None]] = deque()

    def __enter__(self) -> None:
        while self._held:
            fiber = running()
            self._waiting.append(fiber.waker())
            fiber.pause(None)
        self._held = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held = False
        if self._waiting:
            self._clock.call_soon(self._waiting.popleft())
