"""The calls about batch jobs, as part of ``broker.client.Client``."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from urllib.parse import quote

from broker.client.results import ClientCalls, parse
from broker.jobs.models import ENDED, JobList, JobLog, JobState, JobView, JobWish, Outcome

_LOOK_S = 1.0


class JobCalls(ClientCalls):
    """A member's own jobs. All but the first two raise NotFoundError."""

    def submit_job(self, wish: JobWish) -> JobView:
        """Has a command run. Without an id it gets one, so that repeating is safe.

        Raises InputRefusedError, and ProblemAnswer (409) where no cloud runs commands.
        """
        named = wish if wish.id is not None else wish.model_copy(update={"id": secrets.token_hex(6)})
        return parse(JobView, self._send("POST", "/v1/jobs", named))

    def jobs(self, *, state: JobState | None = None, name: str | None = None, limit: int = 100) -> JobList:
        """The latest first."""
        parameters = {"state": state and state.value, "name": name, "limit": limit}
        return parse(JobList, self._send("GET", "/v1/jobs", parameters=parameters))

    def job(self, job: str) -> JobView:
        """How it stands now."""
        return parse(JobView, self._send("GET", _path(job)))

    def job_log(
        self, job: str, *, attempt: int | None = None, rank: int = 0, offset: int = 0, follow: bool = False
    ) -> JobLog:
        """What an attempt (None: the latest) has written, from ``offset`` on. ``follow``: once there is more,
        or after a while."""
        parameters = {"attempt": attempt, "rank": rank, "offset": offset, "follow": follow or None}
        return parse(JobLog, self._send("GET", f"{_path(job)}/logs", parameters=parameters))

    def follow_job_log(self, job: str, *, attempt: int | None = None, rank: int = 0) -> Iterator[JobLog]:
        """What an attempt writes until its end; without ``attempt``, what the job writes until its end."""
        at, offset = attempt, 0
        while True:
            told = self.job_log(job, attempt=at, rank=rank, offset=offset, follow=True)
            if told.text:
                yield told
            offset = told.next_offset
            if not told.end:
                at = at or told.attempt or None
                continue
            if attempt is not None:
                return
            found = self.job(job)
            done = found.state is JobState.FINISHED  # then the others were not needed
            later = next(
                (
                    one
                    for one in found.attempts
                    if one.number > told.attempt and (not done or one.outcome is Outcome.WON)
                ),
                None,
            )
            if later is not None:
                at, offset = later.number, 0
            elif found.state in ENDED:
                return
            else:
                time.sleep(_LOOK_S)

    def cancel_job(self, job: str) -> JobView:
        """Asks for its end. Raises ProblemAnswer (409) where it has ended otherwise."""
        return parse(JobView, self._send("DELETE", _path(job)))

    def wait_for_job(self, job: str, limit_s: float | None = None) -> JobView:
        """The job at its end, or as it stands after ``limit_s``."""
        until_s = None if limit_s is None else time.monotonic() + limit_s
        while True:
            found = self.job(job)
            if found.state in ENDED or (until_s is not None and time.monotonic() >= until_s):
                return found
            time.sleep(_LOOK_S)


def _path(job: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}"
