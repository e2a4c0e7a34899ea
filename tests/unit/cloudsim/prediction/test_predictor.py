"""Exact as long as everything is of one size, by replays from then on: decided by the history alone."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from cloudsim.history.event_log import EventLog
from cloudsim.model.errors import InputError, SpecError
from cloudsim.prediction.predictor import LocalPredictor, Sampler
from cloudsim.prediction.rule import Censoring, PredictionRule
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from cloudsim.prediction.samplers.uniform import UniformSampler
from cloudsim.prediction.samples import Samples
from tests.support.reference import youngest_first
from tests.unit.cloudsim.prediction.clouds import DAY_S, from_rows, part, random_log

NODES = (4, 4, 3)
HOUR_S = 3600.0
SEED_OF_FINE_CLOCK = 11
BOUNDS = [DAY_S / 4, DAY_S / 2, DAY_S]


def uniform_log(seed: int = 0, instances: int = 400, cores: int = 2) -> EventLog:
    log = random_log(np.random.default_rng(seed), NODES, instances, mean_s=HOUR_S / 3, stopping=1.0)
    return replace(log, cores=np.full(len(log), cores))


def with_another_size(log: EventLog) -> EventLog:
    """The last instance that starts in the first half is of another size."""
    starts = np.flatnonzero((log.kind != 0) & (log.time_s < DAY_S / 2))
    odd = log.instance == log.instance[starts[-1]]
    return replace(log, cores=np.where(odd, 1, log.cores))


def fed(one, log: EventLog, bounds: list[float]):
    for until_s in bounds:
        one.feed(part(log, one.until_s, until_s), until_s)
    return one


def test_a_uniform_history_is_exact():
    log, spec = uniform_log(), SamplerSpec(NODES, 1, births=50)
    found = fed(Sampler(spec, 2), log, BOUNDS).samples()
    assert found == fed(UniformSampler(spec, 2), log, [DAY_S]).samples()
    assert np.all(found.span_s > 0)
    assert len(found) > 100


@pytest.mark.parametrize("bounds", [[DAY_S], BOUNDS, [DAY_S / 2, DAY_S]])
def test_another_size_makes_replays_of_it(bounds: list[float]):
    log, spec = with_another_size(uniform_log()), SamplerSpec(NODES, 1, births=50)
    found = fed(Sampler(spec, 2), log, bounds).samples()
    assert found == fed(ReplaySampler(spec, 2), log, [DAY_S]).samples()
    assert not np.any(found.span_s)
    assert len(found) >= 50


def test_it_is_exact_until_the_other_size_shows_up():
    log, spec = with_another_size(uniform_log()), SamplerSpec(NODES, 1, births=50)
    odd_s = float(log.time_s[log.cores == 1][0])
    assert np.all(fed(Sampler(spec, 2), log, [DAY_S / 4, odd_s]).samples().span_s > 0)
    assert not np.any(fed(Sampler(spec, 2), log, [DAY_S / 4, np.nextafter(odd_s, DAY_S)]).samples().span_s)


def test_a_size_that_nothing_else_has_is_replayed():
    log, spec = uniform_log(), SamplerSpec(NODES, 1, births=50)
    assert fed(Sampler(spec, 1), log, BOUNDS).samples() == fed(ReplaySampler(spec, 1), log, BOUNDS).samples()


@pytest.mark.parametrize("log", [uniform_log(), with_another_size(uniform_log())])
def test_any_split_gives_the_same_bits(log: EventLog):
    spec = SamplerSpec(NODES, 1, births=50)
    for until in (1, 3):
        parts = [fed(Sampler(spec, 2, share, 3), log, BOUNDS[:until]).samples() for share in (2, 0, 1)]
        assert Samples.merge(parts) == fed(Sampler(spec, 2), log, BOUNDS[:until]).samples()


def test_a_refused_feed_changes_nothing():
    log, spec = with_another_size(uniform_log()), SamplerSpec(NODES, 1, births=50)
    one = fed(Sampler(spec, 2), log, BOUNDS[:1])
    before = one.samples()
    for events, until_s in (
        (from_rows([(DAY_S / 3, 1, 10**6, 1, 1), (DAY_S / 3 - 1, 1, 10**6 + 1, 1, 1)]), DAY_S),
        (from_rows([(DAY_S / 3, 0, 10**6, 0, 1)]), DAY_S),
        (from_rows([(DAY_S / 3, 0, 10**6, 0, 2)]), DAY_S),
    ):
        with pytest.raises(InputError):
            one.feed(events, until_s)
        assert (one.samples(), one.until_s) == (before, DAY_S / 4)
    with pytest.raises(SpecError, match="boundary"):
        one.feed(EventLog.empty(), DAY_S / 5)
    assert fed(one, log, BOUNDS[1:]).samples() == fed(Sampler(spec, 2), log, [DAY_S]).samples()


def test_a_size_added_later_gives_the_same_bits():
    log, spec = with_another_size(uniform_log()), SamplerSpec(NODES, 1, births=50)
    early, late = LocalPredictor(spec, [2]), LocalPredictor(spec, [])
    for until_s in BOUNDS:
        table = early.table(part(log, early.until_s, until_s), until_s)
        late.table(part(log, late.until_s, until_s), until_s)
    late.add(2)
    assert late.table(EventLog.empty(), DAY_S).version == table.version


def test_exact_tables_are_what_many_samples_tend_to():
    log = uniform_log(SEED_OF_FINE_CLOCK, 700)
    spec = SamplerSpec(NODES, 1, births=20_000)
    exact = LocalPredictor(spec, [2]).table(log, DAY_S)
    drawn = LocalPredictor(spec, [2], PredictionRule(sampled=True)).table(log, DAY_S)
    cells = {(row["free_slots_from"], row["free_slots_to"]) for row in exact.rows()}
    both = cells & {(row["free_slots_from"], row["free_slots_to"]) for row in drawn.rows()}
    assert len(both) >= 2
    for slots, _ in both:
        for lifetime_s in (60.0, 600.0, HOUR_S):
            one, other = (made.estimate(2, slots, lifetime_s)[0] for made in (exact, drawn))
            assert one == pytest.approx(other, abs=0.01)


def test_the_rule_reaches_samples_and_table():
    log, spec = uniform_log(), SamplerSpec(NODES, 1, births=50, horizon_s=4 * HOUR_S)
    rule = PredictionRule(Censoring.AS_EVICTED, always_youngest=True, confidence_z=1.0, horizon_s=600.0)
    for sizes in ([1], [2]):
        predictor = LocalPredictor(spec, sizes, rule)
        table = predictor.table(log, DAY_S)
        assert predictor.spec == replace(spec, horizon_s=600.0, always_youngest=True)
        assert table.rule == rule
        assert {row["followed_up_s"] for row in table.rows()} == {600.0}
    assert LocalPredictor(spec, [2]).spec == spec


def test_importing_the_door_does_not_import_numba():
    code = "import sys, cloudsim.prediction.predictor; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("seed", range(4))
def test_always_youngest_equals_its_reference(seed: int):
    """Mixed sizes, with evictions that spare; the exact rank gives other samples."""
    generator = np.random.default_rng(seed)
    log = random_log(generator, (8, 8, 6), 400, mean_s=HOUR_S)
    for cores in (1, 3):
        spec = SamplerSpec((8, 8, 6), seed, births=40, always_youngest=True)
        found = fed(Sampler(spec, cores), log, BOUNDS).samples()
        for row, birth_s in enumerate(found.birth_s.tolist()):
            reference = youngest_first.replay(
                spec.node_cores, log, DAY_S, cores, birth_s, always_youngest=True
            )
            assert reference == youngest_first.ReferenceSample(
                int(found.free_slots[row]), float(found.duration_s[row]), bool(found.evicted[row])
            )
        exact = fed(Sampler(replace(spec, always_youngest=False), cores), log, BOUNDS).samples()
        assert np.array_equal(exact.birth_s, found.birth_s)
        assert exact.duration_s.sum() > found.duration_s.sum()
