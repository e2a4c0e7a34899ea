"""Policies on pools whose intervals can be told by hand; ``tests/property/test_volatile.py`` has the rest."""

import numpy as np
import pytest

from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import LengthHistogram
from cloudsim.volatile import kernels
from cloudsim.volatile.managers import Renewal, RevocationPolicy, count_intervals, count_revocations
from cloudsim.volatile.synthetic import make_daily_ramp
from tests.support.reference import volatile as reference

BIN_S = 300.0


def lengths(
    units: list[int], policy: RevocationPolicy, seed: int = 0, renewal: Renewal = Renewal.SLOT
) -> list[dict[int, int]]:
    """Lengths in samples and how many there are, for each pool."""
    found = count_intervals(np.array(units), policy, np.random.default_rng(seed), renewal)
    return [{int(at): int(one.counts[at]) for at in np.flatnonzero(one.counts)} for one in found]


#: Two units, a third one sample later; one is revoked after three samples, the others at the end.
SMALL = [2, 3, 3, 2]


def test_the_oldest_goes_first():
    assert lengths(SMALL, RevocationPolicy.FIFO) == [{3: 2, 4: 1}]


@pytest.mark.parametrize("renewal", Renewal)
def test_the_last_in_goes_first(renewal: Renewal):
    assert lengths(SMALL, RevocationPolicy.LIFO, renewal=renewal) == [{2: 1, 4: 2}]


def test_any_unit_is_as_likely_as_another():
    first = sum(lengths(SMALL, RevocationPolicy.RANDOM, seed) == [{2: 1, 4: 2}] for seed in range(3000))
    assert first == pytest.approx(1000, abs=4 * (3000 * 2 / 9) ** 0.5)


#: One unit; a second from sample 300 on; one of them goes at 700, after the first was renewed at 576.
RENEWED = [1] * 300 + [2] * 400 + [1] * 300


def test_a_renewed_unit_goes_to_the_back_of_the_queue():
    assert lengths(RENEWED, RevocationPolicy.FIFO) == [{576: 1, 400: 1, 424: 1}]


def test_a_renewed_unit_keeps_its_place_in_the_stack():
    assert lengths(RENEWED, RevocationPolicy.LIFO) == [{576: 1, 400: 1, 424: 1}]
    later = [1] * 300 + [2] * 200 + [3] * 200 + [2] * 300
    assert lengths(later, RevocationPolicy.LIFO) == [{576: 2, 200: 1, 424: 1, 124: 1}]


def test_or_becomes_the_newest_where_that_is_asked_for():
    assert lengths(RENEWED, RevocationPolicy.LIFO, renewal=Renewal.RECENCY) == [{576: 2, 124: 2}]


def test_who_is_revoked_at_48_hours_has_lived_once():
    assert (
        lengths([1] * 576 + [0], RevocationPolicy.LIFO)
        == lengths([1] * 576 + [0], RevocationPolicy.FIFO)
        == [{576: 1}]
    )


def test_a_sample_revokes_then_renews_then_adds():
    # At sample 576 both are due; one is revoked first, and only the other one is renewed.
    units = [2] * 576 + [1] * 10
    for policy in (RevocationPolicy.RANDOM, RevocationPolicy.FIFO, RevocationPolicy.LIFO):
        assert lengths(units, policy) == [{576: 2, 10: 1}]


def test_pools_are_filled_from_the_bottom_and_revoked_from_the_top():
    units = [500, 1500, 4999, 5000, 800, 0]
    assert lengths(units, RevocationPolicy.LIFO_POOLS) == [
        {2: 999, 1: 1},
        {2: 1000},
        {2: 1000},
        {3: 500, 2: 500},
        {5: 500, 4: 300, 3: 200},
    ]


def test_a_pool_that_is_never_reached_has_no_interval():
    assert [one.count for one in count_intervals(np.array([1200]), RevocationPolicy.LIFO_POOLS)] == [
        0,
        0,
        0,
        200,
        1000,
    ]


def test_the_same_draws_revoke_the_same_units():
    units = make_daily_ramp(4).units
    one, two, other = (
        count_intervals(units, RevocationPolicy.RANDOM, np.random.default_rng(seed))[0] for seed in (1, 1, 2)
    )
    assert one == two != other


def test_the_simple_profile_of_the_paper():
    """§3.3 and docs/design/volatile-resources.md "Acceptance"."""
    units = make_daily_ramp().units
    (fifo,) = count_intervals(units, RevocationPolicy.FIFO)
    (lifo,) = count_intervals(units, RevocationPolicy.LIFO)
    pools = count_intervals(units, RevocationPolicy.LIFO_POOLS)
    assert fifo.counts[360] >= 0.97 * fifo.count  # 1,800 minutes
    assert lifo.median_s < 0.4 * fifo.median_s
    assert lifo.std_s > 5 * fifo.std_s
    for pool in pools[3:]:
        assert pool.counts[576] == pool.count > 0
    assert LengthHistogram.merged(pools) == lifo


def test_full_pools_equal_the_event_loop():
    generator = np.random.default_rng(3)
    units = np.clip(3000 + np.cumsum(generator.integers(-400, 401, 60)), 0, 5000)
    units[20:30] = 4100
    units = np.repeat(units, 20)
    lengths = reference.list_intervals(units.tolist(), reference.top_first, [1000] * 5)
    for found, expected in zip(count_intervals(units, RevocationPolicy.LIFO_POOLS), lengths, strict=True):
        assert found == LengthHistogram.from_lengths(np.array(expected) * BIN_S)


def test_what_is_no_pool():
    for units in (np.array([], np.int64), np.array([0.5]), np.array([[1]])):
        with pytest.raises(SpecError, match="units: units are one row"):
            count_intervals(units, RevocationPolicy.LIFO)
    with pytest.raises(SpecError, match="units: units are at least 0, not -3"):
        count_intervals(np.array([1, -3]), RevocationPolicy.LIFO)
    with pytest.raises(SpecError, match="units: 5 pools hold 5,000 units"):
        count_intervals(np.array([5001]), RevocationPolicy.LIFO_POOLS)
    with pytest.raises(SpecError, match="generator: "):
        count_intervals(np.array([1]), RevocationPolicy.RANDOM)


def test_one_number_is_drawn_for_each_revocation():
    units = np.array([5, 2, 4, 0, 0, 3], np.int64)
    assert count_revocations(units) == 7
    kernels.count_random(units, np.zeros(7))
