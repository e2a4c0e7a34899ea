"""Policies for jobs that must end by a deadline: they choose among spot, on-demand and waiting.

``Greedy`` and ``UniformProgress`` are those of Wu and others, *Can't Be Late: Optimizing Spot Instance
Savings under Deadlines* (NSDI 2024), on instances whose state is saved. ``Punctual`` is our own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cloudsim.jobs.attempts import AttemptPlan, JobPosition, Mechanism
from cloudsim.jobs.job import Job, Overheads
from cloudsim.jobs.mechanisms import MECHANISMS, OnDemand, Wait
from cloudsim.jobs.planner import list_plans
from cloudsim.jobs.policy_names import PolicyName
from cloudsim.jobs.replicas import Replicate
from cloudsim.markets import bidding
from cloudsim.markets.revocation import HOUR_S, Markets

#: Seconds between two looks at the market while a job waits or runs on-demand.
LOOK_S = 300.0
#: The time that is reckoned with against a deadline, in expected times.
LATE = 1.1
#: The share of the on-demand cost that a way back to spot must save.
_WORTH = 0.1

_ON_DEMAND = OnDemand()
#: Mechanisms on one instance at a time.
_ALONE = tuple(each for each in MECHANISMS if not (isinstance(each, Replicate) or each.needs_backup))


def needed_s(job: Job, plan: AttemptPlan, overheads: Overheads, time_s: float) -> float:
    """Return the seconds in which a plan is sure to end, even after one eviction that it meets.

    Parameters
    ----------
    time_s
        Seconds that it runs.
    """
    restore_s = overheads.restore_s(job.memory_gb)
    boot_s = overheads.boot_spot_s if plan.markets else overheads.boot_on_demand_s
    needed = restore_s + boot_s + overheads.poll_s + time_s
    if plan.markets:
        needed += restore_s + overheads.boot_on_demand_s + plan.mechanism.redo_s(job, overheads)
    return needed


@dataclass(frozen=True)
class DeadlinePolicy(ABC):
    """Policy that looks at the deadline of a job.

    Attributes
    ----------
    look_s
        Seconds between two looks at the market while a job waits or runs on-demand.
    late
        The time that greedy and uniform progress reckon with for the rest of the work, in its own time; above
        1 where that is not known exactly.
    """

    look_s: float = LOOK_S
    late: float = 1.0
    mechanisms: tuple[Mechanism, ...] = _ALONE

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of ``policy_names``."""

    def plan(self, state: JobPosition, markets: Markets, overheads: Overheads) -> AttemptPlan:
        """Return the plan from now on, for a job at a position."""
        sells = bool((markets.price_now <= bidding.CAP * markets.on_demand).any())
        mechanisms = (*self.mechanisms, _ON_DEMAND) if sells else (_ON_DEMAND,)
        plans = list_plans(state.left, mechanisms, markets, overheads)
        return self.choose(state, plans, overheads)

    @abstractmethod
    def choose(self, state: JobPosition, plans: Sequence[AttemptPlan], overheads: Overheads) -> AttemptPlan:
        """Choose among plans for what is left of the job, waiting, and going on on-demand.

        Parameters
        ----------
        plans
            Plans that can be had now; those without a market are on-demand.
        """


def _cheapest(plans: Sequence[AttemptPlan]) -> AttemptPlan | None:
    return min(plans, key=lambda plan: (plan.cost_usd, plan.time_s), default=None)


def _to_due_s(state: JobPosition) -> float:
    return math.inf if state.deadline is None else state.deadline.due_s - state.at_s


def _on_demand(state: JobPosition, plans: Sequence[AttemptPlan], until_s: float = math.inf) -> AttemptPlan:
    """Return the plan to run on-demand, on the instance that runs already if there is one."""
    plan = next((plan for plan in plans if not plan.markets), None)
    if plan is None:  # a job without a home
        plan = AttemptPlan(_ON_DEMAND, (), (), math.inf, state.left.work_s)
    return replace(plan, keeps=state.on_demand_since_s is not None, until_s=until_s)


def _wait(state: JobPosition, until_s: float) -> AttemptPlan:
    return AttemptPlan(Wait(), (), (), 0.0, until_s - state.at_s, until_s=until_s)


def _safe_spot(
    state: JobPosition, plans: Sequence[AttemptPlan], overheads: Overheads, late: float
) -> AttemptPlan | None:
    """Return the cheapest spot plan after an eviction of which on-demand would still keep the deadline."""
    left = state.left
    save_s = overheads.save_s_per_gb * left.memory_gb
    return _cheapest(
        [
            plan
            for plan in plans
            if plan.markets
            and needed_s(left, plan, overheads, late * plan.mechanism.wall_s(left, overheads) + save_s)
            <= _to_due_s(state)
        ]
    )


