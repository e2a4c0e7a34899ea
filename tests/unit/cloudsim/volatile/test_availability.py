"""From prices to idle units: docs/design/volatile-resources.md "From price to availability"."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.markets.prices import PriceSeries
from cloudsim.model.errors import SpecError
from cloudsim.volatile.availability import (
    MAX_UNITS,
    STEP_S,
    Availability,
    ExcludedSeries,
    ExclusionReason,
    PriceStatistics,
    Unknown,
    Window,
    first_window,
    infer_availability,
    last_window,
    whole_window,
)

DAY = 288  # samples


def series(prices: list[Any], at_s: list[float] | None = None, **rest: Any) -> PriceSeries:
    """A price a sample, or at the times given."""
    times = [at * STEP_S for at in range(len(prices))] if at_s is None else at_s
    return PriceSeries.of(times, prices, instance_type="m1.large", zone="a", **rest)


def made(found: Availability | ExcludedSeries) -> Availability:
    assert isinstance(found, Availability), found
    return found


def excluded(found: Availability | ExcludedSeries | Window) -> ExcludedSeries:
    assert isinstance(found, ExcludedSeries), found
    return found


cents = st.decimals("0.0001", "9.9999", places=4).map(str)


@given(st.lists(cents, min_size=2, max_size=40))
def test_units_are_the_formula_in_exact_arithmetic(prices: list[str]) -> None:
    exact = [Fraction(price) for price in prices]
    top, low = max(exact), min(exact)
    found = infer_availability(series(prices))
    if top == low:
        assert excluded(found).reason is ExclusionReason.NEVER_CHANGES
    else:
        expected = [int((top - price) / (top - low) * MAX_UNITS) for price in exact]
        assert made(found).units.tolist() == expected
        assert made(found).known.all()


def test_floats_would_lose_a_unit() -> None:
    """(0.5 - 0.2) / (0.5 - 0.1) is 3/4, and a unit less when the prices are floats."""
    assert int((0.5 - 0.2) / (0.5 - 0.1) * MAX_UNITS) == 3749
    assert made(infer_availability(series(["0.1", "0.2", "0.5"]))).units.tolist() == [5000, 3750, 0]


@pytest.mark.parametrize("half", [" 0.50 ", ".5", "5e-1", "+0.5", "5.E-1"])
def test_prices_may_be_written_in_all_ways_of_decimals(half: str) -> None:
    assert made(infer_availability(series([half, "1.", "0.75"]))).units.tolist() == [5000, 0, 2500]


def test_samples_are_multiples_of_five_minutes_and_carry_the_last_price() -> None:
    prices = series(["1", "2", "3", "1"], [10, 310, 320, 1500], ends_s=2000)
    assert whole_window(prices) == Window(300, 6)
    found = made(infer_availability(prices))
    # At 300 still 1; the 2 lasted for ten seconds and no sample sees it.
    assert found.units.tolist() == [5000, 0, 0, 0, 5000, 5000]
    assert (found.name, found.starts_at_s, found.step_s) == ("m1.large a", 300, 300)


def test_the_highest_and_lowest_price_are_those_of_the_window() -> None:
    prices = series(["1", "2", "3", "9"])
    assert made(infer_availability(prices, Window(0, 3))).units.tolist() == [5000, 2500, 0]
    assert made(infer_availability(prices)).units.tolist() == [5000, 4375, 3750, 0]


def test_a_price_that_never_changes_makes_no_pool() -> None:
    found = excluded(infer_availability(series(["0.10", "0.1", "0.100"])))
    assert (found.name, found.reason) == ("m1.large a", ExclusionReason.NEVER_CHANGES)


def test_unknown_prices_exclude_a_pool_unless_the_last_one_is_carried() -> None:
    prices = series(["1", None, "3", "1", "2"], gaps_s=[(2 * STEP_S, 3 * STEP_S)], ends_s=5 * STEP_S)
    found = excluded(infer_availability(prices))
    assert found.reason is ExclusionReason.UNKNOWN_PRICES
    assert found.detail.startswith("the price of 1 of 6 samples is unknown; choose a window without gaps")
    carried = made(infer_availability(prices, unknown=Unknown.CARRY))
    assert carried.units.tolist() == [5000, 5000, 0, 5000, 2500, 2500]
    assert carried.known.tolist() == [True, False, True, True, True, True]


def test_what_is_before_the_first_price_is_never_known() -> None:
    prices = series(["1", "2"], [600, 900])
    assert (
        excluded(infer_availability(prices, Window(0, 4), Unknown.CARRY)).reason
        is ExclusionReason.UNKNOWN_PRICES
    )
    assert (
        excluded(infer_availability(series([None, "1", "2"]), unknown=Unknown.CARRY)).reason
        is ExclusionReason.UNKNOWN_PRICES
    )


def test_first_and_last_window() -> None:
    prices = series(list(range(1, 11)))
    assert first_window(prices, 4) == Window(0, 4)
    assert last_window(prices, 4) == Window(6 * STEP_S, 4)
    assert first_window(prices, 10) == last_window(prices, 10) == whole_window(prices)
    for window in (first_window, last_window):
        assert excluded(window(prices, 11)).reason is ExclusionReason.TOO_SHORT
        assert excluded(window(prices)).detail == "10 samples, 25920 are needed"
        with pytest.raises(SpecError, match="samples: must be at least 1"):
            window(prices, 0)


def test_volatility_and_hours() -> None:
    pool = Availability.of("pool", [5000, 2500, 0, 2500])
    assert pool.volatility == pytest.approx(np.std([1, 0.5, 0, 0.5]))
    assert pool.total_volatile_hours == 10_000 * 300 / 3600
    assert (len(pool), pool.days) == (4, 4 / DAY)
    assert repr(pool) == "Availability('pool', 4 samples, 0.0 days)"


def amplitude(units: np.ndarray, cycles: int) -> float:
    """Of one frequency, from its definition."""
    turn = np.exp(-2j * np.pi * cycles * np.arange(len(units)) / len(units))
    return float(abs(((units - units.mean()) * turn).sum()))


@pytest.mark.parametrize("days", [1, 2, 3])
@pytest.mark.parametrize("beyond", [0, 1, 287])
def test_periodicity_is_the_daily_amplitude_over_the_mean_of_the_others(days: int, beyond: int) -> None:
    units = np.random.default_rng(days).integers(0, 5001, days * DAY + beyond)
    cut = units[: days * DAY]
    others = [amplitude(cut, cycles) for cycles in range(1, days * DAY // 2 + 1) if cycles != days]
    found = Availability.of("pool", units).periodicity
    assert found == pytest.approx(amplitude(cut, days) / np.mean(others))


def test_a_daily_pool_is_more_periodic_than_others() -> None:
    days = np.arange(10 * DAY) / DAY
    rng = np.random.default_rng(1)
    noise = rng.uniform(-500, 500, len(days))
    by_cycles = {
        cycles: Availability.of("pool", 2500 + noise + 1000 * np.sin(2 * np.pi * cycles * days)).periodicity
        for cycles in (0.5, 1, 2)
    }
    assert by_cycles[1] > 50
    assert max(by_cycles[0.5], by_cycles[2]) < 5


def test_a_pool_that_never_changes_has_no_rhythm_and_a_short_one_no_day() -> None:
    assert Availability.of("pool", np.full(DAY, 7)).periodicity == 0
    with pytest.raises(SpecError, match="have no daily cycle"):
        _ = Availability.of("pool", np.arange(DAY - 1)).periodicity


def test_a_split_cuts_in_time_and_keeps_the_pool() -> None:
    pool = made(infer_availability(series(["1", "3", "2", "2"], ends_s=4 * STEP_S)))
    train, test = pool.split(0.4)
    assert (train.units.tolist(), test.units.tolist()) == ([5000, 0], [2500, 2500, 2500])
    assert (train.starts_at_s, test.starts_at_s, test.name) == (0, 2 * STEP_S, pool.name)
    for part in (0, 1, -1, 0.01, 0.99, float("nan")):
        with pytest.raises(SpecError, match="first_part: "):
            pool.split(part)


@pytest.mark.parametrize(
    ("units", "message"),
    [([], "has shape"), ([5001], "from 0 to 5000"), ([-1], "from 0 to 5000"), ([[1], [2]], "has shape")],
)
def test_wrong_units_are_refused(units: Any, message: str) -> None:
    with pytest.raises(SpecError, match=f"units: .*{message}"):
        Availability.of("pool", units)


def test_wrong_columns_are_refused_and_right_ones_cannot_be_written() -> None:
    with pytest.raises(SpecError, match="units: needs int32 units"):
        Availability("pool", np.arange(3), np.ones(3, bool))  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="units: has shape"):
        Availability("pool", np.arange(3, dtype=np.int32), np.ones(2, bool))
    with pytest.raises(ValueError, match="read-only"):
        Availability.of("pool", [1]).units[0] = 2


def test_price_statistics_are_of_the_samples() -> None:
    found = PriceStatistics.of(series([None, "1", "3", "3", None], [0, 300, 600, 900, 1200]))
    assert (found.dynamic_range, found.mean) == (2, 2.5)
    assert found.standard_deviation == pytest.approx(np.std([1, 3, 3, 3]))
    with pytest.raises(SpecError, match="no known price in the window"):
        PriceStatistics.of(series([None]))
