"""What the holder of a key can do with jobs: submit, look, read what they wrote, cancel.

The journals are read and written on threads (``broker.jobs.store``): job managers use the same code.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import redis

from broker.api.problems import conflict, in_flight, invalid_field, key_reused, not_found, not_ready
from broker.identity.permissions import AccessDecision, Action, Principal, ProtectedObject, authorize
from broker.jobs.events import CancelRequested, JobSubmitted, UnreadableEntryError, make_work_id
from broker.jobs.ids import is_job_id, make_suffix
from broker.jobs.models import ENDED, Attempt, JobList, JobLog, JobState, JobView, Outcome
from broker.jobs.store import JobStore, LostRaceError
from broker.jobs.view import make_job_view
from broker.jobs.work_queue import decode_log
from broker.storage.keys import RedisKeys

#: A list looks at so many jobs of its caller, the latest ones.
MOST_LOOKED_AT = 5_000
_PAGE = 500
_TRIES = 20  # to write, while others write to the same journal
_FOLLOW_S, _LOOK_S = 20.0, 0.3


@dataclass(frozen=True)
class JobSnapshot:
    """A job as it stood when its journal was read. ``length``: of the journal. ``ending``: somebody asked for
    its end."""

    length: int
    submitted: JobSubmitted
    view: JobView
    ending: bool

    @property
    def thing(self) -> ProtectedObject:
        """Whose it is."""
        return ProtectedObject(origin=self.submitted.origin, holder=self.submitted.holder)


class JobService:
    """The jobs of one process. Every call may raise redis.RedisError."""

    def __init__(self, client: redis.Redis, keys: RedisKeys, ring: Callable[[str], None], most_open: int):
        """``ring`` tells job managers of a job, and returns at once. ``most_open``: jobs of one member."""
        self._client, self._keys, self._ring, self._most_open = client, keys, ring, most_open
        self._store = JobStore(client, keys)

    async def find(self, name: str, who: Principal) -> JobSnapshot | None:
        """The job of that id; for members also by the id that they chose. None: there is none."""
        return await asyncio.to_thread(self._find, name, who)

    async def known(self, submitted: JobSubmitted) -> JobView | None:
        """The job, where the same was submitted before. Raises ProblemError (422) where another was."""
        return await asyncio.to_thread(self._known, submitted)

    async def open(self, submitted: JobSubmitted, who: Principal) -> JobView:
        """Notes a job, unless that has been done meanwhile. Raises ProblemError (409, 422)."""
        made = await asyncio.to_thread(self._open, submitted, who)
        self._ring(made.id)
        return made

    async def cancel(self, job: str, who: Principal) -> JobView:
        """Asks for its end, once. Raises ProblemError (409) where it has ended otherwise."""
        found = await asyncio.to_thread(self._cancel, job, who)
        self._ring(job)
        return found

    async def listed(self, who: Principal, state: JobState | None, name: str | None, limit: int) -> JobList:
        """The caller's, the latest first."""
        found = await asyncio.to_thread(self._listed, who, state, name, limit + 1)
        return JobList(jobs=tuple(found[:limit]), more=len(found) > limit)

    async def log(
        self, job: JobSnapshot, attempt: int | None, rank: int, offset: int, *, follow: bool
    ) -> JobLog:
        """What an attempt has written; ``attempt`` None: the one that won, else the latest.

        ``follow``: waits a while for more. Raises ProblemError (404, 422).
        """
        until_s = time.monotonic() + _FOLLOW_S
        while True:
            told = await asyncio.to_thread(self._log, job.view, attempt, rank, offset)
            if told.text or told.end or not follow or time.monotonic() > until_s:
                return told
            await asyncio.sleep(_LOOK_S)
            later = await asyncio.to_thread(self._read, job.view.id)
            job = job if later is None else later

    # -- on a thread -----------------------------------------------------------------------------------------

    def _read(self, job: str) -> JobSnapshot | None:
        """Raises ProblemError (503) for a journal that a newer version wrote."""
        try:
            entries = self._store.read_entries(job)
        except UnreadableEntryError as error:
            raise not_ready(str(error)) from None
        if not entries:
            return None
        first = entries[0]
        assert isinstance(first, JobSubmitted)
        ending = any(isinstance(one, CancelRequested) for one in entries)
        return JobSnapshot(len(entries), first, make_job_view(entries, time.time()), ending)

    def _find(self, name: str, who: Principal) -> JobSnapshot | None:
        for job in dict.fromkeys((name + make_suffix(who.member), name)):
            if is_job_id(job) and (found := self._read(job)) is not None:
                return found
        return None

    def _known(self, submitted: JobSubmitted) -> JobView | None:
        found = self._read(submitted.job)
        if found is None:
            return None
        if (found.submitted.holder, found.submitted.wish) != (submitted.holder, submitted.wish):
            raise key_reused()
        return found.view

    def _open(self, submitted: JobSubmitted, who: Principal) -> JobView:
        self._make_room(who)
        job, now = submitted.job, submitted.at
        try:
            self._store.append(job, 0, [submitted], next_at=now, submitted_at=now)
        except LostRaceError:
            known = self._known(submitted)
            assert known is not None, "a journal is never taken away"
            return known
        return make_job_view([submitted])

    def _make_room(self, who: Principal) -> None:
        """Raises ProblemError (409) where the member has as many open jobs as it may."""
        if who.member is None:
            return
        own = self._client.zscan_iter(self._keys.open_jobs, f"*{make_suffix(who.member)}", count=1_000)
        if sum(1 for _ in own) >= self._most_open:
            detail = f"you have {self._most_open} jobs that have not ended, which is as many as one may have"
            raise conflict("too-many-jobs", "Too many jobs", f"{detail}: cancel some, or wait")

    def _cancel(self, job: str, who: Principal) -> JobView:
        for _ in range(_TRIES):
            found = self._read(job)
            if found is None:
                raise not_found("job")
            if found.ending and found.view.state not in ENDED - {JobState.CANCELLED}:
                return found.view
            if found.view.state in ENDED:
                detail = f"the job has {found.view.state} already: there is nothing to cancel"
                raise conflict("job-ended", "It has ended", detail)
            now = time.time()
            try:
                self._store.append(job, found.length, [CancelRequested(at=now, by=who.name)], next_at=now)
            except LostRaceError:
                continue
            after = self._read(job)
            assert after is not None, "a journal is never taken away"
            return after.view
        raise in_flight()

    def _listed(self, who: Principal, state: JobState | None, name: str | None, most: int) -> list[JobView]:
        found: list[JobView] = []
        for _, job in zip(range(MOST_LOOKED_AT), self._names(who), strict=False):
            one = self._read(job)
            if one is None or authorize(who, Action.READ, one.thing) is not AccessDecision.ALLOWED:
                continue
            if (state is None or one.view.state is state) and (name is None or one.view.name == name):
                found.append(one.view)
            if len(found) == most:
                break
        return found

    def _names(self, who: Principal) -> Iterator[str]:
        """Ids of jobs that may be the caller's, the latest first."""
        start, end = 0, make_suffix(who.member)
        while True:
            page = self._store.list_latest(start, _PAGE)
            yield from (job for job in page if job.endswith(end))
            if len(page) < _PAGE:
                return
            start += _PAGE

    def _log(self, job: JobView, attempt: int | None, rank: int, offset: int) -> JobLog:
        if rank >= job.instances:
            raise invalid_field("rank", "the job has no such instance", f"0 to {job.instances - 1}")
        told = {"job": job.id, "rank": rank, "offset": offset, "next_offset": offset}
        tried = _attempt(job, attempt)
        if tried is None:
            return JobLog(**told, attempt=0, text="", end=job.state in ENDED)
        value = self._client.get(self._keys.work_log(tried.cloud, make_work_id(job.id, tried.number, rank)))
        began, part = (0, b"") if value is None else decode_log(cast("bytes", value))
        begin = max(offset, began)  # what was before is not kept
        text = part[begin - began :]
        over = tried.ended_at is not None
        if not over:
            text = _whole(text)
        ends = max(offset, begin + len(text))
        told |= {"offset": begin if text else offset, "next_offset": ends}
        return JobLog(**told, attempt=tried.number, text=text.decode("utf-8", "replace"), end=over)


def _attempt(job: JobView, number: int | None) -> Attempt | None:
    """The attempt; without a number the one that won, else the latest; None: there is none yet.

    Raises ProblemError (404).
    """
    if number is None:
        won = (one for one in job.attempts if one.outcome is Outcome.WON)
        return next(won, job.attempts[-1] if job.attempts else None)
    if number > len(job.attempts):
        raise not_found("attempt")
    return job.attempts[number - 1]


def _whole(text: bytes) -> bytes:
    """Without the beginning of a character whose end is not written yet."""
    for back in range(1, min(4, len(text)) + 1):
        byte = text[-back]
        if 0xC2 <= byte <= 0xF4:
            length = 2 + (byte >= 0xE0) + (byte >= 0xF0)
            return text if back >= length else text[:-back]
        if byte < 0x80:
            break
    return text
