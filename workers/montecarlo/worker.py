"""A Monte-Carlo worker: ``python -m workers.montecarlo [--name N]``.

It is a prefork pool of one child, so that a share's samplers are in the memory of one process, and a kernel
that runs away is killed with its process. ``celery -A workers.celery_app worker -Q montecarlo`` is the same
with Celery's options; of several children each keeps samplers of its own.

Exit status: 0 told to stop, 2 wrong arguments, 78 wrong settings, or the Redis server may drop keys or TLS
refuses it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

import numpy as np
import redis
from celery import Celery
from celery.bootsteps import StartStopStep
from celery.worker.components import Pool

from broker.contract import Batch
from broker.doctor.redis import UnsafeQueueError
from broker.queue.celery_config import BATCH, BATCH_LIMIT_S, MONTECARLO, montecarlo_queue
from broker.queue.send import batch_queue, ring
from broker.settings import Settings, SettingsError, settings
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from broker.storage.negotiation import FederationVersion
from cloudsim.history.event_log import START_ON_DEMAND, EventLog
from cloudsim.prediction.predictor import Sampler
from cloudsim.prediction.samplers.replay import SamplerSpec
from workers import worker_process
from workers.montecarlo.sampling import BatchSampler

ALIVE_TTL_S = 5
FORGOTTEN_S = 600
#: Time that a worker takes to leave: until then it may put batches back into its queue.
_LEAVING_S = 60
_ANNOUNCE_S = 1.5


def warm_up() -> None:
    """Compile or load the kernels before the pool's child is forked, which has no time for that.

    Kernels of line-ups other than youngest-job-first compile with the first batch that needs them. That takes
    half a minute, once for all workers of a machine.
    """
    # Late enough that there are replays before, and enough that these are compared.
    count = 256
    events = EventLog(
        np.linspace(80_000.0, 86_000.0, count),
        np.full(count, START_ON_DEMAND, np.int8),
        np.arange(count),
        np.ones(count, np.int64),
    )
    for cores in (1, 2):  # the size of the events, and another
        Sampler(SamplerSpec((2, 2), seed=0, births=2), cores).feed(events, 86_400.0)


class WorkerHeartbeat(threading.Thread):
    """Announces about once a second, from the pool's main process, that this worker is alive."""

    def __init__(self, name: str, client: redis.Redis, keys: RedisKeys, slots: Callable[[], int] = lambda: 1):
        """``slots`` returns the number of batches that the worker works at side by side."""
        super().__init__(name="heartbeat", daemon=True)
        self._name, self._keys, self._key, self._redis = name, keys, keys.sampler(name), client
        self._speaking = FederationVersion(client, keys)
        self._slots = slots
        self._stopping = threading.Event()

    def run(self) -> None:
        """Announce the worker until ``stop`` is called."""
        while True:
            with suppress(redis.RedisError):
                self._speaking.announce(self._name)
                self._redis.set(self._key, json.dumps({"slots": self._slots()}), ex=ALIVE_TTL_S)
                self._register()
            if self._stopping.wait(_ANNOUNCE_S):
                return

    def _register(self) -> None:
        """Add this worker to the list of workers; remove those that have been silent for long."""
        name, now_s = self._keys.samplers, self._redis.time()[0]
        self._redis.zadd(name, {self._name: now_s})
        silent = cast("list[bytes]", self._redis.zrangebyscore(name, "-inf", now_s - FORGOTTEN_S))
        if silent:
            queues = [self._keys.prefix + montecarlo_queue(worker.decode()) for worker in silent]
            self._redis.delete(*queues)  # with batches that came when it had gone
            self._redis.zrem(name, *silent)

    def stop(self) -> None:
        """Stop the announcements; this worker is no longer one of those that live, and soon forgotten."""
        self._stopping.set()
        if self.is_alive():
            self.join()
        with suppress(redis.RedisError):
            self._redis.delete(self._key)
            soon_s = self._redis.time()[0] - FORGOTTEN_S + _LEAVING_S
            self._redis.zadd(self._keys.samplers, {self._name: soon_s})


class Attendance(StartStopStep):
    """Makes a worker of Celery a Monte-Carlo worker: checks the queue, warms up, and announces it.

    It leaves when the worker begins to stop, while its last batches may still run.
    """

    requires = (Pool,)
    settings: Settings

    def __init__(self, worker: Any, **options: Any):
        super().__init__(worker, **options)
        worker_process.require_safe_queue(self.settings)
        warm_up()
        worker.app.amqp.queues.select_add(batch_queue(montecarlo_queue(worker.hostname)))
        self._heartbeat: WorkerHeartbeat | None = None

    def start(self, worker: Any) -> None:
        """Announce the worker from now on."""
        client, keys = connect(str(self.settings.redis_url)), RedisKeys(self.settings.key_prefix)
        self._heartbeat = WorkerHeartbeat(
            worker.hostname, client, keys, lambda: worker.max_concurrency or worker.pool.num_processes
        )
        self._heartbeat.start()

    def close(self, _worker: Any) -> None:
        """Take the worker off the list."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None

    stop = terminate = close


def serve_batches(app: Celery, settings: Settings) -> None:
    """Register the task that samples batches, and make the application's workers Monte-Carlo workers."""
    sampler: list[BatchSampler] = []  # made in the pool's child, whose connections it holds

    def run_batch(task: Any, message: dict[str, Any]) -> None:
        if not sampler:
            client, keys = connect(str(settings.redis_url)), RedisKeys(settings.key_prefix)
            sampler.append(BatchSampler(task.request.hostname, client, keys, partial(ring, app)))
        sampler[0].run(Batch.model_validate(message, extra="ignore"))

    worker_process.register_task(
        app, BATCH, [batch_queue(MONTECARLO)], run_batch, bind=True, time_limit=BATCH_LIMIT_S
    )
    app.steps["worker"].add(type("MonteCarloAttendance", (Attendance,), {"settings": settings}))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the worker until it is told to stop; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m workers.montecarlo", description=__doc__)
    parser.add_argument(
        "--name", default="montecarlo", help="name of this worker; letters that no other has follow"
    )
    name = parser.parse_args(arguments).name
    worker_process.end_when_told()
    try:
        config = settings()
        app = worker_process.create_app(config)
        serve_batches(app, config)
        return worker_process.run_worker(app, name=name, queues=[MONTECARLO], pool="prefork")
    except (SettingsError, UnsafeQueueError) as error:
        print(f"workers.montecarlo: {error}", file=sys.stderr)  # noqa: T201
        return os.EX_CONFIG
