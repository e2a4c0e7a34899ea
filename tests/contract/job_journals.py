"""What a job manager writes about jobs, and what a node agent shows of them, for tests of the API."""

from __future__ import annotations

import time

from broker.jobs.events import (
    AttemptBegan,
    AttemptEnded,
    AttemptStarted,
    JobEntry,
    JobFinished,
    JobPlanned,
    PlannedAttempt,
    make_work_id,
)
from broker.jobs.models import Outcome
from broker.jobs.store import JobStore
from broker.jobs.work_queue import encode_log
from tests.contract.harness import Federation


class Journals:
    """Of one federation."""

    def __init__(self, federation: Federation):
        self._redis, self._keys = federation.redis, federation.keys
        self.store = JobStore(self._redis, self._keys)

    def add(self, job: str, *entries: JobEntry, ended: bool = False) -> None:
        known = len(self.store.read_entries(job))
        self.store.append(job, known, entries, next_at=None if ended else time.time() + 3600)

    def run(self, job: str, attempt: int = 1, cloud: str = "north") -> None:
        """An attempt is planned, begins and runs."""
        at = time.time()
        plan = PlannedAttempt(
            number=attempt, role="main", mechanism="checkpoint", cloud=cloud, spot=True, cores=1, why="cheap"
        )
        self.add(
            job,
            JobPlanned(at=at, attempts=(plan,)),
            AttemptBegan(at=at, attempt=attempt, leases=(make_work_id(job, attempt),), nodes=(0,)),
            AttemptStarted(at=at, attempt=attempt, started_at=at),
        )

    def end(self, job: str, outcome: Outcome, attempt: int = 1) -> None:
        self.add(job, AttemptEnded(at=time.time(), attempt=attempt, outcome=outcome, why="so it was"))

    def finish(self, job: str, attempt: int = 1) -> None:
        self.end(job, Outcome.WON, attempt)
        self.add(job, JobFinished(at=time.time(), attempt=attempt), ended=True)

    def write(self, job: str, text: bytes, *, before: int = 0, attempt: int = 1, rank: int = 0) -> None:
        key = self._keys.work_log("north", make_work_id(job, attempt, rank))
        self._redis.set(key, encode_log(before, text))
