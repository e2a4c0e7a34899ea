"""The way of a node agent on an instance of a real cloud to the federation: its HTTP API, and nothing else.

What Redis is to other node agents (``broker.jobs.assignments``, ``workers.node_agent.reports``), the API is
to this one. A thread waits for news of the assignment (``follow``), so that the agent's loop never waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from broker.client import Client, ClientError, UnauthorizedError, UnavailableError
from broker.jobs.assignments import AssignmentBatch
from broker.jobs.models import InstanceWork, StateRequest, WorkReport

#: Seconds that the API may take to answer, without and with waiting for news.
CALL_S, FOLLOW_S = 6.0, 40.0
_PAUSE_S = 2.0

log = structlog.get_logger(__name__)


class ApiChannel:
    """Reads the assignment of one instance, and reports on it.

    Its methods raise UnavailableError while the API is away. has_ended: set once the lease has ended, as the
    API knows the token no more.
    """

    def __init__(self, url: str, token: str):
        self._client = Client(url, token, deadline_s=CALL_S, timeout_s=CALL_S)
        self._follower = Client(url, token, deadline_s=CALL_S, timeout_s=FOLLOW_S)
        self._answer: InstanceWork | None = None
        self._leave_at = 0.0
        self._away: str | None = "the API has not answered yet"
        self.has_ended = threading.Event()

    def follow(self, changed: Callable[[], None]) -> None:
        """Learn of news until the lease has ended; ``changed`` is called for each."""
        while not self.has_ended.is_set():
            try:
                before = None if self._answer is None or self._away else self._answer.version
                answer = self._follower.instance.get_work(before)
            except UnauthorizedError as error:
                log.info("the lease has ended", why=str(error))
                self.has_ended.set()
            except ClientError as error:
                self._away = str(error)
                self.has_ended.wait(_PAUSE_S)
            else:
                if answer.version != before and answer.leave_in_s is not None:
                    self._leave_at = time.time() + answer.leave_in_s
                self._answer, self._away = answer, None
            changed()

    def read(self) -> AssignmentBatch:
        """Return the assignment as it was last heard of."""
        answer = self._heard()
        if answer.work is None:
            return AssignmentBatch({}, {})
        return AssignmentBatch({answer.work.id: answer.work}, {answer.work.instance: answer.lease})

    def wall_time(self, cloud_s: float) -> float:
        """Return when the instance leaves, in seconds since 1970 by the clock of this machine."""
        del cloud_s  # the API has converted it
        return self._leave_at

    def read_reports(self, works: Sequence[str]) -> Mapping[str, WorkReport]:
        """Return the last report on the work, by its id."""
        report = self._heard().report
        return {report.work: report} if report is not None and report.work in works else {}

    def write_report(self, report: WorkReport, job: str, *, is_news: bool) -> None:
        """Report how the work stands; ``is_news``: a job manager is to look at it at once."""
        del job  # the API knows it
        self._send(lambda: self._client.instance.write_report(report, is_news=is_news))

    def write_log(self, work: str, offset: int, part: bytes) -> None:
        """Show the last part of the output. ``offset``: number of bytes before it."""
        del work  # the API knows it
        self._send(lambda: self._client.instance.write_output(offset, part))

    def sign(self, job: str, wanted: StateRequest) -> Sequence[str]:
        """Return addresses of files of a state. Raises ClientError."""
        del job  # the API knows it
        return self._client.instance.sign(wanted)

    def _heard(self) -> InstanceWork:
        if self._answer is None or self._away:
            raise UnavailableError(self._away or "the API has not answered yet")
        return self._answer

    def _send(self, call: Callable[[], None]) -> None:
        try:
            call()
        except ClientError as error:
            if isinstance(error, UnauthorizedError):
                self.has_ended.set()
            raise UnavailableError(str(error)) from error