def _last_moment_s(state: JobPosition, overheads: Overheads, late: float) -> float:
    """Return the time until which a job can wait and still end in time on-demand."""
    left = state.left
    start_s = overheads.boot_on_demand_s + overheads.restore_s(left.memory_gb) + overheads.poll_s
    return state.at_s + _to_due_s(state) - start_s - late * left.work_s


@dataclass(frozen=True)
class Greedy(DeadlinePolicy):
    """Policy that uses spot whenever there is any and waits otherwise, until only on-demand is in time."""

    @property
    def name(self) -> str:
        """Name of ``policy_names``."""
        return PolicyName.GREEDY.value

    def choose(self, state: JobPosition, plans: Sequence[AttemptPlan], overheads: Overheads) -> AttemptPlan:
        """Choose spot, else waiting, else on-demand to the end."""
        if state.on_demand_since_s is not None:
            return _on_demand(state, plans)
        last_s = _last_moment_s(state, overheads, self.late)
        spot = _safe_spot(state, plans, overheads, self.late)
        if spot is not None:
            return spot
        if state.at_s >= last_s or any(plan.markets for plan in plans):
            return _on_demand(state, plans)
        return _wait(state, min(state.at_s + self.look_s, last_s))


@dataclass(frozen=True)
class UniformProgress(Greedy):
    """Policy that keeps up with even progress towards the deadline.

    It takes spot whenever there is any. Without, it waits while it is ahead of even progress, and runs
    on-demand while it is behind. On-demand, it stays until it is ahead of where it should be after two more
    changes of instance, and then leaves for spot or waits.
    """

    @property
    def name(self) -> str:
        """Name of ``policy_names``."""
        return PolicyName.UNIFORM_PROGRESS.value

    def choose(self, state: JobPosition, plans: Sequence[AttemptPlan], overheads: Overheads) -> AttemptPlan:
        """Choose spot, waiting or on-demand by the progress so far."""
        deadline, left = state.deadline, state.left
        if deadline is None:
            return super().choose(state, plans, overheads)
        done_s, look_s = deadline.work_s - left.work_s, state.at_s + self.look_s
        last_s = _last_moment_s(state, overheads, self.late)
        if state.on_demand_since_s is not None:
            change_s = overheads.boot_spot_s + overheads.restore_s(left.memory_gb)
            two_s = 2 * (change_s + overheads.save_s_per_gb * left.memory_gb)
            is_ahead = done_s >= deadline.expected_s(state.at_s + two_s)
            if state.done_s <= 0 or not is_ahead or last_s - state.at_s < two_s:
                return _on_demand(state, plans, look_s)
        spot = _safe_spot(state, plans, overheads, self.late)
        if spot is not None:
            return spot
        if state.at_s >= last_s or done_s < deadline.expected_s(state.at_s):
            return _on_demand(state, plans, look_s)
        return _wait(state, min(look_s, last_s))


@dataclass(frozen=True)
class Punctual(DeadlinePolicy):
    """Policy of the least expected cost among plans that keep the deadline even after one more eviction.

    Attributes
    ----------
    returns
        A job that went on-demand goes back to spot as soon as that keeps the deadline, too, and saves a tenth
        of what it would cost to stay.
    """

    returns: bool = False

    @property
    def name(self) -> str:
        """Name of ``policy_names``."""
        return (PolicyName.WAY_BACK if self.returns else PolicyName.COST_AWARE).value

    def choose(self, state: JobPosition, plans: Sequence[AttemptPlan], overheads: Overheads) -> AttemptPlan:
        """Choose the cheapest plan that keeps the deadline, else on-demand."""
        runs = state.on_demand_since_s is not None
        until_s = state.at_s + self.look_s if self.returns else math.inf
        stay = _on_demand(state, plans, until_s)
        if runs and (not self.returns or state.done_s <= 0):
            return stay
        left, to_due_s = state.left, _to_due_s(state)
        move_s = overheads.save_s_per_gb * left.memory_gb if runs else 0.0
        spot = _cheapest(
            [
                plan
                for plan in plans
                if plan.markets and move_s + needed_s(left, plan, overheads, LATE * plan.time_s) <= to_due_s
            ]
        )
        if spot is None:
            return stay
        price = stay.cost_usd * HOUR_S / left.work_s
        moved = price * move_s / HOUR_S
        return spot if spot.cost_usd + moved < (1.0 - _WORTH * runs) * stay.cost_usd else stay


#: All of them, for experiments.
DEADLINE_POLICIES: tuple[DeadlinePolicy, ...] = (
    Greedy(),
    UniformProgress(),
    Punctual(),
    Punctual(returns=True),
)
