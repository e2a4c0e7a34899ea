"""What a cloud sells: which pool a request gets, lifetimes rounded up to slices, and how a file says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloudsim.admission.pools import Pools
from cloudsim.admission.products import Products
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.file import load_federation
from cloudsim.model.errors import SpecError
from cloudsim.model.instances import Quote
from cloudsim.model.nodes import NodeDetails
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.lineups import EVICTIONS
from tests.unit.workers.owners import FOREVER_S, harmless_table

HOUR_S = 3600.0
NODES = (10, 10)


def spot(
    name: str = "s", cores: int = 1, hours: float = 1.0, sla: float | None = 0.1, **more: Any
) -> Request:
    return Request(name, Kind.SPOT, cores, hours * HOUR_S, sla=sla, **more)


def table(safe_cores: int) -> QuantileTable:
    """Positions up to so many cores are never reached, of those above half within a minute."""
    samples = []
    for cores, amounts in Pools.cut(20, 2).flavours:
        evicted = (np.arange(20) % 2 == 0) & (amounts[0][1] > safe_cores)
        samples.append(
            replace(
                Samples.empty(cores, FOREVER_S, amounts),
                number=np.arange(20),
                birth_s=np.zeros(20),
                free_slots=np.arange(1, 21, dtype=np.int32),
                duration_s=np.where(evicted, 60.0, FOREVER_S),
                evicted=evicted,
                span_s=np.zeros(20),
            )
        )
    return QuantileTable.from_samples(samples, NODES, FOREVER_S)


def pooled(safe_cores: int) -> Cloud:
    """Two pools of ten cores."""
    cloud = Cloud(CloudSpec("A", NODES, lineup=EVICTIONS["lifo-pools"], pools=2))
    cloud.table = table(safe_cores)
    return cloud


def admit(cloud: Cloud, request: Request) -> Quote:
    answer = cloud.quote(request)
    assert isinstance(answer, Quote), answer
    assert not isinstance(cloud.admit(request, cloud.now_s), Refusal)
    instance = cloud.inventory.get(request.id)
    assert instance is not None
    assert instance.pool == answer.pool
    return answer


# -- pools ---------------------------------------------------------------------------------------------------


def test_who_names_no_pool_gets_the_uppermost_that_keeps_the_promise() -> None:
    cloud = pooled(15)  # the lower half of pool 0 is safe
    pools = [admit(cloud, spot(f"s{number}", 2)).pool for number in range(6)]
    # Positions are rounded up to 13, 15, 18, 20: five cores of pool 0 keep the promise.
    assert pools == [0, 0, 1, 1, 1, 1]
    assert admit(cloud, spot("last", 1)).pool == 0
    risky = cloud.quote(spot("more", 2, pool=0))
    assert isinstance(risky, Refusal)
    assert (risky.reason, risky.survives_s) == (RefusalReason.RISK_TOO_HIGH, 60.0)
    full = cloud.quote(spot("more", 3, pool=1))
    assert isinstance(full, Refusal)
    assert (full.reason, full.free_slots) == (RefusalReason.NO_CAPACITY, 0)
    either = cloud.quote(spot("more", 3))
    assert isinstance(either, Refusal)
    assert either.survives_s == 60.0, "pool 0 would promise a minute, pool 1 nothing"


def test_a_pool_holds_no_more_than_its_band() -> None:
    cloud = pooled(20)
    assert [admit(cloud, spot(f"s{number}", 5, pool=1)).pool for number in range(2)] == [1, 1]
    assert cloud.spec.products.pools is not None
    assert cloud.spec.products.pools.held_cores(cloud.inventory) == (0, 10)
    refused = cloud.quote(spot("more", 1, pool=1))
    assert isinstance(refused, Refusal)
    assert refused.reason is RefusalReason.NO_CAPACITY
    assert admit(cloud, spot("more", 1)).pool == 0


def test_where_own_users_have_reached_nothing_is_sold() -> None:
    cloud = pooled(20)
    assert not isinstance(cloud.start_on_demand(Request("own", Kind.ON_DEMAND, 8, None), 0.0), Refusal)
    # Twelve cores are left: pool 0 ends at twenty, and its first level at thirteen.
    refused = cloud.quote(spot(pool=0))
    assert isinstance(refused, Refusal)
    assert refused.reason is RefusalReason.NO_EVIDENCE
    assert admit(cloud, spot()).pool == 1


def test_without_a_promise_an_instance_belongs_to_no_pool() -> None:
    cloud = pooled(20)
    answer = cloud.quote(spot(sla=None))
    assert isinstance(answer, Quote)
    assert answer.pool is None
    for wish in (spot(sla=None, pool=1), spot(pool=2)):
        refused = cloud.quote(wish)
        assert isinstance(refused, Refusal)
        assert refused.reason is RefusalReason.NO_SUCH_PRODUCT
    plain = Cloud(CloudSpec("A", NODES))
    plain.table = harmless_table(NODES)
    refused = plain.quote(spot(pool=0))
    assert isinstance(refused, Refusal)
    assert refused.reason is RefusalReason.NO_SUCH_PRODUCT


def test_an_extension_asks_for_the_position_that_it_has() -> None:
    cloud = pooled(13)
    admit(cloud, spot("safe", 3, pool=0))
    assert not isinstance(cloud.extend("safe", 5 * HOUR_S, 10.0), Refusal)
    cloud.table = table(12)
    refused = cloud.extend("safe", 9 * HOUR_S, 10.0)
    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.survives_s) == (RefusalReason.RISK_TOO_HIGH, None)


def test_pools_are_of_cores_alone() -> None:
    details = NodeDetails((("memory_mb", (10, 10)),))
    with pytest.raises(SpecError, match="cores"):
        CloudSpec("A", NODES, details, EVICTIONS["lifo-pools"])
    with pytest.raises(SpecError, match="1 to 2 pools"):
        CloudSpec("A", (2,), lineup=EVICTIONS["lifo-pools"])


# -- slices --------------------------------------------------------------------------------------------------


def sliced() -> Cloud:
    cloud = Cloud(CloudSpec("A", NODES, slices_s=(HOUR_S, 6 * HOUR_S)))
    cloud.table = harmless_table(NODES)
    return cloud


@pytest.mark.parametrize(("hours", "sold"), [(0.5, 1), (1, 1), (1.01, 6), (6, 6)])
@pytest.mark.parametrize("sla", [0.1, None])
def test_a_lifetime_is_rounded_up(hours: float, sold: float, sla: float | None) -> None:
    cloud = sliced()
    admit(cloud, spot(hours=hours, sla=sla))
    instance = cloud.inventory.get("s")
    assert instance is not None
    assert instance.end_s == sold * HOUR_S


def test_nothing_lasts_longer_than_the_longest() -> None:
    cloud = sliced()
    refused = cloud.quote(spot(hours=7))
    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.survives_s) == (RefusalReason.NO_SUCH_PRODUCT, 6 * HOUR_S)
    answer = cloud.quote(spot())
    assert isinstance(answer, Quote)
    assert answer.survives_s == 6 * HOUR_S, "what is offered is a slice, too"


def test_an_extension_is_rounded_up_to_a_whole_life_that_is_sold() -> None:
    cloud = sliced()
    cloud.advance(0.1)
    admit(cloud, spot(hours=1))
    assert not isinstance(cloud.extend("s", 0.1 + 2 * HOUR_S, 10.0), Refusal)
    instance = cloud.inventory.get("s")
    assert instance is not None
    assert instance.end_s == 0.1 + 6 * HOUR_S
    refused = cloud.extend("s", 0.1 + 6.5 * HOUR_S, 20.0)
    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.survives_s) == (RefusalReason.NO_SUCH_PRODUCT, None)


@pytest.mark.parametrize("eviction", ["fifo", "lifo-pools"])
def test_an_extension_as_a_newborn_asks_for_what_is_left_of_its_slice(eviction: str) -> None:
    spec = CloudSpec("A", NODES, lineup=EVICTIONS[eviction], pools=2, slices_s=(HOUR_S, 6 * HOUR_S))
    cloud = Cloud(spec)
    sizes = harmless_table(NODES).samples.values()
    cloud.table = QuantileTable.from_samples([*sizes, *table(20).samples.values()], NODES, FOREVER_S)
    admit(cloud, spot(hours=1))
    assert not isinstance(cloud.extend("s", 2 * HOUR_S, 1800.0), Refusal)
    instance = cloud.inventory.get("s")
    assert instance is not None
    assert instance.end_s == 6 * HOUR_S
    assert instance.renewed_at_s == (1800.0 if eviction == "fifo" else None)


def test_rounding_alone_asks_for_no_longer_slice() -> None:
    products = Products(slices_s=(HOUR_S, 6 * HOUR_S))
    cloud = sliced()
    cloud.advance(1e9 + 0.3)
    admit(cloud, spot(hours=0.1))
    instance = cloud.inventory.get("s")
    assert instance is not None
    end_s = np.nextafter(instance.start_s + HOUR_S, np.inf)
    assert products.sold_until_s(instance, end_s) == end_s


# -- files ---------------------------------------------------------------------------------------------------

GOOD = """
[[cloud]]
id = "A"
nodes = "4x5"
eviction = "lifo-pools"
pools = 4
slices_h = [0.5, 6]
trace = { synthetic = "table-1", hours = 3 }

