"""Which worker is to make which batch, by what each took."""

from __future__ import annotations

from collections import Counter

from workers.owner.worker_pool import BatchKey, WorkerPool

BATCHES: list[BatchKey] = [((cores, ()), 0) for cores in range(1, 13)]


def pool(took_s: dict[str, float], made: dict[str, int]) -> WorkerPool:
    """A pool in which each worker has made so many batches, in that many seconds each."""
    workers = WorkerPool()
    batches = iter(BATCHES)
    for worker, count in made.items():
        for _ in range(count):
            batch = next(batches)
            workers.note(batch, worker, 10 * took_s[worker], from_start=True)
            workers.note(batch, worker, took_s[worker], from_start=False)
    return workers


def shares(workers: WorkerPool, **slots: int) -> Counter[str]:
    plan = workers.allot(BATCHES, slots)
    assert plan.keys() == set(BATCHES)
    return Counter(plan.values())


def test_batches_are_spread_while_nothing_is_known() -> None:
    assert shares(WorkerPool(), a=1, b=1, c=1) == {"a": 4, "b": 4, "c": 4}
    assert shares(WorkerPool(), a=1, b=3) == {"a": 3, "b": 9}


def test_a_batch_stays_with_the_worker_that_made_it_last() -> None:
    workers = pool({"a": 1.0, "b": 1.1}, {"a": 7, "b": 5})
    plan = workers.allot(BATCHES, {"a": 1, "b": 1})
    assert all(workers.last_worker(batch) == worker for batch, worker in plan.items())


def test_a_worker_that_comes_gets_its_part_and_nothing_else_moves() -> None:
    workers = pool({"a": 1.0, "b": 1.0}, {"a": 6, "b": 6})
    plan = workers.allot(BATCHES, {"a": 1, "b": 1, "c": 1})
    assert Counter(plan.values()) == {"a": 4, "b": 4, "c": 4}
    assert all(worker in {workers.last_worker(batch), "c"} for batch, worker in plan.items())


def test_the_batches_of_a_worker_that_left_go_to_the_others() -> None:
    workers = pool({"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 4, "b": 4, "c": 4})
    plan = workers.allot(BATCHES, {"a": 1, "b": 1})
    assert Counter(plan.values()) == {"a": 6, "b": 6}
    assert all(plan[batch] == workers.last_worker(batch) for batch in BATCHES[:8])


def test_a_slow_worker_loses_batches_until_its_part_takes_as_long_as_that_of_others() -> None:
    workers = pool({"fast": 1.0, "slow": 4.0}, {"fast": 6, "slow": 6})
    assert shares(workers, fast=1, slow=1)["slow"] == 4
    for batch, worker in workers.allot(BATCHES, {"fast": 1, "slow": 1}).items():
        workers.note(batch, worker, 1.0 if worker == "fast" else 4.0, from_start=False)
    assert shares(workers, fast=1, slow=1)["slow"] == 3


def test_nothing_moves_to_and_fro_where_batches_cannot_be_divided() -> None:
    workers = pool({"a": 1.0, "b": 1.2}, {"a": 2, "b": 1})
    three = BATCHES[:3]
    before = {batch: workers.last_worker(batch) for batch in three}
    assert workers.allot(three, {"a": 1, "b": 1}) == before
    for batch in three:
        workers.note(batch, workers.last_worker(batch) or "", 0.8, from_start=False)
    assert workers.allot(three, {"a": 1, "b": 1}) == before
    # One that takes longer than all others together stays, too.
    workers.note(three[0], "a", 9.0, from_start=False)
    assert workers.allot(three, {"a": 1, "b": 1})[three[0]] == "a"


def test_a_batch_is_begun_from_the_start_elsewhere_if_that_is_sooner() -> None:
    workers = pool({"a": 1.0}, {"a": 3})
    assert workers.pays_to_move(BATCHES[0], 11.0)
    assert not workers.pays_to_move(BATCHES[0], 9.0)
    assert workers.pays_to_move(BATCHES[5], 0.1), "nobody has made it yet"
