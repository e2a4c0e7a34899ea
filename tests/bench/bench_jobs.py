"""Batch jobs: one plan over 100 markets, and three months of 30 jobs under four policies on 10 markets.

    python -m tests.bench.bench_jobs [--json]

On the prices of ``spot-prices-2015`` where SPOTFED_DATA has them (100 markets are these, shifted in time), or
made ones with as many records. Seconds are those of the processor, because the machine may have other work.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from broker.settings import settings
from cloudsim.experiments.jobs.runs import JOBS, MARKETS_2015, PRICES_OD_2015, job_of, policy_rows, world_2015
from cloudsim.jobs.attempts import JobPosition
from cloudsim.jobs.job import OVERHEADS, Job
from cloudsim.jobs.mechanisms import Backup, Checkpoint, Migration
from cloudsim.jobs.planner import POLICIES, CostAware
from cloudsim.jobs.replicas import Replicate
from cloudsim.jobs.world import World
from cloudsim.markets.revocation import PriceHistory
from tests.bench.targets import line

MARKETS, PLANS = 100, 30
PLAN_MS, MONTHS_S = 10.0, 10.0
DAY_S = 86_400.0
#: Records of a market of 2015 in 173 days.
_RECORDS = 20_000


def made() -> World:
    """Ten markets that change their prices as often as those of 2015."""
    generator = np.random.default_rng(0)
    histories = []
    for number in range(10):
        at_s = np.sort(generator.uniform(0, 173 * DAY_S, _RECORDS))
        prices = 0.02 * generator.gamma(4.0, 0.25, _RECORDS)
        prices[generator.random(_RECORDS) < 0.003] = 1.0
        prices[0] = 0.02
        histories.append(PriceHistory(f"made {number}", at_s, prices))
    return World(histories, 0.175)


def hundred(world: World) -> World:
    """The same markets, each several times and hours apart."""
    return World(
        [
            PriceHistory(f"{one.name} {copy}", one.at_s + copy * 3 * 3600.0, one.price)
            for copy in range(MARKETS // len(world.histories))
            for one in world.histories
        ],
        world.on_demand,
    )


def plan_ms(world: World) -> float:
    """The mean plan of the four mechanisms, from prices to choice; the first ones are not counted."""
    policy = CostAware("four", (Migration(), Checkpoint(), Replicate(), Backup()))
    job, begin_s = Job(36_000.0, 3.5, io_share=0.2), max(float(one.at_s[0]) for one in world.histories)
    taken = []
    for plan in range(PLANS + 5):
        at_s = begin_s + 30 * DAY_S + plan * 3600.0
        began = time.thread_time()
        policy.plan(JobPosition(at_s, job), world.known(at_s), OVERHEADS)
        taken.append(time.thread_time() - began)
    return 1e3 * float(np.mean(taken[5:]))


def months_s(world: World) -> float:
    """Seconds of 30 jobs of ten hours under each policy."""
    began = time.thread_time()
    policy_rows([job_of()] * JOBS, world, policies=POLICIES)
    return time.thread_time() - began


def recorded(data: Path | None) -> World | None:
    """The markets of 2015 if they are there."""
    if data is None or not all((data / name).is_file() for name in (MARKETS_2015, PRICES_OD_2015)):
        return None
    return world_2015(data)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    world = recorded(settings().data) or made()
    measured = {"plan_ms": plan_ms(hundred(world)), "months_s": months_s(world)}
    if arguments.json:
        sys.stdout.write(json.dumps(measured) + "\n")
        return
    told = f"one job planned over {MARKETS} markets x 4 mechanisms"
    sys.stdout.write(line(told, measured["plan_ms"], "ms", PLAN_MS) + "\n")
    told = f"three months, {JOBS} jobs x {len(POLICIES)} policies x {len(world.histories)} markets"
    sys.stdout.write(line(told, measured["months_s"], "s", MONTHS_S) + "\n")


if __name__ == "__main__":
    main()
