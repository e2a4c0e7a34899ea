"""Lifetimes at a bid: from windows of prices, from quotes; and the histories they are played against."""

import math

import numpy as np
import pytest

from cloudsim.markets.prices import PriceSeries
from cloudsim.markets.revocation import (
    WINDOW_S,
    Memoryless,
    PriceHistory,
    PriceWindow,
    QuotedMarkets,
    inject_revocations,
)
from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import LengthHistogram

NAN = float("nan")
HOUR = 3600.0


def history(*steps: tuple[float, float]) -> PriceHistory:
    """Prices from hours on."""
    return PriceHistory(
        "m", np.array([hour * HOUR for hour, _ in steps]), np.array([price for _, price in steps])
    )


def window(now_h: float, *histories: PriceHistory, hours: float = WINDOW_S / HOUR) -> PriceWindow:
    memory = np.full(len(histories), np.inf)
    return PriceWindow(histories, now_h * HOUR, on_demand=1.0, memory_gb=memory, window_s=hours * HOUR)


def test_starts_that_live_and_starts_that_die_are_counted_every_five_minutes() -> None:
    one = history((0, 0.1), (4, 2.0), (5, 0.2), (10, 0.2))
    odds = window(10, one, hours=10).odds(np.array([0.5]), 2 * HOUR, 1)
    # Of 48 starts in the first 4 h the last 24 die, one exactly 2 h before. Of 60 in the last 5 h, which end
    # with the window, those of the first 3 h are known to live for 2 h.
    died, survived = 24, 24 + 37
    assert odds.revoked[0] == pytest.approx(died / (died + survived))
    dead_s = sum(4 * HOUR - start * 300 for start in range(24, 48))
    assert odds.running_s[0] == pytest.approx((dead_s + survived * 2 * HOUR) / (died + survived))
    assert odds.revoked_s[0] == pytest.approx(dead_s / (died + survived))
    assert odds.price[0] == pytest.approx((4 * 0.1 + 5 * 0.2) / 9)


def test_what_nobody_recorded_is_neither_a_revocation_nor_a_life() -> None:
    gap = history((0, 0.1), (4, NAN), (6, 0.1))
    odds = window(8, gap, hours=8).odds(np.array([0.5]), 1 * HOUR, 1)
    assert odds.revoked[0] == 0.0
    assert odds.running_s[0] == HOUR
    longer = window(8, gap, hours=8).odds(np.array([0.5]), 5 * HOUR, 1)
    assert math.isnan(longer.revoked[0]), "no start covers five hours, and none was revoked"
    assert longer.price[0] == pytest.approx(0.1), "the price is that of known times"


def test_a_market_below_which_nobody_bids_has_no_evidence_and_no_price() -> None:
    odds = window(8, history((0, 0.4)), history((0, 0.1))).odds(np.array([0.3, 0.3]), HOUR, 1)
    assert math.isnan(odds.revoked[0])
    assert math.isnan(odds.price[0])
    assert odds.revoked[1] == 0.0


def test_only_the_window_counts_and_nothing_after_now() -> None:
    one = history((0, 0.1), (10, 9.0), (11, 0.1), (1000, 9.0))
    now = window(500, one)
    assert now.price_now[0] == 0.1
    assert now.odds(np.array([0.5]), HOUR, 1).revoked[0] == 0.0
    assert window(20, one).odds(np.array([0.5]), HOUR, 1).revoked[0] > 0.0


def test_a_market_that_has_not_begun_sells_nothing() -> None:
    later = window(5, history((10, 0.1)), history((0, 0.1)))
    assert later.price_now.tolist() == [np.inf, 0.1]
    assert np.isnan(later.odds(np.array([0.5, 0.5]), HOUR, 1).revoked).tolist() == [True, False]


def test_a_series_keeps_its_gaps_and_its_scale() -> None:
    series = PriceSeries.of(
        [0.0, 3600.0, 7200.0],
        ["0.1", None, "0.3"],
        instance_type="m",
        ends_s=9000.0,
        gaps_s=[[4000.0, 7200.0]],
    )
    found = PriceHistory.of(series, 0.5)
    assert found.at_s.tolist() == [0.0, 3600.0, 4000.0, 7200.0, 9000.0]
    assert np.isnan(found.price).tolist() == [False, True, True, False, True]
    assert found.carried.tolist() == [0.05, 0.05, 0.05, 0.15, 0.15]
    with pytest.raises(SpecError, match="no price of"):
        PriceHistory.of(PriceSeries.of([0.0], ["0"], instance_type="m"))


