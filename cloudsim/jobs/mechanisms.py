"""Mechanisms that run a job on one instance: on-demand, migrate on warning, checkpoint, backup replica.

They are the rows of the table of docs/design/batch-jobs.md "Model" (P4 §3 and §4.2). Each says once how fast
the job advances (``wall_s``), and what is kept of it on a revocation: ``estimate`` takes the mean over all
revocations, ``step`` meets one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from cloudsim.jobs.attempts import (
    LEAST_S,
    AttemptPlan,
    AttemptResult,
    Charge,
    JobPosition,
    MarketCandidates,
    Mechanism,
)
from cloudsim.jobs.job import Job, Overheads, StorageKind
from cloudsim.jobs.mechanism_names import MechanismName
from cloudsim.jobs.replicas import Replicate
from cloudsim.jobs.world import World
from cloudsim.markets import bidding
from cloudsim.markets.revocation import HOUR_S, Markets, Odds
from cloudsim.model.arrays import FloatArray
from cloudsim.model.errors import SpecError
from cloudsim.model.plugins import CHECKPOINT_MECHANISMS, load_plugins


@dataclass(frozen=True)
class OnDemand(Mechanism):
    """Run on-demand: one more market, in which nothing is revoked."""

    name: str = MechanismName.ON_DEMAND.value

    def suits(self, job: Job, overheads: Overheads) -> bool:
        """Return True: any job can run on-demand."""
        del job, overheads
        return True

    def estimate(self, job: Job, markets: Markets, overheads: Overheads) -> MarketCandidates:
        """Return one candidate without a market."""
        del overheads
        cost = np.array([markets.on_demand * job.instances * job.work_s / HOUR_S])
        return MarketCandidates(cost, np.array([job.work_s]), np.empty((1, 0), np.int64), np.empty((1, 0)))

    def step(
        self, plan: AttemptPlan, state: JobPosition, world: World, overheads: Overheads
    ) -> AttemptResult:
        """Run to the end, or until the plan says that the job is planned again."""
        if state.on_demand_since_s is not None and plan.keeps:
            start_s, begins_s = state.on_demand_since_s, state.at_s
        else:
            start_s = max(state.at_s + overheads.boot_on_demand_s, state.saved_at_s)
            begins_s = start_s + overheads.restore_s(state.saved_gb)
        end_s = begins_s + state.job.work_s - state.done_s
        if plan.until_s < end_s:
            done_s = state.done_s + plan.until_s - begins_s
            running = replace(state, at_s=plan.until_s, on_demand_since_s=start_s, done_s=done_s)
            return AttemptResult(running, False, ())
        charge = world.at_fixed_price(start_s, end_s, state.job.instances)
        return AttemptResult(replace(state, at_s=end_s, on_demand_since_s=None), True, (charge,))


@dataclass(frozen=True)
class Wait(Mechanism):
    """Do nothing until the job is planned again, because nothing that it may use can be had."""

    name: str = "wait"

    def suits(self, job: Job, overheads: Overheads) -> bool:
        """Return True: any job can wait."""
        del job, overheads
        return True

    def estimate(self, job: Job, markets: Markets, overheads: Overheads) -> MarketCandidates:
        """Return no candidate: waiting never finishes a job."""
        del job, markets, overheads
        return MarketCandidates(np.empty(0), np.empty(0), np.empty((0, 0), np.int64), np.empty((0, 0)))

    def step(
        self, plan: AttemptPlan, state: JobPosition, world: World, overheads: Overheads
    ) -> AttemptResult:
        """Let the time pass."""
        del world, overheads
        return AttemptResult(replace(state, at_s=plan.until_s), False, ())


class _OnOneMarket(Mechanism):
    """Common part of the mechanisms with one spot instance."""

    @abstractmethod
    def bid(self, job: Job, markets: Markets, overheads: Overheads) -> FloatArray:
        """Return the bid for each market, float64[m]."""

    @abstractmethod
    def useful(self, job: Job, odds: Odds, slower: FloatArray, overheads: Overheads) -> FloatArray:
        """Return the share of the job that an attempt does on average, float64[m].

        Parameters
        ----------
        slower
            float64[m], 1 / r, the pace of a backup replica.
        """

    @abstractmethod
    def pause_s(self, job: Job, overheads: Overheads) -> float:
        """Return the time that a revocation costs beside the work that it destroys, in seconds.

        Instances run meanwhile, but do not advance the job.
        """

    @abstractmethod
    def after(
        self, plan: AttemptPlan, state: JobPosition, elapsed_s: float, world: World, overheads: Overheads
    ) -> JobPosition:
        """Return where the job stands when it is revoked ``elapsed_s`` after it began to run.

        ``at_s`` of the position is already that of the revocation.
        """

    def price(self, odds: Odds, bid: FloatArray, markets: Markets) -> FloatArray:
        """Return the price while it runs, US dollars an hour, float64[m]."""
        del bid, markets
        return odds.price

    def beside(
        self, plan: AttemptPlan, start_s: float, end_s: float, world: World, job: Job
    ) -> tuple[Charge, ...]:
        """Return the charges beside those for the instance."""
        del plan, start_s, end_s, world, job
        return ()

    def estimate(self, job: Job, markets: Markets, overheads: Overheads) -> MarketCandidates:
        """Return cost over useful work: the cost of the whole job if all attempts go like this one."""
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
        """Run until the job is done or its instance is revoked."""
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
    """Return a position with less work left, in seconds of the job's own running time; never nothing."""
    return replace(state, job=replace(state.job, work_s=max(state.job.work_s - work_s, LEAST_S)))