[[cloud]]
id = "B"
nodes = "2x8"
eviction = "fifo"
trace = { synthetic = "table-1", hours = 3 }

[[workload]]
origin = "B"
pool = 3
trace = { synthetic = "table-1", hours = 3 }
"""


def read(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "federation.toml"
    path.write_text(text)
    return load_federation(path, None)


def test_a_file_says_whom_a_cloud_evicts_and_what_it_sells(tmp_path: Path) -> None:
    federation = read(tmp_path, GOOD)
    first, second = (cloud.spec for cloud in federation.clouds)
    assert first.products == Products(Pools((20, 15, 10, 5)), (1800.0, 6 * HOUR_S))
    assert federation.spot_flavours(federation.clouds[0]) == Pools.cut(20, 4).flavours
    assert second.lineup is EVICTIONS["fifo"]
    assert second.products == Products()
    assert {request.pool for _, request, _ in federation.requests()} == {3}


@pytest.mark.parametrize(
    ("written", "instead", "field", "told"),
    [
        ('"fifo"', '"newest"', "cloud[1].eviction", "lifo-pools"),
        ('"fifo"', "7", "cloud[1].eviction", "lifo-recency"),
        ('"fifo"', '"fifo"\nlineup = "partial-hour"', "cloud[1].eviction", "leave one out"),
        ('"fifo"', '"fifo"\npools = 3', "cloud[1].pools", "lifo-pools"),
        ("pools = 4", "pools = 21", "cloud[0].pools", "less than or equal to 16, not 21"),
        ("pools = 4", "pools = 0", "cloud[0].pools", "greater than or equal to 1, not 0"),
        ("pools = 4", "pools = true", "cloud[0].pools", "should be a valid integer, not True"),
        (
            'nodes = "4x5"',
            "nodes = [{ count = 4, cores = 5, gpus = 1 }]",
            "cloud[0].eviction",
            "beside cores",
        ),
        ("[0.5, 6]", "6", "cloud[0].slices_h", "should be a valid list, not 6"),
        ("[0.5, 6]", "[0.5, 0]", "cloud[0].slices_h[1]", "should be greater than 0, not 0"),
        ("[0.5, 6]", "[inf]", "cloud[0].slices_h[0]", "should be a finite number, not inf"),
        ("[0.5, 6]", '["1h"]', "cloud[0].slices_h[0]", "should be a valid number, not '1h'"),
        ("[0.5, 6]", "[6, 6]", "cloud[0].slices_h", "rise"),
        ("pool = 3", "pool = 16", "workload[0].pool", "less than 16, not 16"),
        ("pool = 3", "pool = -1", "workload[0].pool", "greater than or equal to 0, not -1"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    tmp_path: Path, written: str, instead: str, field: str, told: str
) -> None:
    with pytest.raises(SpecError, match=told) as error:
        read(tmp_path, GOOD.replace(written, instead))
    assert error.value.field == field
