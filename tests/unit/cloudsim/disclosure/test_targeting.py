"""Targets and values, against sums that are written out."""

from statistics import NormalDist

import numpy as np
import pytest

from cloudsim.disclosure.levels import LATTICE_S, Disclosed, Disclosure, disclose
from cloudsim.disclosure.targeting import (
    CHECKPOINTED,
    LINEAR,
    POLYNOMIAL,
    SLICES,
    VALUES,
    Value,
    expected_value,
    find_target_s,
    find_value,
)
from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import LengthHistogram

MINUTE_S, HOUR_S = 60.0, 3600.0
NOBODY = LengthHistogram.from_lengths([])
#: 60 intervals of an hour, 30 of eight hours, ten of two days.
SKEWED = LengthHistogram.from_lengths(np.repeat([1.0, 8.0, 48.0], [60, 30, 10]) * HOUR_S)


def step(length_s: float, aim_s: float, exponent: float) -> float:
    return (aim_s / HOUR_S) ** exponent if length_s >= aim_s else 0.0


def cut(length_s: float, aim_s: float) -> float:
    return length_s // aim_s * aim_s / HOUR_S


def saved(length_s: float, aim_s: float) -> float:
    return (aim_s if length_s >= aim_s else length_s // 1800 * 1800) / HOUR_S


BY_HAND = {
    "linear": lambda length_s, aim_s: step(length_s, aim_s, 1.0),
    "polynomial": lambda length_s, aim_s: step(length_s, aim_s, 1.5),
    "slices": cut,
    "checkpointed": saved,
}


def test_nothing_is_aimed_at_when_nothing_is_told():
    assert find_target_s(Disclosed(Disclosure.NOTHING), LINEAR) is None


@pytest.mark.parametrize("level", [one for one in Disclosure if one is not Disclosure.NOTHING])
@pytest.mark.parametrize("value", VALUES.values(), ids=lambda value: value.name)
def test_nothing_is_aimed_at_when_nobody_lives(level: Disclosure, value: Value):
    assert find_target_s(disclose(NOBODY, level), value) is None
    assert expected_value(value, None, SKEWED) == 0.0


@pytest.mark.parametrize(
    ("mean_min", "target_min"), [(1000.0, 900.0), (100.0, 90.0), (99.0, 85.0), (2.0, 5.0), (9999.0, 2880.0)]
)
def test_mttr_aims_at_nine_tenths_of_the_mean_on_the_lattice(mean_min: float, target_min: float):
    told = Disclosed(Disclosure.MTTR, mean_s=mean_min * MINUTE_S)
    assert find_target_s(told, LINEAR) == find_target_s(told, POLYNOMIAL) == target_min * MINUTE_S


def test_mttr_aims_at_a_product_where_products_are_sold():
    for mean_h, product_h in [(0.5, 1), (2.3, 2), (4.0, 3), (30.0, 6)]:
        assert find_target_s(Disclosed(Disclosure.MTTR, mean_s=mean_h * HOUR_S), SLICES) == product_h * HOUR_S


@pytest.mark.parametrize("level", [Disclosure.P10, Disclosure.P90])
@pytest.mark.parametrize(
    ("median_min", "other_min"), [(600, 300), (600, 1200), (1000, 5), (2880, 60), (10, 2880)]
)
@pytest.mark.parametrize(("value", "exponent"), [(LINEAR, 1.0), (POLYNOMIAL, 1.5)])
def test_a_percentile_is_taken_for_that_of_a_gaussian(
    level: Disclosure, median_min: int, other_min: int, value: Value, exponent: float
):
    told = Disclosed(level, median_s=median_min * MINUTE_S, quantile_s=other_min * MINUTE_S)
    belief = NormalDist(median_min, abs(median_min - other_min) / 1.28155)
    best = max(range(5, 2885, 5), key=lambda minutes: minutes**exponent * (1 - belief.cdf(minutes)))
    assert find_target_s(told, value) == best * MINUTE_S


def test_a_percentile_at_the_median_aims_at_it():
    told = Disclosed(Disclosure.P90, median_s=2880 * MINUTE_S, quantile_s=2880 * MINUTE_S)
    assert find_target_s(told, POLYNOMIAL) == 2880 * MINUTE_S


def test_full_aims_where_value_times_survival_is_greatest():
    # Linear: 1 x 1, 8 x 0.4 or 48 x 0.1; superlinear: 48 hours are worth 333.
    assert find_target_s(disclose(SKEWED, Disclosure.FULL), LINEAR) == 48 * HOUR_S
    fewer = LengthHistogram.from_lengths(np.repeat([1.0, 8.0, 48.0], [60, 36, 4]) * HOUR_S)
    assert find_target_s(disclose(fewer, Disclosure.FULL), LINEAR) == 8 * HOUR_S
    assert find_target_s(disclose(fewer, Disclosure.FULL), POLYNOMIAL) == 48 * HOUR_S


def test_of_equally_good_targets_the_shortest():
    even = LengthHistogram.from_lengths(np.array([1.0, 2.0]) * HOUR_S)
    assert find_target_s(disclose(even, Disclosure.FULL), LINEAR) == HOUR_S


def test_a_skewed_distribution_misleads_the_tenth_percentile():
    # Median and lower tail are one hour: users aim at it and get 1 of 4.8.
    aim_s = find_target_s(disclose(SKEWED, Disclosure.P10), LINEAR)
    assert aim_s == HOUR_S
    assert expected_value(LINEAR, aim_s, SKEWED) == 1.0
    assert expected_value(LINEAR, 48 * HOUR_S, SKEWED) == pytest.approx(4.8)


@pytest.mark.parametrize("value", VALUES.values(), ids=lambda value: value.name)
def test_expected_values_are_means_over_the_intervals(value: Value):
    lengths_s = np.random.default_rng(7).integers(1, 577, 300) * 300.0
    lengths = LengthHistogram.from_lengths(lengths_s)
    for aim_s in value.targets_s[[0, 1, 3, 5, -1]].tolist():
        by_hand = np.mean([BY_HAND[value.name](one, aim_s) for one in lengths_s.tolist()])
        assert expected_value(value, aim_s, lengths) == pytest.approx(by_hand)


@pytest.mark.parametrize("value", VALUES.values(), ids=lambda value: value.name)
def test_the_oracle_takes_the_best_target_of_each_length(value: Value):
    lengths_s = np.array([300.0, 3300.0, 3600.0, 9000.0, 17_700.0, 25_200.0, 172_800.0])
    best = [
        max(BY_HAND[value.name](one, aim) for aim in value.targets_s.tolist()) for one in lengths_s.tolist()
    ]
    assert value.perfect(lengths_s) == pytest.approx(best)


def test_full_information_about_slices_weighs_service_against_what_is_left_over():
    # Seven hours: 7 x 1, 3 x 2, 2 x 3, 1 x 4, 1 x 5, 1 x 6; eight: 8 x 1, 4 x 2, 2 x 3, 2 x 4.
    seven = LengthHistogram.from_lengths([7 * HOUR_S])
    assert find_target_s(disclose(seven, Disclosure.FULL), SLICES) == HOUR_S
    assert expected_value(SLICES, 3 * HOUR_S, seven) == 6.0


def test_whoever_saves_their_work_aims_as_long_as_they_can():
    assert find_target_s(disclose(SKEWED, Disclosure.FULL), CHECKPOINTED) == 48 * HOUR_S


def test_one_hour_is_worth_one_under_every_value():
    hour = LengthHistogram.from_lengths([HOUR_S])
    assert {expected_value(value, HOUR_S, hour) for value in VALUES.values()} == {1.0}


def test_values_by_name():
    assert find_value("polynomial") is POLYNOMIAL
    with pytest.raises(
        SpecError, match="value: 'cubic' is not one of linear, polynomial, slices, checkpointed"
    ):
        find_value("cubic")


def test_targets_never_leave_the_lattice():
    for level in Disclosure:
        told = disclose(SKEWED, level)
        for value in (LINEAR, POLYNOMIAL, CHECKPOINTED):
            found = find_target_s(told, value)
            assert found is None or found in LATTICE_S
