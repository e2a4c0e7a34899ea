"""Bill an instance: second by second, or by the hour as EC2 billed in 2015."""

from __future__ import annotations

import math
from enum import StrEnum

from cloudsim.markets.revocation import HOUR_S, PriceHistory


class Billing(StrEnum):
    """Rule by which time becomes money."""

    #: Every second at the price that then holds.
    CONTINUOUS = "continuous"
    #: Each hour since the start at the price of its beginning. The unfinished hour is free when the provider
    #: ends it, and paid whole when the user does.
    HOURLY = "hourly"

    def spot_usd(
        self, history: PriceHistory, start_s: float, end_s: float, *, revoked: bool, notice_s: float = 0.0
    ) -> float:
        """Return the cost of a spot instance from one time to another, in US dollars.

        Parameters
        ----------
        revoked
            True if the provider ended it.
        notice_s
            Seconds for which it is used after the price rose above the bid, at the price before that.
        """
        if self is Billing.CONTINUOUS:
            last = history.price_at(math.nextafter(end_s, start_s)) if notice_s else 0.0
            return history.paid_usd(start_s, end_s) + last * notice_s / HOUR_S
        hours = (end_s - start_s) / HOUR_S
        paid = math.floor(hours) if revoked else math.ceil(hours)
        return math.fsum(history.price_at(start_s + hour * HOUR_S) for hour in range(paid))

    def on_demand_usd(self, price: float, length_s: float) -> float:
        """Return the cost of an instance at a fixed price that its user ends, in US dollars.

        Parameters
        ----------
        price
            US dollars an hour.
        """
        hours = length_s / HOUR_S
        return price * (hours if self is Billing.CONTINUOUS else math.ceil(hours))
