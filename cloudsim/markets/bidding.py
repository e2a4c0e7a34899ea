"""What to bid: never more for a whole job than on-demand would cost (paper 003, §4.3; JOBS.md "Bids").

US dollars an hour. Only a job that is faster on spot than on-demand could bid more than the on-demand price:
then the market's cap holds.
"""

from __future__ import annotations

from cloudsim.markets.prices import FloatArray

#: No market takes a higher bid, in on-demand prices.
CAP = 4.0


def bid_for_instance(on_demand: float, work_s: float, wall_s: float) -> float:
    """For an instance that needs ``wall_s`` for what takes ``work_s`` on-demand, US dollars an hour."""
    return min(on_demand * work_s / wall_s, CAP * on_demand)


def bid_for_replica(on_demand: float, degree: int) -> float:
    """For each of several replicas."""
    return on_demand / degree


def bid_beside_backup(on_demand: float, price: FloatArray) -> FloatArray:
    """For an instance beside whose price the same is paid for its backup: C_od (1 - 1/r), r = C_od / C."""
    return on_demand - price
