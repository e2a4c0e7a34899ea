"""Made markets of the paper's §6.1, with one price and the same risk at any time: each mechanism by estimate
and by simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from cloudsim.experiments.experiment import Row
from cloudsim.experiments.jobs.runs import mean
from cloudsim.jobs.attempts import AttemptPlan, JobPosition, Mechanism
from cloudsim.jobs.job import IMMEDIATE, Job, Overheads
from cloudsim.jobs.mechanisms import Backup, Checkpoint
from cloudsim.jobs.planner import ON_DEMAND, list_plans
from cloudsim.jobs.replicas import Replicate
from cloudsim.jobs.simulation import simulate_job
from cloudsim.jobs.world import World
from cloudsim.markets.revocation import (
    HOUR_S,
    WINDOW_S,
    Markets,
    Memoryless,
    PriceHistory,
    QuotedMarkets,
    inject_revocations,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DAY_S = 86_400.0
MARKETS = 6
#: A spike is as short as EC2 measures, so that revoked markets sell again at once.
_SPIKE_S = 60.0
_DAYS = 4000.0

MECHANISMS: Mapping[str, Mechanism] = MappingProxyType(
    {"checkpoint": Checkpoint(), "replicate": Replicate(waits=True), "backup": Backup()}
)
MECHANISM_NAMES = {
    "checkpoint": "checkpoint every 15 min",
    "replicate": "two replicas",
    "backup": "replica on a shared on-demand server",
}

#: Figure 7a's job and market (JOBS.md "Acceptance").
INTERVAL_S = 900.0
BASE_S, BASE_GB, BASE_IO, BASE_PER_DAY, BASE_PRICE = 3399.0, 8.0, 0.5, 2.4, 0.2


def baseline(work_s: float = BASE_S, memory_gb: float = BASE_GB, io_share: float = BASE_IO) -> Job:
    """The paper's job, with a checkpoint every 15 minutes."""
    return Job(work_s, memory_gb, io_share, slack=IMMEDIATE.save_s_per_gb * memory_gb / INTERVAL_S)


def quoted(per_day: float, price: float, markets: int = MARKETS) -> QuotedMarkets:
    """Markets that all are the same; on-demand costs one dollar an hour."""
    lifetimes = (Memoryless(DAY_S / per_day),) * markets
    return QuotedMarkets(lifetimes, np.full(markets, price), 1.0, np.full(markets, np.inf))


@lru_cache(maxsize=2)
def made_world(per_day: float, price: float, seed: int) -> World:
    """Prices that are so for eleven years."""
    generator = np.random.default_rng(seed)
    ends_s, prices = np.array([0.0, _DAYS * DAY_S]), np.full(2, price)
    plain = [PriceHistory(f"market {number}", ends_s, prices) for number in range(MARKETS)]
    return World(
        [inject_revocations(one, per_day, generator, price=10.0, length_s=_SPIKE_S) for one in plain], 1.0
    )


@dataclass(frozen=True)
class Always:
    """One mechanism with the same bids, in the first markets that sell."""

    mechanism: Mechanism
    bids: tuple[float, ...]
    name: str = "always"

    def plan(self, state: JobPosition, markets: Markets, overheads: Overheads) -> AttemptPlan:
        """The same again."""
        del overheads
        if state.only_on_demand:
            return AttemptPlan(ON_DEMAND, (), (), math.nan, math.nan)
        selling = np.flatnonzero(markets.price_now <= self.bids[0])[: len(self.bids)]
        return AttemptPlan(self.mechanism, tuple(selling.tolist()), self.bids, math.nan, math.nan)


def point(name: str, job: Job, per_day: float, price: float, *, jobs: int, seed: int) -> Row:
    """One mechanism by estimate and by simulation, relative to on-demand, instances being there at once.

    Columns: mechanism, jobs; time, cost (the estimate); simulated_time, simulated_cost, each with
    _plus_minus, the half of its 95 % interval; revocations, of a job.
    """
    mechanism = MECHANISMS[name]
    (plan,) = list_plans(job, (mechanism,), quoted(per_day, price), IMMEDIATE)
    world = made_world(per_day, price, seed)
    generator = np.random.default_rng([seed, jobs])
    last_s = _DAYS * DAY_S - 100 * job.work_s
    policy = Always(mechanism, plan.bids)
    outcomes = [
        simulate_job(job, policy, world, at_s, IMMEDIATE)
        for at_s in generator.uniform(WINDOW_S, last_s, jobs).tolist()
    ]
    on_demand_usd = job.work_s / HOUR_S
    return {
        "mechanism": name,
        "jobs": jobs,
        "time": plan.time_s / job.work_s,
        "cost": plan.cost_usd / on_demand_usd,
        **mean("simulated_time", [one.time_s / job.work_s for one in outcomes]),
        **mean("simulated_cost", [one.cost_usd / on_demand_usd for one in outcomes]),
        "revocations": float(np.mean([one.revocations for one in outcomes])),
    }


def draw_sweep(axis: Axes, rows: Sequence[Row], what: str) -> None:
    """Column ``what`` of each mechanism over ``value``: lines by estimate, dots by simulation."""
    from cloudsim.experiments.drawing import LINES
    from cloudsim.plots import PALE

    for (name, label), (colour, marker) in zip(MECHANISM_NAMES.items(), LINES, strict=False):
        own = [row for row in rows if row["mechanism"] == name]
        at = [row["value"] for row in own]
        axis.plot(at, [row[what] for row in own], color=colour, lw=1.2, label=label)
        axis.errorbar(
            at,
            [row[f"simulated_{what}"] for row in own],
            [row[f"simulated_{what}_plus_minus"] for row in own],
            fmt=marker, color=colour, ms=4, lw=1, mec="white", mew=0.4,
        )  # fmt: skip
    axis.grid(axis="y", color=PALE, lw=0.7, zorder=0)
    axis.set_ylim(bottom=0)
