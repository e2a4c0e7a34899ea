"""Our own question: what the equations that JOBS.md corrects would do (the paper's Eqs. 4 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cloudsim.experiments.claims import Claim, Verdict, judged
from cloudsim.experiments.drawing import LINES
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.jobs.runs import mean
from cloudsim.experiments.jobs.synthetic_job import Always, baseline, made_world, quoted
from cloudsim.jobs.attempts import MarketCandidates
from cloudsim.jobs.job import IMMEDIATE, Job, Overheads
from cloudsim.jobs.mechanisms import Checkpoint
from cloudsim.jobs.planner import ON_DEMAND, list_plans
from cloudsim.jobs.replicas import Replicate
from cloudsim.jobs.simulation import simulate_job
from cloudsim.markets import bidding
from cloudsim.markets.revocation import HOUR_S, WINDOW_S, Markets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRINTED, CORRECTED = "printed", "corrected"
PER_DAY = (0.01, 2.4, 24.0)
PRICE = 0.2
#: An hour's job with a checkpoint an hour, which never comes to be taken; and the paper's with I/O.
JOBS = {
    "an hour, checkpoint an hour": Job(HOUR_S, 7.5, slack=225 / HOUR_S),
    "half I/O, checkpoint every 15 min": baseline(),
}


@dataclass(frozen=True)
class _PrintedCheckpoint(Checkpoint):
    """Eq. 4: half an interval is lost whether or not there is a revocation, and the cost is per hour of its
    own running time, which remote storage has lengthened."""

    def estimate(self, job: Job, markets: Markets, overheads: Overheads) -> MarketCandidates:
        """As printed, times the job's time on local storage."""
        wall_s, bid = self.wall_s(job, overheads), self.bid(job, markets, overheads)
        odds = markets.odds(bid, wall_s, job.instances)
        interval_s = self.interval_s(job, overheads)
        useful_s = odds.running_s / (1.0 + job.slack) - interval_s / 2.0
        cost = odds.price * odds.running_s / np.maximum(useful_s, 1e-9) * job.work_s / HOUR_S
        usable = markets.price_now <= bid
        return MarketCandidates.where(usable, cost, cost, np.arange(len(bid))[:, None], bid[:, None])


@dataclass(frozen=True)
class _PrintedReplicas(Replicate):
    """Eq. 5: all replicas are paid to the end when any completes, revoked ones too."""

    def estimate(self, job: Job, markets: Markets, overheads: Overheads) -> MarketCandidates:
        """As printed, of the first ``degree`` markets, which are all the same here."""
        del overheads
        bid = bidding.bid_for_replica(markets.on_demand, self.degree)
        odds = markets.odds(np.full(len(markets.price_now), bid), job.work_s, job.instances)
        first = np.flatnonzero(markets.price_now <= bid)[: self.degree]
        lost = odds.revoked[first].prod()
        paid_s = lost * odds.running_s[first] + (1.0 - lost) * job.work_s
        cost = ((odds.price[first] * paid_s).sum() + lost * markets.on_demand * job.work_s) / HOUR_S
        at = np.array([cost])
        return MarketCandidates.where(
            np.ones(1, np.bool_), at, at, first[None, :], np.full((1, self.degree), bid)
        )


_SETS = {
    CORRECTED: (Checkpoint(), Replicate(waits=True)),
    PRINTED: (_PrintedCheckpoint(), _PrintedReplicas(waits=True)),
}


def measure(_data: Path | None, *, job: str, per_day: float, jobs: int) -> list[Row]:
    """A case: a job in made markets, planned by each set of equations. Columns: job, per_day, equations;
    checkpoint and replicate, the estimates over on-demand; chosen; cost with _plus_minus: what the choice
    costs in simulation."""
    kind = JOBS[job]
    rows: list[Row] = []
    generator = np.random.default_rng(1)
    at_s = generator.uniform(WINDOW_S, 3900 * 86_400.0, jobs).tolist()
    on_demand_usd = kind.work_s / HOUR_S
    for equations, mechanisms in _SETS.items():
        plans = list_plans(kind, (*mechanisms, ON_DEMAND), quoted(per_day, PRICE), IMMEDIATE)
        best = min(plans, key=lambda plan: plan.cost_usd)
        policy = Always(best.mechanism, best.bids)
        world = made_world(per_day, PRICE, 1)
        costs = [simulate_job(kind, policy, world, one, IMMEDIATE).cost_usd / on_demand_usd for one in at_s]
        rows.append(
            {
                "job": job,
                "per_day": per_day,
                "equations": equations,
                **{plan.mechanism.name: plan.cost_usd / on_demand_usd for plan in plans},
                "chosen": best.mechanism.name,
                **mean("cost", costs),
            }
        )
    return rows


