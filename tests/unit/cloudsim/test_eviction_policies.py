"""The paper's eviction policies by name, and what an extension does to the order under each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cloudsim.admission.pools import Pools
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.history.event_log import RENEWAL
from cloudsim.model.changes import End, Ended
from cloudsim.model.errors import SpecError
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.lineups import EVICTIONS, eviction_lineup, lineup
from tests.unit.workers.owners import FOREVER_S, harmless_table

HOUR_S = 3600.0


def harmless(pools: Pools) -> QuantileTable:
    """By which nobody is ever evicted, from no pool either."""
    sizes = list(harmless_table((3,)).samples.values())
    of_pools = [replace(sizes[0], amounts=amounts) for _, amounts in pools.flavours]
    return QuantileTable.from_samples([*sizes, *of_pools], (3,), FOREVER_S)


def crowd(eviction: str, *, sla: float | None = 0.1) -> Cloud:
    """Three spot instances of one core, which all of the cloud is."""
    cloud = Cloud(CloudSpec("A", (3,), lineup=EVICTIONS[eviction], pools=3))
    cloud.table = harmless(Pools.cut(3, 3))
    for number in range(3):
        wanted = Request(f"s{number}", Kind.SPOT, 1, 9 * HOUR_S, sla=sla)
        assert not isinstance(cloud.admit(wanted, float(number)), Refusal)
    return cloud


def evicted(cloud: Cloud, at_s: float) -> list[str]:
    """In which order own users evict them."""
    wanted = [Request(f"own-{number}", Kind.ON_DEMAND, 1, None) for number in range(3)]
    changes = [change for one in wanted for change in cloud.start_on_demand(one, at_s)]
    return [one.instance.id for one in changes if isinstance(one, Ended) and one.how is End.EVICTED]


@pytest.mark.parametrize(
    ("eviction", "plain", "extended"),
    [
        ("lifo", ["s2", "s1", "s0"], ["s2", "s1", "s0"]),
        ("lifo-recency", ["s2", "s1", "s0"], ["s1", "s2", "s0"]),
        ("fifo", ["s0", "s1", "s2"], ["s0", "s2", "s1"]),
    ],
)
def test_an_extension_keeps_the_place_or_makes_it_the_newest(
    eviction: str, plain: list[str], extended: list[str]
) -> None:
    assert evicted(crowd(eviction), 10.0) == plain
    cloud = crowd(eviction)
    cloud.advance(5.0)
    assert not isinstance(cloud.extend("s1", 10 * HOUR_S, 5.0), Refusal)
    cloud.inventory.validate()
    renewals = int((cloud.history.cut(6.0).kind == RENEWAL).sum())
    assert renewals == EVICTIONS[eviction].renews
    assert evicted(cloud, 10.0) == extended


def test_a_random_order_is_drawn_once_and_stands() -> None:
    order = evicted(crowd("random"), 10.0)
    assert sorted(order) == ["s0", "s1", "s2"]
    cloud = crowd("random")
    assert not isinstance(cloud.extend("s1", 10 * HOUR_S, 5.0), Refusal)
    assert evicted(cloud, 10.0) == order


def test_pools_go_before_age() -> None:
    cloud = crowd("lifo-pools")
    # Each found the uppermost pool that had room.
    assert [one.pool for one in cloud.inventory.spot()] == [0, 1, 2]
    assert evicted(cloud, 10.0) == ["s0", "s1", "s2"]


def test_where_renewals_count_an_extension_is_promised_what_a_newborn_is() -> None:
    for eviction in ("fifo", "lifo-recency", "lifo-pools"):
        cloud = crowd(eviction)
        cloud.table = None
        refused = cloud.extend("s1", 10 * HOUR_S, 5.0)
        assert isinstance(refused, Refusal)
        assert refused.reason is RefusalReason.NO_TABLE
        cloud = crowd(eviction, sla=None)
        assert not isinstance(cloud.extend("s1", 10 * HOUR_S, 5.0), Refusal), "nothing was promised"


def test_names_are_those_of_the_paper() -> None:
    assert sorted(EVICTIONS) == ["fifo", "lifo", "lifo-pools", "lifo-recency", "random"]
    for name, one in EVICTIONS.items():
        assert eviction_lineup(name) is one
        assert lineup(one.name) is one, "Monte-Carlo workers are told the name of the line-up"
    with pytest.raises(SpecError, match="lifo-pools") as error:
        eviction_lineup("newest", field="cloud[0].eviction")
    assert error.value.field == "cloud[0].eviction"


def test_tables_of_pools_are_made_from_levels() -> None:
    assert QuantileTable.from_samples([], (3,), 0.0).sizes == ()
    pools = Pools.cut(100, 5)
    assert (pools.tops, pools.bands) == ((100, 80, 60, 40, 20), (20,) * 5)
    assert pools.levels(4) == (5, 10, 15, 20)
    assert len(pools.flavours) == 20
    assert Pools.cut(100, 5, 1).levels(4) == (20,), "of clouds that do not disclose everything"
    small = Pools.cut(7, 3)
    assert (sum(small.bands), small.bands) == (7, (3, 2, 2))
    assert small.levels(2) == (1, 2)
    for count in (0, 8, 17):
        with pytest.raises(SpecError, match="pools"):
            Pools.cut(7, count)
