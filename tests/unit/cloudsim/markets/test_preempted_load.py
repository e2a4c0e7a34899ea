"""The own load of public clouds: what it does to spot, and whether promises that rest on it are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.markets.formats import read
from cloudsim.markets.preempted_load import preempted_load, priced_load
from cloudsim.markets.prices import PriceSeries
from cloudsim.model.changes import End, Ended
from cloudsim.model.errors import SpecError
from cloudsim.model.requests import Kind, Request
from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.traces.formats.preemptions import read_lifetimes
from cloudsim.traces.formats.source import load_source
from cloudsim.traces.trace import Trace

HOUR, DAY = 3600.0, 86_400.0
BEGIN = 1_426_000_000.0


def series(
    *steps: tuple[float, str | None], ends_h: float, gap_h: tuple[float, float] | None = None
) -> PriceSeries:
    """Prices from hours on."""
    return PriceSeries.of(
        [BEGIN + hour * HOUR for hour, _ in steps],
        [price for _, price in steps],
        instance_type="c3.xlarge",
        zone="z",
        ends_s=BEGIN + ends_h * HOUR,
        gaps_s=[] if gap_h is None else [[BEGIN + hour * HOUR for hour in gap_h]],
    )


def rows(load: Trace) -> list[tuple[float, float, int]]:
    """In hours, the last one, which marks the end, left out."""
    found = [
        (start / HOUR, stop / HOUR, cores)
        for start, stop, cores in zip(load.start_s, load.stop_s, load.cores.tolist(), strict=True)
    ]
    assert found[-1][0] == found[-1][1]
    assert found[-1][2] == 1
    return found[:-1]


def test_every_node_is_taken_while_the_price_is_above_the_bid() -> None:
    prices = series((0, "0.1"), (4, "0.3"), (5, "0.4"), (6, "0.2"), (9, "0.21"), (10, "0.2"), ends_h=20)
    own_load = priced_load(prices, 0.2, (4, 8))
    assert rows(own_load) == [
        (4, 6, 8),
        (4, 6, 4),
        (9, 10, 8),
        (9, 10, 4),
    ]  # a small one never takes a large node
    assert own_load.last_stop_s == 20 * HOUR
    assert rows(priced_load(prices, 0.5, (4,))) == []


def test_what_is_unknown_is_taken_and_never_free() -> None:
    gap = series((0, "0.1"), (8, "0.1"), ends_h=12, gap_h=(5, 8))
    assert rows(priced_load(gap, 0.2, (4,))) == [(5, 8, 4)]
    silent = series((0, None), (2, "0.1"), (3, "0"), (4, "0.1"), (6, "0.3"), (7, "0.1"), ends_h=9)
    assert rows(priced_load(silent, 0.2, (4,))) == [(1, 2, 4), (4, 5, 4)]  # it begins with the first price
    across = series((0, "0.1"), (4, "0.3"), (8, "0.3"), (9, "0.1"), ends_h=10, gap_h=(5, 8))
    assert rows(priced_load(across, 0.2, (4,))) == [(4, 9, 4)]


def test_all_spot_of_the_cloud_leaves_when_the_price_rises() -> None:
    prices = series((0, "0.1"), (4, "0.3"), (5, "0.1"), ends_h=20)
    cloud = Cloud(CloudSpec("p", (4, 8)), priced_load(prices, 0.2, (4, 8)))
    for number, cores in enumerate((3, 1, 8)):
        cloud.admit(Request(f"s{number}", Kind.SPOT, cores, 10 * HOUR, None, "o"), 0.0)
    ended = [change for change in cloud.advance(5 * HOUR) if isinstance(change, Ended)]
    left = sorted((one.instance.id, one.at_s) for one in ended if one.how is End.EVICTED)
    assert left == [("s0", 4 * HOUR), ("s1", 4 * HOUR), ("s2", 4 * HOUR)]


@pytest.mark.parametrize("market", ["c3.xlarge/us-east-1b", "g2.2xlarge/us-east-1a", "r3.large/us-east-1b"])
def test_a_promise_on_a_market_of_2015_is_kept(data_dir: Path, market: str) -> None:
    found, _ = read(data_dir / "spot-prices-2015")
    (prices,) = (one for one in found if one.market == market)
    assert prices.on_demand_usd_per_hour is not None
    own = priced_load(prices, prices.on_demand_usd_per_hour, (4,) * 4)
    rng = np.random.default_rng(1)
    count = 1500
    start_s = np.sort(rng.uniform(0, own.last_stop_s, count))
    stop_s = start_s + rng.uniform(HOUR, DAY, count)
    spot = Trace.checked("spot", [f"s{n}" for n in range(count)], start_s, stop_s, np.ones(count))
    member = FederatedCloud(CloudSpec("p", (4,) * 4), "4x4", own)
    for promise in (0.05, 0.1):
        whole = Federation((member,), (Workload("o", spot, 0, promise, ("p",)),))
        origin = replay(whole, seed=1, births=500)["origins"]["o"]
        assert origin["admitted"] > 200
        assert origin["evicted"] > 0, "and not because nothing ever happens"
        assert origin["evicted_low"] <= promise, f"{origin['evicted']} of {origin['admitted']}"


def test_instances_live_as_long_as_those_that_were_observed(data_dir: Path) -> None:
    seen = read_lifetimes(load_source(data_dir / "preemptions-gcp-2019" / "preemptions.csv", accepted=""))
    chosen = seen.market == "n1-highcpu-32/us-central1-c"
    assert np.count_nonzero(chosen) == 321
    lifetimes = LifetimeDistribution.from_samples(seen.lifetime_s[chosen], seen.preempted[chosen])
    own = preempted_load(np.random.default_rng(5), lifetimes, (32, 32), days=1200, taken_s=HOUR)
    cloud = Cloud(CloudSpec("p", (32, 32)), own)
    lived: list[float] = []
    for number, free_s in enumerate([0.0, *np.unique(own.stop_s[:-1]).tolist()]):
        lived += [
            change.at_s - change.instance.start_s
            for change in cloud.advance(free_s)
            if isinstance(change, Ended) and change.how is End.EVICTED
        ]
        for node in range(2):
            cloud.admit(Request(f"s{number}-{node}", Kind.SPOT, 32, 100 * DAY, None, "o"), free_s)
    assert len(lived) > 2500
    # Kolmogorov and Smirnov; both instances of a lifetime count as one.
    at_s = np.sort(np.array(lived[::2]))
    steps = np.arange(1, len(at_s) + 1) / len(at_s)
    below, above = 1 - lifetimes.survival(at_s - 0.5), 1 - lifetimes.survival(at_s + 0.51)
    distance = max(float((steps - above).max()), float((below - (steps - 1 / len(at_s))).max()))
    assert distance < 1.36 / len(at_s) ** 0.5  # the bound at 5 %


def test_a_preempted_load_is_that_of_its_seed() -> None:
    lifetimes = LifetimeDistribution.from_samples(np.array([3 * HOUR, 9 * HOUR]), np.array([True, True]))
    make = [
        preempted_load(np.random.default_rng(seed), lifetimes, (2,), days=9, taken_s=HOUR)
        for seed in (1, 1, 2)
    ]
    assert make[0].equals(make[1])
    assert not make[0].equals(make[2])
    free_h = {
        round(one[0] - other[1], 6) for one, other in zip(rows(make[0])[1:], rows(make[0]), strict=False)
    }
    assert free_h == {3.0, 9.0}
    nobody = LifetimeDistribution.from_samples(np.array([]), np.array([], dtype=bool))
    with pytest.raises(SpecError, match="no lifetime is known"):
        preempted_load(np.random.default_rng(1), nobody, (2,), days=9, taken_s=HOUR)
