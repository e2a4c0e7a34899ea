"""Plan where to run a job and how: the cost-aware planner, and the policies to compare with.

See docs/design/batch-jobs.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from cloudsim.jobs.attempts import AttemptPlan, JobPosition, Mechanism
from cloudsim.jobs.job import Job, Overheads, StorageKind
from cloudsim.jobs.mechanisms import MECHANISMS, Checkpoint, Migration, OnDemand
from cloudsim.jobs.replicas import Replicate
from cloudsim.markets.revocation import HOUR_S, Markets

ON_DEMAND = OnDemand()


class PlacementPolicy(Protocol):
    """Policy that decides where a job goes on, again after each revocation."""

    @property
    def name(self) -> str:
        """Name for display."""
        ...

    def plan(self, state: JobPosition, markets: Markets, overheads: Overheads) -> AttemptPlan:
        """Return a plan for all that is left of the job."""
        ...


def list_plans(
    job: Job, mechanisms: Sequence[Mechanism], markets: Markets, overheads: Overheads
) -> list[AttemptPlan]:
    """Return the best plan of each mechanism that suits the job and has a market, in their order."""
    plans = []
    for mechanism in mechanisms:
        if not mechanism.suits(job, overheads):
            continue
        candidates = mechanism.estimate(job, markets, overheads)
        if not len(candidates.cost_usd):
            continue
        best = int(candidates.cost_usd.argmin())
        if np.isfinite(candidates.cost_usd[best]):
            numbers, bids = tuple(candidates.markets[best].tolist()), tuple(candidates.bids[best].tolist())
            cost_usd, time_s = float(candidates.cost_usd[best]), float(candidates.time_s[best])
            plans.append(AttemptPlan(mechanism, numbers, bids, cost_usd, time_s))
    return plans


def _least(plans: Sequence[AttemptPlan]) -> AttemptPlan:
    return min(plans, key=lambda plan: (plan.cost_usd, plan.time_s))


@dataclass(frozen=True)
class OnDemandOnly:
    """Policy of the control: nothing is ever revoked."""

    name: str = "on-demand"

    def plan(self, state: JobPosition, markets: Markets, overheads: Overheads) -> AttemptPlan:
        """Return the on-demand plan."""
        return list_plans(state.job, (ON_DEMAND,), markets, overheads)[0]


@dataclass(frozen=True)
class Basic:
    """Policy of the lowest current price; from the first revocation on, on-demand (P4 §4.1).

    It migrates if the job fits into the warning, else it checkpoints.
    """

    name: str = "basic"

    def plan(self, state: JobPosition, markets: Markets, overheads: Overheads) -> AttemptPlan:
        """Return a plan for all that is left of the job."""
        job = state.job
        mechanism = next(
            (choice for choice in (Migration(), Checkpoint()) if choice.suits(job, overheads)), None
        )
        if state.revocations or mechanism is None or not len(markets.price_now):
            return list_plans(job, (ON_DEMAND,), markets, overheads)[0]
        bid = mechanism.bid(job, markets, overheads)
        price = np.where(markets.memory_gb >= job.memory_gb, markets.price_now, np.inf)
        lowest = int(price.argmin())
        if price[lowest] > bid[lowest]:
            return list_plans(job, (ON_DEMAND,), markets, overheads)[0]
        wall_s = mechanism.wall_s(job, overheads)
        cost_usd = float(price[lowest]) * wall_s / HOUR_S
        return AttemptPlan(mechanism, (lowest,), (float(bid[lowest]),), cost_usd, wall_s)


@dataclass(frozen=True)
class CostAware:
    """Policy of the least expected cost of all that is left, over mechanisms and markets.

    On-demand is one of the markets (P4 §4.2).
    """

    name: str = "cost-aware"
    mechanisms: tuple[Mechanism, ...] = MECHANISMS

    def plan(self, state: JobPosition, markets: Markets, overheads: Overheads) -> AttemptPlan:
        """Return the plan with the least expected cost of all that is left of the job.

        Running replicas either go on as they are, or one is saved and the job goes on from there in the way
        that is then best.
        """
        if state.only_on_demand:
            return list_plans(state.job, (ON_DEMAND,), markets, overheads)[0]
        if not state.running:
            return _least(list_plans(state.job, (*self.mechanisms, ON_DEMAND), markets, overheads))
        replicas = next(choice for choice in self.mechanisms if isinstance(choice, Replicate))
        kept = replicas.plan_kept(state, markets)
        if state.job.instances > 1 or state.done_s <= 0:  # nothing that could be saved
            return kept
        left = replace(state.job, work_s=state.job.work_s - state.done_s)
        plans = list_plans(left, (*self.mechanisms, ON_DEMAND), markets, overheads)
        state_gb = overheads.state_gb(left, StorageKind.LOCAL)
        moved_s = overheads.save_s(left, StorageKind.LOCAL) + overheads.restore_s(state_gb)
        price = sum(float(markets.price_now[replica.market]) for replica in state.running)
        moved_usd = price * moved_s / HOUR_S
        return _least([kept, *(replace(plan, cost_usd=plan.cost_usd + moved_usd) for plan in plans)])


CHECKPOINT_ONLY = CostAware("checkpoint only", (Checkpoint(), Checkpoint(StorageKind.LOCAL)))

#: docs/design/batch-jobs.md "Policies to compare".
POLICIES: tuple[PlacementPolicy, ...] = (OnDemandOnly(), Basic(), CHECKPOINT_ONLY, CostAware())
