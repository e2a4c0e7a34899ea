"""Jobs on the markets recorded in 2015: the world, and the policies side by side (P4 §6.2)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from cloudsim.experiments.drawing import Dot, Figure, dots_by_group, legend_below, panels
from cloudsim.experiments.experiment import Row, distinct, where
from cloudsim.jobs.job import OVERHEADS, Job, Overheads
from cloudsim.jobs.planner import POLICIES, OnDemandOnly, PlacementPolicy
from cloudsim.jobs.simulation import SimulatedJob, simulate_job
from cloudsim.jobs.world import World
from cloudsim.markets.billing import Billing
from cloudsim.markets.formats import read
from cloudsim.markets.prices import PriceSeries
from cloudsim.markets.revocation import (
    HOUR_S,
    START_EVERY_S,
    WINDOW_S,
    PriceHistory,
    inject_revocations,
)
from cloudsim.model.errors import TraceError

DAY_S = 86_400.0
MARKETS_2015 = "spot-prices-2015/markets.csv"
PRICES_OD_2015 = "ondemand-prices-2015/ec2_ondemand_linux_prices_2015.csv"

#: The paper's reference type, and its baseline job: 7.5 GB, ten hours, a checkpoint an hour.
REFERENCE, REGION = "m1.large", "us-east-1"
BASE_HOURS, BASE_GB, INTERVAL_S = 10.0, 7.5, HOUR_S
#: Memory of EC2's types; a job needs an instance with at least its memory.
MEMORY_GB = {"m3.medium": 3.75, "c3.xlarge": 7.5, "g2.2xlarge": 15.0, "r3.large": 15.25, "d2.8xlarge": 244.0}

JOBS = 30
#: Jobs arrive within three months, as in the paper; the first week is history.
_ARRIVALS_S = 90 * DAY_S


def job_of(
    hours: float = BASE_HOURS, memory_gb: float = BASE_GB, io_share: float = 0.0, disk_gb: float = 0.0
) -> Job:
    """Return a job that is saved once an hour: T_c / S = one hour."""
    slack = min(OVERHEADS.save_s_per_gb * memory_gb / INTERVAL_S, 1.0)
    return Job(hours * HOUR_S, memory_gb, io_share, disk_gb, slack)


@lru_cache(maxsize=1)
def series_2015(data: Path) -> tuple[PriceSeries, ...]:
    """Return the recorded markets in order of their names.

    Raises
    ------
    TraceError
        When a market lacks its on-demand price, is of an unknown type, or is shorter than the jobs need.
    """
    markets = read((data / MARKETS_2015).parent)[0]
    needed_days = (WINDOW_S + _ARRIVALS_S) / DAY_S
    for series in markets:
        days = series.span_s / DAY_S
        if series.on_demand_usd_per_hour is None:
            reason = "has no on-demand price: the list of the files has a column ondemand_usd_per_hour for it"
        elif series.instance_type not in MEMORY_GB:
            reason = f"is of a type that the jobs are not fitted to; known are {', '.join(MEMORY_GB)}"
        elif days < needed_days:
            reason = f"has prices of {days:.1f} days where {needed_days:.0f} are needed"
        else:
            continue
        raise TraceError(f"{series.name} {reason}", file=str(data / MARKETS_2015))
    return markets


@lru_cache(maxsize=1)
def reference_price(data: Path) -> float:
    """Return the on-demand price of the reference type in US dollars an hour, from the list of 2015."""
    lines = (data / PRICES_OD_2015).read_text(encoding="utf-8").splitlines()
    listed = {tuple(line.split(",")[:2]): float(line.split(",")[2]) for line in lines[1:]}
    return listed[REGION, REFERENCE]


@lru_cache(maxsize=4)
def world_2015(
    data: Path,
    per_day: float = 0.0,
    billing: Billing = Billing.CONTINUOUS,
    seed: int = 0,
    *,
    zone: str = "",
    together: bool = False,
) -> World:
    """Return all markets, priced for as much capacity as the reference type has.

    The capacity of a type is taken from its on-demand price.

    Parameters
    ----------
    per_day
        Revocations injected into each market.
    zone
        Only the markets of this zone; empty for all.
    together
        Injected revocations hit all markets of a zone at the same moments.
    """
    on_demand, generator = reference_price(data), np.random.default_rng(seed)
    markets = [series for series in series_2015(data) if zone in series.zone]
    begin_s = min(series.starts_s for series in markets)
    end_s = max(series.ends_s for series in markets)
    count = round(per_day * (end_s - begin_s) / DAY_S)
    spikes_s = {
        name: np.sort(generator.uniform(begin_s, end_s, count))
        for name in sorted({series.zone for series in markets} if together else ())
    }
    histories = []
    for series in markets:
        assert series.on_demand_usd_per_hour is not None  # series_2015 has looked
        history = PriceHistory.of(series, on_demand / series.on_demand_usd_per_hour)
        if together:
            history = history.with_spikes(spikes_s[series.zone], START_EVERY_S, 10 * on_demand)
        elif per_day:
            history = inject_revocations(history, per_day, generator, price=10 * on_demand)
        histories.append(history)
    memory = np.array([MEMORY_GB[series.instance_type] for series in markets])
    return World(histories, on_demand, memory, billing)


def arrivals(world: World, jobs: int, seed: int) -> list[float]:
    """Return the times of submission in seconds, at random over three months after a week of history."""
    begin_s = max(float(history.at_s[0]) for history in world.histories) + WINDOW_S
    after_s = np.random.default_rng(seed).uniform(0.0, _ARRIVALS_S, jobs)
    return [begin_s + float(delay_s) for delay_s in after_s]


def policy_rows(
    jobs: Sequence[Job],
    world: World,
    *,
    seed: int = 0,
    policies: Sequence[PlacementPolicy] = POLICIES[1:],
    overheads: Overheads = OVERHEADS,
) -> list[Row]:
    """Return a row for each policy: cost and time of the jobs relative to on-demand.

    Columns: policy, jobs; cost and time with _plus_minus, half of the 95 % interval of their means over jobs;
    revocations of a job; used, mechanism → number of its attempts.
    """
    at_s = arrivals(world, len(jobs), seed)

    def run(policy: PlacementPolicy) -> list[SimulatedJob]:
        return [
            simulate_job(job, policy, world, begin_s, overheads)
            for job, begin_s in zip(jobs, at_s, strict=True)
        ]

    base, rows = run(OnDemandOnly()), []
    for policy in policies:
        outcomes = run(policy)
        used = Counter(attempt.mechanism for outcome in outcomes for attempt in outcome.attempts)
        rows.append(
            {"policy": policy.name, "jobs": len(jobs)}
            | relative(outcomes, base)
            | {"revocations": float(np.mean([outcome.revocations for outcome in outcomes]))}
            | {"used": dict(sorted(used.items()))}
        )
    return rows


def relative(outcomes: Sequence[SimulatedJob], base: Sequence[SimulatedJob]) -> Row:
    """Return columns cost and time over those of the jobs in ``base``, mean over jobs with _plus_minus."""
    pairs = list(zip(outcomes, base, strict=True))
    return {
        **mean("cost", [outcome.cost_usd / other.cost_usd for outcome, other in pairs]),
        **mean("time", [outcome.time_s / other.time_s for outcome, other in pairs]),
    }


def mean(name: str, values: Sequence[float]) -> Row:
    """Return columns ``name``, the mean of two values or more, and ``name``_plus_minus (95 %)."""
    half = 1.96 * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return {name: float(np.mean(values)), f"{name}_plus_minus": half}


def describe(row: Row) -> str:
    """Return cost and time of a row in words."""
    return (
        f"cost {row['cost']:.3f} ± {row['cost_plus_minus']:.3f}, "
        f"time {row['time']:.3f} ± {row['time_plus_minus']:.3f} of on-demand"
    )


def draw_policies(rows: Sequence[Row], title: str, label: str) -> Figure:
    """Draw cost and time of each policy over column ``value``."""
    named = [row | {"group": _name(row["value"])} for row in rows]
    with panels(title, 1, 2, size=(10, 4.2)) as (figure, axes):
        for axis, column in zip(axes.flat, ("cost", "time"), strict=True):
            series = {
                policy: {row["group"]: Dot.of_mean(row, column) for row in where(named, policy=policy)}
                for policy in distinct(named, "policy")
            }
            dots_by_group(axis, distinct(named, "group"), series)
            axis.axhline(1.0, color="black", lw=0.7, ls=":")
            axis.set(xlabel=label, ylabel=f"{column} / on-demand")
            axis.set_ylim(bottom=0)
        legend_below(figure, axes[0, 0])
    return figure


def _name(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
