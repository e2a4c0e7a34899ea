"""Markets and jobs for tests: prices by the hour, without delays unless asked for."""

from __future__ import annotations

import numpy as np

from cloudsim.jobs.attempts import AttemptPlan, AttemptResult, JobPosition, Mechanism
from cloudsim.jobs.job import IMMEDIATE, Job, Overheads
from cloudsim.jobs.world import World
from cloudsim.markets.billing import Billing
from cloudsim.markets.revocation import Memoryless, PriceHistory, QuotedMarkets

HOUR = 3600.0
DAY_S = 24 * HOUR


def history(name: str, *steps: tuple[float, float]) -> PriceHistory:
    """Prices from hours on."""
    return PriceHistory(
        name, np.array([at * HOUR for at, _ in steps]), np.array([price for _, price in steps])
    )


def world(*histories: PriceHistory, billing: Billing = Billing.CONTINUOUS, on_demand: float = 1.0) -> World:
    return World(histories, on_demand, None, billing)


def quoted(per_day: float, price: float = 0.2, markets: int = 3) -> QuotedMarkets:
    """Markets that are all the same; on-demand costs a dollar an hour."""
    lifetimes = (Memoryless(DAY_S / per_day),) * markets
    return QuotedMarkets(lifetimes, np.full(markets, price), 1.0, np.full(markets, np.inf))


def run(
    mechanism: Mechanism, job: Job, where: World, *, bids: tuple[float, ...], overheads: Overheads = IMMEDIATE
) -> AttemptResult:
    """One attempt from the beginning, in the first markets."""
    plan = AttemptPlan(mechanism, tuple(range(len(bids))), bids, 0.0, 0.0)
    return mechanism.step(plan, JobPosition(0.0, job), where, overheads)
