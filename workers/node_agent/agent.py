"""The agent's loop: reads what is asked for, has it done, tells how it stands.

While Redis is away work goes on as it was; what has become of leases meanwhile is read when it is back.
"""

from __future__ import annotations

import threading
import time

import redis
import structlog

from broker.jobs.models import WORK_ENDED, WorkState
from workers.node_agent.assignments import AssignmentBatch, Assignments
from workers.node_agent.policy import UNKNOWN_S, WorkDecision, WorkStep, decide_step
from workers.node_agent.process.driver_protocol import StopCause, WorkDriver
from workers.node_agent.reports import Reports
from workers.node_agent.task_runner import RunningTask

POLL_S = 0.5

log = structlog.get_logger(__name__)


class NodeAgent:
    """All work of one cloud. Other threads may call ``wake``, and read ``instances``: the leases on which
    there is work."""

    def __init__(self, driver: WorkDriver, orders: Assignments, reports: Reports):
        self._driver, self._orders, self._reports = driver, orders, reports
        self._held: dict[str, RunningTask] = {}
        self._over: set[str] = set()  # ended, as was reported before this process began
        self._unknown: dict[str, float] = {}  # since when work is not asked for, or its lease not shown
        self._wakened = threading.Event()
        self._away = False
        self.instances: frozenset[str] = frozenset()

    def wake(self) -> None:
        """There may be something to do."""
        self._wakened.set()

    def run(self, stopping: threading.Event) -> None:
        """Until told to stop; what runs goes on."""
        while not stopping.is_set():
            self.step()
            self._wakened.wait(POLL_S)
            self._wakened.clear()

    def step(self) -> None:
        """Once."""
        try:
            orders = self._orders.read()
            self._take_on(orders)
            self._apply(orders)
            for held in list(self._held.values()):
                self._reports.tell(held)
        except redis.RedisError as error:
            if not self._away:
                log.warning("redis is away; work goes on", why=str(error))
            self._away = True
        else:
            if self._away:
                log.info("redis is back")
            self._away = False

    def _take_on(self, orders: AssignmentBatch) -> None:
        """Work that was not known: what the driver has is taken up; what once ran elsewhere is not begun."""
        new = [name for name in orders.works if name not in self._held and name not in self._over]
        reported = self._reports.reported(new)
        there = set(self._driver.held())
        for name in new:
            said = reported.get(name)
            if said is not None and said.state in WORK_ENDED:
                self._over.add(name)
                self._driver.stop(name, StopCause.STOPPED)
                continue
            held = RunningTask(self._driver, orders.works[name], self.wake, said)
            if said is not None and name not in there:
                why = "it was begun on another machine, or what its agent noted is gone"
                held.never(WorkState.UNUSABLE, why)
            self._held[name] = held
        self._over &= set(orders.works)
        self.instances = frozenset(work.instance for work in orders.works.values() if work.spot)

    def _apply(self, orders: AssignmentBatch) -> None:
        now_s = time.monotonic()
        for name, held in list(self._held.items()):
            work = orders.works.get(name)
            if work is None:
                self._drop(held, now_s)
                continue
            held.work = work
            lease = orders.leases.get(work.instance) if work.spot else None
            missing_s = self._missing_s(name, there=not work.spot or lease is not None, now_s=now_s)
            if not held.ended:
                self._do(held, decide_step(work, lease, missing_s))
        for name in set(self._driver.held()) - set(self._held) - set(orders.works):
            if self._missing_s(name, there=False, now_s=now_s) >= UNKNOWN_S:
                self._driver.forget(name)

    def _drop(self, held: RunningTask, now_s: float) -> None:
        """Nobody asks for it any more: a job manager takes back what has ended, and nothing else."""
        name = held.work.id
        if held.ended:
            del self._held[name]
            self._unknown.pop(name, None)
            self._reports.forget(name)
            threading.Thread(target=self._driver.forget, args=(name,), daemon=True).start()
        elif self._missing_s(name, there=False, now_s=now_s) >= UNKNOWN_S:
            held.kill(StopCause.STOPPED, "nobody asks for it any more")

    def _missing_s(self, name: str, *, there: bool, now_s: float) -> float:
        if there:
            self._unknown.pop(name, None)
            return 0.0
        return now_s - self._unknown.setdefault(name, now_s)

    def _do(self, held: RunningTask, decision: WorkDecision) -> None:
        begun = held.begun or held.work.id in self._driver.held()
        match decision.step:
            case WorkStep.WAIT | WorkStep.NOTICE if not begun:
                return
            case WorkStep.EVICT if not begun:
                held.never(WorkState.EVICTED, decision.why)
                return
            case WorkStep.STOP | WorkStep.SAVE if not begun:
                held.never(WorkState.STOPPED, None)
                return
        held.run()
        match decision.step:
            case WorkStep.NOTICE:
                assert decision.evict_at_s is not None
                if not held.leaving:
                    held.leave(self._orders.wall_time(decision.evict_at_s))
            case WorkStep.EVICT:
                held.kill(StopCause.EVICTED, decision.why or "")
            case WorkStep.SAVE:
                held.save()
            case WorkStep.STOP:
                held.stop()