def _cases(quick: bool) -> list[Case]:
    return [
        Case(
            f"{job}, {per_day:g} a day",
            measure,
            {"job": job, "per_day": per_day, "jobs": 50 if quick else 1000},
        )
        for job in JOBS
        for per_day in PER_DAY
    ]


def _of(rows: Sequence[Row], equations: str) -> list[Row]:
    return [row for row in rows if row["equations"] == equations]


def _doubles(rows: Sequence[Row]) -> Verdict:
    name = next(iter(JOBS))
    found = {
        row["equations"]: row["checkpoint"] for row in rows if (row["job"], row["per_day"]) == (name, 0.01)
    }
    ratio = found[PRINTED] / found[CORRECTED]
    return Verdict(1.8 < ratio < 2.4, f"{found[PRINTED]:.3f} instead of {found[CORRECTED]:.3f}")


def _never_worse(rows: Sequence[Row]) -> Verdict:
    pairs = list(zip(_of(rows, CORRECTED), _of(rows, PRINTED), strict=True))
    better = all(ours["cost"] <= theirs["cost"] + theirs["cost_plus_minus"] for ours, theirs in pairs)
    told = ", ".join(f"{ours['cost']:.3f} and {theirs['cost']:.3f}" for ours, theirs in pairs)
    return Verdict(better, told)


def _bills_the_dead(rows: Sequence[Row]) -> Verdict:
    pairs = list(zip(_of(rows, CORRECTED), _of(rows, PRINTED), strict=True))
    worst = max(theirs["replicate"] / ours["replicate"] for ours, theirs in pairs)
    return Verdict(worst > 1.02, f"up to {worst:.2f} times as much")


CLAIMS = (
    Claim("Eq. 4", "as printed it doubles the cost of an hour's job that is never revoked", _doubles),
    Claim("Eq. 5", "as printed it is too dear, for revoked replicas are paid to the end", _bills_the_dead),
    Claim("JOBS.md", "choosing by the corrected equations never costs more", _never_worse),
)


def _findings(rows: Sequence[Row]) -> list[str]:
    lines = [
        f"{row['job']}, {row['per_day']:g} revocations a day, {row['equations']}: checkpoint "
        f"{row['checkpoint']:.3f}, replicas {row['replicate']:.3f}; chosen {row['chosen']}, "
        f"which costs {row['cost']:.3f} ± {row['cost_plus_minus']:.3f}."
        for row in rows
    ]
    return [*lines, *judged(CLAIMS, rows)]


def _draw(rows: Sequence[Row]) -> Figure:
    from cloudsim.experiments.panels import Dot, dots_by_group, legend_below, panels

    groups = [f"{one:g}" for one in PER_DAY]
    with panels("Estimates as printed and as corrected", 1, len(JOBS), size=(10, 4), sharey=True) as (
        figure,
        axes,
    ):
        for axis, job in zip(axes.flat, JOBS, strict=True):
            own = [row for row in rows if row["job"] == job]
            series = {
                f"{mechanism}, {equations}": {
                    f"{row['per_day']:g}": Dot(row[mechanism], row[mechanism], row[mechanism])
                    for row in _of(own, equations)
                }
                for mechanism in ("checkpoint", "replicate")
                for equations in _SETS
            }
            dots_by_group(axis, groups, series)
            axis.plot(
                range(len(PER_DAY)), [row["cost"] for row in _of(own, CORRECTED)], "_",
                color=LINES[4][0], ms=16, label="simulated, chosen as corrected",
            )  # fmt: skip
            axis.set(xlabel="revocations a day", title=job, ylim=(0, 1.2))
        axes[0, 0].set_ylabel("cost / on-demand")
        legend_below(figure, axes[0, 0], 3)
    return figure


EXPERIMENT = Experiment(
    name="jobs-equations",
    title="Batch jobs: the printed equations and the corrected ones",
    source="our own question; paper 003, §4.2, Equations 4 and 5",
    cases=_cases,
    pictures=(
        Picture(
            "jobs-equations",
            "Estimated cost of checkpoints and of two replicas by the equations as printed and as corrected.",
            _draw,
        ),
    ),
    findings=_findings,
)
