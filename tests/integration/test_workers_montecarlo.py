"""Refreshes on a real server, with Monte-Carlo workers in this process: who makes what, and what is lost."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable

import numpy as np
import pytest
import redis

from broker.contract import Batch
from broker.journal.journal import Journal
from broker.queue.celery_config import MONTECARLO, montecarlo_queue
from broker.storage.keys import RedisKeys
from cloudsim.cloud.spec import sampler_spec
from cloudsim.history.event_log import EventLog
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.lineups import PARTIAL_HOUR, LineUp, lineup
from tests.unit.cloudsim.prediction.clouds import lived
from tests.unit.workers.owners import Live, load, spec
from workers.montecarlo.sampling import BatchSampler, SamplerCache
from workers.owner import table_refresh as refresh
from workers.owner.table_refresh import FIRST_DEADLINE_S, MOST_TRIES, Refresher, Sampling

NODES = (4, 4)
HOUR_S = 3600.0
BOUNDARIES = (24 * HOUR_S, 30 * HOUR_S, 36 * HOUR_S)


def history() -> list[tuple[float, EventLog]]:
    """Chunks of the history of a small busy cloud."""
    rng = np.random.default_rng(5)
    starts = np.sort(rng.uniform(0, 40 * HOUR_S, 400)).round()
    rows = [(s, s + float(rng.integers(60, 4000)), int(rng.integers(1, 5))) for s in starts.tolist()]
    live = Live(spec(NODES, own_load=load(*rows)))
    live.advance(40 * HOUR_S)
    return [(boundary, live.owner.cloud.history.cut(boundary)) for boundary in BOUNDARIES]


CHUNKS = history()


class Bench:
    """A refresher, workers, and the queues between them."""

    def __init__(
        self,
        client: redis.Redis,
        workers: int = 1,
        births: int = 300,
        sampling: Sampling | None = None,
    ):
        self.keys = RedisKeys("mc:")
        self.client = client
        self.now_s = 0.0
        self.queue: deque[tuple[str, Batch]] = deque()
        self.journal = Journal(client, self.keys, "A")
        self.refresher = Refresher(
            sampling or Sampling("A", 1, NODES, seed=9, births=births),
            self.journal,
            lambda name, batch: self.queue.append((name, batch)),
            lambda: self.now_s,
        )
        self.rung: list[str] = []
        self.workers = {name: self.worker(name) for name in (f"w{number}" for number in range(workers))}
        self.sent: list[tuple[str, Batch]] = []
        self.made: Counter[str] = Counter()

    def worker(self, name: str) -> BatchSampler:
        self.client.set(self.keys.sampler(name), '{"slots": 1}')
        self.client.zadd(self.keys.samplers, {name: 1})
        return BatchSampler(name, self.client, self.keys, self.rung.append)

    def leave(self, name: str) -> None:
        self.client.delete(self.keys.sampler(name))
        self.client.zrem(self.keys.samplers, name)
        del self.workers[name]

    def begin(self, number: int, sizes: tuple[int, ...] = (1, 2, 4)) -> QuantileTable | None:
        boundary_s, events = CHUNKS[number]
        self.refresher.begin(boundary_s, sizes, events)
        return self.refresher.step()

    def deliver(self) -> list[tuple[str, Batch]]:
        """Takes what has been sent off the queue, undone."""
        taken = list(self.queue)
        self.queue.clear()
        self.sent += taken
        return taken

    def work(self) -> QuantileTable:
        """Lets the workers do all there is: what is sent to one, that one, and what is for all, in turn."""
        turn = itertools.cycle(self.workers)
        self.made.clear()
        table = None
        while table is None:
            delivered = self.deliver()
            assert delivered
            for queue, batch in delivered:
                name = next(turn) if queue == MONTECARLO else queue.removeprefix(f"{MONTECARLO}.")
                if name in self.workers:
                    self.made[name] += 1
                    self.workers[name].run(batch)
            table = self.refresher.step()
        assert not self.refresher.busy
        return table


Make = Callable[..., Bench]


@pytest.fixture
def make(redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Make:
    """All batches take half a second."""
    monkeypatch.setattr("workers.montecarlo.sampling.perf_counter", itertools.count(0.0, 0.5).__next__)
    return lambda **options: Bench(redis_client, **options)


def expected(number: int, births: int = 300) -> QuantileTable:
    """The same table, made in one piece."""
    predictor = LocalPredictor(SamplerSpec(NODES, seed=9, births=births), (1, 2, 4))
    tables = [predictor.table(events, boundary_s) for boundary_s, events in CHUNKS[: number + 1]]
    return tables[-1]


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_the_whole_is_the_same_for_any_number_of_workers(
    make: Make, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "BIRTHS_A_SHARE", 100)  # three batches a size
    bench = make(workers=workers)
    for number in range(len(CHUNKS)):
        bench.begin(number)
        assert bench.work().version == expected(number).version
    assert len(bench.sent) == 9 * len(CHUNKS)


def test_no_two_batches_hold_the_same_numbers(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "BIRTHS_A_SHARE", 100)
    bench = make()
    bench.begin(0)
    results = []
    table = None
    while table is None:
        for _, batch in bench.deliver():
            bench.workers["w0"].run(batch)
            key = bench.keys.batch(batch.refresh, batch.cores, batch.share)
            results.append(bench.client.hget(key, "samples"))
        table = bench.refresher.step()
    assert len(set(results)) == len(results) == 9


def test_a_worker_without_the_checkpoint_makes_the_same_bits(make: Make) -> None:
    bench = make()
    for number in range(len(CHUNKS)):
        bench.workers[f"new{number}"] = bench.worker(f"new{number}")
        bench.leave(next(iter(bench.workers)))
        bench.begin(number)
        assert bench.work().version == expected(number).version


def sent_to(bench: Bench) -> dict[int, str]:
    """To which queue each size went."""
    return {batch.cores: name for name, batch in bench.sent}


def test_a_batch_goes_to_whom_made_it_last_while_that_one_lives(make: Make) -> None:
    bench = make(workers=2)
    bench.begin(0)
    bench.work()
    first = sent_to(bench)
    assert set(first.values()) == {montecarlo_queue("w0"), montecarlo_queue("w1")}
    bench.begin(1)
    bench.work()
    assert sent_to(bench) == first
    bench.leave("w1")
    bench.begin(2)
    bench.work()
    assert set(sent_to(bench).values()) == {montecarlo_queue("w0")}


def test_batches_are_for_all_while_no_worker_is_known(make: Make) -> None:
    bench = make(workers=0)
    bench.begin(0)
    assert [name for name, _ in bench.queue] == [MONTECARLO] * 3


def test_a_worker_that_comes_gets_its_part_of_the_next_refresh_and_one_that_leaves_loses_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "BIRTHS_A_SHARE", 100)  # nine batches
    monkeypatch.setattr(
        "workers.montecarlo.sampling.perf_counter", itertools.count().__next__
    )  # of one length
    bench = make(workers=1)
    bench.begin(0)
    bench.work()
    assert bench.made == {"w0": 9}
    bench.workers |= {name: bench.worker(name) for name in ("w1", "w2")}
    bench.begin(1)
    bench.work()
    assert bench.made == {"w0": 3, "w1": 3, "w2": 3}
    bench.leave("w2")
    bench.begin(2)
    assert bench.work().version == expected(2).version
    assert sorted(bench.made.values()) == [4, 5]


def test_what_waits_in_the_queue_of_a_worker_that_leaves_goes_to_the_next_that_is_free(make: Make) -> None:
    bench = make(workers=3)
    bench.begin(0)
    delivered = dict(bench.deliver())
    bench.leave("w2")
    bench.now_s = 1.0
    bench.workers["w0"].run(delivered[montecarlo_queue("w0")])
    bench.refresher.step()
    assert list(bench.queue) == [(montecarlo_queue("w0"), delivered[montecarlo_queue("w2")])]


def test_a_worker_that_has_nothing_left_takes_from_one_that_is_stuck(make: Make) -> None:
    bench = make(workers=1)
    for number in (0, 1):
        bench.begin(number)
        bench.work()
    bench.begin(2)
    assert len(bench.deliver()) == 2, "one that it works at, and one to come"
    bench.workers["w1"] = bench.worker("w1")
    bench.now_s = 5.0  # longer than any batch takes from the start
    bench.refresher.step()
    assert [name for name, _ in bench.queue] == [montecarlo_queue("w1")]


def test_what_does_not_come_is_sent_again_ever_less_often(make: Make) -> None:
    bench = make()
    bench.begin(0, sizes=(1,))
    times = []
    for second in range(200):
        bench.now_s = float(second)
        bench.refresher.step()
        times += [second] * len(bench.deliver())
    assert times == [0, 10, 30, 70, 150]
    bench.queue.append(bench.sent[0])
    assert bench.work().version


def test_a_worker_that_is_at_it_is_waited_for_but_not_for_ever(make: Make) -> None:
    bench = make()
    bench.begin(0, sizes=(1,))
    ((_, batch),) = bench.deliver()
    key = bench.keys.batch(batch.refresh, 1, 0)
    bench.client.hset(key, mapping={"by": "w0", "tries": 1})
    bench.refresher.step()
    bench.now_s = FIRST_DEADLINE_S
    bench.refresher.step()
    bench.now_s = 3 * FIRST_DEADLINE_S
    bench.refresher.step()
    assert not bench.queue
    bench.now_s = 7 * FIRST_DEADLINE_S
    bench.refresher.step()
    assert [name for name, _ in bench.queue] == [MONTECARLO]


@pytest.mark.parametrize(
    ("line_up", "births"),
    [(PARTIAL_HOUR, 300), (lineup('{"weighers": {"last-nodes": 1, "most-free-cores": 1}}'), 20)],
    ids=["compiled", "plain"],
)
def test_a_cloud_samples_by_its_own_line_up_its_resources_and_its_grace(
    make: Make, line_up: LineUp, births: int
) -> None:
    cloud = lived((8, 8, 6), line_up, 1, grace_s=60.0)
    spec, flavours = cloud.spec, [(1, ()), (2, (("memory_mb", 4),)), (2, (("memory_mb", 7),))]
    sampling = Sampling(
        "A",
        1,
        spec.node_cores,
        9,
        births,
        details=spec.details,
        lineup=spec.lineup.name,
        grace_s=spec.grace_s,
    )
    bench = make(workers=2, sampling=sampling)
    predictor = LocalPredictor(sampler_spec(spec, 9, births), flavours)
    for boundary_s in (cloud.now_s / 2, cloud.now_s):
        events = cloud.history.cut(boundary_s)
        bench.refresher.begin(boundary_s, flavours, events)
        bench.refresher.step()
        table, whole = bench.work(), predictor.table(events, boundary_s)
        assert table.version == whole.version
    assert table.has(2, (("memory_mb", 7),))
    assert np.any(table.samples[1, ()].evicted)


def test_a_batch_that_kills_its_workers_is_given_up_and_its_size_keeps_what_it_had(make: Make) -> None:
    bench = make(workers=2)
    bench.begin(0)
    old = bench.work()
    bench.begin(1)
    (_, first), *others = bench.deliver()
    while others:
        for _, batch in others:
            bench.workers["w1"].run(batch)
        assert bench.refresher.step() is None
        others = bench.deliver()
    key = bench.keys.batch(first.refresh, first.cores, first.share)
    bench.client.hset(key, mapping={"by": "gone", "tries": MOST_TRIES})
    bench.refresher.step()
    bench.now_s = FIRST_DEADLINE_S
    table = bench.refresher.step()
    assert table is not None
    assert table.made_at_s == BOUNDARIES[1]
    assert table.samples[1, ()] == old.samples[1, ()]
    assert table.samples[2, ()] == expected(1).samples[2, ()]


def test_batches_of_an_epoch_that_is_over_are_dropped_quietly(make: Make) -> None:
    bench = make()
    bench.begin(0, sizes=(1,))
    ((_, batch),) = bench.deliver()
    bench.client.delete(bench.keys.history("A", 1))
    bench.workers["w0"].run(batch)
    assert bench.rung == []
    bench.now_s = FIRST_DEADLINE_S
    bench.refresher.step()  # its owner is there after all: the history is written again, the batch sent again
    assert bench.work().version


def test_a_repeated_batch_is_not_made_again_and_a_broken_result_is(make: Make) -> None:
    bench = make()
    bench.begin(0, sizes=(1,))
    ((_, batch),) = bench.deliver()
    key = bench.keys.batch(batch.refresh, 1, 0)
    bench.workers["w0"].run(batch)
    bench.workers["w0"].run(batch)
    assert bench.rung == ["A", "A"]
    assert bench.client.hget(key, "tries") == b"1"
    bench.client.hset(key, "samples", b"broken")
    assert bench.refresher.step() is None
    bench.workers["w0"].run(batch)
    table = bench.refresher.step()
    assert table is not None
    bench.workers["w0"].run(batch)  # late: harmless
    assert bench.refresher.step() is None


def test_checkpoints_go_when_there_are_too_many() -> None:
    kept = SamplerCache(most=2)
    same = {"cloud": "A", "epoch": 1, "refresh": "x", "chunks": 1, "share": 0, "shares": 1}
    one = Batch.model_validate(same | {"cores": 1, "node_cores": NODES, "seed": 0, "births": 9})
    batches = [one.model_copy(update={"cores": cores}) for cores in (1, 2, 3)]
    for batch in batches:
        sampler, _ = kept.take(batch)
        kept.keep(batch, sampler)
    assert [kept.take(batch)[1] for batch in batches] == [0, 1, 1]
    assert kept.take(batches[1])[1] == 0  # taken, and not given back


def test_a_late_batch_does_not_cost_the_checkpoint(make: Make) -> None:
    bench = make()
    bench.begin(0, sizes=(1,))
    bench.work()
    bench.begin(1, sizes=(1,))
    bench.work()
    worker = bench.workers["w0"]
    worker.run(bench.sent[0][1])
    assert worker._samplers.take(bench.sent[1][1])[1] == 2


def test_a_worker_that_died_at_it_is_not_waited_for(make: Make) -> None:
    bench = make()
    bench.begin(0, sizes=(1,))
    ((_, batch),) = bench.deliver()
    bench.client.hset(bench.keys.batch(batch.refresh, 1, 0), mapping={"by": "w0", "tries": 1})
    bench.client.delete(bench.keys.sampler("w0"))
    bench.refresher.step()
    bench.now_s = FIRST_DEADLINE_S
    bench.refresher.step()
    assert [name for name, _ in bench.queue] == [MONTECARLO]


def test_what_is_in_the_queue_behind_a_batch_that_is_worked_at_is_not_sent_twice(make: Make) -> None:
    bench = make(workers=0)
    bench.begin(0)
    bench.workers = {name: bench.worker(name) for name in ("w0", "w1")}
    first, second, third = (batch for _, batch in bench.deliver())
    bench.client.hset(bench.keys.batch(first.refresh, 1, 0), mapping={"by": "w0", "tries": 1})
    bench.refresher.step()
    for bench.now_s in (FIRST_DEADLINE_S, 3 * FIRST_DEADLINE_S):
        bench.refresher.step()
        assert not bench.queue
    bench.workers["w1"].run(second)  # the queue moves: patience begins anew
    for bench.now_s in (7 * FIRST_DEADLINE_S, 15 * FIRST_DEADLINE_S):
        bench.refresher.step()
        assert not bench.queue
    bench.now_s = 31 * FIRST_DEADLINE_S
    bench.refresher.step()
    assert {batch.cores for _, batch in bench.deliver()} == {first.cores, third.cores}


def test_sizes_are_split_only_where_they_are_too_few_for_the_workers(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "BIRTHS_A_SHARE", 100)
    few, enough = make(workers=0), make(workers=0)
    few.begin(0, sizes=(4, 1))
    enough.begin(0, sizes=(4, 1, 3, 2))
    assert [(batch.cores, batch.share, batch.shares) for _, batch in few.queue] == [
        (cores, share, 3) for cores in (1, 4) for share in range(3)
    ]
    assert [(batch.cores, batch.share, batch.shares) for _, batch in enough.queue] == [
        (cores, 0, 1) for cores in (1, 2, 3, 4)
    ]
