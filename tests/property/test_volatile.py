"""Volatile resources on random traces: kernels equal the event loop, and what holds for every pool."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudsim.disclosure.levels import Disclosure, disclose
from cloudsim.disclosure.targeting import LINEAR, POLYNOMIAL, expected_value, find_target_s
from cloudsim.model.lengths import BIN_S, LengthHistogram
from cloudsim.volatile import kernels
from cloudsim.volatile.managers import Renewal, RevocationPolicy, count_intervals, count_revocations
from cloudsim.volatile.study import InformationModel, run_study
from tests.support.reference import volatile as reference

#: Runs of samples; many of them end just when somebody is renewed.
RUNS = st.one_of(st.integers(1, 4), st.sampled_from([287, 288, 575, 576, 577, 1152]), st.integers(1, 700))


def traces(most: int) -> st.SearchStrategy[np.ndarray]:
    """Units of some hundreds of samples, seldom constant for long and seldom moving all the time."""
    runs = st.lists(st.tuples(st.integers(0, most), RUNS), min_size=1, max_size=10)
    return runs.map(lambda pieces: np.concatenate([np.full(run, level) for level, run in pieces]))


def counted(lengths: Sequence[int]) -> list[int]:
    return np.bincount(np.array(lengths, np.int64), minlength=577).tolist()


@settings(max_examples=30)
@given(units=traces(most=9), seed=st.integers(0, 2**32))
def test_kernels_equal_the_event_loop(units: np.ndarray, seed: int):
    draws = np.random.default_rng(seed).random(count_revocations(units))
    plain = units.tolist()
    (oldest,) = reference.list_intervals(plain, reference.oldest_first, [9])
    assert kernels.count_queue(units, False).tolist() == counted(oldest)
    (newest,) = reference.list_intervals(plain, reference.newest_first, [9])
    assert kernels.count_queue(units, True).tolist() == counted(newest)
    (any_one,) = reference.list_intervals(plain, reference.random_order(draws), [9])
    assert kernels.count_random(units, draws).tolist() == counted(any_one)
    (stack,) = reference.list_intervals(plain, reference.top_first, [9])
    assert kernels.count_stack(units, np.array([0])).tolist() == [counted(stack)]
    bands = reference.list_intervals(plain, reference.top_first, [2, 1, 3, 3])
    assert kernels.count_stack(units, np.array([7, 6, 3, 0])).tolist() == [counted(one) for one in bands]
    recent = reference.list_intervals(plain, reference.newest_first, [2, 1, 3, 3])
    for floor, room, lengths in zip([7, 6, 3, 0], [2, 1, 3, 3], recent, strict=True):
        assert kernels.count_queue(np.clip(units - floor, 0, room), True).tolist() == counted(lengths)


@settings(max_examples=30)
@given(units=traces(most=5000), seed=st.integers(0, 2**32))
def test_the_sum_of_all_lengths_is_the_same_for_every_policy(units: np.ndarray, seed: int):
    up_s = int(units.sum()) * BIN_S
    for policy in RevocationPolicy:
        for renewal in Renewal:
            found = count_intervals(units, policy, np.random.default_rng(seed), renewal)
            assert sum(one.total_s for one in found) == up_s, f"{policy}, {renewal}"


@settings(max_examples=30)
@given(units=traces(most=5000))
def test_with_full_information_pools_are_never_worse_than_the_stack_that_they_cut(units: np.ndarray):
    (whole,), pools = (
        count_intervals(units, RevocationPolicy.LIFO),
        count_intervals(units, RevocationPolicy.LIFO_POOLS),
    )
    assert LengthHistogram.merged(pools) == whole
    for value in (LINEAR, POLYNOMIAL):
        of_each = [find_target_s(disclose(one, Disclosure.FULL), value) for one in pools]
        parts = sum(
            one.count * expected_value(value, aim, one) for one, aim in zip(pools, of_each, strict=True)
        )
        aim = find_target_s(disclose(whole, Disclosure.FULL), value)
        assert parts >= whole.count * expected_value(value, aim, whole) * (1 - 1e-12)


@settings(max_examples=15)
@given(units=traces(most=5000), seed=st.integers(0, 2**32))
def test_nobody_gets_more_than_the_oracle_nor_than_full_information(units: np.ndarray, seed: int):
    outcomes = run_study(units, np.random.default_rng(seed)).outcomes
    best = {(one.policy, one.value_name): one.value for one in outcomes if one.model is InformationModel.FULL}
    for one in outcomes:
        assert 0 <= one.of_oracle <= 1 + 1e-12
        assert 0 <= one.success_rate <= 1
        if one.model is not InformationModel.ORACLE:
            assert one.value <= best[one.policy, one.value_name] * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_random_revocation_spares_old_and_young_alike(seed: int):
    """Where one unit at a time is replaced, lengths are geometric."""
    most, samples = 50, 20_000
    units = np.tile([most, most - 1], samples // 2)
    (found,) = count_intervals(units, RevocationPolicy.RANDOM, np.random.default_rng(seed))
    # A unit meets one revocation in two samples, and survives it with 49 in 50.
    met = np.arange(1, 40, dtype=np.float64)
    expected = (1 - 1 / most) ** met
    assert found.survival(2 * met * BIN_S + BIN_S) == pytest.approx(expected, abs=0.02)
