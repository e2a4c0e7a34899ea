"""Routing of requests that need more than cores: adverts tell of cores alone, so the owner is asked."""

import json
from typing import Any

import pytest

from broker.contract import CloudInfo, NodeKind, SpotRequest
from broker.contract.convert import to_node_kinds
from broker.requests.errors import UnsuitableError
from broker.requests.routing import Member, Route, TableSummary, route
from broker.requests.validation import check_request
from cloudsim.model.nodes import NodeGroup, nodes_of
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Kind, Request
from cloudsim.scheduling import filters
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.lineups import YOUNGEST_JOB_FIRST
from cloudsim.scheduling.pipeline import explain, plan
from tests.unit.broker.requests.test_routing import member, reasons, smaller_size, wish

GROUPS = (
    NodeGroup(2, 8, (("memory_mb", 8000),), frozenset({("zone", "north"), ("disk", "ssd")})),
    NodeGroup(3, 4, (("gpus", 2), ("memory_mb", 16000))),
)


def mixed(cloud: str, order: int, slots: dict[int, int], groups: tuple[NodeGroup, ...] = GROUPS) -> Member:
    plain = member(cloud, order, slots)
    info = plain.info.model_copy(update={"node_kinds": to_node_kinds(*nodes_of(groups))})
    return Member(info, plain.advert)


def routed(members: list[Member], **needs: Any) -> Route:
    return route(wish(**needs), members, most=3)


def test_free_cores_are_no_verdict_on_other_resources() -> None:
    found = routed([mixed("a", 0, {1: 20, 2: 10}), mixed("b", 1, {1: 1, 2: 0})], resources={"memory_mb": 1})
    assert found.candidates == ("a",)
    assert reasons(found.passed_over) == {
        "b": RefusalReason.NO_CAPACITY
    }  # of cores alone there is too little


@pytest.mark.parametrize(
    "needs",
    [
        {"resources": {"gpus": 3}},
        {"resources": {"disk_gb": 1}},
        {"resources": {"memory_mb": 16000}, "cores": 5},  # there is as much of either, on different nodes
        {"labels": {"zone": "south"}},
        {"labels": {"zone": "north", "disk": "hdd"}},
        {"labels": {"zone": "north", "gpu": "a"}},
        {"labels": {"zone": "north"}},
        {"labels": {"zone": "north", "disk": "ssd"}, "resources": {"memory_mb": 8000}, "cores": 8},
        {"resources": {"memory_mb": 16000, "gpus": 2}, "cores": 4},
    ],
)
def test_who_has_no_such_node_is_passed_over_as_its_scheduler_would(needs: dict[str, Any]) -> None:
    """The broker's view of a cloud's nodes leads to the reason that the scheduler gives on empty nodes."""
    request = wish(**needs)
    cores, details = nodes_of(GROUPS)
    inventory = Inventory(cores, details)
    core_request = Request("r", Kind.SPOT, request.cores, 100.0, **request.needs)
    decided = plan(inventory, core_request, YOUNGEST_JOB_FIRST)
    found = routed([mixed("a", 0, {1: 28, 2: 14})], **needs)
    if isinstance(decided, RefusalReason):
        assert reasons(found.passed_over) == {"a": decided}
        if decided is RefusalReason.NO_SUCH_NODE:
            assert found.passed_over[0].removed == explain(inventory, core_request, YOUNGEST_JOB_FIRST)[0]
    else:
        assert found.candidates == ("a",)


