"""From a job, what is left of it, and what the clouds offer: where it goes on, and how it survives there.

The mechanisms and their expected costs are those of ``cloudsim.jobs``; here is what a live job may use of
them, and what its deadline, its cap on cost and its cap on evictions leave. Costs are per wall hour of
occupied cores, in the unit of the market.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from broker.jobs.events import JobPlanned
from broker.jobs.record import AttemptRecord
from broker.jobs.view import money, span
from cloudsim.jobs.attempts import AttemptPlan, JobPosition, Mechanism, Replica
from cloudsim.jobs.job import StorageKind
from cloudsim.jobs.mechanisms import Backup, Checkpoint, Migration, OnDemand
from cloudsim.jobs.planner import CostAware, list_plans
from cloudsim.jobs.replicas import Replicate
from cloudsim.markets.revocation import QuotedMarkets
from workers.job_manager.attempt_plan import because, planned, why_no_room
from workers.job_manager.market import HomeOnDemand, JobMarket, SpotOffer
from workers.job_manager.planning_input import PlanningInput, Way

#: Without on-demand, losing a replica is taken to cost as much as this many times the dearest spot.
_NO_HOME = 4.0
_LATE = 1.1  # how much longer than expected anything takes, against a deadline


@dataclass(frozen=True)
class NoRoomPlan:
    """Nothing can be had now."""

    why: str


@dataclass(frozen=True)
class HopelessPlan:
    """Nothing will ever do."""

    why: str


def plan(standing: PlanningInput, market: JobMarket) -> JobPlanned | NoRoomPlan | HopelessPlan:
    """Where the job goes on."""
    job, home = standing.job, None if standing.home_full else market.home
    if standing.on_demand_only is not None and home is not None:
        return planned(standing, market, on_demand(standing, home), standing.on_demand_only)
    found = ways(standing, market, home)
    if not found:
        return NoRoomPlan(why_no_room(standing, market))
    affordable = [one for one in found if one.cost <= standing.budget]
    if not affordable:
        least, cap = min(one.cost for one in found), job.wish.max_cost
        assert cap is not None
        spent = job.cost(standing.now)
        had = f" beside the {money(spent, market.unit)} that it has cost" if spent else ""
        return HopelessPlan(
            f"the cheapest way to finish is expected to cost {money(least, market.unit)}{had}: more than its "
            f"max_cost of {money(cap, market.unit)}"
        )
    punctual = [one for one in affordable if _in_time(standing, one)]
    if punctual:
        best = min(punctual, key=lambda one: (one.cost, one.time_s))
        return planned(standing, market, best, because(standing, market, best, found, late=affordable))
    fastest = min(affordable, key=lambda one: (bool(one.offers), one.time_s))
    left = span(max(standing.to_deadline_s, 0.0))
    why = (
        f"its deadline is in {left} and nothing is sure to keep it any more: on-demand is not interrupted"
        if not fastest.offers
        else f"its deadline is in {left} and nothing is sure to keep it any more: this is the fastest"
    )
    return planned(standing, market, fastest, why)


def ways(standing: PlanningInput, market: JobMarket, home: HomeOnDemand | None) -> list[Way]:
    """The best of each mechanism that the job may use; migration for each cloud."""
    wish, left = standing.job.wish, standing.left()
    offers = tuple(one for one in market.offers if one.cloud not in standing.avoided)
    found: list[Way] = []
    if home is not None:
        found.append(on_demand(standing, home))
    if not offers:
        return found
    mechanisms: list[Mechanism] = []
    if wish.idempotent:
        if wish.checkpoint is not None:
            mechanisms += [Checkpoint(StorageKind.LOCAL), Checkpoint(StorageKind.REMOTE)]
        mechanisms.append(Replicate())
        if home is not None:
            mechanisms.append(Backup())
    markets = _markets(offers, home, wish.cores)
    overheads = standing.overheads.of()
    plans = list_plans(left, mechanisms, markets, overheads)
    found += [Way(one, tuple(offers[number] for number in one.markets)) for one in plans]
    if wish.checkpoint is not None:
        for offer in offers:  # each gives another notice
            alone = _markets((offer,), home, wish.cores)
            warned = standing.overheads.of(offer.grace_s)
            moves = list_plans(
                left, (Migration(StorageKind.LOCAL), Migration(StorageKind.REMOTE)), alone, warned
            )
            found += [Way(one, (offer,)) for one in moves]
    if not found and wish.idempotent:
        found.append(_again(standing, offers))
    return found


def on_demand(standing: PlanningInput, home: HomeOnDemand) -> Way:
    """All that is left at home, undisturbed."""
    nothing = _markets((), home, standing.job.wish.cores)
    (found,) = list_plans(standing.left(), (OnDemand(),), nothing, standing.overheads.of())
    return Way(found, ())


def keeps(standing: PlanningInput, market: JobMarket, running: AttemptRecord) -> bool:
    """Whether a replica whose sister was lost best goes on as it is, rather than be saved and moved."""
    offers = tuple(one for one in market.offers if one.cloud == running.plan.cloud)
    offers += tuple(one for one in market.offers if one.cloud not in (running.plan.cloud, *standing.avoided))
    if not offers or offers[0].cloud != running.plan.cloud:
        return True
    home = None if standing.home_full else market.home
    markets = _markets(offers, home, standing.job.wish.cores)
    whole = standing.left(running.plan.done_s)
    done_s = min(running.work_done_s(standing.now) - running.plan.done_s, 0.99 * whole.work_s)
    replica = Replica(0, markets.on_demand / 2, running.asked_at)
    state = JobPosition(standing.now, whole, running=(replica,), done_s=max(done_s, 0.0))
    checkpoints: tuple[Mechanism, ...] = (Checkpoint(StorageKind.LOCAL), Checkpoint(StorageKind.REMOTE))
    policy = CostAware(mechanisms=(*checkpoints, Replicate()))
    return policy.plan(state, markets, standing.overheads.of()).keeps


def _markets(offers: Sequence[SpotOffer], home: HomeOnDemand | None, cores: int) -> QuotedMarkets:
    price = np.array([one.price * cores for one in offers])
    dearest = float(price.max()) if len(price) else 0.0
    return QuotedMarkets(
        lifetimes=tuple(one.lifetimes for one in offers),
        price_now=price,
        on_demand=_NO_HOME * dearest if home is None else home.price * cores,
        memory_gb=np.full(len(price), np.inf),
    )


def _again(standing: PlanningInput, offers: Sequence[SpotOffer]) -> Way:
    """Nothing is kept, and there is one cloud: from the beginning as often as it takes."""
    left = standing.left()
    markets = _markets(offers, None, standing.job.wish.cores)
    odds = markets.odds(markets.price_now, left.work_s, left.instances)
    time_s = odds.running_s / np.maximum(1.0 - odds.revoked, 1e-6)
    cost = time_s * markets.price_now * left.instances / 3600.0
    best = int(cost.argmin())
    found = AttemptPlan(Replicate(1), (best,), (float("inf"),), float(cost[best]), float(time_s[best]))
    return Way(found, (offers[best],))


def _in_time(standing: PlanningInput, way: Way) -> bool:
    """Whether it is expected to end before the deadline, though it lose one more place on its way."""
    live, left = standing.overheads, standing.left()
    overheads = live.of()
    need_s = overheads.restore_s(left.memory_gb) + live.boot_s + live.poll_s + _LATE * way.time_s
    if way.offers:
        need_s += live.boot_s + overheads.restore_s(left.memory_gb)
        if isinstance(way.mechanism, Checkpoint):
            need_s += way.mechanism.interval_s(left, overheads)
        elif isinstance(way.mechanism, Replicate) and way.mechanism.degree == 1:
            need_s += left.work_s
    return need_s <= standing.to_deadline_s


def first_run(standing: PlanningInput, market: JobMarket, home: HomeOnDemand) -> JobPlanned:
    """On-demand, to be measured."""
    why = "nobody has measured what it needs: it runs for the first time where nothing interrupts it"
    return planned(standing, market, on_demand(standing, home), why)
