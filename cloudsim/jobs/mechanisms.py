"""The mechanisms that run a job on one instance: on-demand, migrate on warning, checkpoint, backup replica.

The table of JOBS.md "Model" row by row. Each says once how fast the job advances (``wall_s``), and what is
kept of it on a revocation: ``estimate`` takes the mean over all revocations, ``step`` meets one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from cloudsim.jobs.attempts import AttemptPlan, AttemptResult, Charge, JobPosition, MarketCandidates
from cloudsim.jobs.job import Job, Overheads, StorageKind
from cloudsim.jobs.world import World
from cloudsim.markets import bidding
from cloudsim.markets.prices import FloatArray
from cloudsim.markets.revocation import HOUR_S, Markets, Odds

#: What is left of a job that was revoked at its very end.
_LEAST_S = 1e-3


@dataclass(frozen=True)
class OnDemand:
    """One more market, in which nothing is revoked."""

    name: str = "on-demand"

    def suits(self, job: Job, overheads: Overheads) -> bool:
        """Always."""
        del job, overheads
        return True

    def estimate(self, job: Job, markets: Markets, overheads: Overheads) -> MarketCandidates:
        """One candidate without a market."""
        del overheads
        cost = np.array([markets.on_demand * job.instances * job.work_s / HOUR_S])
        return MarketCandidates(cost, np.array([job.work_s]), np.empty((1, 0), np.int64), np.empty((1, 0)))

    def step(
        self, plan: AttemptPlan, state: JobPosition, world: World, overheads: Overheads
    ) -> AttemptResult:
        """Runs to the end."""
        del plan
        start_s = max(state.at_s + overheads.boot_on_demand_s, state.saved_at_s)
        end_s = start_s + overheads.restore_s(state.saved_gb) + state.job.work_s
        charge = world.at_fixed_price(start_s, end_s, state.job.instances)
        return AttemptResult(replace(state, at_s=end_s), True, (charge,))


class _OnOneMarket(ABC):
    """What the mechanisms with one spot instance have in common."""

    @property
    @abstractmethod
    def storage(self) -> StorageKind: ...

    @abstractmethod
    def wall_s(self, job: Job, overheads: Overheads) -> float:
        """T': from the start to the end of the job if nothing is revoked."""

    @abstractmethod
    def bid(self, job: Job, markets: Markets, overheads: Overheads) -> FloatArray:
        """For each market, shape (m,)."""

    @abstractmethod
    def useful(self, job: Job, odds: Odds, slower: FloatArray, overheads: Overheads) -> FloatArray:
        """The share of the job that an attempt does on the mean, shape (m,).

        slower: 1 / r, the pace of a backup replica.
        """

    @abstractmethod
    def pause_s(self, job: Job, overheads: Overheads) -> float:
        """What a revocation costs beside the work that it destroys: instances that do not advance the job."""

    @abstractmethod
    def after(
        self, plan: AttemptPlan, state: JobPosition, elapsed_s: float, world: World, overheads: Overheads
    ) -> JobPosition:
        """Where the job stands when it is revoked ``elapsed_s`` after it began to run; ``at_s`` is then."""

    def price(self, odds: Odds, bid: FloatArray, markets: Markets) -> FloatArray:
        """What is paid while it runs, US dollars an hour, shape (m,)."""
        del bid, markets
        return odds.price

    def beside(
        self, plan: AttemptPlan, start_s: float, end_s: float, world: World, job: Job
    ) -> tuple[Charge, ...]:
        """What is paid beside the instance."""
        del plan, start_s, end_s, world, job
        return ()

    def estimate(self, job: Job, markets: Markets, overheads: Overheads) -> MarketCandidates:
        """Cost over useful work: what the whole job costs when all attempts go like this one."""
        wall_s, bid = self.wall_s(job, overheads), self.bid(job, markets, overheads)
        odds = markets.odds(bid, wall_s, job.instances)
        useful = self.useful(job, odds, 1.0 - bid / markets.on_demand, overheads)
        with np.errstate(divide="ignore", invalid="ignore"):
            time_s = (odds.running_s + odds.revoked * self.pause_s(job, overheads)) / useful
            cost_usd = time_s * self.price(odds, bid, markets) * job.instances / HOUR_S
        usable = (markets.price_now <= bid) & (markets.memory_gb >= job.memory_gb)
        return MarketCandidates.where(usable, cost_usd, time_s, np.arange(len(bid))[:, None], bid[:, None])

    def step(
        self, plan: AttemptPlan, state: JobPosition, world: World, overheads: Overheads
    ) -> AttemptResult:
        """Until the job is done or its instance is revoked."""
        (market,), (bid,), job = plan.markets, plan.bids, state.job
        ready_s = max(state.at_s + overheads.boot_spot_s, state.saved_at_s)
        begins_s = ready_s + overheads.restore_s(state.saved_gb)
        end_s = begins_s + self.wall_s(job, overheads)
        revoked_s = world.revoked_s(market, state.at_s, bid)
        if revoked_s >= end_s:
            charge = world.spot(market, ready_s, end_s, revoked=False, instances=job.instances)
            beside = self.beside(plan, begins_s, end_s, world, job)
            return AttemptResult(replace(state, at_s=end_s), True, (charge, *beside))
        left = replace(state, at_s=revoked_s + overheads.poll_s, revocations=state.revocations + 1)
        if revoked_s <= ready_s:  # it never came
            return AttemptResult(left, False, ())
        notice_s = 0.0
        charges: tuple[Charge, ...] = ()
        if revoked_s > begins_s:
            left = self.after(plan, left, revoked_s - begins_s, world, overheads)
            notice_s = max(left.saved_at_s - left.at_s, 0.0)
            charges = self.beside(plan, begins_s, revoked_s, world, job)
        charge = world.spot(
            market, ready_s, revoked_s, revoked=True, notice_s=notice_s, instances=job.instances
        )
        return AttemptResult(left, False, (charge, *charges))


