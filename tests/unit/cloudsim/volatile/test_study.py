"""The study of one pool, against sums that are written out."""

import numpy as np
import pytest

from cloudsim.disclosure.targeting import SLICES
from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import LengthHistogram
from cloudsim.volatile.managers import Renewal, RevocationPolicy
from cloudsim.volatile.study import InformationModel, StudyOutcome, run_study
from cloudsim.volatile.synthetic import make_daily_ramp, make_exemplar

HOUR_S = 3600.0
#: A unit for 20 hours and a second one for the first two of each four: five intervals of 2 h, one of 20 h.
UNITS = np.tile(np.repeat([2, 1], 24), 5)


def by_key(
    outcomes: tuple[StudyOutcome, ...],
) -> dict[tuple[RevocationPolicy, InformationModel, str], StudyOutcome]:
    return {(one.policy, one.model, one.value_name): one for one in outcomes}


def test_one_pool_by_hand():
    found = by_key(run_study(UNITS, np.random.default_rng(0)).outcomes)
    # Mean 5 h, target 4.5 h: one of six succeeds.
    assert found[RevocationPolicy.LIFO, InformationModel.MTTR, "linear"] == StudyOutcome(
        RevocationPolicy.LIFO,
        InformationModel.MTTR,
        "linear",
        (4.5 * HOUR_S,),
        4.5,
        4.5 / 30,
        1 / 6,
        4.5 / 30,
    )
    # 6 x 2 against 1 x 20; superlinear 6 x 2.83 against 89.4.
    full = found[RevocationPolicy.LIFO, InformationModel.FULL, "linear"]
    assert (full.targets_s, full.value) == ((20 * HOUR_S,), 20.0)
    assert full.success_rate == pytest.approx(1 / 6)
    oracle = found[RevocationPolicy.LIFO, InformationModel.ORACLE, "polynomial"]
    assert (oracle.targets_s, oracle.of_oracle, oracle.success_rate) == ((), 1.0, 1.0)
    assert oracle.value == pytest.approx(5 * 2**1.5 + 20**1.5)
    assert found[RevocationPolicy.LIFO, InformationModel.FULL, "polynomial"].per_unit_hour == pytest.approx(
        20**1.5 / 30
    )


def test_all_of_it_is_there_in_order():
    one = run_study(UNITS, np.random.default_rng(0))
    assert [(each.policy, each.model, each.value_name) for each in one.outcomes] == [
        (policy, model, name)
        for policy in RevocationPolicy
        for model in InformationModel
        for name in ("linear", "polynomial")
    ]
    assert [len(one.lengths[policy]) for policy in RevocationPolicy] == [1, 1, 1, 5]


def test_pools_have_targets_of_their_own():
    units = np.tile(np.repeat([5000, 4000], 24), 5)
    found = by_key(run_study(units, np.random.default_rng(0)).outcomes)
    pools = found[RevocationPolicy.LIFO_POOLS, InformationModel.P90, "linear"]
    assert pools.targets_s == (2 * HOUR_S, *[20 * HOUR_S] * 4)
    assert (pools.of_oracle, pools.success_rate, pools.per_unit_hour) == (1.0, 1.0, 1.0)
    assert found[RevocationPolicy.LIFO, InformationModel.P90, "linear"].of_oracle < 0.9


def test_told_of_the_first_part_and_judged_on_the_rest():
    # In the first part units live for an hour, in the second for two.
    first, rest = np.tile(np.repeat([1, 0], 12), 4), np.tile(np.repeat([1, 0], 24), 2)
    whole = by_key(run_study(np.concatenate((first, rest)), np.random.default_rng(0)).outcomes)
    split = run_study(rest, np.random.default_rng(0), informed_by=first)
    assert whole[RevocationPolicy.FIFO, InformationModel.FULL, "linear"].targets_s == (HOUR_S,)
    told = by_key(split.outcomes)[RevocationPolicy.FIFO, InformationModel.FULL, "linear"]
    assert (told.targets_s, told.value, told.of_oracle, told.success_rate) == ((HOUR_S,), 2.0, 0.5, 1.0)
    assert split.lengths[RevocationPolicy.FIFO] == (LengthHistogram.from_lengths([2 * HOUR_S] * 2),)


def test_a_pool_that_was_never_reached_before_is_aimed_at_by_nobody():
    first, rest = np.full(100, 4000), np.full(100, 5000)
    found = by_key(run_study(rest, np.random.default_rng(0), informed_by=first).outcomes)
    pools = found[RevocationPolicy.LIFO_POOLS, InformationModel.FULL, "linear"]
    assert pools.targets_s[0] is None
    assert [pools.of_oracle, pools.success_rate] == pytest.approx([0.8, 0.8])


def test_nothing_is_worth_nothing():
    for outcome in run_study(np.zeros(5, np.int64), np.random.default_rng(0)).outcomes:
        assert (outcome.value, outcome.of_oracle, outcome.success_rate, outcome.per_unit_hour) == (0, 0, 0, 0)


def test_other_values_and_the_other_renewal():
    units = make_exemplar("stable-2", np.random.default_rng(1), samples=2000).units
    slot = run_study(units, np.random.default_rng(0), values=[SLICES])
    recency = run_study(units, np.random.default_rng(0), values=[SLICES], renewal=Renewal.RECENCY)
    assert {one.value_name for one in slot.outcomes} == {"slices"}
    assert slot.lengths[RevocationPolicy.FIFO] == recency.lengths[RevocationPolicy.FIFO]
    assert slot.lengths[RevocationPolicy.LIFO] != recency.lengths[RevocationPolicy.LIFO]


def test_the_same_generator_gives_the_same_study():
    units = make_daily_ramp(3).units
    one, two = (run_study(units, np.random.default_rng(4)).outcomes for _ in range(2))
    assert one == two


def test_units_that_are_none():
    for units, informed_by in [(UNITS - 2, None), (UNITS, UNITS - 2)]:
        with pytest.raises(SpecError, match="units: units are at least 0, not -1"):
            run_study(units, np.random.default_rng(0), informed_by=informed_by)
