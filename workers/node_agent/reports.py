"""Report how the work of a cloud stands, publish its output, and wake the job managers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable

import redis
import structlog
from kombu.exceptions import OperationalError

from broker.contract import write_message
from broker.jobs.models import AGENT_ENDED, WORK_ENDED, WorkReport, WorkState
from broker.jobs.work_queue import SHOWN_BYTES, WorkStore, encode_log
from broker.storage.keys import RedisKeys
from workers.node_agent.process.driver_protocol import WorkDriver
from workers.node_agent.task_runner import RunningTask, urgent_facts

LOG_KEPT_S = 7 * 86_400
_USAGE_S = 2.0
_LOG_S = 1.0

log = structlog.get_logger(__name__)


class Reports:
    """Writes reports that have changed.

    ``report`` raises redis.RedisError while Redis is away; the next call writes what is missing.
    """

    def __init__(
        self,
        client: redis.Redis,
        keys: RedisKeys,
        cloud: str,
        driver: WorkDriver,
        ring: Callable[[str], object],
    ):
        """Take ``ring``, which tells a job manager to look after a job; it raises OperationalError."""
        self._client, self._keys, self._cloud, self._driver, self._ring = client, keys, cloud, driver, ring
        self._reported: dict[str, WorkReport] = {}
        self._logs: dict[str, tuple[float, int]] = {}  # when it was shown, and until which byte

    def read_reports(self, works: Iterable[str]) -> dict[str, WorkReport]:
        """Return the last report about each piece of work, by its id."""
        return WorkStore(self._client, self._keys).read_reports(self._cloud, sorted(works))

    def report(self, task: RunningTask) -> None:
        """Write how a piece of work stands and what it has printed, if that is new."""
        report, before = task.report, self._reported.get(task.work.id)
        ended = report.state in WORK_ENDED
        # Its output goes first, so that it is complete when the end is reported.
        self._show_log(task.work.id, at_once=ended and before != report)
        new = before is None or urgent_facts(before) != urgent_facts(report)
        if not new and (before == report or (before is not None and report.at - before.at < _USAGE_S)):
            return
        self._client.hset(self._keys.work_reports(self._cloud), report.work, write_message(report))
        self._reported[report.work] = report
        if new:
            try:
                self._ring(task.work.job)
            except OperationalError as error:
                log.info("no job manager was told", job=task.work.job, why=str(error))

    def _show_log(self, work: str, *, at_once: bool) -> None:
        shown_at, end = self._logs.get(work, (float("-inf"), 0))
        now_s = time.monotonic()
        if not at_once and now_s - shown_at < _LOG_S:
            return
        if self._driver.written_bytes(work) != end:
            offset, part = self._driver.read_log(work, SHOWN_BYTES)
            key = self._keys.work_log(self._cloud, work)
            self._client.set(key, encode_log(offset, part), ex=LOG_KEPT_S)
            end = offset + len(part)
        self._logs[work] = (now_s, end)

    def forget(self, work: str) -> None:
        """Forget a piece of work that is no longer assigned."""
        self._reported.pop(work, None)
        self._logs.pop(work, None)


def report_isolation(client: redis.Redis, keys: RedisKeys, cloud: str, lacks: Iterable[str]) -> None:
    """Report what jobs of the cloud cannot be given where this agent runs; `spotfed doctor` shows it."""
    for lack in (lacks := tuple(lacks)):
        log.warning("jobs are not given here", what=lack)
    try:
        client.set(keys.isolation(cloud), json.dumps(lacks))
    except redis.RedisError as error:
        log.warning("redis is away; doctor is not told what jobs are not given", why=str(error))


def report_ended(client: redis.Redis, keys: RedisKeys, cloud: str, works: Iterable[str]) -> None:
    """Report work as ended with its agent, so that its jobs go on from their last checkpoints.

    Raises
    ------
    redis.RedisError
        While Redis is away.
    """
    now, key = time.time(), keys.work_reports(cloud)
    for work, report in WorkStore(client, keys).read_reports(cloud, sorted(works)).items():
        if report.state not in WORK_ENDED:
            update = {
                "state": WorkState.EVICTED,
                "at": now,
                "ended_at": now,
                "why": AGENT_ENDED,
            }
            client.hset(key, work, write_message(report.model_copy(update=update)))