def _done(state: JobPosition, work_s: float) -> JobPosition:
    """The same with less left to do, seconds of the job's own running time; never nothing, by rounding."""
    return replace(state, job=replace(state.job, work_s=max(state.job.work_s - work_s, _LEAST_S)))


@dataclass(frozen=True)
class Migration(_OnOneMarket):
    """The job is saved within the warning and goes on elsewhere."""

    storage: StorageKind = StorageKind.REMOTE

    @property
    def name(self) -> str:
        """``migrate``."""
        return "migrate"

    def suits(self, job: Job, overheads: Overheads) -> bool:
        """Only one instance is saved, and only if that takes no longer than the warning."""
        return job.instances == 1 and overheads.save_s(job, self.storage) <= overheads.warning_s

    def wall_s(self, job: Job, overheads: Overheads) -> float:
        """Only the storage slows it down."""
        return job.work_s * overheads.stretch(job, self.storage)

    def bid(self, job: Job, markets: Markets, overheads: Overheads) -> FloatArray:
        """What on-demand would cost, over the time it takes."""
        price = bidding.bid_for_instance(markets.on_demand, job.work_s, self.wall_s(job, overheads))
        return np.full(len(markets.price_now), price)

    def useful(self, job: Job, odds: Odds, slower: FloatArray, overheads: Overheads) -> FloatArray:
        """All that was run."""
        del slower
        return odds.running_s / self.wall_s(job, overheads)

    def pause_s(self, job: Job, overheads: Overheads) -> float:
        """T_m: saved here, restored there."""
        restore_s = overheads.restore_s(overheads.state_gb(job, self.storage))
        return overheads.save_s(job, self.storage) + restore_s

    def after(
        self, plan: AttemptPlan, state: JobPosition, elapsed_s: float, world: World, overheads: Overheads
    ) -> JobPosition:
        """Nothing is lost."""
        del plan, world
        saved_s = overheads.save_s(state.job, self.storage)
        saved = replace(
            state,
            saved_gb=overheads.state_gb(state.job, self.storage),
            saved_at_s=state.at_s + saved_s,
        )
        return _done(saved, elapsed_s / overheads.stretch(state.job, self.storage))


