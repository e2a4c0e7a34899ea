"""Case 11: eight prefork children, fifty batches, one seed: all batches differ pairwise, and the whole is
the same for any number of workers."""

from __future__ import annotations

import itertools
import multiprocessing
from typing import Any

import pytest
import redis

from broker.contract import Batch
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from cloudsim.history.event_log import HistoryChunk
from cloudsim.prediction.samples import Samples
from tests.integration.test_workers_montecarlo import CHUNKS
from workers.montecarlo.sampling import BatchSampler
from workers.montecarlo.worker import warm_up

KEYS = RedisKeys("c11:")
NODES = (16, 16)
BATCHES, SHARES = 50, 5


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    warm_up()  # as the pool's main process does before it forks


def history() -> list[bytes]:
    """Of a small busy cloud, up to its first refresh boundaries."""
    return [HistoryChunk(boundary_s, events).to_bytes() for boundary_s, events in CHUNKS]


def batches(seed: int = 7) -> list[Batch]:
    """Five of each of ten sizes."""
    return [
        Batch(
            cloud="A",
            epoch=1,
            refresh=f"s{seed}",
            chunks=len(CHUNKS),
            cores=cores,
            share=share,
            shares=SHARES,
            node_cores=NODES,
            seed=seed,
            births=100,
        )
        for cores, share in itertools.product(range(1, BATCHES // SHARES + 1), range(SHARES))
    ]


_child: list[BatchSampler] = []


def _begin(url: str, names: Any) -> None:
    """In the child, after the fork: a worker on a connection of its own."""
    _child.append(BatchSampler(f"child-{names.get()}", connect(url), KEYS, lambda _: None))


def _make(batch: Batch) -> None:
    _child[0].run(batch)


def made(url: str, client: redis.Redis, wanted: list[Batch], children: int) -> dict[tuple[int, ...], bytes]:
    """Samples by seed, cores and share, made by so many forked processes."""
    client.flushall()
    client.rpush(KEYS.history("A", 1), *history())
    fork = multiprocessing.get_context("fork")
    names = fork.SimpleQueue()
    for number in range(children):
        names.put(number)
    with fork.Pool(children, _begin, (url, names)) as pool:
        pool.map(_make, wanted, chunksize=1)
    found: dict[tuple[int, ...], bytes] = {}
    by = set()
    for one in wanted:
        data, who = client.hmget(KEYS.batch(one.result, one.cores, one.share), ["samples", "by"])
        assert isinstance(data, bytes), one
        found[one.seed, one.cores, one.share] = data
        by.add(who)
    assert len(by) <= children
    return found


@pytest.fixture
def server(redis_url: str, redis_client: redis.Redis) -> tuple[str, redis.Redis]:
    return redis_url, redis_client


def drawn(data: bytes) -> bytes:
    """When its virtual instances were born: what the random numbers decide."""
    samples = Samples.from_bytes(data)
    assert len(samples.birth_s)
    return samples.birth_s.tobytes()


def test_eight_children_fifty_batches_one_seed_all_differ(server: tuple[str, redis.Redis]) -> None:
    found = made(*server, batches(), 8)
    assert len(found) == BATCHES
    assert len(set(found.values())) == BATCHES
    # Not merely by their labels: the numbers of two shares of one size differ too.
    for cores, group in itertools.groupby(sorted(found), key=lambda key: key[1]):
        numbers = {drawn(found[key]) for key in group}
        assert len(numbers) == SHARES, f"{cores} cores"


def test_the_whole_is_the_same_for_any_number_of_workers(server: tuple[str, redis.Redis]) -> None:
    whole = [made(*server, batches(), children) for children in (1, 2, 8)]
    assert whole[0] == whole[1] == whole[2]


@pytest.mark.parametrize("order", ["reversed", "twice"])
def test_order_and_repetition_change_nothing(server: tuple[str, redis.Redis], order: str) -> None:
    wanted = batches()[:20]
    told = wanted[::-1] if order == "reversed" else wanted + wanted
    assert made(*server, told, 4) == made(*server, wanted, 2)


def test_another_seed_gives_other_numbers(server: tuple[str, redis.Redis]) -> None:
    one, other = (made(*server, batches(seed)[:20], 3) for seed in (7, 1007))
    assert not {drawn(data) for data in one.values()} & {drawn(data) for data in other.values()}
