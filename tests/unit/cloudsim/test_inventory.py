from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.model.errors import SpecError
from cloudsim.model.instances import Instance
from cloudsim.model.requests import Kind
from cloudsim.scheduling.inventory import Inventory, parse_nodes


def instance(number: int, cores: int, node: int, kind: Kind = Kind.SPOT) -> Instance:
    return Instance(f"i{number}", kind, cores, node, float(number), math.inf, number)


@pytest.mark.parametrize(
    ("text", "cores"),
    [("7x12", (12,) * 7), ("1x1", (1,)), (" 2 X 8 ", (8, 8)), ("2x4,1x16", (4, 4, 16)), ("3×2", (2, 2, 2))],
)
def test_node_shapes(text: str, cores: tuple[int, ...]) -> None:
    assert parse_nodes(text) == cores


@pytest.mark.parametrize(
    "text", ["", "7", "7x", "x12", "7xx12", "0x4", "4x0", "-1x4", "7x12,", "1e3x4", "200000x1"]
)
def test_a_wrong_shape_names_the_field(text: str) -> None:
    with pytest.raises(SpecError, match=r"cloud\.nodes") as caught:
        parse_nodes(text, field="cloud.nodes")
    assert caught.value.field == "cloud.nodes"


@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.data())
def test_free_slots_count_whole_slots_of_each_node(node_cores: list[int], data: st.DataObject) -> None:
    inventory = Inventory(tuple(node_cores))
    for number in range(data.draw(st.integers(0, 8))):
        node = data.draw(st.integers(0, len(node_cores) - 1))
        if inventory.free[node] == 0:
            continue
        inventory.place(instance(number, data.draw(st.integers(1, int(inventory.free[node]))), node))
    cores = data.draw(st.integers(1, 20))
    used = [sum(i.cores for i in inventory if i.node == node) for node in range(len(node_cores))]
    assert inventory.free_slots(cores) == sum((c - u) // cores for c, u in zip(node_cores, used, strict=True))
    inventory.validate()


def test_what_is_removed_is_free_again_and_spot_stays_in_order_of_arrival() -> None:
    inventory = Inventory((4, 4))
    for number, node in ((0, 0), (1, 1), (2, 0)):
        inventory.place(instance(number, 2, node))
    inventory.place(instance(3, 2, 1, Kind.ON_DEMAND))
    assert inventory.remove("i1").number == 1
    assert [spot.number for spot in inventory.spot()] == [0, 2]
    assert inventory.free.tolist() == [0, 2]
    assert (inventory.used_cores(Kind.SPOT), inventory.used_cores(Kind.ON_DEMAND)) == (4, 2)
    inventory.validate()


def test_a_core_cannot_be_booked_twice() -> None:
    inventory = Inventory((4,))
    inventory.place(instance(0, 3, 0))
    with pytest.raises(AssertionError, match="does not fit"):
        inventory.place(instance(1, 2, 0))