@dataclass(frozen=True)
class Migration(_OnOneMarket):
    """Save the job within the warning, and go on elsewhere."""

    keeps_state: ClassVar[bool] = True
    saves_on_notice: ClassVar[bool] = True
    storage: StorageKind = StorageKind.REMOTE

    @property
    def name(self) -> str:
        """Name for display: ``migrate``."""
        return MechanismName.MIGRATE.value

    def suits(self, job: Job, overheads: Overheads) -> bool:
        """Return True if there is one instance, and saving takes no longer than the warning."""
        return job.instances == 1 and overheads.save_s(job, self.storage) <= overheads.warning_s

    def wall_s(self, job: Job, overheads: Overheads) -> float:
        """Return T', which only the storage stretches."""
        return job.work_s * overheads.stretch(job, self.storage)

    def bid(self, job: Job, markets: Markets, overheads: Overheads) -> FloatArray:
        """Return the cost of on-demand over the time it takes."""
        price = bidding.bid_for_instance(markets.on_demand, job.work_s, self.wall_s(job, overheads))
        return np.full(len(markets.price_now), price)

    def useful(self, job: Job, odds: Odds, slower: FloatArray, overheads: Overheads) -> FloatArray:
        """Return the share that was run: nothing is lost."""
        del slower
        return odds.running_s / self.wall_s(job, overheads)

    def pause_s(self, job: Job, overheads: Overheads) -> float:
        """Return T_m: saving here and restoring there."""
        restore_s = overheads.restore_s(overheads.state_gb(job, self.storage))
        return overheads.save_s(job, self.storage) + restore_s

    def after(
        self, plan: AttemptPlan, state: JobPosition, elapsed_s: float, world: World, overheads: Overheads
    ) -> JobPosition:
        """Return the position with all work saved."""
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
    """Stop the job for T_c after every tau seconds of work, and go back to the last checkpoint on revocation.

    Work after the last whole interval pays its share of a checkpoint, in estimates and in steps: T' = T (1 +
    T_c / tau).
    """

    keeps_state: ClassVar[bool] = True
    storage: StorageKind = StorageKind.REMOTE

    @property
    def name(self) -> str:
        """Name for display: ``checkpoint``."""
        return MechanismName.CHECKPOINT.value

    def suits(self, job: Job, overheads: Overheads) -> bool:
        """Return True if there is one instance, and the job may be set back."""
        del overheads
        return job.instances == 1 and job.idempotent

    def interval_s(self, job: Job, overheads: Overheads) -> float:
        """Return tau = T_c / S, in seconds."""
        return overheads.save_s(job, self.storage) / job.slack

    def wall_s(self, job: Job, overheads: Overheads) -> float:
        """Return T_remote (1 + T_c / tau)."""
        return job.work_s * overheads.stretch(job, self.storage) * (1.0 + job.slack)

    def bid(self, job: Job, markets: Markets, overheads: Overheads) -> FloatArray:
        """Return the cost of on-demand over the time it takes."""
        price = bidding.bid_for_instance(markets.on_demand, job.work_s, self.wall_s(job, overheads))
        return np.full(len(markets.price_now), price)

    def useful(self, job: Job, odds: Odds, slower: FloatArray, overheads: Overheads) -> FloatArray:
        """Return M / (1 + T_c / tau) - P tau / 2, as a share of T_remote."""
        del slower
        lost_s = odds.revoked * self.interval_s(job, overheads) / 2.0
        work_s = job.work_s * overheads.stretch(job, self.storage)
        return np.maximum(odds.running_s / (1.0 + job.slack) - lost_s, 0.0) / work_s

    def pause_s(self, job: Job, overheads: Overheads) -> float:
        """Return T_restore."""
        return overheads.restore_s(overheads.state_gb(job, self.storage))

    def after(
        self, plan: AttemptPlan, state: JobPosition, elapsed_s: float, world: World, overheads: Overheads
    ) -> JobPosition:
        """Return the position at the last checkpoint, if there was one."""
        del plan, world
        interval_s = self.interval_s(state.job, overheads)
        checkpoints = math.floor(elapsed_s / (interval_s * (1.0 + state.job.slack)))
        if not checkpoints:
            return state
        saved = replace(state, saved_gb=overheads.state_gb(state.job, self.storage))
        return _done(saved, checkpoints * interval_s / overheads.stretch(state.job, self.storage))


