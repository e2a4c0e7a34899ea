"""A Monte-Carlo worker: ``python -m workers.montecarlo [--name N]``.

It is a prefork pool of one child, so that a share's samplers are in the memory of one process, and a kernel
that runs away is killed with its process.

Exit status: 0 told to stop, 2 wrong arguments, 78 wrong settings, or the Redis server may drop keys or TLS
refuses it.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast
from uuid import uuid4

import numpy as np
import redis
from celery import Celery

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
from workers import celery_app
from workers.montecarlo.sampling import BatchSampler

ALIVE_TTL_S = 5
FORGOTTEN_S = 600
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

    def __init__(self, name: str, client: redis.Redis, keys: RedisKeys):
        super().__init__(name="heartbeat", daemon=True)
        self._name, self._keys, self._key, self._redis = name, keys, keys.sampler(name), client
        self._speaking = FederationVersion(client, keys)
        self._stopping = threading.Event()

    def run(self) -> None:
        """Announce the worker until ``stop`` is called."""
        while True:
            with suppress(redis.RedisError):
                self._speaking.announce(self._name)
                self._redis.set(self._key, os.getpid(), ex=ALIVE_TTL_S)
                self._register()
            if self._stopping.wait(_ANNOUNCE_S):
                return

    def _register(self) -> None:
        """Add this worker to the list of workers; remove those that have been silent for long."""
        name, now_s = self._keys.samplers, self._redis.time()[0]
        self._redis.zadd(name, {self._name: now_s})
        silent = cast("list[bytes]", self._redis.zrangebyscore(name, "-inf", now_s - FORGOTTEN_S))
        if silent:
            self._redis.zrem(name, *silent)

    def stop(self) -> None:
        """Stop the announcements, and remove this worker from the list at once."""
        self._stopping.set()
        with suppress(redis.RedisError):
            self._redis.delete(self._key)
            self._redis.zrem(self._keys.samplers, self._name)


def serve_batches(app: Celery, settings: Settings, name: str) -> None:
    """Register the task that samples Monte-Carlo batches for the worker ``name``."""
    sampler: list[BatchSampler] = []  # made in the pool's child, whose connections it holds

    def run_batch(message: dict[str, Any]) -> None:
        if not sampler:
            client = connect(str(settings.redis_url))
            sampler.append(BatchSampler(name, client, RedisKeys(settings.key_prefix), partial(ring, app)))
        sampler[0].run(Batch.model_validate(message, extra="ignore"))

    queues = [batch_queue(queue) for queue in (MONTECARLO, montecarlo_queue(name))]
    celery_app.register_task(app, BATCH, queues, run_batch, time_limit=BATCH_LIMIT_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the worker until it is told to stop; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m workers.montecarlo", description=__doc__)
    parser.add_argument(
        "--name", default=socket.gethostname(), help="name of this worker; letters that no other has follow"
    )
    name = f"{parser.parse_args(arguments).name}-{uuid4().hex[:8]}"
    celery_app.end_when_told()
    try:
        config = settings()
        app = celery_app.create_app(config)
        celery_app.require_safe_queue(config)
    except (SettingsError, UnsafeQueueError) as error:
        print(f"workers.montecarlo: {error}", file=sys.stderr)  # noqa: T201
        return os.EX_CONFIG
    serve_batches(app, config, name)
    warm_up()
    heartbeat = WorkerHeartbeat(name, connect(str(config.redis_url)), RedisKeys(config.key_prefix))
    try:
        return celery_app.run_worker(
            app,
            name=f"montecarlo.{name}",
            queues=[MONTECARLO, montecarlo_queue(name)],
            pool="prefork",
            when_ready=heartbeat.start,
        )
    finally:
        heartbeat.stop()
