"""Advance batch jobs: read a job's journal, carry it out, observe, decide and write, until all is done.

Several managers may run: a claim keeps two off one job, and the journal lets one write. A manager that is
killed leaves nothing behind but the claim, which expires.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from queue import Empty, SimpleQueue

import redis
import structlog

from broker.client import Client, ClientError, UnavailableError
from broker.jobs.backup_servers import BackupServers
from broker.jobs.events import (
    AttemptEnded,
    AttemptFreed,
    JobEntry,
    ProfileLearnt,
    UnreadableEntryError,
    parse_job_id,
)
from broker.jobs.models import Outcome
from broker.jobs.record import AttemptRecord, BrokenJournalError, JobRecord, fold_entries
from broker.jobs.store import JobStore, LostRaceError
from broker.jobs.work_queue import WorkStore
from workers.job_manager.effects import JobEffects
from workers.job_manager.observer import JobObserver
from workers.job_manager.state_machine import REMEMBERED_S, decide

#: Seconds for which a manager that is killed keeps others off its job.
CLAIM_S = 20.0
SWEEP_S = 0.5
_SWEPT = 500
_MOST_ROUNDS = 50
#: Seconds until the next look at a job after an outage, or an error in its journal.
_AWAY_S, _BROKEN_S = 2.0, 60.0
_SERVERS_S = 10.0
_THREADS = 4

log = structlog.get_logger(__name__)


class JobAdvancer:
    """Advances one job at a time as far as it goes. Safe to use from several threads."""

    def __init__(
        self,
        store: JobStore,
        works: WorkStore,
        effects: JobEffects,
        observer: JobObserver,
        now: Callable[[], float] = time.time,
    ):
        """Take what it reads, writes and observes; ``now``: returns seconds since 1970."""
        self._store, self._works, self._effects, self._observer = store, works, effects, observer
        self._now = now
        self._token = uuid.uuid4().hex

    def advance(self, job: str) -> None:
        """Advance a job until nothing more is to do for it now, unless another manager has claimed it.

        Raises
        ------
        redis.RedisError
            While Redis is away.
        """
        if not self._works.claim(job, self._token, CLAIM_S):
            return
        try:
            for _ in range(_MOST_ROUNDS):
                self._works.renew(job, CLAIM_S)
                if not self._round(job):
                    return
        except (BrokenJournalError, UnreadableEntryError) as error:
            log.exception("a job cannot be looked after", job=job, why=str(error))
            self._store.reschedule(job, self._now() + _BROKEN_S)
        except ClientError as error:
            log.warning("a job must wait", job=job, why=str(error))
            self._store.reschedule(job, self._now() + _AWAY_S)
        finally:
            self._works.release(job, self._token)

    def _round(self, name: str) -> bool:
        """Advance the job by one decision; return True if there may be more to do at once."""
        entries = self._store.read_entries(name)
        if not entries:
            self._store.close(name)
            return False
        job = fold_entries(entries)
        if job.end is not None:
            self._put_away(job, entries)
            return False
        if self._free_ended(job):
            return True
        for attempt in job.live:
            if attempt.began_at is not None:
                self._effects.assign_work(job, attempt)
        observation = self._observer.observe(job)
        decision = decide(job, observation)
        if decision.needs_market:
            observation = self._observer.add_market(job, observation)
            decision = decide(job, observation)
        if not decision.entries:
            self._store.reschedule(name, max(decision.next_at, self._now() + 0.1))
            return False
        try:
            self._store.append(name, len(entries), decision.entries, next_at=self._now())
        except LostRaceError:
            return True
        self._note_evictions(job, decision.entries)
        return True

    def _free_ended(self, job: JobRecord) -> bool:
        """Give back the instances of ended attempts; return True if that was written into the journal."""
        freed = [attempt.number for attempt in _ended_attempts(job) if self._free(job, attempt)]
        if not freed:
            return False
        entry = AttemptFreed(at=self._now(), attempts=tuple(freed))
        try:
            self._store.append(job.id, job.entries, [entry], next_at=self._now())
        except LostRaceError:
            log.info("somebody else looks after a job too", job=job.id)
        return True

    def _free(self, job: JobRecord, attempt: AttemptRecord) -> bool:
        try:
            self._effects.free(job, attempt)
        except UnavailableError as error:
            log.warning("an instance is not given back yet", job=job.id, why=str(error))
            return False
        return True

    def _put_away(self, job: JobRecord, entries: list[JobEntry]) -> None:
        """Give back all that an ended job has, keep what was learnt from it, and close it."""
        pending = [attempt for attempt in _ended_attempts(job) if not self._free(job, attempt)]
        if pending:
            self._store.reschedule(job.id, self._now() + _AWAY_S)
            return
        name = job.wish.name
        learnt = [entry for entry in entries if isinstance(entry, ProfileLearnt)]
        if name is not None and learnt and isinstance(entries[-2], ProfileLearnt):
            self._works.write_profile(job.submitted.holder, name, learnt[-1].profile)
        self._store.close(job.id)
        self._observer.forget(job.id)

    def _note_evictions(self, job: JobRecord, written: tuple[JobEntry, ...]) -> None:
        """Note evictions for the other jobs of the holder."""
        for entry in written:
            if isinstance(entry, AttemptEnded) and entry.outcome is Outcome.EVICTED:
                plan = job.get_attempt(entry.attempt).plan if entry.attempt <= len(job.attempts) else None
                if plan is not None and plan.spot:
                    attempt_id = f"{job.id}.{entry.attempt}"
                    since = entry.at - REMEMBERED_S
                    holder = job.submitted.holder
                    self._works.note_eviction(holder, plan.cloud, attempt_id, entry.at, since)


def _ended_attempts(job: JobRecord) -> list[AttemptRecord]:
    return [attempt for attempt in job.attempts if attempt.ended is not None and not attempt.freed]


class JobManager:
    """Runs the threads around a ``JobAdvancer``.

    Some advance jobs, one looks for jobs that are due, one follows the events of the federation, and one
    stops shared servers.
    """

    def __init__(
        self,
        advancer: JobAdvancer,
        store: JobStore,
        servers: BackupServers,
        effects: JobEffects,
        events: Client,
    ):
        self._advancer, self._store = advancer, store
        self._servers, self._effects, self._events = servers, effects, events
        self._stopping = threading.Event()
        self._queue: SimpleQueue[str] = SimpleQueue()
        self._waiting: set[str] = set()
        self._busy: set[str] = set()
        self._lock = threading.Lock()

    def ring(self, job: str) -> None:
        """Ask for a job to be advanced soon."""
        with self._lock:
            if job in self._waiting:
                return
            self._waiting.add(job)
        self._queue.put(job)

    def start(self) -> None:
        """Start the threads; they run until ``stop``."""
        loops = [self._advance] * _THREADS + [self._sweep, self._follow, self._close_servers]
        for number, loop in enumerate(loops):
            threading.Thread(target=loop, name=f"jobs-{number}", daemon=True).start()

    def stop(self) -> None:
        """Begin nothing new from now on."""
        self._stopping.set()

    def _advance(self) -> None:
        while not self._stopping.is_set():
            try:
                job = self._queue.get(timeout=0.5)
            except Empty:
                continue
            with self._lock:
                self._waiting.discard(job)
                if job in self._busy:  # the round under way may have missed the reason
                    again = True
                else:
                    again = False
                    self._busy.add(job)
            if again:
                self._stopping.wait(0.05)
                self.ring(job)
                continue
            try:
                self._advancer.advance(job)
            except redis.RedisError as error:
                log.warning("the queue is away", job=job, why=str(error))
                self._stopping.wait(0.5)
            except Exception:
                log.exception("a job could not be looked after", job=job)
                self._stopping.wait(0.5)
            finally:
                with self._lock:
                    self._busy.discard(job)

    def _sweep(self) -> None:
        while not self._stopping.wait(SWEEP_S):
            try:
                due = self._store.list_due(time.time(), _SWEPT)
            except redis.RedisError as error:
                log.warning("the queue is away", why=str(error))
                continue
            for job in due:
                with self._lock:
                    is_busy = job in self._busy
                if not is_busy:
                    self.ring(job)

    def _follow(self) -> None:
        """Follow the public events, and advance a job at once when something befalls its lease."""
        while not self._stopping.is_set():
            try:
                for sent in self._events.events.stream():
                    lease = sent.event.lease
                    job = None if lease is None else parse_job_id(lease.request)
                    if job is not None:
                        self.ring(job)
                    if self._stopping.is_set():
                        return
            except (ClientError, RuntimeError) as error:  # RuntimeError: the client was closed, to stop this
                if self._stopping.is_set():
                    return
                log.warning("no events are heard", why=str(error))
            self._stopping.wait(1.0)

    def _close_servers(self) -> None:
        """Stop shared servers whose last user could not stop them."""
        while not self._stopping.wait(_SERVERS_S):
            try:
                for server in self._servers.read_all().values():
                    if server.closing:
                        self._effects.close(server)
            except (redis.RedisError, ClientError) as error:
                log.warning("shared servers wait to be stopped", why=str(error))
