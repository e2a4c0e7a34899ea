"""Virtual time: an asyncio loop that never waits, and threads of which one runs, when the loop says so.

Everything that happens is a callback of the loop, in the order of (time, number). Code that blocks, as the
owner's does, runs on a ``Fiber``: a thread that runs the loop itself while it pauses, so that threads change
only where another fiber goes on. So a run is a function of its seed, and yet between any two steps of one
process all others may act.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import Any


class Killed(BaseException):
    """The process of this fiber is no more."""


class _Call:
    """A callback that is due, or will be: what asyncio wants of a handle, and no more."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context")

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context | None):
        self._callback, self._args, self._context = callback, args, context
        self._cancelled = False

    def cancel(self) -> None:
        """It is passed over when it is due."""
        self._cancelled = True

    def run(self) -> None:
        if self._cancelled:
            return
        if self._context is None:
            self._callback(*self._args)
        else:
            self._context.run(self._callback, *self._args)


class _Resumption:
    """A fiber that is to go on, if it still waits for this one."""

    __slots__ = ("fiber", "number")

    def __init__(self, fiber: Fiber, number: int):
        self.fiber, self.number = fiber, number


class Loop(asyncio.BaseEventLoop):
    """Time passes when there is nothing to do. Of timers that are due at once the first set comes first."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_s, self._timers = 0.0, 0
        self._due: list[tuple[float, int, _Call | _Resumption]] = []
        self._ready: deque[_Call | _Resumption] = deque()
        self._turn: deque[_Call | _Resumption] = deque()  # what was ready when this turn began, and is left
        self._selector = self
        self._main = threading.Lock()  # where the thread of ``run_forever`` waits while a fiber goes on
        self._main.acquire()
        self._raised: BaseException | None = None  # to be raised there
        self.call_delay_s: Callable[..., float] = lambda *_: 0.0  # of a call to be made elsewhere

    def time(self) -> float:
        return self._virtual_s

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> _Call:
        call = _Call(callback, args, context)
        self._put(when, call)
        return call

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> _Call:
        call = _Call(callback, args, context)
        self._put(self._virtual_s + delay, call)
        return call

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> _Call:
        call = _Call(callback, args, context)
        self._ready.append(call)
        return call

    def resume_at(self, when_s: float, fiber: Fiber, number: int) -> None:
        """A fiber goes on then, unless something else has ended its pause."""
        self._put(when_s, _Resumption(fiber, number))

    def resume_soon(self, fiber: Fiber, number: int) -> None:
        """At the next turn."""
        self._ready.append(_Resumption(fiber, number))

    def _put(self, when_s: float, what: _Call | _Resumption) -> None:
        self._timers += 1
        heapq.heappush(self._due, (when_s, self._timers, what))

    def nobody_before(self, when_s: float) -> bool:
        """Whether nothing else happens until then, that moment included."""
        return not (self._turn or self._ready or (self._due and self._due[0][0] <= when_s))

    def pass_until(self, when_s: float) -> None:
        """Time passes, with nothing in it."""
        self._virtual_s = when_s

    # -- turns: whoever has the baton, the main thread or that of a fiber, runs them -------------------------

    def run_until_resumed(self) -> Fiber | None:
        """Runs what is due up to a fiber that goes on, whose the baton is then. None: the main thread's."""
        try:
            while True:
                turn = self._turn
                while turn:
                    what = turn.popleft()
                    if isinstance(what, _Call):
                        what.run()
                    elif what.fiber.goes_on(what.number):
                        return what.fiber
                if self._stopping or self._raised is not None:  # type: ignore[attr-defined]
                    return None
                self._begin_turn()
        except BaseException as error:  # noqa: BLE001 (whatever it is, the main thread gets it)
            self._raised = error
            return None

    def _begin_turn(self) -> None:
        due, now_s = self._due, self._virtual_s
        if not self._ready:
            if not due:
                raise RuntimeError("everybody waits, and nothing will happen any more")
            now_s = self._virtual_s = max(now_s, due[0][0])
        self._turn, self._ready = self._ready, self._turn  # which was left empty
        while due and due[0][0] <= now_s:
            self._turn.append(heapq.heappop(due)[2])

    def _run_once(self) -> None:
        while (fiber := self.run_until_resumed()) is not None:
            fiber.go_on()
            self._await_baton()
        if self._raised is not None:
            error, self._raised = self._raised, None
            raise error

    def _await_baton(self) -> None:
        while True:
            try:
                self._main.acquire()
            except KeyboardInterrupt as error:  # who has the baton gives it back first
                self._raised = error
            else:
                return

    def return_baton(self) -> None:
        """To the main thread."""
        self._main.release()

    # -- what BaseEventLoop does with a selector: here nothing ever comes from outside -----------------------

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
    """One blocking call on a thread of its own. Nothing else happens from where it goes on to its pause."""

    def __init__(self, clock: Loop, work: Callable[[], None], process: Any):
        self._clock, self._work, self.process = clock, work, process
        self._go = threading.Lock()
        self._go.acquire()
        self._started = False
        self.killed = self.ended = False
        self._resumption = 0  # a wake-up that was meant for an earlier pause is none

    def start(self) -> None:
        """At the loop's next turn."""
        self._clock.resume_soon(self, self._resumption)

    def kill(self) -> None:
        """Called from the loop, or from another fiber of its process; it unwinds at the loop's next turn."""
        self.killed = True
        self._resumption += 1
        self._clock.resume_soon(self, self._resumption)

    def waker(self) -> Callable[[], None]:
        """Ends the next pause, at the loop's next turn, once."""
        number = self._resumption
        return lambda: self._clock.resume_soon(self, number)

    def pause(self, delay_s: float | None) -> None:
        """Called on the fiber itself. None: until a waker is called."""
        if self.killed:
            raise Killed
        clock = self._clock
        if delay_s is not None:
            until_s = clock.time() + delay_s
            if clock.nobody_before(until_s) and self.process.held_until_s <= until_s:
                clock.pass_until(until_s)  # it would come next anyhow
                self._resumption += 1
                return
            clock.resume_at(until_s, self, self._resumption)
        self._give_way()
        if self.killed:
            raise Killed

    def _give_way(self) -> None:
        global _running  # noqa: PLW0603 (one at a time is the point)
        _running = None
        other = self._clock.run_until_resumed()
        if other is not self:
            if other is None:
                self._clock.return_baton()
            else:
                other.go_on()
            self._go.acquire()
        _running = self

    def goes_on(self, resumption: int) -> bool:
        """Asked when a resumption is due."""
        if self.ended or resumption != self._resumption:
            return False
        held_s = self.process.held_until_s
        if held_s > self._clock.time() and not self.killed:
            self._clock.resume_at(held_s, self, resumption)  # the machine stands still
            return False
        self._resumption += 1
        self.ended = self.killed and not self._started
        return not self.ended

    def go_on(self) -> None:
        """Told by who had the baton, and now waits for it."""
        if self._started:
            self._go.release()
        else:
            self._started = True
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        global _running  # noqa: PLW0603
        _running = self
        asyncio._set_running_loop(self._clock)
        try:
            self._work()
        except Killed:
            pass
        except Exception as error:  # noqa: BLE001 (whatever it is, it is a find)
            self.process.world.crash(f"I8: a thread of {self.process.name} ends", error)
        finally:
            self.ended, _running = True, None
            self._clock.return_baton()


_running: Fiber | None = None


def running() -> Fiber:
    """The fiber that has the baton."""
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
        return Event()

    def Lock(self) -> Lock:  # noqa: N802
        """A lock."""
        return Lock()


class Event:
    """A flag that fibers wait for."""

    def __init__(self) -> None:
        self._set = False
        self._waiting: list[Callable[[], None]] = []

    def set(self) -> None:
        self._set = True
        for wake in self._waiting:
            wake()
        self._waiting.clear()

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            fiber = running()
            self._waiting.append(fiber.waker())
            fiber.pause(timeout)
        return self._set


class Lock:
    """A lock that fibers wait for, in order."""

    def __init__(self) -> None:
        self._held = False
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
            self._waiting.popleft()()