def test_a_history_begins_with_a_price_and_ascends() -> None:
    with pytest.raises(SpecError, match="at_s"):
        history((0, NAN), (1, 0.1))
    with pytest.raises(SpecError, match="ascend"):
        history((1, 0.1), (0, 0.1))


def test_a_history_knows_when_it_rises_and_what_it_costs() -> None:
    one = history((0, 0.1), *((hour, 0.1 + hour / 1000) for hour in range(1, 200)), (200, 5.0))
    assert one.above_s(0.0, 0.5) == 200 * HOUR
    assert one.above_s(0.0, 0.1505) == 51 * HOUR
    assert one.above_s(60 * HOUR, 0.15) == 60 * HOUR, "it is above already"
    assert one.above_s(0.0, 9.0) == np.inf
    assert one.above_s(-1.0, 9.0) == -1.0, "before it began nothing is sold"
    assert one.paid_usd(0.5 * HOUR, 1.5 * HOUR) == pytest.approx(0.05 + 0.0505)
    assert one.paid_usd(210 * HOUR, 212 * HOUR) == pytest.approx(10.0)


def test_spikes_end_and_leave_what_is_unknown_unknown() -> None:
    gap = history((0, 0.1), (4, NAN), (6, 0.2), (8, 0.2))
    found = gap.with_spikes(np.array([1.0, 3.9, 5.0]) * HOUR, 1800.0, 7.0)
    assert [found.price_at(hour * HOUR) for hour in (0.9, 1.0, 1.4, 1.5, 3.95, 4.3, 4.6, 5.2, 5.6, 6.0)] == [
        0.1, 7.0, 7.0, 0.1, 7.0, 7.0, 0.1, 7.0, 0.1, 0.2,
    ]  # fmt: skip
    later = found.at_s >= 5.5 * HOUR
    assert np.isnan(found.price[later]).tolist() == [True, False, False]


def test_injected_revocations_come_at_the_rate_that_was_asked_for() -> None:
    days = 2000
    plain = PriceHistory("m", np.array([0.0, days * 86400.0]), np.array([0.1, 0.1]))
    found = inject_revocations(plain, 6.0, np.random.default_rng(4), price=10.0, length_s=1.0)
    spikes = int((found.price == 10.0).sum())
    assert spikes == pytest.approx(6 * days, rel=0.03)
    now = PriceWindow(
        [found], days * 86400.0, on_demand=1.0, memory_gb=np.array([8.0]), window_s=days * 86400.0
    )
    odds = now.odds(np.array([1.0]), 7200.0, 1)
    assert odds.revoked[0] == pytest.approx(1 - math.exp(-0.5), abs=0.01)


def test_quotes_answer_the_same_from_a_formula_and_from_lengths() -> None:
    lengths = LengthHistogram.from_lengths([3600.0, 7200.0, 7200.0, 14400.0])
    quoted = QuotedMarkets((Memoryless(36000.0), lengths), np.array([0.2, 0.3]), 1.0, np.full(2, np.inf))
    odds = quoted.odds(np.array([1.0, 1.0]), 10_800.0, 1)
    assert odds.revoked[0] == pytest.approx(1 - math.exp(-0.3))
    assert odds.running_s[0] == pytest.approx(36000 * (1 - math.exp(-0.3)), rel=1e-5)
    assert odds.revoked[1] == 0.75
    assert odds.running_s[1] == pytest.approx((3600 + 2 * 7200 + 10_800) / 4, rel=0.01)
    assert odds.price.tolist() == [0.2, 0.3]


def test_instances_of_a_cloud_must_all_live_and_those_of_a_market_die_together() -> None:
    quoted = QuotedMarkets((Memoryless(36000.0),), np.array([0.2]), 1.0, np.full(1, np.inf))
    assert quoted.odds(np.ones(1), 3600.0, 3).revoked[0] == pytest.approx(1 - math.exp(-0.3))
    one = window(10, history((0, 0.1), (4, 2.0), (5, 0.2)), hours=10)
    assert one.odds(np.ones(1), 3600.0, 3).revoked[0] == one.odds(np.ones(1), 3600.0, 1).revoked[0] > 0


def test_quantiles_of_memoryless_lifetimes_invert_their_survival() -> None:
    one = Memoryless(1000.0)
    assert one.survival(np.array([one.quantile_s(0.9), 0.0, -1.0])).tolist() == pytest.approx([0.1, 1.0, 1.0])
