"""One piece of work that an agent has: its start, checkpoints, notice and end, on a thread of its own.

What is asked of it only becomes more: to run, to leave after notice, to be saved, to be stopped, to be
killed. Each interrupts what is under way for less. Killing does not wait for the thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import IntEnum

import structlog

from broker.jobs.models import WORK_ENDED, Usage, Work, WorkReport, WorkState
from workers.node_agent.process.driver_protocol import (
    DriverError,
    EndedWork,
    RunningWork,
    StopCause,
    StoredCheckpoint,
    WorkDriver,
)

log = structlog.get_logger(__name__)

STOP_S = 5.0  # what is stopped was warned so long before
SAVE_S = 60.0  # what is to be saved and has no save command was warned so long before
#: Kept free for the copy at the end of a notice, as long as nothing is known of how long it takes.
_COPY_S = 1.0
_LOOK_S = 0.5
_WATCH_S = 0.02
_NOTHING_USED = Usage(wall_s=0, cpu_s=0, peak_memory_gb=0)


class TaskRequest(IntEnum):
    """What is asked of it."""

    RUN = 0
    LEAVE = 1
    SAVE = 2
    STOP = 3
    KILL = 4


class RunningTask:
    """A piece of work, and how it stands."""

    def __init__(
        self, driver: WorkDriver, work: Work, changed: Callable[[], None], before: WorkReport | None = None
    ):
        """``changed``: is told when there is something to report at once. ``before``: what was reported of it
        by an agent before this one."""
        self.work = work
        self._driver, self._changed = driver, changed
        self._asked, self._leave_by, self._cause = TaskRequest.RUN, float("inf"), StopCause.EVICTED
        self._interrupt = threading.Event()
        self._lock = threading.Lock()
        self._kept: StoredCheckpoint | None = None
        self._why: str | None = None
        self._copied_s = _COPY_S
        self._tried_at = 0.0  # when a checkpoint was last begun
        self.report = before or WorkReport(work=work.id, state=WorkState.STARTING, at=time.time())
        self._thread = threading.Thread(target=self._live, name=work.id, daemon=True)

    @property
    def ended(self) -> bool:
        """Nothing more becomes of it."""
        return self.report.state in WORK_ENDED

    @property
    def begun(self) -> bool:
        """Whether it was told to run."""
        return self._thread.ident is not None

    @property
    def leaving(self) -> bool:
        """Whether it was told to leave, or more."""
        return self._asked > TaskRequest.RUN

    # -- what is asked --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Starts it, or takes up what the driver has of it."""
        if not self.begun:
            self._thread.start()

    def never(self, state: WorkState, why: str | None) -> None:
        """It was not begun here, and will not be."""
        self._finish(state, None, why)

    def leave(self, by: float) -> None:
        """It was given notice, and is killed then: seconds since 1970."""
        with self._lock:  # it must know until when before it is told to
            if self._asked is TaskRequest.RUN:
                self._leave_by = by
        self._ask(TaskRequest.LEAVE)

    def save(self) -> None:
        """Keeps its state, then ends it."""
        self._ask(TaskRequest.SAVE)

    def stop(self) -> None:
        """Warns it, then ends it."""
        self._ask(TaskRequest.STOP)

    def kill(self, cause: StopCause, why: str) -> None:
        """Ends it at once."""
        with self._lock:
            if self._asked is TaskRequest.KILL:
                return
            self._asked, self._cause, self._why = TaskRequest.KILL, cause, why
            self._interrupt.set()
        threading.Thread(target=self._driver.stop, args=(self.work.id, cause), daemon=True).start()

    def _ask(self, asked: TaskRequest) -> None:
        with self._lock:
            if asked > self._asked:
                self._asked = asked
                self._interrupt.set()

    # -- its thread -----------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            self._driver.start(self.work)
            self._kept = self._driver.last_kept(self.work.id)
            self._run()
        except DriverError as error:
            self._finish(WorkState.UNUSABLE, None, str(error))
        except Exception as error:
            log.exception("work given up", work=self.work.id)
            self._driver.stop(self.work.id, StopCause.STOPPED)
            self._finish(WorkState.UNUSABLE, None, f"its agent failed: {error}")

    def _run(self) -> None:
        while True:
            found = self._driver.look(self.work.id)
            if not isinstance(found, RunningWork):
                self._wind_up(found)
                return
            self._tell(found)
            with self._lock:
                asked = self._asked
                self._interrupt.clear()
            if asked is TaskRequest.KILL:
                self._driver.stop(self.work.id, self._cause)
                self._interrupt.wait(_WATCH_S)
            elif asked is TaskRequest.RUN:
                if self._is_due(found):
                    self._keep()
                self._interrupt.wait(_LOOK_S if found.started_at else _WATCH_S)
            elif found.started_at is None and asked is not TaskRequest.STOP:
                self._interrupt.wait(_WATCH_S)  # nothing of it can be saved yet
                if time.time() >= self._leave_by:
                    self.kill(StopCause.EVICTED, "its time after notice was over")
            else:
                self._end(asked)

    def _is_due(self, found: RunningWork) -> bool:
        every_s = self.work.checkpoint_s
        if every_s is None or found.started_at is None:
            return False
        last = max(found.started_at, self._tried_at, self._kept.at if self._kept else 0.0)
        return time.time() - last >= every_s

    def _keep(self, *, last: bool = False) -> bool:
        """Keeps a state; where that fails the one before stays."""
        began_s = time.monotonic()
        self._tried_at = time.time()
        try:
            self._kept = self._driver.keep(self.work.id, self._interrupt, last=last)
        except DriverError as error:
            with self._lock:
                if last or not self._interrupt.is_set():
                    log.warning("state not kept", work=self.work.id, why=str(error))
                    self._why = str(error) if self._asked is not TaskRequest.KILL else self._why
            return False
        self._copied_s = time.monotonic() - began_s
        self._why = None
        return True

    def _end(self, asked: TaskRequest) -> None:
        """Ends it as it was asked to. Returns early when more is asked."""
        work = self.work.id
        if asked is TaskRequest.STOP:
            self._driver.notice(work)
            self._watch(time.time() + STOP_S)
            if not self._interrupt.is_set():
                self._driver.stop(work, StopCause.STOPPED)
            return
        saves = asked is TaskRequest.SAVE or self.work.saves_on_notice
        now = time.time()
        kept = False
        if saves and self.work.save is not None:
            kept = self._keep(last=True)
        elif saves:
            left_s = self._leave_by - now
            self._driver.notice(work)
            spare_s = min(max(_COPY_S, 3 * self._copied_s), left_s / 2)
            found = self._watch(min(now + SAVE_S, self._leave_by - spare_s))
            if self._interrupt.is_set():
                return
            kept = not (isinstance(found, EndedWork) and found.code == 0) and self._keep(last=True)
        if kept:
            self._driver.stop(work, StopCause.SAVED)
        elif asked is TaskRequest.SAVE and not self._interrupt.is_set():
            self._driver.stop(work, StopCause.STOPPED)
        elif not self._interrupt.is_set():
            self._driver.notice(work)
            self._watch(self._leave_by)
            if not self._interrupt.is_set():
                self._driver.stop(work, StopCause.EVICTED)

    def _watch(self, until: float) -> RunningWork | EndedWork | None:
        """Waits for its end, until then at most, or until more is asked."""
        while True:
            found = self._driver.look(self.work.id)
            if not isinstance(found, RunningWork):
                return found
            self._tell(found)
            left_s = until - time.time()
            if left_s <= 0 or self._interrupt.wait(min(_WATCH_S, left_s)):
                return found

    # -- how it stands --------------------------------------------------------------------------------------

    def _tell(self, found: RunningWork) -> None:
        state = WorkState.STARTING if found.started_at is None else WorkState.RUNNING
        self._set(state, found.started_at, found.usage, found.noticed_at, why=self._why)

    def _wind_up(self, found: EndedWork | None) -> None:
        """Its processes have ended. The directory of a job that is done is kept, with what it has made."""
        if found is None:
            self._finish(WorkState.UNUSABLE, None, "its driver lost it")
            return
        done = found.code == 0
        if done or (found.cause is None and found.noticed_at is not None and self._saves()):
            with self._lock:
                self._interrupt = threading.Event()  # nothing is in a hurry any more
            if not (self._kept and self._kept.last):
                self._keep(last=True)
        state, why = self._verdict(found)
        self._finish(state, found, why)

    def _saves(self) -> bool:
        return self.work.wanted == "save" or (self.work.saves_on_notice and self.work.wanted == "run")

    def _verdict(self, found: EndedWork) -> tuple[WorkState, str | None]:
        """What its end means, and why it came to it."""
        saved = self._kept is not None and self._kept.last
        leaving = WorkState.EVICTED if self.work.wanted == "run" else WorkState.STOPPED
        state, why = WorkState.EXITED, self._why
        if found.code == 0:  # it was done before anything could end it
            pass
        elif found.cause is StopCause.TOO_LARGE:
            why = f"it used more memory than its {self.work.memory_mb} MB"
        elif found.cause is StopCause.SAVED or (saved and (found.cause or found.noticed_at)):
            state = WorkState.SAVED
        elif found.cause is not None:
            state = WorkState.EVICTED if found.cause is StopCause.EVICTED else WorkState.STOPPED
        elif found.noticed_at is not None:
            state = leaving
        elif found.code is None:
            state, why = WorkState.UNUSABLE, found.why
        return state, why

    def _finish(self, state: WorkState, found: EndedWork | None, why: str | None) -> None:
        if found is None:
            self._set(state, None, None, None, ended_at=time.time(), why=why)
        else:
            self._set(
                state,
                found.started_at,
                found.usage,
                found.noticed_at,
                ended_at=found.at,
                code=found.code if state is WorkState.EXITED else None,
                why=why,
            )
        log.info("work ended", work=self.work.id, state=state.value, why=why)
        self._changed()

    def _set(
        self,
        state: WorkState,
        started_at: float | None,
        usage: Usage | None,
        noticed_at: float | None,
        *,
        ended_at: float | None = None,
        code: int | None = None,
        why: str | None,
    ) -> None:
        before, kept = self.report, self._kept
        self.report = WorkReport(
            work=self.work.id,
            state=state,
            at=time.time(),
            started_at=started_at,
            ended_at=ended_at,
            exit_code=code,
            noticed_at=noticed_at,
            checkpoint=0 if kept is None else kept.number,
            checkpoint_at=None if kept is None else kept.at,
            checkpoint_gb=0.0 if kept is None else kept.gb,
            restored=self.work.restore is not None,
            usage=_NOTHING_USED if usage is None else usage,
            why=why,
        )
        if urgent_facts(self.report) != urgent_facts(before):
            self._changed()


def urgent_facts(report: WorkReport) -> tuple[object, ...]:
    """What of a report a job manager wants to know at once."""
    return report.state, report.checkpoint, report.noticed_at, report.why
