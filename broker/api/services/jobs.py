"""Answers calls about batch jobs: submit, read, list, read the log, find the files, cancel.

Journals of jobs are read and written on threads, with the blocking code of ``broker.jobs.store`` that job
managers use as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import redis

from broker.api.problems import (
    bucket_away,
    conflict,
    in_flight,
    invalid_field,
    key_reused,
    no_bucket,
    not_found,
    not_ready,
)
from broker.identity.permissions import AccessDecision, Action, Principal, ProtectedObject, authorize
from broker.jobs.bucket import Bucket, BucketError
from broker.jobs.events import CancelRequested, JobSubmitted, UnreadableEntryError, make_work_id
from broker.jobs.ids import is_job_id, make_suffix
from broker.jobs.models import (
    ENDED,
    Attempt,
    JobFiles,
    JobList,
    JobLog,
    JobState,
    JobView,
    Outcome,
    StateRequest,
)
from broker.jobs.store import JobStore, LostRaceError
from broker.jobs.view import make_job_view
from broker.jobs.work_queue import decode_log
from broker.storage.keys import RedisKeys

#: How many of the caller's jobs a list considers, the latest ones.
MOST_LOOKED_AT = 5_000
_PAGE = 500
_TRIES = 20  # attempts to append to a journal to which others append at the same time
_FOLLOW_S, _LOOK_S = 20.0, 0.3


@dataclass(frozen=True)
class JobSnapshot:
    """One job as its journal showed it.

    length: number of entries of the journal. submitted: its first entry. ending: a cancellation was
    requested.
    """

    length: int
    submitted: JobSubmitted
    view: JobView
    ending: bool

    @property
    def protected(self) -> ProtectedObject:
        """The origin and the holder that permissions are judged by."""
        return ProtectedObject(origin=self.submitted.origin, holder=self.submitted.holder)


class JobService:
    """Reads and writes the journals of jobs. Every method may raise redis.RedisError."""

    def __init__(
        self,
        client: redis.Redis,
        keys: RedisKeys,
        ring: Callable[[str], None],
        most_open: int,
        bucket: Bucket | None = None,
    ):
        """Connect to nothing yet.

        ``client`` is used on threads. ``ring`` wakes job managers for a job, and returns at once.
        ``most_open``: how many jobs of one member may be open. ``bucket``: where states of jobs are.
        """
        self._client, self._keys, self._ring, self._most_open = client, keys, ring, most_open
        self._bucket = bucket
        self._store = JobStore(client, keys)

    async def find(self, name: str, who: Principal) -> JobSnapshot | None:
        """Return the job of that id, or of that id as the caller chose it; None if there is none."""
        return await asyncio.to_thread(self._find, name, who)

    async def find_submitted(self, submitted: JobSubmitted) -> JobView | None:
        """Return the job if it was submitted before. Raises ProblemError (422) if another one has its id."""
        return await asyncio.to_thread(self._find_submitted, submitted)

    async def open(self, submitted: JobSubmitted, who: Principal) -> JobView:
        """Begin the journal of a job, if nobody has meanwhile. Raises ProblemError (409, 422)."""
        job = await asyncio.to_thread(self._open, submitted, who)
        self._ring(job.id)
        return job

    async def cancel(self, job: str, who: Principal) -> JobView:
        """Request the end of a job, once. Raises ProblemError (409) if it has ended otherwise."""
        cancelled = await asyncio.to_thread(self._cancel, job, who)
        self._ring(job)
        return cancelled

    async def list_jobs(
        self, who: Principal, state: JobState | None, name: str | None, limit: int
    ) -> JobList:
        """Return the caller's jobs, the latest first, with that state and name unless these are None."""
        jobs = await asyncio.to_thread(self._list, who, state, name, limit + 1)
        return JobList(jobs=tuple(jobs[:limit]), more=len(jobs) > limit)

    async def read_log(
        self, job: JobSnapshot, attempt: int | None, rank: int, offset: int, *, follow: bool
    ) -> JobLog:
        """Return what rank ``rank`` of an attempt has written from byte ``offset`` on.

        ``attempt`` None: the one that won, else the latest. ``follow``: wait a while for more. Raises
        ProblemError (404, 422).
        """
        until_s = time.monotonic() + _FOLLOW_S
        while True:
            part = await asyncio.to_thread(self._read_log, job.view, attempt, rank, offset)
            if part.text or part.end or not follow or time.monotonic() > until_s:
                return part
            await asyncio.sleep(_LOOK_S)
            later = await asyncio.to_thread(self._read, job.view.id)
            job = job if later is None else later

    async def find_files(self, job: JobSnapshot, attempt: int | None, rank: int) -> JobFiles:
        """Return where the files are that an attempt saved last; ``attempt`` and errors as in ``read_log``.

        Raises ProblemError (409) if the federation has no bucket.
        """
        return await asyncio.to_thread(self._find_files, job.view, attempt, rank)

    # -- on a thread --------------------------------------------------------------------------------------

    def _read(self, job: str) -> JobSnapshot | None:
        """Read the journal of a job. Raises ProblemError (503) if a newer version wrote it."""
        try:
            entries = self._store.read_entries(job)
        except UnreadableEntryError as error:
            raise not_ready(str(error)) from None
        if not entries:
            return None
        first = entries[0]
        assert isinstance(first, JobSubmitted)
        ending = any(isinstance(entry, CancelRequested) for entry in entries)
        return JobSnapshot(len(entries), first, make_job_view(entries, time.time()), ending)

    def _find(self, name: str, who: Principal) -> JobSnapshot | None:
        for job in dict.fromkeys((name + make_suffix(who.member), name)):
            if is_job_id(job) and (snapshot := self._read(job)) is not None:
                return snapshot
        return None

    def _find_submitted(self, submitted: JobSubmitted) -> JobView | None:
        snapshot = self._read(submitted.job)
        if snapshot is None:
            return None
        before = snapshot.submitted
        if (before.holder, before.wish) != (submitted.holder, submitted.wish):
            raise key_reused()
        return snapshot.view

    def _open(self, submitted: JobSubmitted, who: Principal) -> JobView:
        self._require_room(who)
        job, now = submitted.job, submitted.at
        try:
            self._store.append(job, 0, [submitted], next_at=now, submitted_at=now)
        except LostRaceError:
            job_view = self._find_submitted(submitted)
            assert job_view is not None, "a journal is never taken away"
            return job_view
        return make_job_view([submitted])

    def _require_room(self, who: Principal) -> None:
        """Raise ProblemError (409) if the member has as many open jobs as it may."""
        if who.member is None:
            return
        own = self._client.zscan_iter(self._keys.open_jobs, f"*{make_suffix(who.member)}", count=1_000)
        if sum(1 for _ in own) >= self._most_open:
            detail = f"you have {self._most_open} jobs that have not ended, which is as many as one may have"
            raise conflict("too-many-jobs", "Too many jobs", f"{detail}: cancel some, or wait")

    def _cancel(self, job: str, who: Principal) -> JobView:
        for _ in range(_TRIES):
            snapshot = self._read(job)
            if snapshot is None:
                raise not_found("job")
            state = snapshot.view.state
            if snapshot.ending and state not in ENDED - {JobState.CANCELLED}:
                return snapshot.view
            if state in ENDED:
                detail = f"the job has {state} already: there is nothing to cancel"
                raise conflict("job-ended", "Ended job", detail)
            now = time.time()
            try:
                self._store.append(job, snapshot.length, [CancelRequested(at=now, by=who.name)], next_at=now)
            except LostRaceError:
                continue
            after = self._read(job)
            assert after is not None, "a journal is never taken away"
            return after.view
        raise in_flight()

    def _list(self, who: Principal, state: JobState | None, name: str | None, most: int) -> list[JobView]:
        jobs: list[JobView] = []
        for _, job in zip(range(MOST_LOOKED_AT), self._latest_ids(who), strict=False):
            snapshot = self._read(job)
            if (
                snapshot is None
                or authorize(who, Action.READ, snapshot.protected) is not AccessDecision.ALLOWED
            ):
                continue
            job_view = snapshot.view
            if (state is None or job_view.state is state) and (name is None or job_view.name == name):
                jobs.append(job_view)
            if len(jobs) == most:
                break
        return jobs

    def _latest_ids(self, who: Principal) -> Iterator[str]:
        """Yield the ids of jobs that may be the caller's, the latest first."""
        start, suffix = 0, make_suffix(who.member)
        while True:
            page = self._store.list_latest(start, _PAGE)
            yield from (job for job in page if job.endswith(suffix))
            if len(page) < _PAGE:
                return
            start += _PAGE

    def _find_files(self, job: JobView, number: int | None, rank: int) -> JobFiles:
        bucket = self._bucket
        if bucket is None:
            raise no_bucket()
        attempt = _attempt(job, number)
        if attempt is None or rank >= job.instances:
            raise not_found("attempt")
        work = make_work_id(job.id, attempt.number, rank)
        try:
            states = bucket.list_states(job.id, work)
            if not states:
                raise not_found("saved state")
            checkpoint = max(states)
            wanted = StateRequest(
                action="read", work=work, checkpoint=checkpoint, files=tuple(states[checkpoint])
            )
            urls = bucket.sign(job.id, wanted)
        except BucketError as error:
            raise bucket_away(error) from error
        return JobFiles(
            job=job.id, attempt=attempt.number, rank=rank, checkpoint=checkpoint, urls=tuple(urls)
        )

    def _read_log(self, job: JobView, number: int | None, rank: int, offset: int) -> JobLog:
        if rank >= job.instances:
            raise invalid_field("rank", "the job has no such instance", f"0 to {job.instances - 1}")
        attempt = _attempt(job, number)
        if attempt is None:
            ended = job.state in ENDED
            return JobLog(
                job=job.id, rank=rank, attempt=0, offset=offset, next_offset=offset, text="", end=ended
            )
        work = make_work_id(job.id, attempt.number, rank)
        value = self._client.get(self._keys.work_log(attempt.cloud, work))
        first, kept = (0, b"") if value is None else decode_log(cast("bytes", value))
        begin = max(offset, first)  # earlier output is no longer kept
        text = kept[begin - first :]
        ended = attempt.ended_at is not None
        if not ended:
            text = _without_partial_character(text)
        return JobLog(
            job=job.id,
            rank=rank,
            attempt=attempt.number,
            offset=begin if text else offset,
            next_offset=max(offset, begin + len(text)),
            text=text.decode("utf-8", "replace"),
            end=ended,
        )


def _attempt(job: JobView, number: int | None) -> Attempt | None:
    """Return an attempt of a job; without a number the one that won, else the latest, None if there is none.

    Raises ProblemError (404) if there is none of that number.
    """
    if number is None:
        won = (attempt for attempt in job.attempts if attempt.outcome is Outcome.WON)
        return next(won, job.attempts[-1] if job.attempts else None)
    if number > len(job.attempts):
        raise not_found("attempt")
    return job.attempts[number - 1]


def _without_partial_character(text: bytes) -> bytes:
    """Return UTF-8 text without a last character of which only the first bytes have been written."""
    for back in range(1, min(4, len(text)) + 1):
        byte = text[-back]
        if 0xC2 <= byte <= 0xF4:
            length = 2 + (byte >= 0xE0) + (byte >= 0xF0)
            return text if back >= length else text[:-back]
        if byte < 0x80:
            break
    return text
