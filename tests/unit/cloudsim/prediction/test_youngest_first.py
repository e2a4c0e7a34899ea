"""The compiled replay against its plain reference, in plain Python, on random small clouds."""

import numpy as np
import pytest

from cloudsim.history.event_log import START_ON_DEMAND, START_SPOT, STOP, EventLog
from cloudsim.prediction import history_chunks
from cloudsim.prediction.births import BirthGrid
from cloudsim.prediction.kernels import youngest_first as kernel
from cloudsim.prediction.kernels.replays import empty_replays, resize_replays
from cloudsim.prediction.samplers import replay
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from cloudsim.prediction.samples import Samples
from tests.support.reference import youngest_first as reference
from tests.unit.cloudsim.prediction.clouds import DAY_S, part, random_log, random_nodes

CLOUDS = 150


def assert_equals_reference(result: Samples, node_cores: tuple[int, ...], log: EventLog, told: str):
    for number, birth_s, free_slots, duration_s, evicted in zip(
        result.number.tolist(),
        result.birth_s.tolist(),
        result.free_slots.tolist(),
        result.duration_s.tolist(),
        result.evicted.tolist(),
        strict=True,
    ):
        expected = reference.replay(node_cores, log, result.until_s, result.cores, birth_s)
        assert expected == reference.ReferenceSample(free_slots, duration_s, evicted), (
            f"{told}, sample {number}"
        )


@pytest.mark.parametrize("chunk_events", [1, 7, 256])
@pytest.mark.parametrize("seed", range(2))
def test_random_clouds(seed: int, chunk_events: int, monkeypatch: pytest.MonkeyPatch):
    """Small chunks make every replay cross chunks, and meet others in the same state, many times."""
    monkeypatch.setattr(history_chunks, "EVENTS_A_CHUNK", chunk_events)
    monkeypatch.setattr(replay, "_EVENTS_BETWEEN_SEARCHES", chunk_events)
    samples = evicted = joined = 0
    for cloud in range(CLOUDS):
        generator = np.random.default_rng([seed, cloud])
        nodes = random_nodes(generator)
        log = random_log(generator, nodes, int(generator.integers(1, 60)))
        one = ReplaySampler(SamplerSpec(nodes, seed, births=8), int(generator.integers(1, max(nodes) + 1)))
        for until_s in (*np.sort(generator.uniform(0, DAY_S, generator.integers(0, 3))).tolist(), DAY_S):
            one.feed(part(log, one.until_s, until_s), until_s)
        result = one.samples()
        assert_equals_reference(result, nodes, log, f"seed {seed}, cloud {cloud}")
        samples += len(result)
        evicted += int(np.count_nonzero(result.evicted))
        running_rows = one._row[one._row >= 0]
        joined += len(running_rows) - len(np.unique(running_rows))
    # The test means something only if virtual instances were evicted, survived, and shared replays.
    assert samples > 6 * CLOUDS
    assert 0.2 < evicted / samples < 0.8
    assert joined > CLOUDS / 10


def test_many_spot_instances_and_evictions_that_spare(monkeypatch: pytest.MonkeyPatch):
    """Long histories, with node sizes at which marked instances turn out not to be needed."""
    monkeypatch.setattr(history_chunks, "EVENTS_A_CHUNK", 64)
    for seed in range(6):
        generator = np.random.default_rng([99, seed])
        nodes = (16, 16, 12)
        log = random_log(generator, nodes, 600)
        one = ReplaySampler(SamplerSpec(nodes, seed, births=20), int(generator.integers(1, 6)))
        one.feed(log, DAY_S)
        assert_equals_reference(one.samples(), nodes, log, f"seed {seed}")


def test_events_at_the_very_time_of_a_birth_come_before_it():
    generator = np.random.default_rng(4)
    nodes, spec = (4, 4), SamplerSpec((4, 4), seed=3, births=20)
    _, births = BirthGrid(3, 2, 20).within(np.array([0.0]), np.array([DAY_S]), 3)
    log = random_log(generator, nodes, len(births))
    log = EventLog(np.sort(generator.choice(births, len(log))), log.kind, log.instance, log.cores)
    one = ReplaySampler(spec, 2)
    one.feed(log, DAY_S)
    result = one.samples()
    assert np.count_nonzero(np.isin(result.birth_s, log.time_s)) > 5
    assert_equals_reference(result, nodes, log, "births at events")


