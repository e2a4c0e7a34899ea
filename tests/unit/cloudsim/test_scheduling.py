from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.model.errors import SpecError
from cloudsim.model.instances import Instance, Placement
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Kind, Request
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.lineups import YOUNGEST_JOB_FIRST, lineup
from cloudsim.scheduling.pipeline import plan
from cloudsim.scheduling.weighers import Weigher, fewest_free_cores, most_free_cores


def filled(node_cores: tuple[int, ...], *instances: tuple[str, int, int, float]) -> Inventory:
    """An inventory with instances (kind letter, cores, node, start) named i0, i1, ... in that order."""
    inventory = Inventory(node_cores)
    for number, (letter, cores, node, start_s) in enumerate(instances):
        kind = Kind.SPOT if letter == "s" else Kind.ON_DEMAND
        inventory.place(Instance(f"i{number}", kind, cores, node, start_s, math.inf, number))
    return inventory


def on_demand(cores: int) -> Request:
    return Request("new", Kind.ON_DEMAND, cores, None)


def spot(cores: int) -> Request:
    return Request("new", Kind.SPOT, cores, 60.0)


def names(placement: Placement | RefusalReason | None) -> list[str]:
    assert isinstance(placement, Placement)
    return [victim.id for victim in placement.victims]


def test_first_fit_goes_by_node_order() -> None:
    inventory = filled((4, 4, 4), ("d", 3, 0, 0))
    assert plan(inventory, on_demand(2), YOUNGEST_JOB_FIRST) == Placement(1)
    assert plan(inventory, on_demand(1), YOUNGEST_JOB_FIRST) == Placement(0)


def test_spot_never_evicts_and_on_demand_does() -> None:
    inventory = filled((4,), ("s", 4, 0, 0))
    assert plan(inventory, spot(1), YOUNGEST_JOB_FIRST) is RefusalReason.NO_CAPACITY
    assert names(plan(inventory, on_demand(1), YOUNGEST_JOB_FIRST)) == ["i0"]


def test_on_demand_instances_are_never_victims() -> None:
    inventory = filled((4,), ("d", 2, 0, 0), ("s", 2, 0, 1))
    assert plan(inventory, on_demand(3), YOUNGEST_JOB_FIRST) is RefusalReason.NO_CAPACITY


def test_larger_than_any_node_is_too_large_even_when_empty() -> None:
    assert plan(Inventory((4, 8)), on_demand(13), YOUNGEST_JOB_FIRST) is RefusalReason.TOO_LARGE


def test_the_first_node_to_have_room_is_taken_not_the_cheapest() -> None:
    # Youngest first marks i3 (node 1), i2 (node 0), i1 (node 0): node 0 is full first, although node 1's
    # i0+i3 is older.
    inventory = filled((4, 4), ("s", 3, 1, 0), ("s", 2, 0, 1), ("s", 2, 0, 2), ("s", 1, 1, 3))
    placement = plan(inventory, on_demand(4), YOUNGEST_JOB_FIRST)
    assert isinstance(placement, Placement)
    assert placement.node == 0
    assert names(placement) == ["i2", "i1"]


def test_the_unneeded_are_spared_youngest_first() -> None:
    # i2 (1 core) and i1 (1) are marked before i0 (4) makes room: i0 alone is enough.
    inventory = filled((6,), ("s", 4, 0, 0), ("s", 1, 0, 1), ("s", 1, 0, 2))
    assert names(plan(inventory, on_demand(4), YOUNGEST_JOB_FIRST)) == ["i0"]


def test_equal_starts_are_ordered_by_arrival() -> None:
    inventory = filled((4, 4), ("s", 4, 0, 5), ("s", 4, 1, 5))
    assert names(plan(inventory, on_demand(4), YOUNGEST_JOB_FIRST)) == ["i1"]


@given(st.data())
def test_victims_are_minimal_and_sufficient(data: st.DataObject) -> None:
    node_cores = tuple(data.draw(st.lists(st.integers(2, 8), min_size=1, max_size=4)))
    inventory = Inventory(node_cores)
    for number in range(data.draw(st.integers(0, 10))):
        node = data.draw(st.integers(0, len(node_cores) - 1))
        free = int(inventory.free[node])
        if free:
            kind = data.draw(st.sampled_from([Kind.SPOT, Kind.SPOT, Kind.ON_DEMAND]))
            start_s = float(data.draw(st.integers(number, number)))
            cores = data.draw(st.integers(1, free))
            inventory.place(Instance(f"i{number}", kind, cores, node, start_s, math.inf, number))
    cores = data.draw(st.integers(1, max(node_cores)))
    placement = plan(inventory, on_demand(cores), YOUNGEST_JOB_FIRST)
    freeable = [
        int(inventory.free[node]) + sum(s.cores for s in inventory.spot() if s.node == node)
        for node in range(len(node_cores))
    ]
    if not isinstance(placement, Placement):
        assert all(room < cores for room in freeable)
        return
    freed = [victim.cores for victim in placement.victims]
    free = int(inventory.free[placement.node])
    assert all(victim.node == placement.node for victim in placement.victims)
    assert free + sum(freed) >= cores
    for fewer in itertools.combinations(freed, len(freed) - 1) if freed else ():
        assert free + sum(fewer) < cores


@pytest.mark.parametrize(("weigher", "node"), [(fewest_free_cores, 2), (most_free_cores, 1)])
def test_weighers_choose_among_the_nodes_with_room(weigher: Weigher, node: int) -> None:
    inventory = filled((4, 8, 8), ("d", 4, 0, 0), ("d", 5, 2, 0))
    weighed = dataclasses.replace(YOUNGEST_JOB_FIRST, weighers=((weigher, 1.0),))
    assert plan(inventory, on_demand(2), weighed) == Placement(node)


def test_equal_weights_fall_back_to_node_order() -> None:
    weighed = dataclasses.replace(YOUNGEST_JOB_FIRST, weighers=((most_free_cores, 2.0),))
    assert plan(Inventory((4, 4)), on_demand(1), weighed) == Placement(0)


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("youngest-job-first", 1),
        ("youngest-job-first-spot-last-fit", 4),
        ("youngest-job-first-spot-best-fit", 3),
        ("youngest-job-first-spot-worst-fit", 2),
    ],
)
def test_spot_has_a_placement_order_of_its_own(name: str, node: int) -> None:
    inventory = filled((4, 8, 8, 8, 8), ("d", 4, 0, 0), ("d", 2, 1, 0), ("d", 5, 3, 0), ("d", 2, 4, 0))
    assert plan(inventory, spot(2), lineup(name)) == Placement(node)
    assert plan(inventory, on_demand(2), lineup(name)) == Placement(1)


def test_line_ups_are_found_by_name() -> None:
    assert lineup("youngest-job-first") is YOUNGEST_JOB_FIRST
    with pytest.raises(SpecError, match="there are: consolidation, fewest-victims"):
        lineup("oldest")
