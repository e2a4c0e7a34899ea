"""Run replicas of a job on spot instances of several markets (docs/design/batch-jobs.md "Model", third row).

Replicas use local storage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from operator import itemgetter

import numpy as np

from cloudsim.jobs.attempts import (
    AttemptPlan,
    AttemptResult,
    JobPosition,
    MarketCandidates,
    Mechanism,
    Replica,
)
from cloudsim.jobs.job import Job, Overheads
from cloudsim.jobs.mechanism_names import MechanismName
from cloudsim.jobs.world import World
from cloudsim.markets import bidding
from cloudsim.markets.revocation import HOUR_S, Markets, Odds
from cloudsim.model.arrays import FloatArray, IntArray

#: Sets are formed of this many markets, those that are best alone.
_MOST_MARKETS = 32


@lru_cache(maxsize=64)
def _sets(markets: int, degree: int) -> IntArray:
    """Return all sets of ``degree`` of the first markets, int64[sets, degree]."""
    return np.array(list(combinations(range(markets), degree)), dtype=np.int64).reshape(-1, degree)


@dataclass(frozen=True)
class Replicate(Mechanism):
    """Run ``degree`` replicas in different markets, taken to be independent; all stop when one is done.

    Attributes
    ----------
    waits
        Do nothing until all are revoked, then start the job again on-demand, as in P4 §5; the estimate
        always assumes that. Otherwise the job is planned again whenever a replica is revoked.
    """

    degree: int = 2
    waits: bool = False

    @property
    def name(self) -> str:
        """Name for display: ``replicate``, or ``begin again`` for one alone."""
        return (MechanismName.BEGIN_AGAIN if self.degree == 1 else MechanismName.REPLICATE).value

    def suits(self, job: Job, overheads: Overheads) -> bool:
        """Return True if the job may run twice."""
        del overheads
        return job.idempotent

    def redo_s(self, job: Job, overheads: Overheads) -> float:
        """Return all of the work for one alone; of several, another one goes on."""
        del overheads
        return job.work_s if self.degree == 1 else 0.0

    def estimate(self, job: Job, markets: Markets, overheads: Overheads) -> MarketCandidates:
        """Return the sum of C_k M_k, plus the product of P_k x C_od T, for sets of markets.

        The last of n revocations is taken at n / (n + 1) of twice the mean time to one, as if they were
        spread evenly.
        """
        del overheads
        bid = bidding.bid_for_replica(markets.on_demand, self.degree)
        odds = markets.odds(np.full(len(markets.price_now), bid), job.work_s, job.instances)
        usable = (markets.price_now <= bid) & (markets.memory_gb >= job.memory_gb) & ~np.isnan(odds.revoked)
        usable_markets = np.flatnonzero(usable)
        alone = odds.price * odds.running_s + odds.revoked * markets.on_demand * job.work_s
        usable_markets = usable_markets[np.argsort(alone[usable_markets], kind="stable")][:_MOST_MARKETS]
        sets = usable_markets[_sets(len(usable_markets), self.degree)]
        cost_usd, time_s = _estimate_sets(odds, sets, markets.on_demand * job.work_s, job.work_s)
        bids = np.full(sets.shape, bid)
        return MarketCandidates.where(
            np.ones(len(sets), np.bool_), cost_usd * job.instances, time_s, sets, bids
        )

    def plan_kept(self, state: JobPosition, markets: Markets) -> AttemptPlan:
        """Return the plan to go on with the replicas that still run, and what it costs."""
        job, left_s = state.job, state.job.work_s - state.done_s
        numbers = tuple(replica.market for replica in state.running)
        bids = tuple(replica.bid for replica in state.running)
        everywhere = np.full(len(markets.price_now), bids[0])
        odds = markets.odds(everywhere, left_s, job.instances)
        again_usd_h = markets.on_demand * job.work_s
        cost, time_s = _estimate_sets(odds, np.array([numbers]), again_usd_h, job.work_s)
        return AttemptPlan(self, numbers, bids, float(cost[0]) * job.instances, float(time_s[0]), keeps=True)

    def step(
        self, plan: AttemptPlan, state: JobPosition, world: World, overheads: Overheads
    ) -> AttemptResult:
        """Run until one is done, or all are revoked; unless it ``waits``, until the first is revoked."""
        running = state.running
        if not plan.keeps:
            since_s = max(state.at_s + overheads.boot_spot_s, state.saved_at_s)
            running = tuple(Replica(*choice, since_s) for choice in zip(plan.markets, plan.bids, strict=True))
            since_s += overheads.restore_s(state.saved_gb)
        else:
            since_s = state.at_s
        end_s = since_s + state.job.work_s - state.done_s
        revoked = sorted(
            ((world.revoked_s(replica.market, state.at_s, replica.bid), replica) for replica in running),
            key=itemgetter(0),
        )
        charges = []
        for place, (at_s, replica) in enumerate(revoked):
            if at_s >= end_s:
                break
            if at_s > replica.since_s:
                charges.append(
                    world.spot(
                        replica.market, replica.since_s, at_s, revoked=True, instances=state.job.instances
                    )
                )
            rest = tuple(other for _, other in revoked[place + 1 :])
            heard_s = at_s + overheads.poll_s
            if rest and (self.waits or heard_s >= end_s):
                continue
            lost = replace(
                state,
                at_s=heard_s,
                running=rest,
                done_s=state.done_s + heard_s - since_s if rest else 0.0,
                revocations=state.revocations + place + 1,
                only_on_demand=self.waits,
            )
            return AttemptResult(lost, False, tuple(charges))
        charges += [
            world.spot(replica.market, replica.since_s, end_s, revoked=False, instances=state.job.instances)
            for at_s, replica in revoked
            if at_s >= end_s
        ]
        return AttemptResult(replace(state, at_s=end_s, running=()), True, tuple(charges))


def _estimate_sets(odds: Odds, sets: IntArray, again: float, again_s: float) -> tuple[FloatArray, FloatArray]:
    """Return the expected cost in US dollars, and time in seconds, of each set of replicas.

    A market without evidence counts as lost at once.

    Parameters
    ----------
    sets
        int64[sets, n], markets of each set.
    again, again_s
        Doing all of it on-demand: its cost in dollars x seconds / hour, and its time in seconds.
    """
    revoked = np.nan_to_num(odds.revoked[sets], nan=1.0)
    revoked_s = np.nan_to_num(odds.revoked_s[sets])
    all_revoked = revoked.prod(axis=1)
    cost = np.nan_to_num(odds.price * odds.running_s)[sets].sum(axis=1) + all_revoked * again
    mean_s = np.divide(revoked_s, revoked, out=np.zeros_like(revoked), where=revoked > 0).max(axis=1)
    degree = sets.shape[1]
    last_s = np.minimum(mean_s * 2.0 * degree / (degree + 1), odds.wall_s)
    return cost / HOUR_S, odds.wall_s + all_revoked * (last_s + again_s - odds.wall_s)
