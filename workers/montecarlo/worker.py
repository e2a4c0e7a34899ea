"""Monte-Carlo workers: one batch of samples after the other, from a cloud's recorded history.

A worker keeps its samplers in memory and feeds them only what is new; without one it starts from the
beginning of the history and gets the same bits. Nothing depends on which worker had what in memory.

``python -m workers.montecarlo [--name N]`` starts a worker: a prefork pool of one child, so that a share's
memory is in one place and a kernel that runs away is killed with its process.

Exit status: 0 told to stop, 2 wrong arguments, 78 the Redis server may drop keys or TLS refuses it.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np
import redis
import structlog
from kombu.exceptions import OperationalError

from broker.contract import Batch
from broker.doctor.redis import UnsafeQueueError
from broker.failpoints import Failpoint, failpoint
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from broker.storage.negotiation import FederationVersion
from cloudsim.history.event_log import START_ON_DEMAND, EventLog, HistoryChunk
from cloudsim.model.errors import CloudsimError
from cloudsim.model.nodes import NodeDetails
from cloudsim.model.requests import Amounts
from cloudsim.prediction.predictor import Sampler
from cloudsim.prediction.samplers.replay import SamplerSpec

MOST_SAMPLERS = 256
MOST_BYTES = 1 << 30
RESULT_TTL_S = 600
ALIVE_TTL_S = 5
FORGOTTEN_S = 600
_ANNOUNCE_S = 1.5

log = structlog.get_logger(__name__)


class SamplerCache:
    """Samplers and how many chunks each has been fed; the least recently used go first."""

    def __init__(self, most: int = MOST_SAMPLERS, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: OrderedDict[tuple[Any, ...], tuple[Sampler, int, int]] = OrderedDict()

    def take(self, batch: Batch) -> tuple[Sampler, int]:
        """The sampler of that share, and the chunks it has been fed; a new one when there is none that fits.

        It is no longer kept: one that breaks on the way must not be used again.
        """
        kept = self._kept.get(_key(batch))
        if kept is not None and kept[1] <= batch.chunks:
            del self._kept[_key(batch)]
            return kept[0], kept[1]
        return Sampler(_spec(batch), batch.cores, batch.share, batch.shares, _amounts(batch)), 0

    def keep(self, batch: Batch, sampler: Sampler) -> None:
        """Keeps it for the next refresh, unless a later one has been here (the batch came late)."""
        if _key(batch) in self._kept:
            return
        self._kept[_key(batch)] = (sampler, batch.chunks, _size_bytes(sampler))
        while len(self._kept) > self._most or (len(self._kept) > 1 and self._bytes() > self._most_bytes):
            self._kept.popitem(last=False)

    def _bytes(self) -> int:
        return sum(size for _, _, size in self._kept.values())


class MonteCarlo:
    """The child's side: carries out batches. ``ring(cloud)`` tells the owner that a result is there."""

    def __init__(self, name: str, client: redis.Redis, keys: RedisKeys, ring: Any):
        self._name, self._redis, self._keys, self._ring = name, client, keys, ring
        self._checkpoints = SamplerCache()

    def run(self, batch: Batch) -> None:
        """Makes the samples, puts them where the owner looks, and rings. What is there is not made again."""
        key = self._keys.batch(batch.result, batch.cores, batch.share)
        try:
            if not self._redis.hexists(key, "samples") and not self._make(batch, key):
                return
            self._ring(batch.cloud)
        except (redis.RedisError, OperationalError) as error:
            log.warning("batch lost", refresh=batch.refresh, why=str(error))  # its owner sends it again

    def _make(self, batch: Batch, key: str) -> bool:
        pipe = self._redis.pipeline()
        pipe.hincrby(key, "tries", 1)
        pipe.hset(key, "by", self._name)
        pipe.expire(key, RESULT_TTL_S)
        pipe.execute()
        sampler, fed = self._checkpoints.take(batch)
        name = self._keys.history(batch.cloud, batch.epoch)
        chunks = cast("list[bytes]", self._redis.lrange(name, fed, batch.chunks - 1))
        if fed + len(chunks) < batch.chunks:  # of an epoch that is over
            self._redis.delete(key)
            return False
        try:
            _feed(sampler, [HistoryChunk.from_bytes(chunk) for chunk in chunks])
        except (CloudsimError, ValueError):
            log.exception("batch refused", refresh=batch.refresh, cores=batch.cores)
            self._redis.hdel(key, "by")  # nobody is at it any more; the try counts
            return False
        self._checkpoints.keep(batch, sampler)
        failpoint(Failpoint.SAMPLER_MADE)
        self._redis.hset(key, "samples", sampler.samples().to_bytes())
        return True


