"""What the agent of a cloud tells: how its work stands, what that wrote, and when a job manager should
look."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import redis
import structlog
from kombu.exceptions import OperationalError

from broker.contract import written
from broker.jobs.models import AGENT_ENDED, WORK_ENDED, WorkReport, WorkState
from broker.jobs.work_queue import SHOWN_BYTES, WorkStore, shown_log
from broker.storage.keys import RedisKeys
from workers.node_agent.process.driver_protocol import Driver
from workers.node_agent.task_runner import RunningTask, news

LOG_KEPT_S = 7 * 86_400
_USAGE_S = 2.0
_LOG_S = 1.0

log = structlog.get_logger(__name__)


class Reports:
    """Writes what has changed. ``tell`` raises redis.RedisError, and writes next time what it did not."""

    def __init__(
        self, client: redis.Redis, keys: RedisKeys, cloud: str, driver: Driver, ring: Callable[[str], object]
    ):
        """``ring``: tells a job manager to look after a job; raises OperationalError."""
        self._client, self._keys, self._cloud, self._driver, self._ring = client, keys, cloud, driver, ring
        self._told: dict[str, WorkReport] = {}
        self._logs: dict[str, tuple[float, int]] = {}  # when it was shown, and until which byte

    def reported(self, works: Iterable[str]) -> dict[str, WorkReport]:
        """What was last reported of work, by id."""
        return WorkStore(self._client, self._keys).read_reports(self._cloud, sorted(works))

    def tell(self, held: RunningTask) -> None:
        """How a piece of work stands, and what it wrote, where that is new."""
        report, told = held.report, self._told.get(held.work.id)
        ended = report.state in WORK_ENDED
        # Its output goes first: who hears of the end reads all of it.
        self._show_log(held.work.id, at_once=ended and told != report)
        new = told is None or news(told) != news(report)
        if not new and (told == report or (told is not None and report.at - told.at < _USAGE_S)):
            return
        self._client.hset(self._keys.work_reports(self._cloud), report.work, written(report))
        self._told[report.work] = report
        if new:
            try:
                self._ring(held.work.job)
            except OperationalError as error:
                log.info("no job manager was told", job=held.work.job, why=str(error))

    def _show_log(self, work: str, *, at_once: bool) -> None:
        shown_at, end = self._logs.get(work, (float("-inf"), 0))
        now_s = time.monotonic()
        if not at_once and now_s - shown_at < _LOG_S:
            return
        if self._driver.written(work) != end:
            offset, part = self._driver.log(work, SHOWN_BYTES)
            key = self._keys.work_log(self._cloud, work)
            self._client.set(key, shown_log(offset, part), ex=LOG_KEPT_S)
            end = offset + len(part)
        self._logs[work] = (now_s, end)

    def forget(self, work: str) -> None:
        """It is not there any more."""
        self._told.pop(work, None)
        self._logs.pop(work, None)


def tell_ended(client: redis.Redis, keys: RedisKeys, cloud: str, works: Iterable[str]) -> None:
    """Work was ended with its agent: jobs go on from their last kept states. Raises RedisError."""
    now, key = time.time(), keys.work_reports(cloud)
    for work, said in WorkStore(client, keys).read_reports(cloud, sorted(works)).items():
        if said.state not in WORK_ENDED:
            ended = {
                "state": WorkState.EVICTED,
                "at": now,
                "ended_at": now,
                "why": AGENT_ENDED,
            }
            client.hset(key, work, written(said.model_copy(update=ended)))
