"""Which clouds offer on-demand to whom was refused, and at what cost."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from broker.api.services.on_demand_offers import on_demand_offers
from broker.contract import NodeKind, SpotRequest
from broker.requests.routing import Member
from tests.unit.broker.requests.test_routing import member

PRICE = "on_demand_usd_per_core_hour"


def seller(cloud: str, order: int, usd: float, **told: Any) -> Member:
    """64 cores on nodes of 8."""
    plain = member(cloud, order, {8: 0})
    info = plain.info.model_copy(update={PRICE: usd, "sells_on_demand": True} | told)
    return dataclasses.replace(plain, info=info)


def wish(**fields: Any) -> SpotRequest:
    return SpotRequest(**({"cores": 2, "lifetime_s": 7200.0, "sla": 0.05} | fields))


def offers(request: SpotRequest, *members: Member) -> list[tuple[str, Any]]:
    return [(one.cloud, one.usd) for one in on_demand_offers(request, members)]


def test_the_three_cheapest_come_cheapest_first() -> None:
    prices = {"a": 0.4, "b": 0.1, "c": 0.3, "d": 0.2, "e": 0.1}
    members = [seller(cloud, order, usd) for order, (cloud, usd) in enumerate(prices.items())]
    found = on_demand_offers(wish(), members)
    assert [(one.cloud, one.usd_per_core_hour) for one in found] == [("b", 0.1), ("e", 0.1), ("d", 0.2)]
    assert [one.usd for one in found] == pytest.approx([0.4, 0.4, 0.8])  # two cores for two hours
    assert [one.cores for one in found] == [2, 2, 2]


def test_an_hour_of_the_cloud_may_be_less_of_ours() -> None:
    assert offers(wish(), seller("a", 0, 0.5, speed=4.0)) == [("a", pytest.approx(0.5))]
    assert offers(wish(lifetime_s=None), seller("a", 0, 0.5)) == [("a", None)]


@pytest.mark.parametrize(
    "told", [{"sells_on_demand": False}, {PRICE: None}, {"time": "trace"}, {"cores": 1}, {"largest_node": 1}]
)
def test_a_cloud_that_does_not_sell_it_offers_nothing(told: dict[str, Any]) -> None:
    assert offers(wish(), seller("a", 0, 0.5)) != []
    assert offers(wish(), seller("a", 0, 0.5, **told)) == []


def test_who_is_away_or_full_offers_nothing() -> None:
    one = seller("a", 0, 0.5)
    assert one.advert is not None
    assert offers(wish(), dataclasses.replace(one, reachable=False)) == []
    full = one.advert.model_copy(update={"on_demand_cores": 63})
    assert offers(wish(), dataclasses.replace(one, advert=full)) == []
    assert offers(wish(cores=1), dataclasses.replace(one, advert=full)) == [("a", pytest.approx(1.0))]


def test_targets_limit_who_is_named() -> None:
    members = [seller("a", 0, 0.5), seller("b", 1, 0.6)]
    assert offers(wish(targets=("b",)), *members) == [("b", pytest.approx(2.4))]
    assert [cloud for cloud, _ in offers(wish(origin="a"), *members)] == ["a", "b"]  # its own on-demand too


@pytest.mark.parametrize(
    ("needs", "sells"),
    [
        ({}, True),
        ({"cores": 9}, False),
        ({"cores": 4, "resources": {"gpus": 1}}, True),
        ({"cores": 8, "resources": {"gpus": 1}}, False),  # no node has so many cores and a GPU
        ({"resources": {"gpus": 3}}, False),
        ({"labels": {"zone": "a"}}, True),
        ({"labels": {"zone": "b"}}, False),
    ],
)
def test_it_must_fit_on_a_node(needs: dict[str, Any], sells: bool) -> None:
    kinds = (
        NodeKind(nodes=7, cores=8, labels={"zone": "a"}),
        NodeKind(nodes=2, cores=4, resources={"gpus": 2}),
    )
    assert bool(offers(wish(**needs), seller("a", 0, 0.5, node_kinds=kinds))) is sells


def test_a_cloud_that_does_not_tell_its_nodes_sells_cores_alone() -> None:
    assert offers(wish(labels={"zone": "a"}), seller("a", 0, 0.5)) == []
