"""The loop of the node agent reads what is to run, has it done and reports how it stands.

While Redis (or the API) is away work goes on; what became of the leases meanwhile is read when it is back.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Set
from typing import Protocol

import redis
import structlog

from broker.client import UnavailableError
from broker.jobs.assignments import AssignmentBatch
from broker.jobs.models import WORK_ENDED, WorkState
from workers.node_agent.policy import UNKNOWN_S, WorkDecision, WorkStep, decide_step
from workers.node_agent.process.driver_protocol import StopCause, WorkDriver
from workers.node_agent.reports import Reports
from workers.node_agent.task_runner import RunningTask

POLL_S = 0.5
#: What is raised while Redis or, on an instance of a real cloud, the API is away.
AWAY = (redis.RedisError, UnavailableError)

log = structlog.get_logger(__name__)


class WorkSource(Protocol):
    """Tells what is to run; its methods raise what ``AWAY`` names."""

    def read(self) -> AssignmentBatch:
        """Return all work and its leases."""

    def wall_time(self, cloud_s: float) -> float:
        """Convert a time of the cloud to seconds since 1970."""


class NodeAgent:
    """Runs all work of one cloud.

    Other threads may call ``wake`` and ``hear``, and read ``instances``, the leases on which there is work.
    """

    def __init__(self, driver: WorkDriver, assignments: WorkSource, reports: Reports):
        self._driver, self._assignments, self._reports = driver, assignments, reports
        self._tasks: dict[str, RunningTask] = {}
        self._ended: set[str] = set()  # ended, as was reported before this process began
        # Since when work has not been asked for, or its lease not shown.
        self._unknown_since_s: dict[str, float] = {}
        self._heard: deque[str] = deque()
        self._wakened = threading.Event()
        self._away: str | None = None  # who is
        self.instances: frozenset[str] = frozenset()

    def wake(self) -> None:
        """Make the loop look at once whether there is something to do."""
        self._wakened.set()

    def hear(self, work: str) -> None:
        """Note that a job manager gave, changed or took back a piece of work."""
        self._heard.append(work)

    def note_warning(self) -> None:
        """Note that this machine warned all processes, as batch systems do before they take it back."""
        for task in list(self._tasks.values()):
            task.note_warning()

    def run(self, stopping: threading.Event) -> None:
        """Run the loop until the event is set. Work that runs goes on."""
        while not stopping.is_set():
            self.step()
            self._wakened.wait(POLL_S)
            self._wakened.clear()

    def step(self) -> None:
        """Run the loop once."""
        heard = {self._heard.popleft() for _ in range(len(self._heard))}
        try:
            batch = self._assignments.read()
            self._add_new(batch)
            self._apply(batch, heard)
            for task in list(self._tasks.values()):
                self._reports.report(task)
        except AWAY as error:
            if self._away is None:
                self._away = "redis" if isinstance(error, redis.RedisError) else "the API"
                log.warning(f"{self._away} is away; work goes on", why=str(error))
        else:
            if self._away is not None:
                log.info(f"{self._away} is back")
            self._away = None

    def _add_new(self, batch: AssignmentBatch) -> None:
        """Add work that is new here.

        What the driver has is taken up; what once ran elsewhere is not begun.
        """
        new = [name for name in batch.works if name not in self._tasks and name not in self._ended]
        reported = self._reports.read_reports(new)
        at_driver = set(self._driver.list_work())
        for name in new:
            report = reported.get(name)
            if report is not None and report.state in WORK_ENDED:
                self._ended.add(name)
                self._driver.stop(name, StopCause.STOPPED)
                continue
            task = RunningTask(self._driver, batch.works[name], self.wake, report)
            if report is not None and name not in at_driver:
                why = "it was begun on another machine, or what its agent noted is gone"
                task.finish_unstarted(WorkState.UNUSABLE, why)
            self._tasks[name] = task
        self._ended &= set(batch.works)
        self.instances = frozenset(work.instance for work in batch.works.values() if work.spot)

    def _apply(self, batch: AssignmentBatch, heard: Set[str]) -> None:
        now_s = time.monotonic()
        for name, task in list(self._tasks.items()):
            work = batch.works.get(name)
            if work is None:
                self._drop(task, now_s, taken_back=name in heard)
                continue
            task.work = work
            lease = batch.leases.get(work.instance) if work.spot else None
            missing_s = self._missing_s(name, is_known=not work.spot or lease is not None, now_s=now_s)
            if not task.is_ended:
                self._carry_out(task, decide_step(work, lease, missing_s))
        for name in set(self._driver.list_work()) - set(self._tasks) - set(batch.works):
            if self._missing_s(name, is_known=False, now_s=now_s) >= UNKNOWN_S:
                self._driver.forget(name)

    def _drop(self, task: RunningTask, now_s: float, *, taken_back: bool) -> None:
        """Drop work that is no longer assigned.

        What a job manager took back, as when a job is cancelled, is killed at once: its instance is given to
        others. What vanished unannounced goes on for a while: Redis may have lost it, and be told again.
        """
        name = task.work.id
        if task.is_ended:
            del self._tasks[name]
            self._unknown_since_s.pop(name, None)
            self._reports.forget(name)
            threading.Thread(target=self._driver.forget, args=(name,), daemon=True).start()
        elif self._missing_s(name, is_known=False, now_s=now_s) >= UNKNOWN_S or taken_back:
            task.kill(StopCause.STOPPED, "nobody asks for it any more")

    def _missing_s(self, name: str, *, is_known: bool, now_s: float) -> float:
        if is_known:
            self._unknown_since_s.pop(name, None)
            return 0.0
        return now_s - self._unknown_since_s.setdefault(name, now_s)

    def _carry_out(self, task: RunningTask, decision: WorkDecision) -> None:
        begun = task.has_begun or task.work.id in self._driver.list_work()
        match decision.step:
            case WorkStep.WAIT | WorkStep.NOTICE if not begun:
                return
            case WorkStep.EVICT if not begun:
                task.finish_unstarted(WorkState.EVICTED, decision.why)
                return
            case WorkStep.STOP | WorkStep.SAVE if not begun:
                task.finish_unstarted(WorkState.STOPPED, None)
                return
        task.run()
        match decision.step:
            case WorkStep.NOTICE:
                assert decision.evict_at_s is not None
                if not task.is_leaving:
                    task.leave(self._assignments.wall_time(decision.evict_at_s))
            case WorkStep.EVICT:
                task.kill(StopCause.EVICTED, decision.why or "")
            case WorkStep.SAVE:
                task.save()
            case WorkStep.STOP:
                task.stop()
