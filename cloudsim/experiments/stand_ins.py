"""Synthesised loads and prices that stand in for recorded data, so that quick runs need none.

They have the place, the format and the rough statistics of what was recorded, and no more: what a quick run
says of them says nothing of the recorded data.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from cloudsim.experiments.jobs.runs import MARKETS_2015, MEMORY_GB, PRICES_OD_2015, REFERENCE, REGION
from cloudsim.experiments.promise.pairs import TRACES
from cloudsim.traces import formats
from cloudsim.traces.synthesis import lognormal_trace, production_like
from cloudsim.traces.trace import Trace

#: On-demand prices of the types with recorded prices, and of the reference type, in US dollars an hour.
_ON_DEMAND_USD = {
    "m3.medium": 0.067,
    "c3.xlarge": 0.21,
    "g2.2xlarge": 0.65,
    "r3.large": 0.175,
    "d2.8xlarge": 5.52,
    REFERENCE: 0.175,
}
_PRICES_FROM = datetime(2015, 3, 11, tzinfo=UTC)
_PRICE_DAYS = 100
_ZONES_2015 = ("us-east-1a", "us-east-1b")
_LISTED_2021 = {"a-l": ("a1.large", "c5.large", "i3.large"), "m-z": ("m5.large", "r5.large", "t3.large")}
_LOG_DAYS = 80


def write_stand_ins(folder: Path, names: Iterable[str]) -> list[str]:
    """Write stand-ins for data files below a folder, and return the names of those that there are.

    Parameters
    ----------
    names
        Places of files below the data directory; for a list of markets its files are written, too.
    """
    written = []
    for name in sorted(set(names)):
        path, generator = folder / name, np.random.default_rng(list(name.encode()))
        path.parent.mkdir(parents=True, exist_ok=True)
        letter = next((letter for letter, (file, _) in TRACES.items() if file == name), None)
        if letter is not None:
            _write_table(production_like(generator, letter), path)
        elif name.startswith("swf/"):
            _write_batch_log(generator, path)
        elif name == MARKETS_2015:
            _write_markets(generator, path)
        elif name.startswith("spot-prices-2021/"):
            _write_prices_2021(generator, path)
        elif name == PRICES_OD_2015:
            lines = [f"{REGION},{kind},{price}" for kind, price in _ON_DEMAND_USD.items()]
            path.write_text("\n".join(["Region,InstanceCode,Price", *lines, ""]))
        else:
            continue
        written.append(name)
    return written


def _write_table(trace: Trace, path: Path) -> None:
    """Write our own table under another name: readers go by content."""
    table = path.with_suffix(".csv")
    formats.write(trace, table)
    table.replace(path)


def _write_batch_log(generator: np.random.Generator, path: Path) -> None:
    """Write a log of a batch system whose users ask for more time than they use."""
    jobs = lognormal_trace(
        generator, hours=_LOG_DAYS * 24, arrival_mu=6.8, duration_mu=7.0, duration_sigma=2.0,
        cores=((1, 2, 4, 8, 16, 32), (0.35, 0.15, 0.2, 0.15, 0.1, 0.05)),
    )  # fmt: skip
    asked_s = np.ceil(jobs.lifetime_s * generator.lognormal(0.9, 0.8, len(jobs))) + 60.0
    formats.write(replace(jobs, requested_s=asked_s), path)


def _write_markets(generator: np.random.Generator, path: Path) -> None:
    lines = ["file,instance_type,availability_zone,ondemand_usd_per_hour"]
    for zone in _ZONES_2015:
        for kind in MEMORY_GB:
            file, usd = f"{zone}_{kind}.csv.gz", _ON_DEMAND_USD[kind]
            rows = [f"{at},{price:.4f}" for at, price in _prices(generator, usd, spikes_per_day=1.0)]
            _write_packed(path.parent / file, ["timestamp,price_usd_per_hour", *rows])
            lines.append(f"{file},{kind},{zone},{usd}")
    path.write_text("\n".join([*lines, ""]))


def _write_prices_2021(generator: np.random.Generator, path: Path) -> None:
    kinds = next(kinds for letters, kinds in _LISTED_2021.items() if letters in path.name)
    rows = [
        f"{kind},{zone},{at},{price:.4f}"
        for kind in kinds
        for zone in _ZONES_2015
        for at, price in _prices(generator, 0.1, spikes_per_day=0.0)
    ]
    _write_packed(path, ["instance_type,availability_zone,timestamp,price_usd_per_hour", *rows])


def _prices(
    generator: np.random.Generator, on_demand_usd: float, *, spikes_per_day: float
) -> list[tuple[str, float]]:
    """Return time and price at each hour: a walk around a fifth of the on-demand price, and spikes."""
    hours = _PRICE_DAYS * 24
    steps, walk = generator.normal(0.0, 0.1, hours), np.zeros(hours)
    for hour in range(1, hours):
        walk[hour] = 0.97 * walk[hour - 1] + steps[hour]
    price = 0.2 * on_demand_usd * np.exp(walk)
    spikes = generator.random(hours) < spikes_per_day / 24
    price[spikes] = on_demand_usd * generator.uniform(1.1, 5.0, int(spikes.sum()))
    times = [f"{_PRICES_FROM + timedelta(hours=hour):%Y-%m-%dT%H:%M:%SZ}" for hour in range(hours)]
    return list(zip(times, price.tolist(), strict=True))


def _write_packed(path: Path, lines: list[str]) -> None:
    path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), mtime=0))
