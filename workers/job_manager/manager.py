"""Looks after batch jobs: reads a job's journal, does what it asks for, looks, decides, writes, and again
until nothing more is to do.

Several managers may run: a claim keeps two off one job, and the journal lets one write. One that is killed
leaves nothing behind but the claim, which runs out.
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
    job_of,
)
from broker.jobs.models import Outcome
from broker.jobs.record import AttemptRecord, BrokenJournalError, JobRecord, fold
from broker.jobs.store import JobStore, LostRaceError
from broker.jobs.work_queue import WorkStore
from workers.job_manager.effects import JobEffects
from workers.job_manager.observer import JobObserver
from workers.job_manager.state_machine import REMEMBERED_S, decide

#: A manager that is killed keeps others off its job for so long.
CLAIM_S = 20.0
SWEEP_S = 0.5
_SWEPT = 500
_MOST_ROUNDS = 50
#: When to look again after something was away, or is wrong with the journal.
_AWAY_S, _BROKEN_S = 2.0, 60.0
_SERVERS_S = 10.0
_THREADS = 4

log = structlog.get_logger(__name__)


class JobAdvance:
    """One job at a time, as far as it goes. Safe to use from several threads."""

    def __init__(
        self,
        store: JobStore,
        works: WorkStore,
        doing: JobEffects,
        observing: JobObserver,
        now: Callable[[], float] = time.time,
    ):
        """``now``: seconds since 1970."""
        self._store, self._works, self._doing, self._observing = store, works, doing, observing
        self._now = now
        self._token = uuid.uuid4().hex

    def advance(self, job: str) -> None:
        """Until nothing more is to do for it now. Raises redis.RedisError while the queue is away."""
        if not self._works.claim(job, self._token, CLAIM_S):
            return
        try:
            for _ in range(_MOST_ROUNDS):
                self._works.renew(job, CLAIM_S)
                if not self._round(job):
                    return
        except (BrokenJournalError, UnreadableEntryError) as error:
            log.exception("a job cannot be looked after", job=job, why=str(error))
            self._store.look_again(job, self._now() + _BROKEN_S)
        except ClientError as error:
            log.warning("a job must wait", job=job, why=str(error))
            self._store.look_again(job, self._now() + _AWAY_S)
        finally:
            self._works.release(job, self._token)

    def _round(self, name: str) -> bool:
        """Whether there may be more to do at once."""
        entries = self._store.entries(name)
        if not entries:
            self._store.put_away(name)
            return False
        job = fold(entries)
        if job.end is not None:
            self._put_away(job, entries)
            return False
        if self._free_ended(job):
            return True
        for place in job.live:
            if place.began_at is not None:
                self._doing.put(job, place)
        seen = self._observing.see(job)
        decision = decide(job, seen)
        if decision.needs_market:
            seen = self._observing.with_market(job, seen)
            decision = decide(job, seen)
        if not decision.entries:
            self._store.look_again(name, max(decision.next_at, self._now() + 0.1))
            return False
        try:
            self._store.append(name, len(entries), decision.entries, next_at=self._now())
        except LostRaceError:
            return True
        self._note(job, decision.entries)
        return True

    def _free_ended(self, job: JobRecord) -> bool:
        """Gives back what ended attempts have; whether something was written about it."""
        freed = [one.number for one in _to_free(job) if self._freed(job, one)]
        if not freed:
            return False
        entry = AttemptFreed(at=self._now(), attempts=tuple(freed))
        try:
            self._store.append(job.id, job.entries, [entry], next_at=self._now())
        except LostRaceError:
            log.info("somebody else looks after a job too", job=job.id)
        return True

    def _freed(self, job: JobRecord, place: AttemptRecord) -> bool:
        try:
            self._doing.free(job, place)
        except UnavailableError as error:
            log.warning("an instance is not given back yet", job=job.id, why=str(error))
            return False
        return True

    def _put_away(self, job: JobRecord, entries: list[JobEntry]) -> None:
        """After its end: what it has is given back, and what it taught is kept."""
        kept = [one for one in _to_free(job) if not self._freed(job, one)]
        if kept:
            self._store.look_again(job.id, self._now() + _AWAY_S)
            return
        name = job.wish.name
        learnt = [one for one in entries if isinstance(one, ProfileLearnt)]
        if name is not None and learnt and isinstance(entries[-2], ProfileLearnt):
            self._works.write_profile(job.submitted.holder, name, learnt[-1].profile)
        self._store.put_away(job.id)
        self._observing.forget(job.id)

    def _note(self, job: JobRecord, written: tuple[JobEntry, ...]) -> None:
        """What other jobs of the holder should know."""
        for entry in written:
            if isinstance(entry, AttemptEnded) and entry.outcome is Outcome.EVICTED:
                plan = job.place(entry.attempt).plan if entry.attempt <= len(job.places) else None
                if plan is not None and plan.spot:
                    attempt = f"{job.id}.{entry.attempt}"
                    since = entry.at - REMEMBERED_S
                    holder = job.submitted.holder
                    self._works.note_eviction(holder, plan.cloud, attempt, entry.at, since)


def _to_free(job: JobRecord) -> list[AttemptRecord]:
    return [one for one in job.places if one.ended is not None and not one.freed]


class JobManager:
    """Threads around ``JobAdvance``: who advances jobs, who sweeps those that are due, who follows the events
    of the federation."""

    def __init__(
        self,
        advancing: JobAdvance,
        store: JobStore,
        servers: BackupServers,
        doing: JobEffects,
        events: Client,
    ):
        self._advancing, self._store = advancing, store
        self._servers, self._doing, self._events = servers, doing, events
        self._stopping = threading.Event()
        self._queue: SimpleQueue[str] = SimpleQueue()
        self._waiting: set[str] = set()
        self._busy: set[str] = set()
        self._lock = threading.Lock()

    def ring(self, job: str) -> None:
        """Somebody is to look after a job soon."""
        with self._lock:
            if job in self._waiting:
                return
            self._waiting.add(job)
        self._queue.put(job)

    def start(self) -> None:
        """Until ``stop``."""
        loops = [self._advance] * _THREADS + [self._sweep, self._follow, self._close_servers]
        for number, loop in enumerate(loops):
            threading.Thread(target=loop, name=f"jobs-{number}", daemon=True).start()

    def stop(self) -> None:
        """From now on nothing new is begun."""
        self._stopping.set()

    def _advance(self) -> None:
        while not self._stopping.is_set():
            try:
                job = self._queue.get(timeout=0.5)
            except Empty:
                continue
            with self._lock:
                self._waiting.discard(job)
                if job in self._busy:  # it may have missed what it is rung for
                    again = True
                else:
                    again = False
                    self._busy.add(job)
            if again:
                self._stopping.wait(0.05)
                self.ring(job)
                continue
            try:
                self._advancing.advance(job)
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
                due = self._store.due(time.time(), _SWEPT)
            except redis.RedisError as error:
                log.warning("the queue is away", why=str(error))
                continue
            for job in due:
                with self._lock:
                    known = job in self._busy
                if not known:
                    self.ring(job)

    def _follow(self) -> None:
        """The public events: what befalls a job's lease is looked at at once."""
        while not self._stopping.is_set():
            try:
                for sent in self._events.events.stream():
                    lease = sent.event.lease
                    job = None if lease is None else job_of(lease.request)
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
        """Stops shared servers of which whoever was to stop them did not get to it."""
        while not self._stopping.wait(_SERVERS_S):
            try:
                for server in self._servers.all().values():
                    if server.closing:
                        self._doing.close(server)
            except (redis.RedisError, ClientError) as error:
                log.warning("shared servers wait to be stopped", why=str(error))
