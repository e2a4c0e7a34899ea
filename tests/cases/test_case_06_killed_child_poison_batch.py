"""Case 6: kill −9 in batch 7 of 100, and a batch that always breaks its worker: batch 7 runs again, the
poison batch is given up after N tries, the table comes from what came or keeps the old samples. Never a hang.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
import redis

from broker.contract import Batch
from broker.journal.dead_letters import DeadLetterKind
from broker.journal.journal import Journal
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from cloudsim.prediction.tables import QuantileTable
from tests.integration.test_workers_montecarlo import CHUNKS
from workers.montecarlo import sampling
from workers.montecarlo.sampling import BatchSampler
from workers.montecarlo.worker import warm_up
from workers.owner.table_refresh import LONGEST_DEADLINE_S, MOST_TRIES, Refresher, Sampling

KEYS = RedisKeys("c6:")
BATCHES = 100
NODES = (BATCHES,)
_FORK = multiprocessing.get_context("fork")

Fate = Callable[[Batch, int], None]


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    warm_up()


def _work(url: str, name: str, batches: list[Batch], fate: Fate) -> None:
    """A worker process: one batch after the other, until it is killed. ``fate`` strikes within a batch."""
    feed = sampling.feed_chunks
    at: list[Any] = [None, 0]

    def struck(sampler: Any, chunks: Any) -> None:
        fate(*at)
        feed(sampler, chunks)

    sampling.feed_chunks = struck
    with connect(url) as client:
        worker = BatchSampler(name, client, KEYS, lambda _: None)
        for number, batch in enumerate(batches, 1):
            at[:] = batch, number
            try:
                worker.run(batch)
            except MemoryError:
                continue  # as Celery does: the task failed, the next one comes


class Scene:
    """An owner's refresher on a clock of its own, and worker processes that come back when they died."""

    def __init__(self, url: str, client: redis.Redis):
        self.url, self.client, self.now_s, self.deaths, self.starts = url, client, 0.0, 0, 0
        self.queue: list[Batch] = []
        self.sent: list[Batch] = []
        self.journal = Journal(client, KEYS, "A")
        self.refresher = Refresher(
            Sampling("A", 1, NODES, seed=3, births=20),
            self.journal,
            lambda _, batch: self.queue.append(batch),
            lambda: self.now_s,
        )

    def refresh(self, number: int, fate: Fate, sizes: range = range(1, BATCHES + 1)) -> QuantileTable:
        """Begins a refresh and lets time pass until there is a table. Bounded: it is never a hang."""
        boundary_s, events = CHUNKS[number]
        self.refresher.begin(boundary_s, sizes, events)
        for _ in range(40):
            table = self.refresher.step()
            if table is not None:
                return table
            batches, self.queue = self.queue, []
            self.sent += batches
            if batches:
                self.run(batches, fate)
            self.now_s += LONGEST_DEADLINE_S
        raise AssertionError("it hangs")

    def run(self, batches: list[Batch], fate: Fate) -> None:
        """One worker process; what was in its hands when it died is lost with it, the rest stays queued."""
        self.starts += 1
        process = _FORK.Process(target=_work, args=(self.url, f"w{self.starts}", batches, fate))
        process.start()
        process.join(60)
        assert process.exitcode is not None
        if process.exitcode == -signal.SIGKILL:
            self.deaths += 1
            begun = [batch for batch in batches if self.tries(batch)]
            if len(begun) < len(batches):
                self.run(batches[len(begun) :], fate)

    def tries(self, batch: Batch) -> int:
        return int(self.client.hget(KEYS.batch(batch.result, batch.cores, batch.share), "tries") or 0)


@pytest.fixture
def scene(redis_url: str, redis_client: redis.Redis) -> Scene:
    return Scene(redis_url, redis_client)


def nothing(_: Batch, __: int) -> None:
    pass


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def out_of_memory(*_: object) -> None:
    raise MemoryError


def refused(*_: object) -> None:
    raise ValueError("no such history")


@pytest.mark.parametrize("number", [1, 7, BATCHES])
def test_a_batch_whose_worker_is_killed_runs_again(scene: Scene, number: int) -> None:
    def fate(batch: Batch, _: int) -> None:
        # Once: when it runs again, the try before is counted.
        if batch.cores == number and scene.tries(batch) == 1:
            die()

    table = scene.refresh(0, fate)
    assert scene.deaths == 1
    assert len(scene.sent) == BATCHES + 1
    assert scene.sent[-1].cores == number
    assert len(table.sizes) == BATCHES
    quiet = Scene(scene.url, scene.client)
    scene.client.flushall()
    assert quiet.refresh(0, nothing).version == table.version, "the same table as if nobody had died"
    assert scene.journal.dead_letters.count() == 0


@pytest.mark.parametrize(("poison", "size"), [(die, 7), (out_of_memory, 50), (refused, BATCHES)])
def test_a_poison_batch_is_given_up_and_the_table_comes_from_the_others(
    scene: Scene, poison: Callable[..., None], size: int
) -> None:
    def fate(batch: Batch, _: int) -> None:
        if batch.cores == size:
            poison()

    table = scene.refresh(0, fate)
    assert sum(batch.cores == size for batch in scene.sent) == MOST_TRIES
    assert not table.has(size), "nothing is promised of a size without samples"
    assert len(table.sizes) == BATCHES - 1
    (letter,) = scene.journal.dead_letters.letters()
    assert letter.kind is DeadLetterKind.BATCH
    assert f"begun {MOST_TRIES} times" in letter.why
    assert Batch.model_validate_json(letter.body).cores == size


@pytest.mark.parametrize("poison", [die, out_of_memory])
def test_a_size_that_is_given_up_keeps_the_samples_that_it_had(
    scene: Scene, poison: Callable[..., None]
) -> None:
    sizes = range(1, 6)
    old = scene.refresh(0, nothing, sizes)

    def fate(batch: Batch, _: int) -> None:
        if batch.cores == 3:
            poison()

    table = scene.refresh(1, fate, sizes)
    assert list(table.sizes) == list(sizes)
    assert table.samples[3, ()] == old.samples[3, ()]
    assert table.samples[3, ()].until_s == CHUNKS[0][0], "and says until when they were followed: stale"
    assert table.samples[2, ()].until_s == CHUNKS[1][0]
    fresh = scene.refresh(2, nothing, sizes)
    assert fresh.samples[3, ()].until_s == CHUNKS[2][0], "the next refresh asks for it anew"


def test_when_every_batch_is_poison_there_is_a_table_all_the_same(scene: Scene) -> None:
    table = scene.refresh(0, out_of_memory, range(1, 4))
    assert list(table.sizes) == []
    assert scene.journal.dead_letters.count() == 3
