"""Stores the journals of jobs in Redis.

An entry is appended only behind all entries that its writer has read: if two job managers look after one job,
one of them writes.
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
    """Another process has written to the journal of the job: read it again."""


class JobStore:
    """Reads and appends journals. Every call raises redis.RedisError when Redis is away."""

    def __init__(self, client: redis.Redis, keys: RedisKeys):
        self._client, self._keys = client, keys
        self._append = client.register_script(read_script("job_append"))

    def read_entries(self, job: str) -> list[JobEntry]:
        """Return the journal of a job, from its beginning; empty if there is no such job."""
        entries: list[JobEntry] = []
        key = self._keys.job(job)
        while True:
            reply = self._client.xrange(key, min=f"0-{len(entries) + 1}", count=_READ_AT_ONCE)
            page = cast("list[tuple[bytes, dict[bytes, bytes]]]", reply)
            entries += [parse_entry(fields[b"j"]) for _, fields in page]
            if len(page) < _READ_AT_ONCE:
                return entries

    def append(
        self,
        job: str,
        known: int,
        entries: Sequence[JobEntry],
        *,
        next_at: float | None,
        submitted_at: float | None = None,
    ) -> int:
        """Append entries after the ``known`` ones and return the number of all entries.

        Parameters
        ----------
        next_at
            Time at which a job manager must look after the job, in seconds since 1970; None if it has ended.
        submitted_at
            Time of submission of a new job.

        Raises
        ------
        LostRaceError
            When the journal has other than ``known`` entries.
        """
        keys = self._keys
        length = self._append(
            keys=[keys.job(job), keys.open_jobs, keys.jobs],
            args=[
                known,
                job,
                "" if next_at is None else next_at,
                "" if submitted_at is None else submitted_at,
                *(serialize_entry(entry) for entry in entries),
            ],
        )
        if length < 0:
            raise LostRaceError(job)
        return int(length)

    def list_due(self, now: float, limit: int) -> list[str]:
        """Return jobs that a job manager must look after by now, longest overdue first."""
        jobs = self._client.zrangebyscore(self._keys.open_jobs, "-inf", now, start=0, num=limit)
        return [job.decode() for job in cast("list[bytes]", jobs)]

    def reschedule(self, job: str, at: float) -> None:
        """Set the time at which a job manager must look after a job, unless it is closed."""
        self._client.zadd(self._keys.open_jobs, {job: at}, xx=True)

    def close(self, job: str) -> None:
        """Forget a job that has ended and for which nothing is left to do."""
        self._client.zrem(self._keys.open_jobs, job)

    def list_latest(self, start: int, limit: int) -> list[str]:
        """Return ids of jobs, latest submission first."""
        jobs = self._client.zrange(self._keys.jobs, start, start + limit - 1, desc=True)
        return [job.decode() for job in cast("list[bytes]", jobs)]