def _feed(sampler: Sampler, chunks: Sequence[HistoryChunk]) -> None:
    if chunks:
        sampler.feed(EventLog.concatenate([chunk.events for chunk in chunks]), chunks[-1].until_s)


def _key(batch: Batch) -> tuple[Any, ...]:
    return (batch.cloud, batch.epoch, batch.cores, _amounts(batch), batch.share, batch.shares, _spec(batch))


def _spec(batch: Batch) -> SamplerSpec:
    labels = tuple(frozenset(one.items()) for one in batch.node_labels)
    return SamplerSpec(
        batch.node_cores,
        seed=batch.seed,
        births=batch.births,
        details=NodeDetails(tuple(sorted(batch.node_resources.items())), labels),
        lineup=batch.lineup,
        grace_s=batch.grace_s,
    )


def _amounts(batch: Batch) -> Amounts:
    return tuple(sorted(batch.amounts.items()))


def _size_bytes(value: Any) -> int:
    """Of all arrays that it holds."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    parts = (
        value
        if isinstance(value, tuple | list)
        else vars(value).values()
        if hasattr(value, "__dict__")
        else ()
    )
    return sum(_size_bytes(part) for part in parts)


# -- the worker process --------------------------------------------------------------------------------------


def warm_up() -> None:
    """Compiles the kernels, or loads them, before the pool's child is forked: it has no time for that.

    That of other line-ups than youngest-job-first compiles with the first batch that asks for it, in half a
    minute, once for all of them and for all workers of a machine.
    """
    # Late enough that there are replays before, and enough that these are compared.
    count = 256
    events = EventLog(
        np.linspace(80_000.0, 86_000.0, count),
        np.full(count, START_ON_DEMAND, np.int8),
        np.arange(count),
        np.ones(count, np.int64),
    )
    for cores in (1, 2):  # of one size with the events, and not
        Sampler(SamplerSpec((2, 2), seed=0, births=2), cores).feed(events, 86_400.0)


class Herald(threading.Thread):
    """Says every moment that this worker is alive, from the pool's main process."""

    def __init__(self, name: str, client: redis.Redis, keys: RedisKeys):
        super().__init__(name="herald", daemon=True)
        self._name, self._keys, self._key, self._redis = name, keys, keys.sampler(name), client
        self._speaking = FederationVersion(client, keys)
        self._stopping = threading.Event()

    def run(self) -> None:
        """Until ``stop``."""
        while True:
            with suppress(redis.RedisError):
                self._speaking.announce(self._name)
                self._redis.set(self._key, os.getpid(), ex=ALIVE_TTL_S)
                self._count_in()
            if self._stopping.wait(_ANNOUNCE_S):
                return

    def _count_in(self) -> None:
        """Among the workers that live; those that said nothing for long are taken out."""
        name, now_s = self._keys.samplers, self._redis.time()[0]
        self._redis.zadd(name, {self._name: now_s})
        gone = cast("list[bytes]", self._redis.zrangebyscore(name, "-inf", now_s - FORGOTTEN_S))
        if gone:
            self._redis.zrem(name, *gone)

    def stop(self) -> None:
        """From now on it is not alive."""
        self._stopping.set()
        with suppress(redis.RedisError):
            self._redis.delete(self._key)
            self._redis.zrem(self._keys.samplers, self._name)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m workers.montecarlo", description=__doc__)
    parser.add_argument(
        "--name", default=f"{socket.gethostname()}-{os.getpid()}", help="of this worker, unique"
    )
    name = parser.parse_args(arguments).name
    # These import Celery, which reads signal settings from the environment that they set.
    from broker.queue.celery_config import MONTECARLO, montecarlo_queue
    from broker.settings import SettingsError, settings
    from workers import celery_app

    try:
        app = celery_app.create(settings())
        celery_app.require_safe_queue(settings())
    except (SettingsError, UnsafeQueueError) as error:
        print(f"workers.montecarlo: {error}", file=sys.stderr)  # noqa: T201
        return os.EX_CONFIG
    celery_app.serve_batches(app, settings(), name)
    warm_up()
    herald = Herald(name, connect(str(settings().redis_url)), RedisKeys(settings().key_prefix))
    try:
        return celery_app.run(
            app, name=f"montecarlo.{name}", queues=[MONTECARLO, montecarlo_queue(name)], pool="prefork",
            when_ready=herald.start,
        )  # fmt: skip
    finally:
        herald.stop()
