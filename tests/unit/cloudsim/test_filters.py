"""Filters, what a refusal says of them, and nodes with labels, further resources and overcommit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.changes import TurnedAway
from cloudsim.model.errors import SpecError
from cloudsim.model.instances import Instance, Placement
from cloudsim.model.nodes import NodeDetails, NodeGroup, checked_amounts, checked_labels, nodes_of
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Kind, Request, Spread
from cloudsim.scheduling import filters
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.lineups import LINEUPS, YOUNGEST_JOB_FIRST, LineUp
from cloudsim.scheduling.pipeline import allowed_nodes, explain, plan

NORTH, SSD = ("zone", "north"), ("disk", "ssd")
LABELS = NodeDetails(labels=(frozenset({NORTH}), frozenset({NORTH, SSD}), frozenset(), frozenset({SSD})))


def on_demand(cores: int = 1, *labels: tuple[str, str], spread: Spread | None = None) -> Request:
    return Request(
        "new",
        Kind.ON_DEMAND,
        cores,
        None,
        labels=frozenset(labels),
        group="g" if spread else None,
        spread=spread,
    )


def put(
    inventory: Inventory, cores: int, node: int, kind: Kind = Kind.SPOT, group: str | None = None
) -> None:
    number = len(inventory)
    inventory.place(Instance(f"i{number}", kind, cores, node, 0.0, math.inf, number, group=group))


def passes(one: filters.Filter, inventory: Inventory, request: Request) -> list[int] | None:
    """Nodes that pass; None when the filter has nothing against any."""
    passed = one.passes(inventory, request)
    return None if passed is None else np.flatnonzero(passed).tolist()


def test_closed_nodes_take_nobody() -> None:
    inventory = Inventory((4,) * 4)
    assert passes(filters.OPEN, inventory, on_demand()) is None
    inventory.close((0, 2), closed=True)
    assert passes(filters.OPEN, inventory, on_demand()) == [1, 3]
    inventory.close(None, closed=True)
    assert passes(filters.OPEN, inventory, on_demand()) == []
    inventory.close((3,), closed=False)
    assert passes(filters.OPEN, inventory, on_demand()) == [3]


@pytest.mark.parametrize(
    ("labels", "nodes"),
    [((), None), ((NORTH,), [0, 1]), ((NORTH, SSD), [1]), ((("zone", "south"),), [])],
)
def test_a_node_has_all_labels_that_are_asked_for(
    labels: tuple[tuple[str, str], ...], nodes: list[int] | None
) -> None:
    inventory = Inventory((4,) * 4, LABELS)
    for _ in range(2):  # the second time from what was kept
        assert passes(filters.LABELS, inventory, on_demand(1, *labels)) == nodes


def test_where_no_node_has_labels_none_will_do() -> None:
    assert passes(filters.LABELS, Inventory((4, 4)), on_demand(1, NORTH)) == []


def test_affinity_goes_where_its_group_runs_and_anti_affinity_elsewhere() -> None:
    inventory = Inventory((4,) * 4)
    together, apart = on_demand(spread=Spread.TOGETHER), on_demand(spread=Spread.APART)
    put(inventory, 1, 0, group="other")
    assert passes(filters.AFFINITY, inventory, together) is None, "the first one goes anywhere"
    assert passes(filters.ANTI_AFFINITY, inventory, apart) is None
    put(inventory, 1, 1, group="g")
    put(inventory, 1, 1, Kind.ON_DEMAND, group="g")
    assert passes(filters.AFFINITY, inventory, together) == [1]
    assert passes(filters.ANTI_AFFINITY, inventory, apart) == [0, 2, 3]
    assert passes(filters.AFFINITY, inventory, apart) is None
    assert passes(filters.ANTI_AFFINITY, inventory, together) is None
    inventory.remove("i1")
    assert passes(filters.AFFINITY, inventory, together) == [1], "one of two is left"
    inventory.remove("i2")
    assert passes(filters.AFFINITY, inventory, together) is None


def test_who_is_booked_belongs_to_its_group() -> None:
    inventory = Inventory((4, 4))
    inventory.book(Instance("b", Kind.ON_DEMAND, 1, 1, 0.0, math.inf, 0, group="g"))
    assert passes(filters.ANTI_AFFINITY, inventory, on_demand(spread=Spread.APART)) == [0]
    inventory.withdraw("b")
    assert passes(filters.ANTI_AFFINITY, inventory, on_demand(spread=Spread.APART)) is None


def test_a_group_without_a_wish_goes_anywhere() -> None:
    inventory = Inventory((4, 4))
    put(inventory, 1, 0, group="g")
    request = Request("new", Kind.ON_DEMAND, 1, None, group="g")
    assert allowed_nodes(inventory, request, YOUNGEST_JOB_FIRST) is None


@pytest.mark.parametrize("lineup", LINEUPS, ids=lambda lineup: lineup.name)
def test_every_line_up_keeps_to_the_filters(lineup: LineUp) -> None:
    inventory = Inventory((4,) * 4, LABELS)
    inventory.close((1,), closed=True)
    assert plan(inventory, on_demand(4, NORTH), lineup) == Placement(0)
    assert plan(inventory, on_demand(1, NORTH, SSD), lineup) is RefusalReason.NO_SUCH_NODE
    put(inventory, 3, 0)
    found = plan(inventory, on_demand(4, NORTH), lineup)
    assert isinstance(found, Placement)
    assert (found.node, [one.id for one in found.victims]) == (0, ["i0"]), "three empty nodes are not allowed"


# -- why not -------------------------------------------------------------------------------------------------


def test_a_refusal_counts_what_each_filter_took_from_those_that_were_left() -> None:
    inventory = Inventory((4,) * 4, LABELS)
    inventory.close((1,), closed=True)
    put(inventory, 1, 3, group="g")
    put(inventory, 4, 0, Kind.ON_DEMAND)
    # Node 1 has the label, but is closed and counts once; node 3 has it and the group.
    request = Request("new", Kind.ON_DEMAND, 1, None, labels=frozenset({SSD}), group="g", spread=Spread.APART)
    assert explain(inventory, request, YOUNGEST_JOB_FIRST) == (
        (("cordon", 1), ("labels", 2), ("anti_affinity", 1)), False,
    )  # fmt: skip
    request = on_demand(1, NORTH)
    assert explain(inventory, request, YOUNGEST_JOB_FIRST) == (
        (("cordon", 1), ("labels", 2), ("room", 1)),
        False,
    )


def test_it_says_whether_evicting_would_help() -> None:
    inventory = Inventory((4, 4))
    put(inventory, 4, 0)
    put(inventory, 2, 1)
    put(inventory, 2, 1, Kind.ON_DEMAND)
    spot = Request("new", Kind.SPOT, 4, 60.0)
    assert explain(inventory, spot, YOUNGEST_JOB_FIRST) == ((("room", 2),), True)
    inventory.close((0,), closed=True)
    assert explain(inventory, spot, YOUNGEST_JOB_FIRST) == ((("cordon", 1), ("room", 1)), False)
    assert explain(inventory, Request("new", Kind.SPOT, 5, 60.0), YOUNGEST_JOB_FIRST)[1] is False


def test_it_says_nothing_would_help_where_a_resource_is_unknown() -> None:
    gpu = Request("new", Kind.ON_DEMAND, 1, None, amounts=(("gpus", 1),))
    inventory = Inventory((4,))
    assert plan(inventory, gpu, YOUNGEST_JOB_FIRST) is RefusalReason.TOO_LARGE
    assert explain(inventory, gpu, YOUNGEST_JOB_FIRST)[1] is False


def test_a_cloud_that_turns_away_says_why() -> None:
    cloud = Cloud(CloudSpec("a", (4,) * 4, LABELS))
    cloud.drain((0,), 0, "operator")
    cloud.start_on_demand(on_demand(4, NORTH), 1)
    (away,) = cloud.start_on_demand(Request("next", Kind.ON_DEMAND, 1, None, labels=frozenset({NORTH})), 2)
    assert isinstance(away, TurnedAway)
    assert away.refusal.reason is RefusalReason.NO_CAPACITY
    assert away.refusal.removed == (("cordon", 1), ("labels", 2), ("room", 1))
    assert not away.refusal.eviction_would_help
    (away,) = cloud.start_on_demand(on_demand(1, ("zone", "south")), 3)
    assert isinstance(away, TurnedAway)
    assert away.refusal.reason is RefusalReason.NO_SUCH_NODE
    assert away.refusal.removed == (("cordon", 1), ("labels", 3))


# -- nodes ---------------------------------------------------------------------------------------------------


def test_groups_of_nodes_become_columns() -> None:
    cores, details = nodes_of(
        [
            NodeGroup(2, 8, (("memory_mb", 16_000),), frozenset({NORTH}), {"cores": 1.5, "memory_mb": 1.1}),
            NodeGroup(1, 4, (("disk_gb", 100),)),
        ]
    )
    assert cores == (12, 12, 4)
    assert details.resources == ("cores", "disk_gb", "memory_mb")
    assert details.amounts == (("disk_gb", (0, 0, 100)), ("memory_mb", (17_600, 17_600, 0)))
    assert details.labels == (frozenset({NORTH}), frozenset({NORTH}), frozenset())
    assert nodes_of([NodeGroup(2, 8)]) == ((8, 8), NodeDetails())


def test_what_is_sold_is_exact() -> None:
    # 100 * 1.15 is 114.99... in floating point.
    cores, details = nodes_of([NodeGroup(1, 100, (("memory_mb", 7),), overcommit={"cores": 1.15})])
    assert (cores, details.amounts) == ((115,), (("memory_mb", (7,)),))
    assert nodes_of([NodeGroup(1, 3, overcommit={"cores": 1.5})])[0] == (4,), "no half cores"


def test_overcommitted_nodes_are_filled_beyond_what_they_have() -> None:
    cores, details = nodes_of([NodeGroup(1, 2, (("memory_mb", 10),), overcommit={"cores": 2.0})])
    inventory = Inventory(cores, details)
    for number in range(4):
        request = Request(f"r{number}", Kind.ON_DEMAND, 1, None, amounts=(("memory_mb", 3),))
        answer = plan(inventory, request, YOUNGEST_JOB_FIRST)
        assert answer == (Placement(0) if number < 3 else RefusalReason.NO_CAPACITY), (
            "memory is not overcommitted"
        )
        if number < 3:
            inventory.place(
                Instance(request.id, request.kind, 1, 0, 0.0, math.inf, number, amounts=request.amounts)
            )


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ([1], "node"),
        ({"memory_mb": -1}, "node.memory_mb"),
        ({"memory_mb": 1.5}, "node.memory_mb"),
        ({"memory_mb": True}, "node.memory_mb"),
        ({"cores": 4}, "node.cores"),
        ({"": 4}, "node."),
    ],
)
def test_wrong_amounts_name_the_field(value: object, field: str) -> None:
    with pytest.raises(SpecError) as caught:
        checked_amounts(value, field="node")
    assert caught.value.field == field


def test_amounts_are_by_name_without_those_of_nothing() -> None:
    assert checked_amounts({"memory_mb": 4, "gpus": 0, "disk_gb": 1}, field="x") == (
        ("disk_gb", 1), ("memory_mb", 4),
    )  # fmt: skip


@pytest.mark.parametrize("value", [["zone"], {"zone": 1}, "zone"])
def test_wrong_labels_name_the_field(value: object) -> None:
    assert checked_labels({"zone": "north"}, field="x") == {NORTH}
    with pytest.raises(SpecError) as caught:
        checked_labels(value, field="request.labels")
    assert str(caught.value.field).startswith("request.labels")