@dataclass(frozen=True)
class Checkpoint(_OnOneMarket):
    """The job stands still for T_c after every tau seconds of work, and goes back to the last checkpoint.

    Whatever runs after the last whole interval pays its share of a checkpoint, in estimates and in steps:
    T' = T (1 + T_c / tau).
    """

    storage: StorageKind = StorageKind.REMOTE

    @property
    def name(self) -> str:
        """``checkpoint``."""
        return "checkpoint"

    def suits(self, job: Job, overheads: Overheads) -> bool:
        """Only one instance is saved, and it must bear to be set back."""
        del overheads
        return job.instances == 1 and job.idempotent

    def interval_s(self, job: Job, overheads: Overheads) -> float:
        """tau = T_c / S."""
        return overheads.save_s(job, self.storage) / job.slack

    def wall_s(self, job: Job, overheads: Overheads) -> float:
        """T_remote (1 + T_c / tau)."""
        return job.work_s * overheads.stretch(job, self.storage) * (1.0 + job.slack)

    def bid(self, job: Job, markets: Markets, overheads: Overheads) -> FloatArray:
        """What on-demand would cost, over the time it takes."""
        price = bidding.bid_for_instance(markets.on_demand, job.work_s, self.wall_s(job, overheads))
        return np.full(len(markets.price_now), price)

    def useful(self, job: Job, odds: Odds, slower: FloatArray, overheads: Overheads) -> FloatArray:
        """M / (1 + T_c / tau) - P tau / 2 of T_remote."""
        del slower
        lost_s = odds.revoked * self.interval_s(job, overheads) / 2.0
        work_s = job.work_s * overheads.stretch(job, self.storage)
        return np.maximum(odds.running_s / (1.0 + job.slack) - lost_s, 0.0) / work_s

    def pause_s(self, job: Job, overheads: Overheads) -> float:
        """T_restore."""
        return overheads.restore_s(overheads.state_gb(job, self.storage))

    def after(
        self, plan: AttemptPlan, state: JobPosition, elapsed_s: float, world: World, overheads: Overheads
    ) -> JobPosition:
        """Back to the last checkpoint, if there was one."""
        del plan, world
        interval_s = self.interval_s(state.job, overheads)
        checkpoints = math.floor(elapsed_s / (interval_s * (1.0 + state.job.slack)))
        if not checkpoints:
            return state
        saved = replace(state, saved_gb=overheads.state_gb(state.job, self.storage))
        return _done(saved, checkpoints * interval_s / overheads.stretch(state.job, self.storage))


@dataclass(frozen=True)
class Backup(_OnOneMarket):
    """A replica runs r times as slowly on a share 1/r of an on-demand server, r = C_od / C, and costs as much
    as the spot instance. When that is revoked the job is where the replica is.

    r is the on-demand price over the mean price while that is not above it; the bid is C_od - C.
    """

    @property
    def name(self) -> str:
        """``backup``."""
        return "backup"

    @property
    def storage(self) -> StorageKind:
        """Nothing is saved."""
        return StorageKind.LOCAL

    def suits(self, job: Job, overheads: Overheads) -> bool:
        """It must bear to run twice."""
        del overheads
        return job.idempotent

    def wall_s(self, job: Job, overheads: Overheads) -> float:
        """T."""
        del overheads
        return job.work_s

    def bid(self, job: Job, markets: Markets, overheads: Overheads) -> FloatArray:
        """What is left of the on-demand price beside the replica's."""
        del overheads
        everywhere = np.full(len(markets.price_now), markets.on_demand)
        usual = markets.odds(everywhere, job.work_s, job.instances).price
        return bidding.bid_beside_backup(markets.on_demand, usual)

    def price(self, odds: Odds, bid: FloatArray, markets: Markets) -> FloatArray:
        """That of the instance and that of the replica."""
        return odds.price + (markets.on_demand - bid)

    def useful(self, job: Job, odds: Odds, slower: FloatArray, overheads: Overheads) -> FloatArray:
        """P E[Z | Z <= T] / r + (1 - P) T of T."""
        del overheads
        return odds.revoked_s * slower / job.work_s + 1.0 - odds.revoked

    def pause_s(self, job: Job, overheads: Overheads) -> float:
        """The replica goes on meanwhile."""
        del job, overheads
        return 0.0

    def beside(
        self, plan: AttemptPlan, start_s: float, end_s: float, world: World, job: Job
    ) -> tuple[Charge, ...]:
        """The share of the on-demand server."""
        slower = 1.0 - plan.bids[0] / world.on_demand
        return (world.shared(start_s, end_s, job.instances, slower),)

    def after(
        self, plan: AttemptPlan, state: JobPosition, elapsed_s: float, world: World, overheads: Overheads
    ) -> JobPosition:
        """Where the replica is; nothing needs restoring."""
        del overheads
        slower = 1.0 - plan.bids[0] / world.on_demand
        return _done(replace(state, saved_gb=0.0), elapsed_s * slower)
