"""The world that a simulated job meets: price histories of markets, the on-demand price, and billing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cloudsim.jobs.attempts import Charge
from cloudsim.markets.billing import Billing
from cloudsim.markets.revocation import PriceHistory, PriceWindow
from cloudsim.model.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class World:
    """Markets, prices and billing.

    All prices are US dollars an hour of a reference instance.

    Attributes
    ----------
    memory_gb
        float64[m], memory of one instance of each market; None if any job fits.
    """

    histories: Sequence[PriceHistory]
    on_demand: float
    memory_gb: FloatArray | None = None
    billing: Billing = Billing.CONTINUOUS

    @cached_property
    def _memory_gb(self) -> FloatArray:
        return np.full(len(self.histories), np.inf) if self.memory_gb is None else self.memory_gb

    def known(self, at_s: float) -> PriceWindow:
        """Return what a planner knows at a time: the prices of the week before."""
        return PriceWindow(self.histories, at_s, on_demand=self.on_demand, memory_gb=self._memory_gb)

    def revoked_s(self, market: int, from_s: float, bid: float) -> float:
        """Return when an instance that was asked for at ``from_s`` is revoked; infinity if it never is."""
        return self.histories[market].above_s(from_s, bid)

    def spot(
        self,
        market: int,
        start_s: float,
        end_s: float,
        *,
        revoked: bool,
        notice_s: float = 0.0,
        instances: int = 1,
    ) -> Charge:
        """Return the charge for a spot instance.

        Parameters
        ----------
        notice_s
            Seconds for which it is used after it was revoked.
        """
        history = self.histories[market]
        usd = self.billing.spot_usd(history, start_s, end_s, revoked=revoked, notice_s=notice_s)
        return Charge(market, start_s, end_s + notice_s, usd * instances, instances)

    def at_fixed_price(self, start_s: float, end_s: float, instances: int) -> Charge:
        """Return the charge for an on-demand instance."""
        usd = self.billing.on_demand_usd(self.on_demand, end_s - start_s)
        return Charge(None, start_s, end_s, usd * instances, instances)

    def shared(self, start_s: float, end_s: float, instances: int, share: float) -> Charge:
        """Return the charge, by the second, for a share of on-demand servers that run on for others."""
        usd = Billing.CONTINUOUS.on_demand_usd(self.on_demand * share, end_s - start_s)
        return Charge(None, start_s, end_s, usd * instances, instances, share)
