import json
from dataclasses import replace

import numpy as np
import pytest

from cloudsim.model.errors import NoTableError, SpecError
from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.prediction.rule import OUR_RULE, Censoring, PredictionRule
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import FEWEST_SAMPLES, QuantileTable, bin_edges

NODES = (32,) * 4  # up to 128 free slots of one core


def samples(cells: dict[int, list[tuple[float, bool]]], cores: int = 1) -> Samples:
    """By free slots: durations and whether evicted."""
    rows = [(slots, *one) for slots, ones in cells.items() for one in ones]
    number = np.arange(len(rows))
    return Samples(
        cores,
        1000.0,
        0,
        number,
        number.astype(np.float64),
        np.array([row[0] for row in rows], np.int32),
        np.array([row[1] for row in rows], np.float64),
        np.array([row[2] for row in rows], np.bool_),
        np.zeros(len(rows)),
    )


def table(cells: dict[int, list[tuple[float, bool]]], rule: PredictionRule = OUR_RULE) -> QuantileTable:
    return QuantileTable.from_samples([samples(cells)], NODES, 1000.0, rule)


def cell(evicted: int, alive: int, duration_s: float = 10.0, followed_s: float = 100.0):
    return [(duration_s, True)] * evicted + [(followed_s, False)] * alive


def spans(made: QuantileTable) -> list[tuple[int, int, int]]:
    return [(row["free_slots_from"], row["free_slots_to"], row["samples"]) for row in made.rows()]


def test_bins_are_single_up_to_eight_then_three_a_doubling():
    expected = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 16, 20, 25, 32, 40, 51, 64, 81, 102, 128]
    assert bin_edges(128).tolist() == expected
    assert bin_edges(127).tolist() == expected[:-1]
    assert bin_edges(5).tolist() == [0, 1, 2, 3, 4, 5]
    assert bin_edges(0).tolist() == [0]


def test_every_number_of_free_slots_has_its_bin():
    made = table({slots: cell(3, 27) for slots in range(1, 129)})
    covered = [slots for first, last, _ in spans(made) for slots in range(first, last + 1)]
    assert covered == list(range(1, 129))


def test_a_small_cell_merges_with_the_next_lower_one():
    made = table({3: cell(0, 30), 4: cell(29, 0), 5: cell(0, 30)})
    assert spans(made) == [(3, 4, 59), (5, 5, 30)]
    pooled = LifetimeDistribution.from_samples(
        np.array([100.0] * 30 + [10.0] * 29), np.array([False] * 30 + [True] * 29)
    )
    for slots in (3, 4):
        estimate = made.estimate(1, slots, 50.0)
        assert estimate == (pooled.risk(50.0), True, 59)
    assert made.estimate(1, 5, 50.0) == (0.0, True, 30)


def test_small_cells_add_up_downwards():
    made = table({2: cell(0, 12), 4: cell(0, 12), 7: cell(0, 12), 9: cell(0, 40)})
    assert spans(made) == [(2, 7, 36), (8, 9, 40)]


def test_the_lowest_cell_has_none_to_merge_with_and_stays_as_it_is():
    made = table({2: cell(1, 28), 5: cell(0, 30)})
    assert spans(made) == [(2, 2, 29), (5, 5, 30)]
    assert made.estimate(1, 2, 50.0).eviction_probability == pytest.approx(1 / 29)
    assert made.estimate(1, 1, 50.0).eviction_probability == pytest.approx(1 - (1 - 1 / 29) / 2)
    assert FEWEST_SAMPLES == 30


def test_an_unseen_condition_is_interpolated_between_the_edges_of_the_nearest_seen():
    made = table({9: cell(15, 15), 32: cell(0, 60)})  # bins 8-9 and 32-39
    below, above = made.estimate(1, 9, 50.0), made.estimate(1, 32, 50.0)
    assert (below.eviction_probability, above.eviction_probability) == (0.5, 0.0)
    for slots in range(10, 32):
        weight = (slots - 9) / (32 - 9)
        estimate = made.estimate(1, slots, 50.0)
        assert estimate.eviction_probability == pytest.approx(0.5 * (1 - weight))
        assert estimate.evidence
        assert estimate.samples == 30


def test_below_the_lowest_seen_towards_certain_eviction_at_no_slots():
    made = table({4: cell(0, 30)})
    risks = [made.estimate(1, slots, 50.0).eviction_probability for slots in range(5)]
    assert risks == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0])
    assert made.estimate(1, 0, 50.0) == (1.0, False, 0)
    assert made.survives_s(1, 2, 0.49) == 0.0
    assert made.survives_s(1, 2, 0.5) == 100.0


def test_above_the_highest_seen_that_ones_risk():
    made = table({4: cell(15, 15)})
    assert made.estimate(1, 128, 50.0) == made.estimate(1, 4, 50.0)
    assert made.estimate(1, 10_000, 50.0).eviction_probability == 0.5


