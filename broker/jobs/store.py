"""Journals of jobs in Redis. A job is the fold of its journal (``broker.jobs.view``), and an entry is
appended only after all those that the writer has read: of two job managers that look after one job, one
writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import redis

from broker.jobs.events import JobEntry, parse_entry, serialize_entry
from broker.storage.keys import RedisKeys
from broker.storage.scripts import read_script

_READ_AT_ONCE = 1_000


class LostRaceError(Exception):
    """Somebody else has written to the job's journal: read it again."""


class JobStore:
    """Reads and appends; every call raises redis.RedisError when the queue is away."""

    def __init__(self, client: redis.Redis, keys: RedisKeys):
        self._client, self._keys = client, keys
        self._append = client.register_script(read_script("job_append"))

    def entries(self, job: str) -> list[JobEntry]:
        """The journal of a job, from its beginning; empty where there is no such job."""
        found: list[JobEntry] = []
        key = self._keys.job(job)
        while True:
            read = self._client.xrange(key, min=f"0-{len(found) + 1}", count=_READ_AT_ONCE)
            page = cast("list[tuple[bytes, dict[bytes, bytes]]]", read)
            found += [parse_entry(fields[b"j"]) for _, fields in page]
            if len(page) < _READ_AT_ONCE:
                return found

    def append(
        self,
        job: str,
        known: int,
        entries: Sequence[JobEntry],
        *,
        next_at: float | None,
        submitted_at: float | None = None,
    ) -> int:
        """Appends entries after the ``known`` ones; returns how many there are then.

        next_at: when somebody must look after it, seconds since 1970; None: it has ended. submitted_at: of a
        new job. Raises LostRaceError.
        """
        keys = self._keys
        length = self._append(
            keys=[keys.job(job), keys.open_jobs, keys.jobs],
            args=[
                known,
                job,
                "" if next_at is None else next_at,
                "" if submitted_at is None else submitted_at,
                *(serialize_entry(one) for one in entries),
            ],
        )
        if length < 0:
            raise LostRaceError(job)
        return int(length)

    def due(self, now: float, limit: int) -> list[str]:
        """Jobs that somebody must look after by now, longest overdue first."""
        found = self._client.zrangebyscore(self._keys.open_jobs, "-inf", now, start=0, num=limit)
        return [one.decode() for one in cast("list[bytes]", found)]

    def look_again(self, job: str, at: float) -> None:
        """Says when somebody must look after a job that has not been put away."""
        self._client.zadd(self._keys.open_jobs, {job: at}, xx=True)

    def put_away(self, job: str) -> None:
        """Nothing is left to do for a job, which has ended."""
        self._client.zrem(self._keys.open_jobs, job)

    def latest(self, start: int, limit: int) -> list[str]:
        """Ids of jobs, the latest submitted first."""
        found = self._client.zrange(self._keys.jobs, start, start + limit - 1, desc=True)
        return [one.decode() for one in cast("list[bytes]", found)]
