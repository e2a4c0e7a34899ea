"""Samples depend on the history alone: not on boundaries, shares, or who replays what."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from cloudsim.history.event_log import EventLog
from cloudsim.model.errors import InputError, SpecError
from cloudsim.prediction import history_chunks
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.samplers import replay
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from cloudsim.prediction.samples import Samples
from tests.unit.cloudsim.prediction.clouds import DAY_S, from_rows, part, random_log, random_nodes

DAYS = 6
NODES = (8, 8, 6)


def long_log(seed: int = 0, instances: int = 500) -> EventLog:
    generator = np.random.default_rng(seed)
    return random_log(generator, NODES, instances, DAYS * DAY_S, mean_s=4000.0, stopping=1.0)


def fed(
    log: EventLog, bounds: list[float], spec: SamplerSpec, cores: int | np.int64 = 2, **shares: int
) -> ReplaySampler:
    one = ReplaySampler(spec, cores, **shares)  # type: ignore[arg-type]
    for until_s in bounds:
        one.feed(part(log, one.until_s, until_s), until_s)
    return one


@pytest.mark.parametrize("seed", range(5))
def test_any_boundaries_give_the_same_bits(seed: int):
    log, spec = long_log(seed), SamplerSpec(NODES, seed, births=50)
    end_s = DAYS * DAY_S
    generator = np.random.default_rng([7, seed])
    at_once = fed(log, [end_s], spec).samples()
    six_hourly = fed(log, [21_600.0 * k for k in range(1, 4 * DAYS + 1)], spec).samples()
    # Boundaries at events to the last bit, and the same boundary twice.
    odd = np.sort(np.concatenate((generator.choice(log.time_s, 20), generator.uniform(0, end_s, 20))))
    oddly = fed(log, [*odd.tolist(), float(odd[-1]), end_s], spec).samples()
    assert at_once == six_hourly == oddly
    assert np.any(at_once.evicted)
    assert not np.all(at_once.evicted)


@pytest.mark.parametrize("horizon_s", [600.0, 3600.0, DAY_S / 4, DAY_S])
def test_a_horizon_cuts_the_full_samples_whatever_the_boundaries_and_shares(horizon_s: float):
    log, spec = long_log(), SamplerSpec(NODES, 3, births=100)
    short = replace(spec, horizon_s=horizon_s)
    end_s = DAYS * DAY_S
    whole, cut = fed(log, [end_s], spec).samples(), fed(log, [end_s], short).samples()
    assert np.array_equal(cut.birth_s, whole.birth_s)
    assert np.array_equal(cut.duration_s, np.minimum(whole.duration_s, horizon_s))
    assert np.array_equal(cut.evicted, whole.evicted & (whole.duration_s < horizon_s))
    assert 0 < np.count_nonzero(cut.evicted) < np.count_nonzero(whole.evicted)
    six_hourly = [21_600.0 * k for k in range(1, 4 * DAYS + 1)]
    parts = [fed(log, six_hourly, short, share=share, shares=3).samples() for share in range(3)]
    assert Samples.merge(parts) == cut


def test_a_sample_is_evicted_before_its_horizon_not_at_it():
    log = from_rows([(1000.0, 1, 0, 1, 4)])
    whole = fed(log, [DAY_S], SamplerSpec((4,), 1, births=100), 1).samples()
    duration_s = float(whole.duration_s[0])
    for horizon_s, evicted in ((duration_s, False), (float(np.nextafter(duration_s, np.inf)), True)):
        cut = fed(log, [DAY_S], SamplerSpec((4,), 1, births=100, horizon_s=horizon_s), 1).samples()
        assert (float(cut.duration_s[0]), bool(cut.evicted[0])) == (duration_s, evicted)


def test_replays_end_with_the_horizon_of_their_last_sample(monkeypatch: pytest.MonkeyPatch):
    from cloudsim.prediction.kernels import youngest_first as kernel

    log = long_log(8, instances=3000)
    advance, replayed = kernel.advance, [0]

    def counted(*arguments):
        advance(*arguments)
        replayed[-1] += int((arguments[6] - arguments[5]).sum())

    monkeypatch.setattr(kernel, "advance", counted)
    monkeypatch.setattr(ReplaySampler, "_join_equal_replays", lambda self, chunk: None)
    # Nobody is evicted from a cloud that is empty but for a few.
    fed(log, [DAYS * DAY_S], SamplerSpec((64,) * 20, 3, births=50), 2)
    replayed.append(0)
    fed(log, [DAYS * DAY_S], SamplerSpec((64,) * 20, 3, births=50, horizon_s=DAY_S / 4), 2)
    assert 0 < replayed[1] < 0.15 * replayed[0]


@pytest.mark.parametrize("nodes", [65, 4200])
def test_an_index_of_nodes_finds_the_same_ones_as_a_search(nodes: int, monkeypatch: pytest.MonkeyPatch):
    """65 nodes are two words, 4,200 nodes are two words of words."""
    generator = np.random.default_rng(nodes)
    node_cores = tuple(generator.integers(1, 4, nodes).tolist())
    log = random_log(generator, node_cores, 4 * nodes, mean_s=DAY_S / 3)
    spec = SamplerSpec(node_cores, 3, births=20)
    indexed = [fed(log, [0.7 * DAY_S, DAY_S], spec, cores).samples() for cores in (3,)]
    monkeypatch.setattr(history_chunks, "NODES_SEARCHED_ONE_BY_ONE", nodes)
    searched = [fed(log, [0.7 * DAY_S, DAY_S], spec, cores).samples() for cores in (3,)]
    assert indexed == searched
    assert all(np.count_nonzero(one.evicted) >= 5 for one in indexed)


def test_searches_for_equal_replays_are_rarer_the_more_there_is_to_compare(monkeypatch: pytest.MonkeyPatch):
    searches = [0]
    monkeypatch.setattr(
        ReplaySampler, "_join_equal_replays", lambda self, chunk: searches.append(searches.pop() + 1)
    )
    for nodes, instances in ((3, 4000), (60, 4000)):
        generator = np.random.default_rng(2)
        log = random_log(
            generator, (64,) * nodes, instances, mean_s=DAY_S if nodes == 60 else 50.0, stopping=1.0
        )
        fed(log, [DAY_S], SamplerSpec((64,) * nodes, 3, births=300), 1)
        searches.append(0)
    narrow, wide, _ = searches
    assert 0 < 3 * wide < narrow


@pytest.mark.parametrize("shares", [1, 3, 7, 51])
def test_any_split_gives_the_same_bits(shares: int):
    log, spec = long_log(), SamplerSpec(NODES, 3, births=50)
    bounds = [2 * DAY_S, 3.3 * DAY_S, DAYS * DAY_S]
    parts = [fed(log, bounds, spec, share=share, shares=shares).samples() for share in range(shares)]
    order = np.random.default_rng(shares).permutation(shares)
    assert Samples.merge([parts[index] for index in order]) == fed(log, bounds, spec).samples()


def test_fifty_one_batches_differ_pairwise():
    """Case 11: the same numbers in every worker."""
    log, spec = long_log(), SamplerSpec(NODES, 3, births=400)
    batches = [fed(log, [DAYS * DAY_S], spec, share=share, shares=51).samples() for share in range(51)]
    assert all(len(batch) > 0 for batch in batches)
    contents = {batch.birth_s.tobytes() for batch in batches}
    assert len(contents) == 51
    births = np.concatenate([batch.birth_s for batch in batches])
    assert len(np.unique(births)) == len(births)


def test_an_odd_number_of_shares_stays_balanced():
    log, spec = long_log(), SamplerSpec(NODES, 3, births=600)
    sizes = [len(fed(log, [DAYS * DAY_S], spec, share=share, shares=5).samples()) for share in range(5)]
    assert max(sizes) < 1.3 * min(sizes)


def test_seeds_and_sizes_draw_different_births():
    log = long_log()
    births = [
        set(fed(log, [DAY_S], SamplerSpec(NODES, seed, births=50), cores).samples().birth_s.tolist())
        for seed in (0, 1)
        for cores in (1, 2)
    ]
    assert len(set.union(*births)) == sum(len(one) for one in births)


@pytest.mark.parametrize("births", [1, 10, 300])
def test_as_many_births_as_wanted_at_every_boundary(births: int):
    log = long_log()
    one = ReplaySampler(SamplerSpec(NODES, 5, births), 1)
    for quarter in range(1, 4 * DAYS + 1):
        until_s = quarter * 21_600.0
        one.feed(part(log, one.until_s, until_s), until_s)
        result = one.samples()
        assert len(result) >= births
        # The level is the highest possible: the next one would have too few.
        assert np.count_nonzero(result.number % (2 << result.level) == 0) < births
        assert np.all(result.number % (1 << result.level) == 0)
        assert np.all((result.birth_s >= 0) & (result.birth_s < until_s))
        assert np.all(result.free_slots >= 1)
        assert np.all(result.duration_s > 0)


def test_with_too_little_room_every_birth_is_a_sample():
    busy = from_rows([(1.0, 1, 0, 1, 4), (86_000.0, 0, 0, 0, 4)])
    one = ReplaySampler(SamplerSpec((4,), 1, births=1000), 4)
    one.feed(busy, DAY_S)
    result = one.samples()
    assert result.level == 0
    assert 0 < len(result) < 1000
    assert np.all((result.birth_s < 1.0) | (result.birth_s >= 86_000.0))
    one.feed(EventLog.empty(), 2 * DAY_S)  # as soon as there is room the promise holds
    assert len(one.samples()) >= 1000


def test_a_sample_once_made_never_moves():
    log = long_log()
    one = ReplaySampler(SamplerSpec(NODES, 5, births=100), 1)
    before = one.samples()
    thinned = False
    for quarter in range(1, 4 * DAYS + 1):
        one.feed(part(log, one.until_s, quarter * 21_600.0), quarter * 21_600.0)
        after = one.samples()
        kept = np.isin(before.number, after.number)
        thinned |= not np.all(kept)
        assert np.all(kept == (before.number % (1 << after.level) == 0))
        now = np.searchsorted(after.number, before.number[kept])
        assert np.array_equal(after.birth_s[now], before.birth_s[kept])
        assert np.array_equal(after.free_slots[now], before.free_slots[kept])
        over = before.evicted[kept]
        assert np.all(after.evicted[now][over])
        assert np.array_equal(after.duration_s[now][over], before.duration_s[kept][over])
        assert np.all(after.duration_s[now] >= before.duration_s[kept])
        before = after
    assert thinned


def test_samples_handed_out_are_not_changed_by_the_next_feed():
    log = long_log()
    one = fed(log, [2 * DAY_S], SamplerSpec(NODES, 5, births=100))
    before = one.samples()
    bits = before.to_bytes()
    one.feed(part(log, 2 * DAY_S, DAYS * DAY_S), DAYS * DAY_S)
    assert before.to_bytes() == bits


def test_rows_of_ended_and_joined_replays_are_used_again():
    generator = np.random.default_rng(5)
    log = random_log(generator, NODES, 20_000, 40 * DAY_S, mean_s=1000.0, stopping=1.0)
    one = ReplaySampler(SamplerSpec(NODES, 5, births=2000), 1)
    one.feed(log, 40 * DAY_S)
    assert len(one.samples()) >= 2000
    assert np.mean(one.samples().evicted) > 0.5
    assert len(one._replays.rank) <= 4 * history_chunks.EVENTS_A_CHUNK


def test_joining_replays_changes_nothing_but_the_work(monkeypatch: pytest.MonkeyPatch):
    from cloudsim.prediction.kernels import youngest_first as kernel

    log, spec = long_log(8), SamplerSpec(NODES, 3, births=300)
    advance, replayed = kernel.advance, [0]

    def counted(*arguments):
        replayed[-1] += len(arguments[4])
        advance(*arguments)

    monkeypatch.setattr(kernel, "advance", counted)
    joined = fed(log, [DAYS * DAY_S], spec).samples()
    monkeypatch.setattr(ReplaySampler, "_join_equal_replays", lambda self, chunk: None)
    replayed.append(0)
    assert fed(log, [DAYS * DAY_S], spec).samples() == joined
    assert replayed[0] < replayed[1]


def test_equal_hashes_of_different_states_are_not_joined(monkeypatch: pytest.MonkeyPatch):
    from cloudsim.prediction.kernels import youngest_first as kernel

    log, spec = long_log(8), SamplerSpec(NODES, 3, births=50)
    expected = fed(log, [DAYS * DAY_S], spec).samples()
    digest = kernel.digest_states

    def poor(*arguments):
        digest(*arguments)
        arguments[-1][:] = 0

    monkeypatch.setattr(kernel, "digest_states", poor)
    assert fed(log, [DAYS * DAY_S], spec).samples() == expected


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"node_cores": ()}, "node_cores"),
        ({"node_cores": (4, 0)}, "node_cores"),
        ({"node_cores": (1,) * 2**15}, "node_cores"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"births": 0}, "births"),
        ({"horizon_s": 0.0}, "horizon_s"),
        ({"horizon_s": float("nan")}, "horizon_s"),
    ],
)
def test_a_spec_that_makes_no_sense(arguments: dict, field: str):
    with pytest.raises(SpecError) as caught:
        SamplerSpec(**{"node_cores": (4,), "seed": 0, **arguments})
    assert caught.value.field == field


@pytest.mark.parametrize("shares", [(0, 2), (0, 0), (1, 1), (-1, 3), (0, -1)])
def test_shares_are_odd(shares: tuple[int, int]):
    with pytest.raises(SpecError, match="odd"):
        ReplaySampler(SamplerSpec((4,), 0), 1, *shares)


def test_a_size_is_at_least_one_core():
    with pytest.raises(SpecError, match="cores"):
        ReplaySampler(SamplerSpec((4,), 0), 0)


@pytest.mark.parametrize("until_s", [99.0, float("nan"), float("inf"), -1.0])
def test_a_boundary_only_goes_forward(until_s: float):
    one = ReplaySampler(SamplerSpec((4,), 0, births=3), 1)
    one.feed(EventLog.empty(), 100.0)
    with pytest.raises(SpecError, match="boundary"):
        one.feed(EventLog.empty(), until_s)


def test_a_refused_feed_changes_nothing():
    log, spec = long_log(), SamplerSpec(NODES, 3, births=50)
    one = fed(log, [2 * DAY_S], spec)
    with pytest.raises(InputError):
        one.feed(part(log, DAY_S, 3 * DAY_S), 3 * DAY_S)
    one.feed(part(log, 2 * DAY_S, 3 * DAY_S), 3 * DAY_S)
    assert one.samples() == fed(log, [3 * DAY_S], spec).samples()


def test_sizes_may_come_out_of_a_numpy_column():
    spec, log = SamplerSpec(NODES, 3, births=50), long_log()
    assert fed(log, [DAY_S], spec, np.int64(2)).samples() == fed(log, [DAY_S], spec, 2).samples()


def test_importing_the_door_does_not_import_numba():
    code = "import sys, cloudsim.prediction.samplers.replay; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestLocalPredictor:
    def test_a_size_added_later_gives_the_same_bits(self):
        log, spec = long_log(), SamplerSpec(NODES, 3, births=50)
        early, late = LocalPredictor(spec, [1, 2]), LocalPredictor(spec, [2])
        for until_s in (DAY_S, 2 * DAY_S):
            early.table(part(log, early.until_s, until_s), until_s)
            late.table(part(log, late.until_s, until_s), until_s)
        late.add(1)
        late.add(1)
        rest = part(log, 2 * DAY_S, 4 * DAY_S)
        one, other = early.table(rest, 4 * DAY_S), late.table(rest, 4 * DAY_S)
        assert one.sizes == other.sizes == late.sizes == (1, 2)
        assert one.version == other.version
        assert one.rows() == other.rows()

    def test_it_makes_the_same_table_as_merged_shares(self):
        from cloudsim.prediction.tables import QuantileTable

        log, spec = long_log(), SamplerSpec(NODES, 3, births=50)
        end_s = DAYS * DAY_S
        table = LocalPredictor(spec, [1, 3]).table(log, end_s)
        parts = {
            cores: [fed(log, [end_s], spec, cores, share=share, shares=3).samples() for share in range(3)]
            for cores in (3, 1)
        }
        merged = [Samples.merge(shares) for shares in parts.values()]
        assert QuantileTable.from_samples(merged, NODES, end_s).version == table.version

    def test_random_nodes_and_no_events(self):
        nodes = random_nodes(np.random.default_rng(1))
        table = LocalPredictor(SamplerSpec(nodes, 0, births=40), [1]).table(EventLog.empty(), DAY_S)
        assert table.estimate(1, sum(nodes), 3600.0).eviction_probability == 0.0
        assert table.made_at_s == DAY_S


def test_search_interval_is_shorter_than_a_chunk():
    assert replay._EVENTS_BETWEEN_SEARCHES <= history_chunks.EVENTS_A_CHUNK