def test_beyond_the_last_time_followed_up_there_is_no_evidence():
    made = table({4: cell(0, 30)})
    assert made.estimate(1, 4, 100.0) == (0.0, True, 30)
    assert made.estimate(1, 4, 101.0) == (1.0, False, 30)
    assert made.survives_s(1, 4, 0.0) == 100.0


def test_without_samples_nothing_is_promised():
    made = QuantileTable.from_samples([Samples.empty(1)], NODES, 1000.0)
    assert made.has(1)
    assert made.estimate(1, 4, 50.0) == (1.0, False, 0)
    assert made.survives_s(1, 4, 0.5) == 0.0
    assert made.rows() == []


def test_a_size_it_does_not_hold():
    made = table({4: cell(0, 30)})
    assert made.sizes == (1,)
    assert not made.has(2)
    for ask in (lambda: made.estimate(2, 4, 1.0), lambda: made.survives_s(2, 4, 0.1)):
        with pytest.raises(NoTableError, match="no size 2"):
            ask()


def test_a_size_twice_is_refused():
    with pytest.raises(SpecError, match="merge the shares"):
        QuantileTable.from_samples([samples({}), samples({})], NODES, 1000.0)


def test_equal_content_has_equal_versions():
    one, two = samples({4: cell(1, 30)}), samples({4: cell(1, 30)}, cores=2)
    made = QuantileTable.from_samples([one, two], NODES, 1000.0)
    assert made.version == QuantileTable.from_samples([two, one], list(NODES), 1000.0).version
    assert len(made.version) == 16
    int(made.version, 16)
    others = [
        QuantileTable.from_samples([one], NODES, 1000.0),
        QuantileTable.from_samples([one, two], NODES, 1001.0),
        QuantileTable.from_samples([one, two], NODES[1:], 1000.0),
        QuantileTable.from_samples([one, samples({4: cell(2, 29)}, cores=2)], NODES, 1000.0),
        QuantileTable.from_samples([one, replace(two, span_s=np.ones(31))], NODES, 1000.0),
        QuantileTable.from_samples([one, two], NODES, 1000.0, PredictionRule(confidence_z=1.0)),
    ]
    assert len({made.version, *(other.version for other in others)}) == 7


def test_rows_are_fit_for_json():
    made = table({4: cell(3, 27), 64: cell(0, 40)})
    rows = json.loads(json.dumps(made.rows()))
    intervals = rows[0].pop("risk_intervals")
    assert intervals["0.05"] == pytest.approx([0.0, 0.11351], abs=1e-5)  # none of 30 within 10 s
    assert intervals["0.1"] == pytest.approx([0.03460, 0.25621], abs=1e-5)  # 3 of 30
    assert rows[0] == {
        "cores": 1,
        "free_slots_from": 4,
        "free_slots_to": 4,
        "samples": 30,
        "evictions": 3,
        "followed_up_s": 100.0,
        "quantiles_s": {"0.01": 10.0, "0.05": 10.0, "0.1": 100.0, "0.25": 100.0, "0.5": 100.0},
    }
    assert rows[1]["free_slots_from"], rows[1]["free_slots_to"] == (64, 80)
    assert [row["quantiles_s"] for row in made.rows(slas=[0.09])] == [{0.09: 10.0}, {0.09: 100.0}]


def test_sizes_with_few_slots_end_at_what_the_cloud_can_hold():
    rows = QuantileTable.from_samples([samples({4: cell(0, 30)}, cores=32)], NODES, 1000.0).rows()
    assert (rows[0]["free_slots_from"], rows[0]["free_slots_to"]) == (4, 4)


@pytest.mark.parametrize(
    ("rule", "risk", "survives_s"),
    [
        (PredictionRule(), 0.1, 100.0),
        (PredictionRule(confidence_z=1.0), 0.1683, 10.0),
        (PredictionRule(censoring=Censoring.DROPPED), 1.0, 10.0),
        (PredictionRule(censoring=Censoring.AS_EVICTED), 0.1, 100.0),
        (PredictionRule(horizon_s=50.0), 0.1, 50.0),
    ],
)
def test_the_rule_applies_to_every_cell(rule: PredictionRule, risk: float, survives_s: float):
    made = table({4: cell(3, 27), 6: cell(3, 27)}, rule)
    for slots in (4, 5, 6):  # 5 is interpolated
        assert made.estimate(1, slots, 50.0).eviction_probability == pytest.approx(risk, abs=1e-4)
        assert made.survives_s(1, slots, 0.15) == survives_s


def test_interval_samples_go_into_their_cells():
    one = samples({4: [(10.0, True)] * 30, 6: [(100.0, False)] * 30})
    made = QuantileTable.from_samples([replace(one, span_s=np.full(60, 10.0))], NODES, 1000.0)
    assert made.estimate(1, 6, 95.0) == (0.0, True, 30)
    assert made.estimate(1, 4, 5.0) == (1.0, True, 30)
