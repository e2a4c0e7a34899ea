"""The one histogram of lengths."""

import numpy as np
import pytest

from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import LengthHistogram

#: 1, 1, 2 and 4 bins of 5 minutes.
FOUR = LengthHistogram.from_lengths([300.0, 300.0, 600.0, 1200.0])
EMPTY = LengthHistogram.from_lengths([])


def test_figures():
    assert len(FOUR.counts) == 577
    assert FOUR.counts[:6].tolist() == [0, 2, 1, 0, 1, 0]
    assert (FOUR.count, FOUR.total_s, FOUR.mean_s) == (4, 2400.0, 600.0)
    assert FOUR.std_s == pytest.approx((2 * 300.0**2 / 4 + 600.0**2 / 4) ** 0.5)


@pytest.mark.parametrize(
    ("share", "length_s"),
    [(0.01, 300.0), (0.5, 300.0), (0.5001, 600.0), (0.75, 600.0), (0.76, 1200.0), (1.0, 1200.0)],
)
def test_a_quantile_is_the_smallest_length_with_enough_below(share: float, length_s: float):
    assert FOUR.quantile_s(share) == length_s


@pytest.mark.parametrize("share", [0.1, 0.3, 0.7, 0.9])
def test_shares_that_are_no_binary_fractions_are_met_exactly(share: float):
    ten = LengthHistogram.from_lengths(np.arange(1, 11) * 300.0)
    assert ten.quantile_s(share) == round(share * 10) * 300.0


def test_median():
    assert FOUR.median_s == 300.0
    assert LengthHistogram.from_lengths([300.0, 900.0, 1500.0]).median_s == 900.0


def test_survival_counts_whoever_reaches_a_length():
    lengths_s = np.array([-5.0, 0.0, 1.0, 300.0, 301.0, 600.0, 601.0, 1200.0, 1200.1, 1e9])
    assert FOUR.survival(lengths_s).tolist() == [1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0, 0]


def test_an_empty_one_lives_no_time():
    assert (EMPTY.count, EMPTY.total_s, EMPTY.mean_s, EMPTY.std_s, EMPTY.quantile_s(0.9)) == (0, 0, 0, 0, 0)
    assert EMPTY.survival(np.array([0.0, 1.0, 300.0])).tolist() == [1, 0, 0]


def test_lengths_between_bins_and_beyond_the_last():
    found = LengthHistogram.from_lengths([299.0, 301.0, 5000.0], longest_bins=3)
    assert found.counts.tolist() == [1, 1, 0, 1]


def test_merging_adds_counts():
    both = LengthHistogram.merged([FOUR, LengthHistogram.from_lengths([600.0]), EMPTY])
    assert both == LengthHistogram.from_lengths([300.0, 300.0, 600.0, 600.0, 1200.0])
    assert both != FOUR


def test_what_does_not_merge():
    with pytest.raises(SpecError, match="bins are the same"):
        LengthHistogram.merged([FOUR, LengthHistogram.from_lengths([600.0], bin_s=60.0)])
    with pytest.raises(SpecError, match="merge when there is one"):
        LengthHistogram.merged([])


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, float("nan")])
def test_a_share_out_of_range(share: float):
    with pytest.raises(SpecError, match="share: a quantile"):
        FOUR.quantile_s(share)


@pytest.mark.parametrize(
    ("counts", "bin_s", "told"),
    [
        (np.array([0, -1]), 300.0, "counts: a count is at least 0"),
        (np.array([0.5]), 300.0, "counts: counts are one row"),
        (np.array([], np.int64), 300.0, "counts: counts are one row"),
        (np.array([1]), 0.0, "bin_s: a bin"),
        (np.array([1]), float("inf"), "bin_s: a bin"),
    ],
)
def test_what_is_no_histogram(counts: np.ndarray, bin_s: float, told: str):
    with pytest.raises(SpecError, match=told):
        LengthHistogram(counts, bin_s)


@pytest.mark.parametrize("length_s", [-1.0, float("nan"), float("inf")])
def test_what_is_no_length(length_s: float):
    with pytest.raises(SpecError, match="finite seconds"):
        LengthHistogram.from_lengths([300.0, length_s])