def test_a_table_speaks_of_the_flavour_that_is_asked_for() -> None:
    def row(survives_s: float, **amounts: int) -> dict[str, Any]:
        cell = {"cores": 2, "free_slots_from": 1, "free_slots_to": 9, "followed_up_s": 1000.0}
        return cell | {"quantiles_s": {"0.5": survives_s}} | ({"amounts": amounts} if amounts else {})

    rows = [row(10.0), row(500.0, memory_mb=4000, gpus=1), row(50.0, memory_mb=2000)]
    table = TableSummary.from_json(json.dumps({"version": "v", "made_at_s": 0.0, "rows": rows}))
    plain = mixed("a", 0, {1: 20, 2: 10})
    assert plain.advert is not None
    one = Member(plain.info, plain.advert.model_copy(update={"table_version": "v"}), table)
    for resources, refused in (
        ({}, True),
        ({"gpus": 1, "memory_mb": 4000}, False),
        ({"memory_mb": 2000}, True),
        ({"memory_mb": 3000}, False),  # of that the table says nothing
    ):
        found = routed([one], sla=0.5, resources=resources)
        assert reasons(found.passed_over) == ({"a": RefusalReason.RISK_TOO_HIGH} if refused else {})


def test_nobody_vouches_for_a_smaller_size_with_memory() -> None:
    one = mixed("a", 0, {1: 4, 2: 0})
    assert smaller_size(wish(), one) == 1
    for needs in ({"resources": {"memory_mb": 1}}, {"labels": {"zone": "north"}}, {"group": "web"}):
        assert smaller_size(wish(**needs), one) is None


def test_a_member_that_does_not_tell_its_nodes_is_asked() -> None:
    silent = member("a", 0, {1: 4, 2: 2})
    assert routed([silent], resources={"gpus": 1}, labels={"zone": "x"}).candidates == ("a",)
    check_request(wish(resources={"gpus": 9}), [silent])


def test_what_no_member_has_names_the_field_and_how_much_there_is() -> None:
    members = [mixed("a", 0, {}), mixed("b", 1, {}, (NodeGroup(1, 8, (("gpus", 4),)),))]
    check_request(wish(resources={"gpus": 4, "memory_mb": 16000}), members)
    for resources, field, has in (
        ({"gpus": 5}, "resources.gpus", "the largest has 4"),
        ({"memory_mb": 16001}, "resources.memory_mb", "the largest has 16000"),
        ({"disk_gb": 1}, "resources.disk_gb", "none has any"),
    ):
        with pytest.raises(UnsuitableError, match=has) as caught:
            check_request(wish(resources=resources), members)
        assert caught.value.field == field


def test_in_trace_time_every_target_says_so_itself() -> None:
    info = mixed("a", 0, {}).info.model_copy(update={"time": "trace"})
    assert check_request(wish(resources={"disk_gb": 1}, at_s=0.0), [Member(info)])[1]


def test_kinds_of_nodes() -> None:
    assert to_node_kinds(*nodes_of(GROUPS)) == (
        NodeKind(nodes=2, cores=8, resources={"memory_mb": 8000}, labels={"disk": "ssd", "zone": "north"}),
        NodeKind(nodes=3, cores=4, resources={"gpus": 2, "memory_mb": 16000}),
    )
    assert to_node_kinds((4, 4), nodes_of([NodeGroup(2, 4)])[1]) == (NodeKind(nodes=2, cores=4),)
    info = CloudInfo(id="a", order=0, nodes="", cores=1, largest_node=1, time="wall")
    assert info.most("memory_mb") == 0


def test_the_filter_of_labels_has_the_name_that_refusals_give_it() -> None:
    found = routed([mixed("a", 0, {1: 9, 2: 9})], labels={"zone": "south"})
    assert found.passed_over[0].removed == ((filters.LABELS.name, 5),)
    assert isinstance(wish(labels={"a": "b"}), SpotRequest)


def test_a_drained_cloud_is_said_to_have_closed_nodes() -> None:
    full = mixed("a", 0, {1: 0})
    assert full.advert is not None
    drained = Member(full.info, full.advert.model_copy(update={"closed_nodes": 5}))
    (refusal,) = routed([drained]).passed_over
    assert (refusal.reason, refusal.removed) == (RefusalReason.NO_CAPACITY, (("cordon", 5),))
    (refusal,) = routed([full]).passed_over
    assert refusal.removed == ()
