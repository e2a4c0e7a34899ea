"""Plan where a job goes on and how it survives there, from what is left of it and what the clouds offer.

The mechanisms and their expected costs are those of ``cloudsim.jobs``. This module decides which of them a
live job may use, and what its deadline, its cap on cost and its cap on evictions leave. Costs are per wall
hour of occupied cores, in the unit of the market.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from broker.jobs.events import JobPlanned
from broker.jobs.record import AttemptRecord, JobRecord
from broker.jobs.view import format_cost, format_duration
from cloudsim.jobs.attempts import AttemptPlan, JobPosition, Mechanism, Replica
from cloudsim.jobs.deadlines import LATE, DeadlinePolicy, Greedy, Punctual, UniformProgress, needed_s
from cloudsim.jobs.job import StorageKind
from cloudsim.jobs.mechanism_names import MechanismName
from cloudsim.jobs.mechanisms import Checkpoint, OnDemand, Wait, all_mechanisms
from cloudsim.jobs.planner import CostAware, list_plans
from cloudsim.jobs.policy_names import PolicyName
from cloudsim.jobs.replicas import Replicate
from cloudsim.markets.revocation import QuotedMarkets
from workers.job_manager.attempt_plan import explain_choice, explain_no_room, make_entry
from workers.job_manager.market import HomeOnDemand, JobMarket, SpotOffer
from workers.job_manager.planning_input import PlanningInput, PlanOption

#: The price of losing a replica in the dearest spot price, where there is no on-demand.
_NO_HOME = 4.0
#: Policies that choose by the deadline among spot, on-demand and waiting.
_BY_DEADLINE: dict[PolicyName, DeadlinePolicy] = {
    PolicyName.GREEDY: Greedy(late=LATE),
    PolicyName.UNIFORM_PROGRESS: UniformProgress(late=LATE),
    PolicyName.WAY_BACK: Punctual(returns=True),
}
#: Of the expected length of a job, the time between two looks at the market, and its bounds in seconds.
_LOOKS, _LEAST_LOOK_S, _MOST_LOOK_S = 50, 5.0, 300.0


@dataclass(frozen=True)
class NoPlanNow:
    """Nothing can be had now, or is to be had, and why.

    until: when the job is planned again at the latest, seconds since 1970; None if that does not matter.
    """

    why: str
    until: float | None = None


@dataclass(frozen=True)
class NoPlanEver:
    """The job can never be finished within its limits, and why."""

    why: str


def choose_plan(planning: PlanningInput, market: JobMarket) -> JobPlanned | NoPlanNow | NoPlanEver:
    """Choose where the job goes on: the cheapest option that keeps its limits, if there is one."""
    job, home = planning.job, None if planning.home_full else market.home
    if planning.on_demand_only is not None and home is not None:
        return make_entry(planning, market, on_demand_option(planning, home), planning.on_demand_only)
    options_found = _allowed_options(planning, market, home)
    if not options_found:
        return NoPlanNow(explain_no_room(planning, market))
    affordable = [option for option in options_found if option.cost <= planning.budget]
    if not affordable:
        least, cap = min(option.cost for option in options_found), job.wish.max_cost
        assert cap is not None
        spent = job.cost(planning.now)
        already = f" beside the {format_cost(spent, market.unit)} that it has cost" if spent else ""
        return NoPlanEver(
            f"the cheapest way to finish is expected to cost {format_cost(least, market.unit)}{already}: "
            f"more than its max_cost of {format_cost(cap, market.unit)}"
        )
    if job.wish.policy in _BY_DEADLINE:
        return _follow_policy(planning, market, affordable)
    punctual = [option for option in affordable if _keeps_deadline(planning, option)]
    if punctual:
        best = min(punctual, key=lambda option: (option.cost, option.time_s))
        return make_entry(
            planning, market, best, explain_choice(planning, market, best, options_found, late=affordable)
        )
    fastest = min(affordable, key=lambda option: (bool(option.offers), option.time_s))
    left = format_duration(max(planning.to_deadline_s, 0.0))
    why = (
        f"its deadline is in {left} and nothing is sure to keep it any more: on-demand is not interrupted"
        if not fastest.offers
        else f"its deadline is in {left} and nothing is sure to keep it any more: this is the fastest"
    )
    return make_entry(planning, market, fastest, why)


def _allowed_options(
    planning: PlanningInput, market: JobMarket, home: HomeOnDemand | None
) -> list[PlanOption]:
    """Return the options that the job's policy allows."""
    policy = planning.job.wish.policy
    if policy is PolicyName.BASIC:
        offers = [offer for offer in market.offers if offer.cloud not in planning.avoided]
        lowest = tuple(sorted(offers, key=lambda offer: offer.price)[:1])
        options = list_options(planning, replace(market, offers=lowest), home)
        by_name = {option.mechanism.name: option for option in reversed(options)}
        names = (MechanismName.MIGRATE, MechanismName.CHECKPOINT, MechanismName.ON_DEMAND)
        return [by_name[name.value] for name in names if name.value in by_name][:1]
    options = list_options(planning, market, home)
    if policy is PolicyName.ON_DEMAND:
        return [option for option in options if not option.offers]
    if policy is PolicyName.CHECKPOINT_ONLY:
        return [option for option in options if not option.offers or isinstance(option.mechanism, Checkpoint)]
    return options


