"""A market's prices: a step function with holes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloudsim.markets.prices import PriceSeries
from cloudsim.model.errors import TraceError

NAN = float("nan")
TIMES = (0.0, 10.0, 20.0, 30.0, 60.0)


def series(**changes: Any) -> PriceSeries:
    """0.1 from 0, 0.2 from 10, unknown from 20, 0.4 from 30, a gap from 40 to 60, 0.5 until 70."""
    made = PriceSeries.of(
        TIMES,
        ["0.10", 0.2, None, "0.4", "0.5"],
        instance_type="m1.large",
        zone="us-east-1a",
        ends_s=70,
        gaps_s=[(40, 60)],
    )
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("at_s", "price", "carried"),
    [
        (-1, NAN, NAN),
        (0, 0.1, 0.1),
        (9.9, 0.1, 0.1),
        (10, 0.2, 0.2),
        (20, NAN, 0.2),
        (30, 0.4, 0.4),
        (40, 0.4, 0.4),
        (40.1, NAN, 0.4),
        (59.9, NAN, 0.4),
        (60, 0.5, 0.5),
        (70, 0.5, 0.5),
        (70.1, NAN, 0.5),
    ],
)
def test_a_price_holds_until_the_next_record(at_s: float, price: float, carried: float) -> None:
    assert float(series().price_at(at_s)) == pytest.approx(price, nan_ok=True)
    assert float(series().price_at(at_s, carry=True)) == pytest.approx(carried, nan_ok=True)


def test_what_is_before_the_first_price_cannot_be_carried() -> None:
    late = PriceSeries.of([0, 10], [None, "0.2"], instance_type="m1.large")
    assert np.isnan(late.price_at([0, 5], carry=True)).all()
    assert late.record_at([0, 5, 10], carry=True).tolist() == [-1, -1, 1]


def test_times_keep_their_shape() -> None:
    assert series().record_at([[0, 10], [25, 70]]).tolist() == [[0, 1], [-1, 4]]


def test_it_says_what_it_is() -> None:
    assert series().name == "m1.large us-east-1a"
    assert series(product="Windows").name == "m1.large us-east-1a Windows"
    assert repr(series()) == "PriceSeries('m1.large us-east-1a', 5 records, 0.0 days)"
    assert (series().starts_s, series().span_s, len(series())) == (0, 70, 5)


def test_equality_is_of_everything() -> None:
    assert series().equals(series())
    assert not series().equals(series(zone="us-east-1b"))
    assert not series().equals(series(gaps_s=np.array([[40.0, 50.0]])))
    assert not series().equals(series(on_demand_usd_per_hour=1.0))


def test_columns_cannot_be_written() -> None:
    for name in ("at_s", "price_usd_per_hour", "price_text", "gaps_s"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(series(), name)[0] = 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"at_s": np.array([0.0, 10, 10, 30, 60])}, "at_s"),
        ({"at_s": np.array([0.0, 10, NAN, 30, 60])}, "at_s"),
        ({"at_s": np.array([0, 10, 20, 30, 60])}, "at_s"),
        ({"price_usd_per_hour": np.array([0.0, 1, 1, 1, 1])}, "price_usd_per_hour"),
        ({"price_usd_per_hour": np.array([-0.1, 1, 1, 1, 1])}, "price_usd_per_hour"),
        ({"price_usd_per_hour": np.array([np.inf, 1, 1, 1, 1])}, "price_usd_per_hour"),
        ({"price_usd_per_hour": np.ones(4)}, "price_usd_per_hour"),
        ({"price_text": np.array(["1"] * 5)}, "price_text"),
        ({"ends_s": 59.0}, "ends_s"),
        ({"ends_s": NAN}, "ends_s"),
        ({"gaps_s": np.array([[5.0, 5.0]])}, "gaps_s"),
        ({"gaps_s": np.array([[5.0, 9.0], [8.0, 10.0]])}, "gaps_s"),
        ({"gaps_s": np.array([5.0, 9.0, 12.0])}, "gaps_s"),
    ],
)
def test_wrong_columns_are_refused_by_name(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(TraceError, match=f"^{field}: "):
        series(**changes)


def test_a_series_has_a_record_and_prices_are_numbers() -> None:
    with pytest.raises(TraceError, match="has no record"):
        PriceSeries.of([], [], instance_type="m1.large")
    with pytest.raises(TraceError, match="price_usd_per_hour: 'cheap' is not a number"):
        PriceSeries.of([0], ["cheap"], instance_type="m1.large")
