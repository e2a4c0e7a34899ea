"""Compute bids: never more for a whole job than on-demand would cost.

See P4 §4.3 and docs/design/batch-jobs.md "Bids".

All prices are US dollars an hour. Only a job that is faster on spot than on-demand could bid more than the
on-demand price: then the market's cap holds.
"""

from __future__ import annotations

from cloudsim.model.arrays import FloatArray

#: Highest bid that a market takes, in on-demand prices.
CAP = 4.0


def bid_for_instance(on_demand: float, work_s: float, wall_s: float) -> float:
    """Return the bid for an instance that needs ``wall_s`` for what takes ``work_s`` on-demand."""
    return min(on_demand * work_s / wall_s, CAP * on_demand)


def bid_for_replica(on_demand: float, degree: int) -> float:
    """Return the bid for each of ``degree`` replicas."""
    return on_demand / degree


def bid_beside_backup(on_demand: float, price: FloatArray) -> FloatArray:
    """Return the bid for an instance whose backup costs the same: C_od (1 - 1/r), r = C_od / C.

    Parameters
    ----------
    price
        float64[markets], price C of the instance.
    """
    return on_demand - price
