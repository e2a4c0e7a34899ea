"""Uniform sizes: the intervals of births are exactly what the plain replay says of every birth in them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.history.event_log import START_ON_DEMAND, START_SPOT, STOP, EventLog
from cloudsim.model.errors import InputError, SpecError
from cloudsim.prediction.samplers import uniform
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.prediction.samplers.uniform import UniformSampler
from cloudsim.prediction.samples import Samples
from tests.support.reference import youngest_first
from tests.unit.cloudsim.prediction.clouds import DAY_S, from_rows, part, random_log, random_nodes

HOUR_S = 3600.0
CLOUDS = 150


def uniform_log(generator: np.random.Generator, node_cores: tuple[int, ...], cores: int, n: int) -> EventLog:
    log = random_log(generator, node_cores, n, mean_s=float(generator.choice([0.05, 0.25])) * DAY_S)
    return replace(log, cores=np.full(len(log), cores))


def fed(spec: SamplerSpec, cores: int, log: EventLog, bounds: list[float]) -> UniformSampler:
    one = UniformSampler(spec, cores)
    for until_s in bounds:
        one.feed(part(log, one.until_s, until_s), until_s)
    return one


def assert_equals_reference(
    found: Samples, spec: SamplerSpec, log: EventLog, births: np.ndarray, told: str
) -> None:
    """Each birth is in the interval that says of it what the replay says, or in none if it had no room."""
    ends_s = found.birth_s + found.span_s
    for birth_s in births.tolist():
        reference = youngest_first.replay(
            spec.node_cores, log, found.until_s, found.cores, birth_s, always_youngest=spec.always_youngest
        )
        row = np.flatnonzero((found.birth_s <= birth_s) & (birth_s < ends_s))
        if reference is None:
            assert len(row) == 0, f"{told}, born at {birth_s}"
            continue
        assert len(row) == 1, f"{told}, born at {birth_s}"
        at = int(row[0])
        assert reference.free_slots == found.free_slots[at], f"{told}, born at {birth_s}"
        assert reference.evicted == found.evicted[at], f"{told}, born at {birth_s}"
        end_s = found.birth_s[at] + found.duration_s[at]
        assert birth_s + reference.duration_s == pytest.approx(end_s, abs=1e-9), f"{told}, born at {birth_s}"


@pytest.mark.parametrize("always_youngest", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_random_clouds(seed: int, always_youngest: bool):
    born = evicted = outlived = 0
    for cloud in range(CLOUDS):
        generator = np.random.default_rng([seed, cloud])
        nodes = random_nodes(generator)
        cores = int(generator.integers(1, max(nodes) + 1))
        log = uniform_log(generator, nodes, cores, int(generator.integers(1, 80)))
        spec = SamplerSpec(nodes, 0, always_youngest=always_youngest)
        cuts = np.sort(generator.uniform(0, DAY_S, generator.integers(0, 4))).tolist()
        found = fed(spec, cores, log, [*cuts, DAY_S]).samples()
        births = np.concatenate((generator.uniform(0, DAY_S, 8), generator.choice(log.time_s, 4)))
        assert_equals_reference(found, spec, log, births, f"seed {seed}, cloud {cloud}")
        born += len(found)
        evicted += int(np.count_nonzero(found.evicted))
        deaths = np.unique((found.birth_s + found.duration_s)[found.evicted])
        outlived += sum(
            int(np.any((found.birth_s < at) & (found.birth_s + found.duration_s > at))) for at in deaths
        )
    # The test means something only if some were evicted while older ones lived on.
    assert born > 20 * CLOUDS
    assert 0.1 < evicted / born < 0.9
    assert outlived > (0 if always_youngest else CLOUDS / 2)


hours = st.integers(0, 23).map(lambda hour: hour * HOUR_S)
instances = st.lists(
    st.tuples(hours, st.integers(0, 30), st.sampled_from([START_ON_DEMAND, START_SPOT])), max_size=30
)


def log_of(started: list[tuple[float, int, int]], cores: int) -> EventLog:
    events = []
    for number, (start, length, kind) in enumerate(sorted(started, key=lambda one: (one[0], one[2]))):
        stop = start + length * HOUR_S
        events.append((start, 1 if kind == START_ON_DEMAND else 2, number, kind, cores))
        events.append((stop, 3 if stop == start else 0, number, STOP, cores))
    return from_rows([event for event in sorted(events) if event[0] < DAY_S])


@given(
    instances,
    st.lists(st.integers(1, 7), min_size=1, max_size=4),
    st.integers(1, 7),
    st.lists(st.one_of(hours, st.floats(0, DAY_S)), max_size=3),
    st.booleans(),
)
def test_any_history_and_boundaries(started, nodes, cores, bounds, always_youngest):
    log = log_of(started, cores)
    spec = SamplerSpec(tuple(nodes), 0, always_youngest=always_youngest)
    found = fed(spec, cores, log, [*sorted(bounds), DAY_S]).samples()
    assert found == fed(spec, cores, log, [DAY_S]).samples()
    births = np.concatenate((np.arange(0, 24, 1.0), np.arange(0.5, 24, 3.0))) * HOUR_S
    assert_equals_reference(found, spec, log, births, "")
    assert np.all(found.span_s > 0)
    assert np.all(found.birth_s[1:] >= (found.birth_s + found.span_s)[:-1])
    assert Samples.from_bytes(found.to_bytes()) == found


@pytest.mark.parametrize("always_youngest", [False, True])
def test_any_boundaries_give_the_same_bits(always_youngest: bool, monkeypatch: pytest.MonkeyPatch):
    for seed in range(10):
        generator = np.random.default_rng([5, seed])
        log = uniform_log(generator, (4, 5), 2, 400)
        spec = SamplerSpec((4, 5), 0, always_youngest=always_youngest)
        at_once = fed(spec, 2, log, [DAY_S]).samples()
        odd = np.sort(np.concatenate((generator.choice(log.time_s, 30), generator.uniform(0, DAY_S, 30))))
        assert fed(spec, 2, log, [*odd.tolist(), float(odd[-1]), DAY_S]).samples() == at_once
        with monkeypatch.context() as patched:
            patched.setattr(uniform, "_EVENTS_AT_A_TIME", 7)
            assert fed(spec, 2, log, [DAY_S]).samples() == at_once
        assert np.any(at_once.evicted)


def test_shares_merge_to_the_whole():
    log = uniform_log(np.random.default_rng(3), (4, 4), 1, 300)
    spec = SamplerSpec((4, 4), 0)
    parts = []
    for share in range(3):
        one = UniformSampler(spec, 1, share, 3)
        one.feed(log, DAY_S)
        parts.append(one.samples())
    assert [len(one) > 0 for one in parts] == [True, False, False]
    assert Samples.merge(parts[::-1]) == fed(spec, 1, log, [DAY_S]).samples()


def test_samples_handed_out_are_not_changed_by_the_next_feed():
    log = uniform_log(np.random.default_rng(3), (4, 4), 1, 300)
    one = fed(SamplerSpec((4, 4), 0), 1, log, [DAY_S / 2])
    before = one.samples()
    bits = before.to_bytes()
    one.feed(part(log, DAY_S / 2, DAY_S), DAY_S)
    assert before.to_bytes() == bits


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([(5.0, 1, 7, START_SPOT, 2)], "have 1 cores"),
        ([(50.0, 1, 7, START_SPOT, 1), (49.0, 1, 8, START_SPOT, 1)], "event 1 at 49"),
        ([(5.0, 1, 7, START_SPOT, 1)], "event 0 at 5"),
        ([(100.0, 1, 7, START_SPOT, 1)], "event 0 at 100"),
        ([(50.0, 1, 7, START_SPOT, 1), (51.0, 1, 7, START_SPOT, 1)], "instance 7: numbers rise"),
        ([(50.0, 1, 7, 5, 1)], "event 0 is no STOP"),
        ([(50.0, 1, 4, STOP, 1)], "instance 4: stops but does not run"),
        ([(50.0, 1, 7, STOP, 1)], "instance 7: stops but does not run"),
        ([(50.0, 1, 3, STOP, 1), (51.0, 1, 3, STOP, 1)], "event 1, instance 3: stops twice"),
    ],
)
def test_a_faulty_history_is_refused_and_changes_nothing(rows, told: str):
    # Instance 4 never was: numbers may have gaps.
    good = from_rows([(1.0, 1, 3, START_ON_DEMAND, 1), (2.0, 2, 5, START_SPOT, 1)])
    one = fed(SamplerSpec((2,), 0), 1, good, [10.0])
    with pytest.raises(InputError, match=told) as caught:
        one.feed(from_rows(rows), 100.0)
    assert caught.value.field == "events"
    one.feed(from_rows([(20.0, 0, 3, STOP, 1)]), 100.0)
    reference = fed(SamplerSpec((2,), 0), 1, good, [10.0])
    reference.feed(from_rows([(20.0, 0, 3, STOP, 1)]), 100.0)
    assert one.samples() == reference.samples()


@pytest.mark.parametrize("until_s", [9.0, float("nan"), float("inf")])
def test_a_boundary_only_goes_forward(until_s: float):
    one = UniformSampler(SamplerSpec((4,), 0), 1)
    one.feed(EventLog.empty(), 10.0)
    with pytest.raises(SpecError, match="boundary"):
        one.feed(EventLog.empty(), until_s)


def test_an_idle_cloud_is_one_interval():
    found = fed(SamplerSpec((4, 5), 0), 2, EventLog.empty(), [10.0, 20.0]).samples()
    assert (found.birth_s.tolist(), found.span_s.tolist(), found.duration_s.tolist()) == ([0], [20], [20])
    assert (found.free_slots.tolist(), found.evicted.tolist()) == ([4], [False])