def _follow_policy(
    planning: PlanningInput, market: JobMarket, options: Sequence[PlanOption]
) -> JobPlanned | NoPlanNow:
    """Return what a policy chooses that looks at the deadline: spot, on-demand or waiting."""
    name = planning.job.wish.policy
    choice = _choose_by_deadline(planning, options)
    why = f"its policy is {name}, {name.meaning}"
    if isinstance(choice.mechanism, Wait):
        return NoPlanNow(f"{why}; {explain_no_room(planning, market)}", choice.until_s)
    option = next(
        (each for each in options if each.plan is choice or not (choice.markets or each.offers)), None
    )
    if option is None:
        return NoPlanNow(explain_no_room(planning, market))
    return make_entry(planning, market, option, why)


def _choose_by_deadline(
    planning: PlanningInput, options: Sequence[PlanOption], on_demand_since_s: float | None = None
) -> AttemptPlan:
    policy = replace(_BY_DEADLINE[planning.job.wish.policy], look_s=look_s(planning.job))
    plans = [
        option.plan for option in options if len(option.offers) < 2 and not option.mechanism.needs_backup
    ]
    return policy.choose(planning.position(on_demand_since_s), plans, planning.overheads.of())


def look_s(job: JobRecord) -> float:
    """Return the seconds between two looks at the market for a job whose policy may leave on-demand."""
    work_s = 0.0 if job.profile is None else job.profile.work_s
    return min(max(work_s / _LOOKS, _LEAST_LOOK_S), _MOST_LOOK_S)


def may_leave_on_demand(job: JobRecord) -> bool:
    """Return True if the job's policy may take it away from a running on-demand instance."""
    return job.wish.policy in {PolicyName.UNIFORM_PROGRESS, PolicyName.WAY_BACK}


def should_leave_on_demand(planning: PlanningInput, market: JobMarket, running: AttemptRecord) -> bool:
    """Return True if the job's policy saves what runs on-demand now, to go on on spot or to wait."""
    saved = replace(planning, saved_s=running.work_done_s(planning.now))
    options = list_options(saved, market, None if planning.home_full else market.home)
    options = [option for option in options if option.cost <= planning.budget]
    return not _choose_by_deadline(saved, options, running.started_at).keeps


