"""Jobs on the markets recorded in 2015: the world, and the policies side by side (the paper's §6.2)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cloudsim.experiments.experiment import Row
from cloudsim.jobs.job import OVERHEADS, Job, Overheads
from cloudsim.jobs.planner import POLICIES, OnDemandOnly, PlacementPolicy
from cloudsim.jobs.simulation import SimulatedJob, simulate_job
from cloudsim.jobs.world import World
from cloudsim.markets.billing import Billing
from cloudsim.markets.formats import read
from cloudsim.markets.prices import PriceSeries
from cloudsim.markets.revocation import HOUR_S, WINDOW_S, PriceHistory, inject_revocations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DAY_S = 86_400.0
MARKETS_2015 = "spot-prices-2015/markets.csv"
PRICES_OD_2015 = "ondemand-prices-2015/ec2_ondemand_linux_prices_2015.csv"

#: The paper's reference type, and its baseline job: 7.5 GB, ten hours, a checkpoint an hour.
REFERENCE, REGION = "m1.large", "us-east-1"
BASE_HOURS, BASE_GB, INTERVAL_S = 10.0, 7.5, HOUR_S
#: What EC2 said of its types; a job needs an instance with its memory.
MEMORY_GB = {"m3.medium": 3.75, "c3.xlarge": 7.5, "g2.2xlarge": 15.0, "r3.large": 15.25, "d2.8xlarge": 244.0}

JOBS = 30
#: Jobs arrive within three months, as in the paper; the first week is history.
_ARRIVALS_S = 90 * DAY_S


def job_of(
    hours: float = BASE_HOURS, memory_gb: float = BASE_GB, io_share: float = 0.0, disk_gb: float = 0.0
) -> Job:
    """A job that is saved once an hour, T_c / S = one hour."""
    slack = min(OVERHEADS.save_s_per_gb * memory_gb / INTERVAL_S, 1.0)
    return Job(hours * HOUR_S, memory_gb, io_share, disk_gb, slack)


@lru_cache(maxsize=1)
def series_2015(data: Path) -> tuple[PriceSeries, ...]:
    """The markets that were handed out, by name."""
    return read((data / MARKETS_2015).parent)[0]


@lru_cache(maxsize=1)
def reference_price(data: Path) -> float:
    """What the reference type costs on-demand, US dollars an hour, from the list of 2015."""
    lines = (data / PRICES_OD_2015).read_text(encoding="utf-8").splitlines()
    listed = {tuple(line.split(",")[:2]): float(line.split(",")[2]) for line in lines[1:]}
    return listed[REGION, REFERENCE]


@lru_cache(maxsize=4)
def world_2015(
    data: Path, per_day: float = 0.0, billing: Billing = Billing.CONTINUOUS, seed: int = 0
) -> World:
    """All markets, by the price of as much as the reference type gives; ``per_day`` more revocations in each.

    How much a type gives is taken from its on-demand price.
    """
    on_demand, generator = reference_price(data), np.random.default_rng(seed)
    histories = []
    for one in series_2015(data):
        assert one.on_demand_usd_per_hour is not None, f"{one.name} has no on-demand price"
        plain = PriceHistory.of(one, on_demand / one.on_demand_usd_per_hour)
        histories.append(
            inject_revocations(plain, per_day, generator, price=10 * on_demand) if per_day else plain
        )
    memory = np.array([MEMORY_GB[one.instance_type] for one in series_2015(data)])
    return World(histories, on_demand, memory, billing)


def arrivals(world: World, jobs: int, seed: int) -> list[float]:
    """When jobs are handed in, seconds, at random over three months after a week of history."""
    begin_s = max(float(one.at_s[0]) for one in world.histories) + WINDOW_S
    after_s = np.random.default_rng(seed).uniform(0.0, _ARRIVALS_S, jobs)
    return [begin_s + float(one) for one in after_s]


def policy_rows(
    jobs: Sequence[Job],
    world: World,
    *,
    seed: int = 0,
    policies: Sequence[PlacementPolicy] = POLICIES[1:],
    overheads: Overheads = OVERHEADS,
) -> list[Row]:
    """A row for each policy: what the jobs cost and take relative to on-demand.

    Columns: policy, jobs; cost and time with _plus_minus, half of the 95 % interval of their means over jobs;
    revocations of a job, and used: how many attempts each mechanism made.
    """
    at_s = arrivals(world, len(jobs), seed)
    control = OnDemandOnly()
    base = [simulate_job(job, control, world, one, overheads) for job, one in zip(jobs, at_s, strict=True)]
    rows = []
    for policy in policies:
        outcomes = [
            simulate_job(job, policy, world, one, overheads) for job, one in zip(jobs, at_s, strict=True)
        ]
        used = Counter(attempt.mechanism for one in outcomes for attempt in one.attempts)
        rows.append(
            {
                "policy": policy.name,
                "jobs": len(jobs),
                **relative(outcomes, base),
                "revocations": float(np.mean([one.revocations for one in outcomes])),
                "used": dict(sorted(used.items())),
            }
        )
    return rows


def relative(outcomes: Sequence[SimulatedJob], base: Sequence[SimulatedJob]) -> Row:
    """Columns cost and time over those of the same jobs in ``base``, mean over jobs with _plus_minus."""
    pairs = list(zip(outcomes, base, strict=True))
    return {
        **mean("cost", [one.cost_usd / other.cost_usd for one, other in pairs]),
        **mean("time", [one.time_s / other.time_s for one, other in pairs]),
    }


def mean(name: str, values: Sequence[float]) -> Row:
    """Columns ``name``, the mean of at least two values, and ``name``_plus_minus, half its 95 % interval."""
    spread = 1.96 * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return {name: float(np.mean(values)), f"{name}_plus_minus": spread}


def said(row: Row) -> str:
    """Cost and time of a row in words."""
    return (
        f"cost {row['cost']:.3f} ± {row['cost_plus_minus']:.3f}, "
        f"time {row['time']:.3f} ± {row['time_plus_minus']:.3f} of on-demand"
    )


def draw_policies(rows: Sequence[Row], title: str, label: str) -> Figure:
    """Cost and time of each policy over column ``value``."""
    from cloudsim.experiments.panels import Dot, dots_by_group, legend_below, panels

    groups = list(dict.fromkeys(_named(row["value"]) for row in rows))
    with panels(title, 1, 2, size=(10, 4.2)) as (figure, axes):
        for axis, what in zip(axes.flat, ("cost", "time"), strict=True):
            series = {
                name: {
                    _named(row["value"]): Dot(
                        row[what],
                        row[what] - row[f"{what}_plus_minus"],
                        row[what] + row[f"{what}_plus_minus"],
                    )
                    for row in rows
                    if row["policy"] == name
                }
                for name in dict.fromkeys(row["policy"] for row in rows)
            }
            dots_by_group(axis, groups, series)
            axis.axhline(1.0, color="black", lw=0.7, ls=":")
            axis.set(xlabel=label, ylabel=f"{what} / on-demand")
            axis.set_ylim(bottom=0)
        legend_below(figure, axes.flat[0])
    return figure


def _named(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