def test_states_that_differ_only_in_who_is_younger_are_not_equal():
    replays = resize_replays(empty_replays(1), 3, 4)
    expected = np.empty(3, np.int64)
    younger, alike = np.array([0, 1, 0]), np.zeros(3, np.uint64)
    kernel.find_equal_replays(replays, replays.node.view(np.uint64), np.arange(3), younger, alike, expected)
    assert expected.tolist() == [0, 1, 0]


def history(*events: tuple[float, int, int, int]) -> EventLog:
    columns = list(zip(*events, strict=True))
    return EventLog(
        np.array(columns[0], np.float64),
        np.array(columns[1], np.int8),
        np.array(columns[2], np.int64),
        np.array(columns[3], np.int64),
    )


def outcome(nodes: tuple[int, ...], log: EventLog, cores: int, birth_s: float) -> tuple[int, float, bool]:
    expected = reference.replay(nodes, log, 100.0, cores, birth_s)
    assert expected is not None
    # The same instance through the kernel: many births, of which those born between the same events are
    # alike.
    one = ReplaySampler(SamplerSpec(nodes, 1, births=100_000), cores)
    one.feed(log, 100.0)
    result = one.samples()
    events_before = np.searchsorted(log.time_s, birth_s, side="right")
    alike = np.searchsorted(log.time_s, result.birth_s, side="right") == events_before
    assert np.any(alike)
    ends_s = (result.birth_s + result.duration_s)[alike]
    assert np.allclose(ends_s, birth_s + expected.duration_s)
    assert np.all(result.evicted[alike] == expected.evicted)
    assert np.all(result.free_slots[alike] == expected.free_slots)
    return expected.free_slots, birth_s + expected.duration_s, expected.evicted


class TestByHand:
    """Small cases worked out on paper from docs/design/prediction.md "The method"."""

    def test_the_youngest_goes_first(self):
        log = history((10, START_SPOT, 0, 4), (50, START_ON_DEMAND, 1, 4))
        assert outcome((4, 4), log, 4, 30.0) == (1, 50.0, True)  # younger than the spot instance
        assert outcome((4, 4), log, 4, 5.0) == (2, 100.0, False)  # older: the other one goes

    def test_born_at_an_instant_it_is_younger_than_what_starts_then(self):
        log = history((10, START_SPOT, 0, 4), (50, START_ON_DEMAND, 1, 4))
        assert outcome((4, 4), log, 4, 10.0) == (1, 50.0, True)

    def test_one_that_is_not_needed_is_spared(self):
        # The virtual instance is marked first, then the 4-core one on its node: without the former there is
        # room.
        log = history((10, START_SPOT, 0, 4), (50, START_ON_DEMAND, 1, 4))
        assert outcome((5,), log, 1, 30.0) == (1, 100.0, False)

    def test_the_node_that_has_room_first_is_taken(self):
        # Youngest first: virtual (node 1), spot 1 (node 1), spot 0 (node 0). Node 1 has room with two of
        # them.
        log = history(
            (10, START_SPOT, 0, 4), (20, START_SPOT, 1, 2), (50, START_ON_DEMAND, 2, 4), (60, STOP, 0, 4)
        )
        assert outcome((4, 4), log, 2, 30.0) == (1, 50.0, True)

    def test_nothing_is_evicted_when_it_would_not_help(self):
        log = history((10, START_ON_DEMAND, 0, 3), (50, START_ON_DEMAND, 1, 4), (60, STOP, 0, 3))
        assert outcome((4,), log, 1, 30.0) == (1, 100.0, False)

    def test_an_on_demand_instance_that_never_ran_frees_nothing_when_it_stops(self):
        log = history(
            (10, START_ON_DEMAND, 0, 4),
            (20, START_ON_DEMAND, 1, 4),  # does not fit
            (30, STOP, 1, 4),
            (40, START_ON_DEMAND, 2, 1),  # does not fit either
            (50, STOP, 0, 4),
            (70, START_ON_DEMAND, 3, 4),
        )
        assert outcome((4,), log, 1, 60.0) == (4, 70.0, True)

    def test_without_a_free_slot_there_is_no_sample(self):
        log = history((10, START_ON_DEMAND, 0, 4), (50, STOP, 0, 4))
        assert reference.replay((4,), log, 100.0, 1, 30.0) is None
        one = ReplaySampler(SamplerSpec((4,), 1, births=100_000), 1)
        one.feed(log, 100.0)
        births = one.samples().birth_s
        assert len(births) > 0
        assert not np.any((births >= 10) & (births < 50))

    def test_larger_than_any_node_never_finds_room(self):
        one = ReplaySampler(SamplerSpec((4, 4), 1, births=10), 5)
        one.feed(EventLog.empty(), DAY_S)
        assert len(one.samples()) == 0
