"""Clouds with an eviction policy of the paper, with pools and with fixed durations: the owners, told in JSON
and crashing on the way, give the report of the replay; and the replay keeps what pools promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.contract import Batch
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec, sampler_spec
from cloudsim.disclosure.levels import Disclosure
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.lineups import EVICTIONS
from cloudsim.traces.trace import Trace
from tests.unit.workers.owners import NOW, Live, start
from tests.unit.workers.test_owner_replay import BIRTHS, SEED, drive
from workers.montecarlo.sampling import SamplerCache
from workers.owner.state import OwnerSpec

HOUR_S = 3600.0


def load(name: str, seed: int, days: float, an_hour: float, sizes: list[int], mean_h: float) -> Trace:
    """More by day than by night."""
    random = np.random.default_rng(seed)
    start_s = np.sort(random.uniform(0, days * 24 * HOUR_S, int(days * 24 * an_hour)))
    by_day = 0.5 * (1 + 0.8 * np.sin(2 * np.pi * start_s / (24 * HOUR_S)))
    start_s = start_s[random.random(len(start_s)) < by_day]
    return Trace.checked(
        name,
        [f"{name}-{i}" for i in range(len(start_s))],
        start_s,
        start_s + random.exponential(mean_h * HOUR_S, len(start_s)),
        random.choice(sizes, len(start_s)),
    )


def federation(seed: int, sla: float, days: float, sizes: list[int], **of_cloud: Any) -> Federation:
    """One cloud of 40 cores, asked for any pool, the uppermost and the lowest."""
    spec = CloudSpec("A", (8,) * 5, **of_cloud)
    named = (None, 0, 4) if spec.products.pools else (None,)
    workloads = [
        Workload("C", load(f"w{pool}", 10 * seed + at, days, 6.0, [1, 2], 4.0), 0.0, sla, ("A",), pool=pool)
        for at, pool in enumerate(named)
    ]
    free = Workload("C", load("free", seed + 7, days, 1.0, [1, 4], 4.0), 0.0, None, ("A",))
    own = load("own", seed, days, 6.0, sizes, 5.0)
    return Federation((FederatedCloud(spec, "5x8", own),), (*workloads, free))


@pytest.mark.parametrize("eviction", [*EVICTIONS, "slices", "sliced pools", "coarse pools"])
def test_the_owners_give_the_report_of_the_replay(eviction: str) -> None:
    told: dict[str, Any] = {"lineup": EVICTIONS.get(eviction, EVICTIONS["lifo"])}
    if eviction.startswith("slice"):
        told["slices_s"] = (2 * HOUR_S, 6 * HOUR_S)
    if eviction == "sliced pools":
        told |= {"lineup": EVICTIONS["lifo-pools"], "pools": 3}
    if eviction == "coarse pools":
        told |= {"lineup": EVICTIONS["lifo-pools"], "disclosure": Disclosure.P90}
    whole = federation(SEED, 0.5 if eviction == "coarse pools" else 0.2, 3.0, [1, 2], **told)
    expected = replay(whole, seed=SEED, births=BIRTHS)
    assert drive(whole, 100) == expected
    assert expected["total"]["evicted"] > 0
    assert any(one["admitted"] for one in expected["clouds"]["A"]["by_sla"] if one["sla"] is not None)
    refused = expected["clouds"]["A"]["refusals"]
    # Nothing lasts longer than the longest slice; of three pools none has number 4.
    assert (refused.get("no_such_product", 0) > 0) == eviction.startswith("slice")


@pytest.mark.parametrize("sizes", [[1], [1, 2]], ids=["single cores", "mixed sizes"])
@pytest.mark.parametrize("sla", [0.05, 0.2])
def test_pools_keep_their_promises(sizes: list[int], sla: float) -> None:
    admitted = broken = 0
    for seed in range(2):
        whole = federation(seed, sla, 6.0, sizes, lineup=EVICTIONS["lifo-pools"])
        report = replay(whole, seed=seed, births=BIRTHS)["clouds"]["A"]
        (account,) = (one for one in report["by_sla"] if one["sla"] == sla)
        admitted += account["admitted"]
        broken += account["evicted"]
    assert admitted > 150
    assert broken <= sla * admitted


def test_monte_carlo_workers_make_the_tables_of_pools() -> None:
    """What travels as a batch, and back as bytes, is what the process itself would make."""
    whole = federation(SEED, 0.2, 3.0, [1, 2], lineup=EVICTIONS["lifo-pools"])
    (member,) = whole.clouds
    cloud = Cloud(member.spec, member.own_load)
    cloud.advance(60 * HOUR_S)
    events = cloud.history.cut(60 * HOUR_S)
    sampler, flavours = sampler_spec(member.spec, SEED, BIRTHS), whole.spot_flavours(member)
    expected = LocalPredictor(sampler, flavours).table(events, 60 * HOUR_S)
    made: dict[Any, list[Samples]] = {flavour: [] for flavour in flavours}
    for (cores, amounts), parts in made.items():
        for share in range(3):
            batch = Batch(
                cloud="A", epoch=1, refresh="r", chunks=1, cores=cores, share=share, shares=3,
                node_cores=member.spec.node_cores, seed=SEED, births=BIRTHS, amounts=dict(amounts),
                lineup=member.spec.lineup.name,
            )  # fmt: skip
            heard = Batch.model_validate_json(batch.model_dump_json())
            made_by, fed = SamplerCache().take(heard)
            assert fed == 0
            made_by.feed(events, 60 * HOUR_S)
            parts.append(Samples.from_bytes(made_by.samples().to_bytes()))
            assert parts[-1].flavour == (cores, amounts)
    merged = [Samples.merge(parts) for parts in made.values()]
    found = QuantileTable.from_samples(merged, member.spec.node_cores, 60 * HOUR_S)
    assert found.version == expected.version
    assert len(found.rows()) > 20


@pytest.mark.parametrize("disclosure", [Disclosure.FULL, Disclosure.P90])
def test_what_is_left_of_pools_is_advertised_by_clouds_that_tell_everything(disclosure: Disclosure) -> None:
    spec = CloudSpec("A", (8,) * 5, lineup=EVICTIONS["lifo-pools"], disclosure=disclosure)
    live = Live(OwnerSpec(spec))
    live.tell(start("own", 8))
    told = (0, 8, 8, 8, 8) if disclosure is Disclosure.FULL else ()
    assert live.owner.advert(NOW).pool_cores == told
