"""Report how the work of a cloud stands, publish its output, and wake the job managers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import redis
import structlog
from kombu.exceptions import OperationalError

from broker.jobs.models import AGENT_ENDED, WORK_ENDED, WorkReport, WorkState
from broker.jobs.work_queue import SHOWN_BYTES, WorkStore
from broker.storage.keys import RedisKeys
from workers.node_agent.process.driver_protocol import WorkDriver
from workers.node_agent.task_runner import RunningTask, urgent_facts

_USAGE_S = 2.0
_LOG_S = 1.0

log = structlog.get_logger(__name__)


class ReportStore(Protocol):
    """The place where job managers find reports; its methods raise what ``agent.AWAY`` names."""

    def read_reports(self, works: Sequence[str]) -> Mapping[str, WorkReport]:
        """Return the last report about each piece of work, by its id."""

    def write_report(self, report: WorkReport, job: str, *, is_news: bool) -> None:
        """Write a report on a piece of work of a job; ``is_news``: a job manager must look at once."""

    def write_log(self, work: str, offset: int, part: bytes) -> None:
        """Write the last part of an output. ``offset``: number of bytes before it."""


class RedisReports:
    """Keeps the reports of one cloud's agent in Redis. Its methods raise redis.RedisError."""

    def __init__(self, client: redis.Redis, keys: RedisKeys, cloud: str, ring: Callable[[str], object]):
        """Take ``ring``, which tells a job manager to look after a job; it raises OperationalError."""
        self._store, self._cloud, self._ring = WorkStore(client, keys), cloud, ring

    def read_reports(self, works: Sequence[str]) -> Mapping[str, WorkReport]:
        """Return the last report about each piece of work, by its id."""
        return self._store.read_reports(self._cloud, works)

    def write_report(self, report: WorkReport, job: str, *, is_news: bool) -> None:
        """Write a report, and wake a job manager for news."""
        self._store.write_report(self._cloud, report)
        if is_news:
            try:
                self._ring(job)
            except OperationalError as error:
                log.info("no job manager was told", job=job, why=str(error))

    def write_log(self, work: str, offset: int, part: bytes) -> None:
        """Write the last part of an output."""
        self._store.write_log(self._cloud, work, offset, part)


class Reports:
    """Writes reports that have changed.

    ``report`` raises what ``agent.AWAY`` names while the store is away; the next call writes what is missing.
    """

    def __init__(self, store: ReportStore, driver: WorkDriver):
        self._store, self._driver = store, driver
        self._reported: dict[str, WorkReport] = {}
        self._logs: dict[str, tuple[float, int]] = {}  # when it was shown, and until which byte

    def read_reports(self, works: Iterable[str]) -> Mapping[str, WorkReport]:
        """Return the last report about each piece of work, by its id."""
        return self._store.read_reports(sorted(works))

    def report(self, task: RunningTask) -> None:
        """Write how a piece of work stands and what it has printed, if that is new."""
        report, before = task.report, self._reported.get(task.work.id)
        ended = report.state in WORK_ENDED
        # Its output goes first, so that it is complete when the end is reported.
        self._show_log(task.work.id, at_once=ended and before != report)
        new = before is None or urgent_facts(before) != urgent_facts(report)
        if not new and (before == report or (before is not None and report.at - before.at < _USAGE_S)):
            return
        self._store.write_report(report, task.work.job, is_news=new)
        self._reported[report.work] = report

    def _show_log(self, work: str, *, at_once: bool) -> None:
        shown_at, end = self._logs.get(work, (float("-inf"), 0))
        now_s = time.monotonic()
        if not at_once and now_s - shown_at < _LOG_S:
            return
        if self._driver.written_bytes(work) != end:
            offset, part = self._driver.read_log(work, SHOWN_BYTES)
            self._store.write_log(work, offset, part)
            end = offset + len(part)
        self._logs[work] = (now_s, end)

    def forget(self, work: str) -> None:
        """Forget a piece of work that is no longer assigned."""
        self._reported.pop(work, None)
        self._logs.pop(work, None)


def report_isolation(client: redis.Redis, keys: RedisKeys, cloud: str, lacks: Sequence[str]) -> None:
    """Report what jobs of the cloud cannot be given where this agent runs; `spotfed doctor` shows it."""
    for lack in lacks:
        log.warning("jobs are not given here", what=lack)
    try:
        client.set(keys.isolation(cloud), "\n".join(lacks))
    except redis.RedisError as error:
        log.warning("redis is away; doctor is not told what jobs are not given", why=str(error))


def report_ended(client: redis.Redis, keys: RedisKeys, cloud: str, works: Iterable[str]) -> None:
    """Report work as ended with its agent, so that its jobs go on from their last checkpoints.

    Raises
    ------
    redis.RedisError
        While Redis is away.
    """
    now, store = time.time(), WorkStore(client, keys)
    for report in store.read_reports(cloud, sorted(works)).values():
        if report.state not in WORK_ENDED:
            update = {
                "state": WorkState.EVICTED,
                "at": now,
                "ended_at": now,
                "why": AGENT_ENDED,
            }
            store.write_report(cloud, report.model_copy(update=update))
