"""The paper's synthetic job (P4 §6.1): each mechanism by estimate and by simulation.

Its markets have one price and the same risk of revocation at any time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from cloudsim.experiments.drawing import LINES, Axes, grid
from cloudsim.experiments.experiment import Row, where
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

#: Figure 7a's job and market (docs/design/batch-jobs.md "Acceptance").
INTERVAL_S = 900.0
BASE_S, BASE_GB, BASE_IO, BASE_PER_DAY, BASE_PRICE = 3399.0, 8.0, 0.5, 2.4, 0.2


def baseline(work_s: float = BASE_S, memory_gb: float = BASE_GB, io_share: float = BASE_IO) -> Job:
    """Return the paper's job, with a checkpoint every 15 minutes."""
    return Job(work_s, memory_gb, io_share, slack=IMMEDIATE.save_s_per_gb * memory_gb / INTERVAL_S)


def quoted(per_day: float, price: float, markets: int = MARKETS) -> QuotedMarkets:
    """Return equal markets; on-demand costs one dollar an hour."""
    lifetimes = (Memoryless(DAY_S / per_day),) * markets
    return QuotedMarkets(lifetimes, np.full(markets, price), 1.0, np.full(markets, np.inf))


@lru_cache(maxsize=2)
def made_world(per_day: float, price: float, seed: int) -> World:
    """Return markets of one price for eleven years, revoked ``per_day`` times a day."""
    generator = np.random.default_rng(seed)
    ends_s, prices = np.array([0.0, _DAYS * DAY_S]), np.full(2, price)
    plain = [PriceHistory(f"market {number}", ends_s, prices) for number in range(MARKETS)]
    return World(
        [inject_revocations(history, per_day, generator, price=10.0, length_s=_SPIKE_S) for history in plain],
        1.0,
    )


@dataclass(frozen=True)
class Always:
    """A policy that always takes one mechanism with the same bids, in the first markets that sell."""

    mechanism: Mechanism
    bids: tuple[float, ...]
    name: str = "always"

    def plan(self, state: JobPosition, markets: Markets, overheads: Overheads) -> AttemptPlan:
        """Plan the mechanism again, or on-demand where only that is left."""
        del overheads
        if state.only_on_demand:
            return AttemptPlan(ON_DEMAND, (), (), math.nan, math.nan)
        selling = np.flatnonzero(markets.price_now <= self.bids[0])[: len(self.bids)]
        return AttemptPlan(self.mechanism, tuple(selling.tolist()), self.bids, math.nan, math.nan)


def point(name: str, job: Job, per_day: float, price: float, *, jobs: int, seed: int) -> Row:
    """Run one mechanism by estimate and by simulation, relative to on-demand; instances start at once.

    Columns: mechanism, jobs; time, cost (the estimate); simulated_time, simulated_cost, each with
    _plus_minus, half of its 95 % interval; revocations of a job.
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
        **mean("simulated_time", [outcome.time_s / job.work_s for outcome in outcomes]),
        **mean("simulated_cost", [outcome.cost_usd / on_demand_usd for outcome in outcomes]),
        "revocations": float(np.mean([outcome.revocations for outcome in outcomes])),
    }


def draw_sweep(axis: Axes, rows: Sequence[Row], name: str) -> None:
    """Draw column ``name`` of each mechanism over ``value``: lines by estimate, dots by simulation."""
    for (mechanism, label), (colour, marker) in zip(MECHANISM_NAMES.items(), LINES, strict=False):
        own = where(rows, mechanism=mechanism)
        at = [row["value"] for row in own]
        axis.plot(at, [row[name] for row in own], color=colour, lw=1.2, label=label)
        axis.errorbar(
            at, [row[f"simulated_{name}"] for row in own],
            [row[f"simulated_{name}_plus_minus"] for row in own],
            fmt=marker, color=colour, ms=4, lw=1, mec="white", mew=0.4,
        )  # fmt: skip
    grid(axis)
    axis.set_ylim(bottom=0)