@dataclass(frozen=True)
class Backup(_OnOneMarket):
    """Run a slower replica on a share of an on-demand server, which costs as much as the spot instance.

    The replica is r times as slow on a share 1/r of the server, r = C_od / C. On revocation the job is where
    the replica is. r is the on-demand price over the mean price while that is not above it; the bid is C_od -
    C.
    """

    needs_backup: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Name for display: ``backup``."""
        return MechanismName.BACKUP.value

    def suits(self, job: Job, overheads: Overheads) -> bool:
        """Return True if the job may run twice."""
        del overheads
        return job.idempotent

    def bid(self, job: Job, markets: Markets, overheads: Overheads) -> FloatArray:
        """Return what the replica's price leaves of the on-demand price."""
        del overheads
        everywhere = np.full(len(markets.price_now), markets.on_demand)
        usual = markets.odds(everywhere, job.work_s, job.instances).price
        return bidding.bid_beside_backup(markets.on_demand, usual)

    def price(self, odds: Odds, bid: FloatArray, markets: Markets) -> FloatArray:
        """Return the prices of the instance and of the replica together."""
        return odds.price + (markets.on_demand - bid)

    def useful(self, job: Job, odds: Odds, slower: FloatArray, overheads: Overheads) -> FloatArray:
        """Return P E[Z | Z <= T] / r + (1 - P) T, as a share of T."""
        del overheads
        return odds.revoked_s * slower / job.work_s + 1.0 - odds.revoked

    def pause_s(self, job: Job, overheads: Overheads) -> float:
        """Return 0: the replica goes on meanwhile."""
        del job, overheads
        return 0.0

    def beside(
        self, plan: AttemptPlan, start_s: float, end_s: float, world: World, job: Job
    ) -> tuple[Charge, ...]:
        """Return the charge for the share of the on-demand server."""
        slower = 1.0 - plan.bids[0] / world.on_demand
        return (world.shared(start_s, end_s, job.instances, slower),)

    def after(
        self, plan: AttemptPlan, state: JobPosition, elapsed_s: float, world: World, overheads: Overheads
    ) -> JobPosition:
        """Return the position of the replica; nothing needs restoring."""
        del overheads
        slower = 1.0 - plan.bids[0] / world.on_demand
        return _done(replace(state, saved_gb=0.0), elapsed_s * slower)


#: All mechanisms of ours for spot instances, which jobs in simulations choose from. Of mechanisms that cost
#: the same the first one is taken. Jobs on live clouds choose from ``all_mechanisms``.
MECHANISMS: tuple[Mechanism, ...] = (
    Migration(StorageKind.LOCAL),
    Migration(),
    Checkpoint(StorageKind.LOCAL),
    Checkpoint(),
    Replicate(),
    Backup(),
)


def all_mechanisms() -> tuple[Mechanism, ...]:
    """Return all mechanisms for spot instances: ours, and those that installed packages add.

    Raises
    ------
    SpecError
        When a package cannot be loaded, or its mechanism has the name of another one.
    """
    added = load_plugins(CHECKPOINT_MECHANISMS, Mechanism)
    known = {(each.name, each.storage) for each in (*MECHANISMS, OnDemand())}
    for entry, mechanism in added.items():
        if (mechanism.name, mechanism.storage) in known:
            raise SpecError(
                f"{entry} is called {mechanism.name!r}, as one of ours is", field=CHECKPOINT_MECHANISMS
            )
    return (*MECHANISMS, *added.values())


def find_mechanism(name: str, storage: str) -> Mechanism | None:
    """Return the mechanism of this name that uses this storage, None if there is none."""
    return next((each for each in all_mechanisms() if each.name == name and each.storage == storage), None)
