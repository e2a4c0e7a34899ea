"""Run one piece of work on a thread of its own: its start, checkpoints, notice and end.

Requests only increase: to run, to leave after notice, to be saved, to be stopped, to be killed. Each
interrupts what is under way for a lesser one. Killing does not wait for the thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
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

#: Seconds between the warning and the end of work that is stopped, and of work without a save command that
#: is saved.
STOP_S = 5.0
SAVE_S = 60.0
#: Seconds kept free for the copy at the end of a notice while it is not known how long it takes.
_COPY_S = 1.0
_LOOK_S = 0.5
_WATCH_S = 0.02
_NOTHING_USED = Usage(wall_s=0, cpu_s=0, peak_memory_gb=0)


class TaskRequest(IntEnum):
    """The requests to a running task, in increasing order."""

    RUN = 0
    LEAVE = 1
    SAVE = 2
    STOP = 3
    KILL = 4


class RunningTask:
    """A piece of work, and the report of how it stands."""

    def __init__(
        self, driver: WorkDriver, work: Work, changed: Callable[[], None], before: WorkReport | None = None
    ):
        """Prepare the task; ``run`` starts it.

        Parameters
        ----------
        changed:
            Called when there is something to report at once.
        before:
            The report that an agent before this one made, if any.
        """
        self.work = work
        self._driver, self._changed = driver, changed
        self._request, self._leave_by, self._cause = TaskRequest.RUN, float("inf"), StopCause.EVICTED
        self._interrupt = threading.Event()
        self._lock = threading.Lock()
        self._checkpoint: StoredCheckpoint | None = None
        self._why: str | None = None
        self._copied_s = _COPY_S
        self._tried_at = 0.0  # when a checkpoint was last begun
        self._is_warned = False
        self.report = before or WorkReport(work=work.id, state=WorkState.STARTING, at=time.time())
        self._thread = threading.Thread(target=self._run_thread, name=work.id, daemon=True)

    @property
    def is_ended(self) -> bool:
        """True when its report is final."""
        return self.report.state in WORK_ENDED

    @property
    def has_begun(self) -> bool:
        """True once it was told to run."""
        return self._thread.ident is not None

    @property
    def is_leaving(self) -> bool:
        """True once it was told to leave, or to end in another way."""
        return self._request > TaskRequest.RUN

    # -- what is asked --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Start the work, or take up what the driver has of it."""
        if not self.has_begun:
            self._thread.start()

    def finish_unstarted(self, state: WorkState, why: str | None) -> None:
        """Report the end of work that was not begun here and will not be."""
        self._finish(state, None, why)

    def leave(self, leave_by: float) -> None:
        """Give it notice. ``leave_by``: when it is killed, in seconds since 1970."""
        with self._lock:  # the time must be set before the request is
            if self._request is TaskRequest.RUN:
                self._leave_by = leave_by
        self._raise_request(TaskRequest.LEAVE)

    def note_warning(self) -> None:
        """Note that the machine warned all processes: what ends now has not failed by itself."""
        self._is_warned = True

    def save(self) -> None:
        """Save a checkpoint, then end it."""
        self._raise_request(TaskRequest.SAVE)

    def stop(self) -> None:
        """Warn it, then end it."""
        self._raise_request(TaskRequest.STOP)

    def kill(self, cause: StopCause, why: str) -> None:
        """End it at once."""
        with self._lock:
            if self._request is TaskRequest.KILL:
                return
            self._request, self._cause, self._why = TaskRequest.KILL, cause, why
            self._interrupt.set()
        threading.Thread(target=self._driver.stop, args=(self.work.id, cause), daemon=True).start()

    def _raise_request(self, request: TaskRequest) -> None:
        with self._lock:
            if request > self._request:
                self._request = request
                self._interrupt.set()

    # -- its thread -----------------------------------------------------------------------------------------

    def _run_thread(self) -> None:
        try:
            self._driver.start(self.work)
            self._checkpoint = self._driver.last_checkpoint(self.work.id)
            self._run()
        except DriverError as error:
            self._finish(WorkState.UNUSABLE, None, str(error))
        except Exception as error:
            log.exception("work given up", work=self.work.id)
            try:
                self._driver.stop(self.work.id, StopCause.STOPPED)
            finally:
                self._finish(WorkState.UNUSABLE, None, f"its agent failed: {error}")

    def _run(self) -> None:
        while True:
            status = self._driver.inspect(self.work.id)
            if not isinstance(status, RunningWork):
                self._note_end(status)
                return
            self._note_running(status)
            with self._lock:
                request = self._request
                self._interrupt.clear()
            if request is TaskRequest.KILL:
                self._driver.stop(self.work.id, self._cause)
                self._interrupt.wait(_WATCH_S)
            elif request is TaskRequest.RUN:
                if self._is_due(status):
                    self._save_checkpoint()
                self._interrupt.wait(_LOOK_S if status.started_at else _WATCH_S)
            elif status.started_at is None and request is not TaskRequest.STOP:
                self._interrupt.wait(_WATCH_S)  # nothing of it can be saved yet
                if time.time() >= self._leave_by:
                    self.kill(StopCause.EVICTED, "its time after notice was over")
            else:
                self._end(request)

    def _is_due(self, status: RunningWork) -> bool:
        every_s = self.work.checkpoint_s
        if every_s is None or status.started_at is None:
            return False
        last = max(status.started_at, self._tried_at, self._checkpoint.at if self._checkpoint else 0.0)
        return time.time() - last >= every_s

    def _save_checkpoint(self, *, last: bool = False) -> bool:
        """Save a checkpoint; where that fails the one before stays. Return True if it was saved."""
        began_s = time.monotonic()
        self._tried_at = time.time()
        try:
            self._checkpoint = self._driver.save_checkpoint(self.work.id, self._interrupt, last=last)
        except DriverError as error:
            with self._lock:
                if last or not self._interrupt.is_set():
                    log.warning("state not kept", work=self.work.id, why=str(error))
                    self._why = str(error) if self._request is not TaskRequest.KILL else self._why
            return False
        self._copied_s = time.monotonic() - began_s
        self._why = None
        return True

    def _end(self, request: TaskRequest) -> None:
        """End it in the requested way. Return early when more is requested."""
        work = self.work.id
        if request is TaskRequest.STOP:
            self._driver.give_notice(work)
            self._wait_for_end(time.time() + STOP_S)
            if not self._interrupt.is_set():
                self._driver.stop(work, StopCause.STOPPED)
            return
        saves = request is TaskRequest.SAVE or self.work.saves_on_notice
        now = time.time()
        is_saved = False
        if saves and self.work.save is not None:
            is_saved = self._save_checkpoint(last=True)
        elif saves:
            left_s = self._leave_by - now
            self._driver.give_notice(work)
            spare_s = min(max(_COPY_S, 3 * self._copied_s), left_s / 2)
            status = self._wait_for_end(min(now + SAVE_S, self._leave_by - spare_s))
            if self._interrupt.is_set():
                return
            is_saved = not (isinstance(status, EndedWork) and status.code == 0) and self._save_checkpoint(
                last=True
            )
        if is_saved:
            self._driver.stop(work, StopCause.SAVED)
        elif request is TaskRequest.SAVE and not self._interrupt.is_set():
            self._driver.stop(work, StopCause.STOPPED)
        elif not self._interrupt.is_set():
            self._driver.give_notice(work)
            self._wait_for_end(self._leave_by)
            if not self._interrupt.is_set():
                self._driver.stop(work, StopCause.EVICTED)

    def _wait_for_end(self, until: float) -> RunningWork | EndedWork | None:
        """Wait until it ends, until the given time, or until more is requested; return its last status."""
        while True:
            status = self._driver.inspect(self.work.id)
            if not isinstance(status, RunningWork):
                return status
            self._note_running(status)
            left_s = until - time.time()
            if left_s <= 0 or self._interrupt.wait(min(_WATCH_S, left_s)):
                return status

    # -- how it stands --------------------------------------------------------------------------------------

    def _note_running(self, status: RunningWork) -> None:
        state = WorkState.STARTING if status.started_at is None else WorkState.RUNNING
        self._set_report(state, status.started_at, status.usage, status.noticed_at, why=self._why)

    def _note_end(self, status: EndedWork | None) -> None:
        """Report the end of its processes. The directory of a job that is done is saved with its results."""
        if status is None:
            self._finish(WorkState.UNUSABLE, None, "its driver lost it")
            return
        if self._is_warned and status.noticed_at is None:
            status = replace(status, noticed_at=status.at)
        done = status.code == 0
        if done or (status.cause is None and status.noticed_at is not None and self._saves()):
            with self._lock:
                self._interrupt = threading.Event()  # nothing interrupts the last copy
            if not (self._checkpoint and self._checkpoint.last):
                self._save_checkpoint(last=True)
        state, why = self._verdict(status)
        self._finish(state, status, why)

    def _saves(self) -> bool:
        return self.work.wanted == "save" or (self.work.saves_on_notice and self.work.wanted == "run")

    def _verdict(self, status: EndedWork) -> tuple[WorkState, str | None]:
        """Return what its end means for the job, and the reason for it."""
        saved = self._checkpoint is not None and self._checkpoint.last
        leaving = WorkState.EVICTED if self.work.wanted == "run" else WorkState.STOPPED
        state, why = WorkState.EXITED, self._why
        if status.code == 0:  # it was done before anything could end it
            pass
        elif status.cause is StopCause.TOO_LARGE:
            why = f"it used more memory than its {self.work.memory_mb} MB"
        elif status.cause is StopCause.TOO_MUCH_DISK:
            why = "it used more disk than a job may have here, or hid how much (SPOTFED_JOB_DISK_MB)"
        elif status.cause is StopCause.DISK_FULL:
            why = "the disk was almost full, and it used most of it (SPOTFED_JOB_DISK_FREE_MB)"
        elif status.cause is StopCause.SAVED or (saved and (status.cause or status.noticed_at)):
            state = WorkState.SAVED
        elif status.cause is not None:
            state = WorkState.EVICTED if status.cause is StopCause.EVICTED else WorkState.STOPPED
        elif status.noticed_at is not None:
            state = leaving
        elif status.code is None:
            state, why = WorkState.UNUSABLE, status.why
        return state, why

    def _finish(self, state: WorkState, status: EndedWork | None, why: str | None) -> None:
        if status is None:
            self._set_report(state, None, None, None, ended_at=time.time(), why=why)
        else:
            self._set_report(
                state,
                status.started_at,
                status.usage,
                status.noticed_at,
                ended_at=status.at,
                code=status.code if state is WorkState.EXITED else None,
                why=why,
            )
        log.info("work ended", work=self.work.id, state=state.value, why=why)
        self._changed()

    def _set_report(
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
        before, checkpoint = self.report, self._checkpoint
        self.report = WorkReport(
            work=self.work.id,
            state=state,
            at=time.time(),
            started_at=started_at,
            ended_at=ended_at,
            exit_code=code,
            noticed_at=noticed_at,
            checkpoint=0 if checkpoint is None else checkpoint.number,
            checkpoint_at=None if checkpoint is None else checkpoint.at,
            checkpoint_gb=0.0 if checkpoint is None else checkpoint.gb,
            restored=self.work.restore is not None,
            usage=_NOTHING_USED if usage is None else usage,
            why=why,
        )
        if urgent_facts(self.report) != urgent_facts(before):
            self._changed()


def urgent_facts(report: WorkReport) -> tuple[object, ...]:
    """Return the part of a report that a job manager must learn at once when it changes."""
    return report.state, report.checkpoint, report.noticed_at, report.why