def list_options(planning: PlanningInput, market: JobMarket, home: HomeOnDemand | None) -> list[PlanOption]:
    """Return the best option of each mechanism that the job may use; for each cloud if notices matter."""
    request, left = planning.job.wish, planning.left()
    offers = tuple(offer for offer in market.offers if offer.cloud not in planning.avoided)
    choices: list[PlanOption] = []
    if home is not None:
        choices.append(on_demand_option(planning, home))
    if not offers:
        return choices
    usable = [
        mechanism
        for mechanism in all_mechanisms()
        if (request.checkpoint is not None or not mechanism.keeps_state)
        and (home is not None or not mechanism.needs_backup)
    ]
    anywhere = [mechanism for mechanism in usable if not mechanism.saves_on_notice]
    markets = _markets(offers, home, request.cores)
    plans = list_plans(left, anywhere, markets, planning.overheads.of())
    choices += [PlanOption(plan, tuple(offers[number] for number in plan.markets)) for plan in plans]
    warned = [mechanism for mechanism in usable if mechanism.saves_on_notice]
    for offer in offers if warned else ():  # their notices differ
        alone = _markets((offer,), home, request.cores)
        moves = list_plans(left, warned, alone, planning.overheads.of(offer.grace_s))
        choices += [PlanOption(plan, (offer,)) for plan in moves]
    if not choices and request.idempotent:
        choices.append(_restart_option(planning, offers))
    return choices


def on_demand_option(planning: PlanningInput, home: HomeOnDemand) -> PlanOption:
    """Return the option to run all that is left on-demand at home, undisturbed."""
    nothing = _markets((), home, planning.job.wish.cores)
    (plan,) = list_plans(planning.left(), (OnDemand(),), nothing, planning.overheads.of())
    return PlanOption(plan, ())


def should_stay(planning: PlanningInput, market: JobMarket, running: AttemptRecord) -> bool:
    """Return True if a replica whose sister was lost should go on rather than be saved and moved."""
    offers = tuple(offer for offer in market.offers if offer.cloud == running.plan.cloud)
    offers += tuple(
        offer for offer in market.offers if offer.cloud not in (running.plan.cloud, *planning.avoided)
    )
    if not offers or offers[0].cloud != running.plan.cloud:
        return True
    home = None if planning.home_full else market.home
    markets = _markets(offers, home, planning.job.wish.cores)
    whole = planning.left(running.plan.done_s)
    done_s = min(running.work_done_s(planning.now) - running.plan.done_s, 0.99 * whole.work_s)
    replica = Replica(0, markets.on_demand / 2, running.asked_at)
    state = JobPosition(planning.now, whole, running=(replica,), done_s=max(done_s, 0.0))
    checkpoints: tuple[Mechanism, ...] = (Checkpoint(StorageKind.LOCAL), Checkpoint(StorageKind.REMOTE))
    policy = CostAware(mechanisms=(*checkpoints, Replicate()))
    return policy.plan(state, markets, planning.overheads.of()).keeps


def _markets(offers: Sequence[SpotOffer], home: HomeOnDemand | None, cores: int) -> QuotedMarkets:
    price = np.array([offer.price * cores for offer in offers])
    dearest = float(price.max()) if len(price) else 0.0
    return QuotedMarkets(
        lifetimes=tuple(offer.lifetimes for offer in offers),
        price_now=price,
        on_demand=_NO_HOME * dearest if home is None else home.price * cores,
        memory_gb=np.full(len(price), np.inf),
    )


def _restart_option(planning: PlanningInput, offers: Sequence[SpotOffer]) -> PlanOption:
    """Return the option to begin again after each eviction, on one cloud and without checkpoints."""
    left = planning.left()
    markets = _markets(offers, None, planning.job.wish.cores)
    odds = markets.odds(markets.price_now, left.work_s, left.instances)
    time_s = odds.running_s / np.maximum(1.0 - odds.revoked, 1e-6)
    cost = time_s * markets.price_now * left.instances / 3600.0
    best = int(cost.argmin())
    plan = AttemptPlan(Replicate(1), (best,), (float("inf"),), float(cost[best]), float(time_s[best]))
    return PlanOption(plan, (offers[best],))


def _keeps_deadline(planning: PlanningInput, option: PlanOption) -> bool:
    """Return True if the job should end before its deadline even after one more eviction."""
    needed = needed_s(planning.left(), option.plan, planning.overheads.of(), LATE * option.time_s)
    return needed <= planning.to_deadline_s


def plan_first_run(planning: PlanningInput, market: JobMarket, home: HomeOnDemand) -> JobPlanned:
    """Plan a job that nobody has measured: on-demand."""
    why = "nobody has measured what it needs: it runs for the first time where nothing interrupts it"
    return make_entry(planning, market, on_demand_option(planning, home), why)
