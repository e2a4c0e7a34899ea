"""Bids never exceed what on-demand would cost; hours are billed as in 2015, or seconds."""

import numpy as np
import pytest

from cloudsim.markets import bidding
from cloudsim.markets.billing import Billing
from cloudsim.markets.revocation import PriceHistory

HOUR = 3600.0
PRICES = PriceHistory("m", np.array([0.0, 1.5, 2.5]) * HOUR, np.array([0.1, 0.2, 0.9]))


def test_bids_follow_the_mechanism() -> None:
    assert bidding.bid_for_instance(0.7, 3399.0, 6798.0) == pytest.approx(0.35)
    assert bidding.bid_for_instance(0.7, 3399.0, 10.0) == pytest.approx(4 * 0.7), (
        "never above the market's cap"
    )
    assert bidding.bid_for_replica(0.7, 2) == 0.35
    # 1 - 1/r of 0.7 where the price is a fifth of it
    assert bidding.bid_beside_backup(0.7, np.array([0.14])).tolist() == pytest.approx([0.56])


def test_seconds_are_paid_at_the_price_that_holds() -> None:
    usd = Billing.CONTINUOUS.spot_usd(PRICES, HOUR, 2 * HOUR, revoked=False)
    assert usd == pytest.approx(0.5 * 0.1 + 0.5 * 0.2)
    assert Billing.CONTINUOUS.on_demand_usd(0.7, 1800.0) == 0.35


def test_the_notice_is_paid_at_the_price_before_the_rise() -> None:
    until = Billing.CONTINUOUS.spot_usd(PRICES, 2 * HOUR, 2.5 * HOUR, revoked=True)
    more = Billing.CONTINUOUS.spot_usd(PRICES, 2 * HOUR, 2.5 * HOUR, revoked=True, notice_s=90.0)
    assert more - until == pytest.approx(0.2 * 90 / HOUR)


@pytest.mark.parametrize(
    ("revoked", "usd"), [(True, 0.1 + 0.1), (False, 0.1 + 0.1 + 0.2)], ids=["the provider's", "one's own"]
)
def test_the_unfinished_hour_is_free_when_the_provider_ends_it(revoked: bool, usd: float) -> None:
    assert Billing.HOURLY.spot_usd(PRICES, 0.0, 2.4 * HOUR, revoked=revoked) == pytest.approx(usd)


def test_whole_hours_are_paid_whoever_ends_them() -> None:
    assert Billing.HOURLY.spot_usd(PRICES, 0.0, 2 * HOUR, revoked=True) == pytest.approx(0.2)
    assert Billing.HOURLY.spot_usd(PRICES, 0.0, 2 * HOUR, revoked=False) == pytest.approx(0.2)
    assert Billing.HOURLY.on_demand_usd(0.7, 1.0) == 0.7
