"""P4 Equations 4 and 5: the effect of the printed ones, which docs/design/batch-jobs.md corrects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cloudsim.experiments.drawing import LINES, Dot, Figure, dots_by_group, legend_below, panels
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict, where
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

PRINTED, CORRECTED = "printed", "corrected"
PER_DAY = (0.01, 2.4, 24.0)
PRICE = 0.2
#: A job of an hour with a checkpoint an hour, which is never taken; and the paper's with I/O.
JOBS = {
    "an hour, checkpoint an hour": Job(HOUR_S, 7.5, slack=225 / HOUR_S),
    "half I/O, checkpoint every 15 min": baseline(),
}


@dataclass(frozen=True)
class PrintedCheckpoint(Checkpoint):
    """Checkpoints by the printed Eq. 4.

    Half an interval is lost whether or not there is a revocation, and the cost is per hour of the running
    time, which remote storage has lengthened.
    """

    def estimate(self, job: Job, markets: Markets, overheads: Overheads) -> MarketCandidates:
        """Estimate as printed, times the job's time on local storage."""
        wall_s, bid = self.wall_s(job, overheads), self.bid(job, markets, overheads)
        odds = markets.odds(bid, wall_s, job.instances)
        interval_s = self.interval_s(job, overheads)
        useful_s = odds.running_s / (1.0 + job.slack) - interval_s / 2.0
        cost = odds.price * odds.running_s / np.maximum(useful_s, 1e-9) * job.work_s / HOUR_S
        usable = markets.price_now <= bid
        return MarketCandidates.where(usable, cost, cost, np.arange(len(bid))[:, None], bid[:, None])


@dataclass(frozen=True)
class _PrintedReplicas(Replicate):
    """Replicas by the printed Eq. 5: when any completes all are paid to the end, revoked ones too."""

    def estimate(self, job: Job, markets: Markets, overheads: Overheads) -> MarketCandidates:
        """Estimate as printed for the first ``degree`` markets, which are all equal here."""
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
    PRINTED: (PrintedCheckpoint(), _PrintedReplicas(waits=True)),
}


def measure(_data: Path | None, *, job: str, per_day: float, jobs: int) -> list[Row]:
    """Plan a job in synthetic markets by each set of equations.

    Columns: job, per_day, equations; checkpoint and replicate: estimates over on-demand; chosen; cost with
    _plus_minus: cost of the choice in simulation.
    """
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
        costs = [
            simulate_job(kind, policy, world, submit_s, IMMEDIATE).cost_usd / on_demand_usd
            for submit_s in at_s
        ]
        rows.append(
            {"job": job, "per_day": per_day, "equations": equations}
            | {plan.mechanism.name: plan.cost_usd / on_demand_usd for plan in plans}
            | {"chosen": best.mechanism.name, **mean("cost", costs)}
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


def _pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return each row of the corrected equations with that of the printed ones."""
    return list(zip(where(rows, equations=CORRECTED), where(rows, equations=PRINTED), strict=True))


def _doubles(rows: Sequence[Row]) -> Verdict:
    ((ours, theirs),) = _pairs(where(rows, job=next(iter(JOBS)), per_day=0.01))
    figures = f"{theirs['checkpoint']:.3f} instead of {ours['checkpoint']:.3f}"
    return Verdict(1.8 < theirs["checkpoint"] / ours["checkpoint"] < 2.4, figures)


def _never_worse(rows: Sequence[Row]) -> Verdict:
    better = all(ours["cost"] <= theirs["cost"] + theirs["cost_plus_minus"] for ours, theirs in _pairs(rows))
    costs = ", ".join(f"{ours['cost']:.3f} and {theirs['cost']:.3f}" for ours, theirs in _pairs(rows))
    return Verdict(better, costs)


def _bills_the_dead(rows: Sequence[Row]) -> Verdict:
    worst = max(theirs["replicate"] / ours["replicate"] for ours, theirs in _pairs(rows))
    return Verdict(worst > 1.02, f"up to {worst:.2f} times as much")


def _sentences(rows: Sequence[Row]) -> list[str]:
    return [
        f"{row['job']}, {row['per_day']:g} revocations a day, {row['equations']}: checkpoint "
        f"{row['checkpoint']:.3f}, replicas {row['replicate']:.3f}; chosen {row['chosen']}, "
        f"which costs {row['cost']:.3f} ± {row['cost_plus_minus']:.3f}."
        for row in rows
    ]


def _draw(rows: Sequence[Row]) -> Figure:
    groups = [f"{per_day:g}" for per_day in PER_DAY]
    title = "Estimates as printed and as corrected"
    with panels(title, 1, len(JOBS), size=(10, 4), sharey=True) as (figure, axes):
        for axis, job in zip(axes.flat, JOBS, strict=True):
            own = where(rows, job=job)
            series = {
                f"{mechanism}, {equations}": {
                    f"{row['per_day']:g}": Dot.at(row[mechanism]) for row in where(own, equations=equations)
                }
                for mechanism in ("checkpoint", "replicate")
                for equations in _SETS
            }
            dots_by_group(axis, groups, series)
            axis.plot(
                range(len(PER_DAY)), [row["cost"] for row in where(own, equations=CORRECTED)], "_",
                color=LINES[4][0], ms=16, label="simulated, chosen as corrected",
            )  # fmt: skip
            axis.set(xlabel="revocations a day", title=job, ylim=(0, 1.2))
        axes[0, 0].set_ylabel("cost / on-demand")
        legend_below(figure, axes[0, 0], columns=3)
    return figure


EXPERIMENT = Experiment(
    name="jobs-equations",
    title="Batch jobs: the printed equations and the corrected ones",
    source="our own question; P4 §4.2, Equations 4 and 5",
    cases=_cases,
    pictures=(
        Picture(
            "jobs-equations",
            "Estimated cost of checkpoints and of two replicas by the equations as printed and as corrected.",
            _draw,
        ),
    ),
    sentences=_sentences,
    claims=(
        Claim("Eq. 4", "as printed it doubles the cost of an hour's job that is never revoked", _doubles),
        Claim(
            "Eq. 5", "as printed it is too dear, for revoked replicas are paid to the end", _bills_the_dead
        ),
        Claim(
            "docs/design/batch-jobs.md", "choosing by the corrected equations never costs more", _never_worse
        ),
    ),
)
