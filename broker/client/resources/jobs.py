"""Calls about batch jobs: ``client.jobs``."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO
from urllib.parse import quote

import httpx

from broker.client.transport import Resource, parse
from broker.jobs.models import ENDED, JobFiles, JobList, JobLog, JobState, JobView, JobWish, Outcome
from broker.jobs.state_archive import StateArchiveError, unpack

_POLL_S = 1.0


class JobsResource(Resource):
    """Runs a member's batch jobs and shows their state and logs. Unknown jobs raise NotFoundError."""

    def submit(self, job: JobWish) -> JobView:
        """Submit a job. A job without an id gets one, so that repeating the call is safe.

        Raises
        ------
        InputRefusedError
            When the job cannot run as described.
        ProblemAnswer
            When no cloud runs commands (status 409).
        """
        job = job if job.id is not None else job.model_copy(update={"id": secrets.token_hex(6)})
        return parse(JobView, self._transport.send("POST", "/v1/jobs", job))

    def list(self, *, state: JobState | None = None, name: str | None = None, limit: int = 100) -> JobList:
        """Return the latest jobs, newest first, only those that match."""
        parameters = {"state": state and state.value, "name": name, "limit": limit}
        return parse(JobList, self._transport.send("GET", "/v1/jobs", parameters=parameters))

    def get(self, job: str) -> JobView:
        """Return the present state of a job."""
        return parse(JobView, self._transport.send("GET", _path(job)))

    def read_log(
        self, job: str, *, attempt: int | None = None, rank: int = 0, offset: int = 0, follow: bool = False
    ) -> JobLog:
        """Return what an attempt (None: the latest) has written, from byte ``offset`` on.

        With ``follow`` the API answers once there is more, or after a while.
        """
        parameters = {"attempt": attempt, "rank": rank, "offset": offset, "follow": follow or None}
        return parse(JobLog, self._transport.send("GET", f"{_path(job)}/logs", parameters=parameters))

    def follow_log(self, job: str, *, attempt: int | None = None, rank: int = 0) -> Iterator[JobLog]:
        """Yield what an attempt writes until it ends.

        Without ``attempt``, yield what the whole job writes until it ends.
        """
        number, offset = attempt, 0
        while True:
            log = self.read_log(job, attempt=number, rank=rank, offset=offset, follow=True)
            if log.text:
                yield log
            offset = log.next_offset
            if not log.end:
                number = number or log.attempt or None
                continue
            if attempt is not None:
                return
            view = self.get(job)
            finished = view.state is JobState.FINISHED  # then only the attempt that won matters
            later = next(
                (
                    candidate.number
                    for candidate in view.attempts
                    if candidate.number > log.attempt and (not finished or candidate.outcome is Outcome.WON)
                ),
                None,
            )
            if later is not None:
                number, offset = later, 0
            elif view.state in ENDED:
                return
            else:
                time.sleep(_POLL_S)

    def find_files(self, job: str, *, attempt: int | None = None, rank: int = 0) -> JobFiles:
        """Return where the files are that an attempt (None: the one that won, else the latest) saved last.

        Raises
        ------
        ProblemAnswer
            When states of jobs are not kept in a bucket (status 409).
        """
        parameters = {"attempt": attempt, "rank": rank}
        return parse(JobFiles, self._transport.send("GET", f"{_path(job)}/files", parameters=parameters))

    def fetch_files(
        self, job: str, directory: Path, *, attempt: int | None = None, rank: int = 0
    ) -> JobFiles:
        """Write the files that an attempt saved last into a new directory; see ``find_files``.

        Raises
        ------
        StateArchiveError
            When they cannot be read or written.
        """
        files = self.find_files(job, attempt=attempt, rank=rank)
        unpack((_download(url) for url in files.urls), directory)
        return files

    def cancel(self, job: str) -> JobView:
        """Ask for the end of a job.

        Raises
        ------
        ProblemAnswer
            When the job has already ended in another way (status 409).
        """
        return parse(JobView, self._transport.send("DELETE", _path(job)))

    def wait(self, job: str, limit_s: float | None = None) -> JobView:
        """Wait until a job ends, for at most ``limit_s`` seconds, and return its state."""
        until_s = None if limit_s is None else time.monotonic() + limit_s
        while True:
            view = self.get(job)
            if view.state in ENDED or (until_s is not None and time.monotonic() >= until_s):
                return view
            time.sleep(_POLL_S)


def _download(url: str) -> IO[bytes]:
    """Return the content of a signed address. Raises StateArchiveError, which does not tell the address."""
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        try:
            with httpx.stream("GET", url) as answer:
                answer.raise_for_status()
                for block in answer.iter_bytes():
                    file.write(block)
        except httpx.HTTPStatusError as error:
            raise StateArchiveError(f"the bucket answers {error.response.status_code}") from None
        except httpx.TransportError as error:
            raise StateArchiveError(f"the bucket does not answer ({type(error).__name__})") from None
        file.seek(0)
        stack.pop_all()  # whoever reads it closes it
    return file


def _path(job: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}"
