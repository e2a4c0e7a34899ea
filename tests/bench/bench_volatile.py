"""Volatile resources: kernels beside the plain event loop, and the study of one pool, of 608 and of a year's.

    python -m tests.bench.bench_volatile [--pools 608] [--json]

First all policies on a small pool through the compiled kernels and through the plain event loop, side by
side: their counts must be the same. Then the whole study (4 policies x 5 models x 2 value functions) of pools
of 90 days and up to 5,000 units, made up; and of every market of ``spot-prices-2021`` whose price changes,
where SPOTFED_DATA has them. Seconds are those of the processor, because the machine may have other work.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from broker.settings import settings
from cloudsim.markets.formats import read
from cloudsim.volatile import kernels
from cloudsim.volatile.availability import Availability, Unknown, infer_availability
from cloudsim.volatile.managers import count_revocations
from cloudsim.volatile.study import run_study
from cloudsim.volatile.synthetic import EXEMPLARS, make_exemplar
from tests.bench.targets import line
from tests.support.reference import volatile as reference

REPEATS = 7
SMALL_SAMPLES, SMALL_UNITS = 2000, 250
ONE_POOL_MS, POOLS_S, MARKETS_S = 20.0, 15.0, 40.0
BANDS = [SMALL_UNITS // 5] * 5


def seconds(run: Callable[[], object], repeats: int = 1) -> float:
    """The best of several."""
    best = np.inf
    for _ in range(repeats):
        began = time.thread_time()
        run()
        best = min(best, time.thread_time() - began)
    return best


def side_by_side() -> dict[str, float]:
    """How many times as fast each kernel is as the loop that does the same."""
    units = make_exemplar("stable-2", np.random.default_rng(0), SMALL_SAMPLES).units.astype(np.int64)
    units = units * SMALL_UNITS // units.max()
    plain, draws = units.tolist(), np.random.default_rng(1).random(count_revocations(units))
    floors = np.arange(5)[::-1] * BANDS[0]
    pairs: dict[str, tuple[Callable[[], np.ndarray], Callable[[], list[list[int]]]]] = {
        "random": (
            lambda: kernels.count_random(units, draws)[np.newaxis],
            lambda: reference.list_intervals(plain, reference.random_order(draws), [SMALL_UNITS]),
        ),
        "fifo": (
            lambda: kernels.count_queue(units, False)[np.newaxis],
            lambda: reference.list_intervals(plain, reference.oldest_first, [SMALL_UNITS]),
        ),
        "lifo": (
            lambda: kernels.count_stack(units, floors[-1:]),
            lambda: reference.list_intervals(plain, reference.top_first, [SMALL_UNITS]),
        ),
        "lifo, recency": (
            lambda: kernels.count_queue(units, True)[np.newaxis],
            lambda: reference.list_intervals(plain, reference.newest_first, [SMALL_UNITS]),
        ),
        "lifo-pools": (
            lambda: kernels.count_stack(units, floors),
            lambda: reference.list_intervals(plain, reference.top_first, BANDS),
        ),
    }
    ratios = {}
    for name, (kernel, loop) in pairs.items():
        compare(kernel(), loop())  # compiles, too
        ratios[name] = seconds(loop) / seconds(kernel, REPEATS)
    return ratios


def compare(counted: np.ndarray, lengths: list[list[int]]) -> None:
    """Both must say the same of every length."""
    for row, found in zip(counted, lengths, strict=True):
        assert row.tolist() == np.bincount(found, minlength=577).tolist()


def made_up(count: int) -> list[np.ndarray]:
    """Pools of 90 days in the shapes of the paper's four, the one with most revocations first."""
    shapes = list(EXEMPLARS)[::-1]
    return [make_exemplar(shapes[seed % 4], np.random.default_rng(seed)).units for seed in range(count)]


def studied_s(pools: list[np.ndarray]) -> float:
    """Seconds of all studies, one after the other."""
    generator = np.random.default_rng(1)
    return seconds(lambda: [run_study(one, generator) for one in pools])


def year(data: Path) -> tuple[list[Availability], float]:
    """The pools of the year 2021, and seconds of reading and inferring them."""
    began = time.thread_time()
    carried = [infer_availability(series, unknown=Unknown.CARRY) for series in read(data)[0]]
    found = [pool for pool in carried if isinstance(pool, Availability)]
    return list(found), time.thread_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pools", type=int, default=608)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ratios = side_by_side()
    pools = made_up(arguments.pools)
    measured = {
        "revocations": float(count_revocations(pools[0])),
        "one_pool_ms": 1e3 * seconds(lambda: run_study(pools[0], np.random.default_rng(1)), REPEATS),
        "pools_s": studied_s(pools),
    }
    data = settings().data
    prices = None if data is None else data / "spot-prices-2021"
    if prices is not None and prices.is_dir():
        markets, measured["prices_s"] = year(prices)
        measured["markets"] = float(len(markets))
        measured["markets_s"] = measured["prices_s"] + studied_s([one.units for one in markets])
    if arguments.json:
        sys.stdout.write(json.dumps({"ratios": ratios, **measured}) + "\n")
        return
    for name, ratio in ratios.items():
        sys.stdout.write(f"{name + ': plain event loop by kernel':64} {ratio:10,.0f} x\n")
    told = f"study of a pool of 90 days, {measured['revocations']:,.0f} revocations"
    sys.stdout.write(line(told, measured["one_pool_ms"], "ms", ONE_POOL_MS) + "\n")
    sys.stdout.write(line(f"study of {len(pools)} such pools", measured["pools_s"], "s", POOLS_S) + "\n")
    if "markets" not in measured:
        sys.stdout.write("no spot-prices-2021: set SPOTFED_DATA to the directory of the recorded data\n")
        return
    told = f"prices of 2021 read, {measured['markets']:,.0f} pools studied"
    sys.stdout.write(line(told, measured["markets_s"], "s", MARKETS_S) + "\n")


if __name__ == "__main__":
    main()
