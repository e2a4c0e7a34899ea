"""Make the samples of Monte-Carlo batches from a cloud's recorded history."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, cast

import numpy as np
import redis
import structlog
from kombu.exceptions import OperationalError

from broker.contract import Batch
from broker.failpoints import Failpoint, failpoint
from broker.storage.keys import RedisKeys
from cloudsim.history.event_log import EventLog, HistoryChunk
from cloudsim.model.errors import CloudsimError
from cloudsim.model.nodes import NodeDetails
from cloudsim.model.requests import Amounts
from cloudsim.prediction.predictor import Sampler
from cloudsim.prediction.samplers.replay import SamplerSpec

#: The largest number of samplers that a worker keeps, and the bytes that they may take together.
MOST_SAMPLERS = 256
MOST_BYTES = 1 << 30
#: Seconds for which Redis keeps the samples of a batch.
RESULT_TTL_S = 600

log = structlog.get_logger(__name__)


class SamplerCache:
    """Keeps samplers and how many chunks of history each has been fed; drops the least recently used first.

    Nothing depends on which worker has which sampler: a new one starts from the beginning of the history and
    gives the same bits.
    """

    def __init__(self, most: int = MOST_SAMPLERS, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._entries: OrderedDict[tuple[Any, ...], tuple[Sampler, int, int]] = OrderedDict()

    def take(self, batch: Batch) -> tuple[Sampler, int]:
        """Remove and return the sampler of a batch's share, and the number of chunks that it has been fed.

        It is new when there is none that fits. One that breaks while it is used is lost, as it should be.
        """
        entry = self._entries.get(_key(batch))
        if entry is not None and entry[1] <= batch.chunks:
            del self._entries[_key(batch)]
            return entry[0], entry[1]
        return Sampler(_spec(batch), batch.cores, batch.share, batch.shares, _amounts(batch)), 0

    def keep(self, batch: Batch, sampler: Sampler) -> None:
        """Keep the sampler for the next refresh, unless a later refresh has kept one meanwhile."""
        if _key(batch) in self._entries:
            return
        self._entries[_key(batch)] = (sampler, batch.chunks, _size_bytes(sampler))
        while len(self._entries) > self._most or (
            len(self._entries) > 1 and self._bytes() > self._most_bytes
        ):
            self._entries.popitem(last=False)

    def _bytes(self) -> int:
        return sum(size for _, _, size in self._entries.values())


class BatchSampler:
    """Makes the samples of batches, in the child of the worker's pool."""

    def __init__(self, name: str, client: redis.Redis, keys: RedisKeys, ring: Callable[[str], object]):
        """Take the worker's name, and ``ring(cloud)``, which tells an owner that samples are there."""
        self._name, self._redis, self._keys, self._ring = name, client, keys, ring
        self._samplers = SamplerCache()

    def run(self, batch: Batch) -> None:
        """Make the samples of a batch unless they exist, store them for its owner and ring for it."""
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
        began_s = perf_counter()
        sampler, fed = self._samplers.take(batch)
        name = self._keys.history(batch.cloud, batch.epoch)
        chunks = cast("list[bytes]", self._redis.lrange(name, fed, batch.chunks - 1))
        if fed + len(chunks) < batch.chunks:  # the epoch is over
            self._redis.delete(key)
            return False
        try:
            feed_chunks(sampler, [HistoryChunk.from_bytes(chunk) for chunk in chunks])
        except (CloudsimError, ValueError):
            log.exception("batch refused", refresh=batch.refresh, cores=batch.cores)
            self._redis.hdel(key, "by")  # no worker has it any more; the try counts
            return False
        self._samplers.keep(batch, sampler)
        failpoint(Failpoint.SAMPLER_MADE)
        made = {"samples": sampler.samples().to_bytes(), "took_s": perf_counter() - began_s, "fed": fed}
        self._redis.hset(key, mapping=cast("dict[Any, Any]", made))
        return True


def feed_chunks(sampler: Sampler, chunks: Sequence[HistoryChunk]) -> None:
    """Feed the sampler all events of the chunks."""
    if chunks:
        sampler.feed(EventLog.concatenate([chunk.events for chunk in chunks]), chunks[-1].until_s)


def _key(batch: Batch) -> tuple[Any, ...]:
    return (batch.cloud, batch.epoch, batch.cores, _amounts(batch), batch.share, batch.shares, _spec(batch))


def _spec(batch: Batch) -> SamplerSpec:
    labels = tuple(frozenset(node.items()) for node in batch.node_labels)
    return SamplerSpec(
        batch.node_cores,
        seed=batch.seed,
        births=batch.births,
        details=NodeDetails(tuple(sorted(batch.node_resources.items())), labels),
        lineup=batch.lineup,
        grace_s=batch.grace_s,
        predictor=batch.predictor,
    )


def _amounts(batch: Batch) -> Amounts:
    return tuple(sorted(batch.amounts.items()))


def _size_bytes(value: Any, seen: set[int] | None = None) -> int:
    """Add up the sizes of all arrays within a value; samplers of packages may hold anything, also cycles."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, type):
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        value = list(value.values())
    elif not isinstance(value, tuple | list):
        value = list(getattr(value, "__dict__", {}).values())
    return sum(_size_bytes(part, seen) for part in value)
