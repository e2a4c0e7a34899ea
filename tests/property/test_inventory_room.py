"""Room, columns and groups of an inventory, whatever happened to it, are those of its instances."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.model.instances import Instance
from cloudsim.model.nodes import NodeDetails
from cloudsim.model.requests import Kind
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.spot_columns import NOBODY, SpotColumns
from tests.property.scenes import room_now, some

seeds = st.integers(0, 2**32 - 1)
SLAS = (None, 1.0, 0.1, 0.05)


class Twin:
    """An inventory, and beside it what was done to it; every step is one of its methods, drawn by name."""

    def __init__(self, generator: np.random.Generator):
        nodes = int(generator.integers(1, 4))
        names = ("disk_gb", "memory_mb")[: int(generator.integers(0, 3))]
        amounts = tuple((name, tuple(generator.integers(4, 12, nodes).tolist())) for name in names)
        self.generator = generator
        self.details = NodeDetails(amounts)
        self.node_cores = tuple(generator.integers(4, 14, nodes).tolist())
        self.inventory = Inventory(self.node_cores, self.details)
        self.running: dict[str, Instance] = {}
        self.waiting: dict[str, Instance] = {}
        self.closed: set[int] = set()
        self.count = 0

    def new(self, kind: Kind, room: np.ndarray) -> Instance | None:
        node = int(self.generator.integers(len(self.node_cores)))
        size = some(self.generator, room[:, node].tolist(), self.details.resources[1:], 4)
        if size is None:
            return None
        self.count += 1
        return Instance(
            f"i{self.count}", kind, size[0], node, float(self.count), math.inf, self.count,
            sla=SLAS[self.generator.integers(len(SLAS))] if kind is Kind.SPOT else None, amounts=size[1],
            group=f"g{self.generator.integers(2)}" if self.generator.random() < 0.4 else None,
        )  # fmt: skip

    def any_of(self, instances: list[Instance]) -> Instance | None:
        return instances[self.generator.integers(len(instances))] if instances else None

    def spot(self) -> list[Instance]:
        return [one for one in self.running.values() if one.kind is Kind.SPOT and one.evict_at_s is None]

    # -- steps -----------------------------------------------------------------------------------------------

    def place(self) -> None:
        kind = Kind.SPOT if self.generator.random() < 0.7 else Kind.ON_DEMAND
        if (one := self.new(kind, self.inventory.free_full)) is not None:
            self.inventory.place(one)
            self.running[one.id] = one

    def remove(self) -> None:
        if (one := self.any_of(list(self.running.values()))) is not None:
            assert self.inventory.remove(one.id) == self.running.pop(one.id)

    def notice(self) -> None:
        if (one := self.any_of(self.spot())) is not None:
            self.running[one.id] = replace(one, evict_at_s=float(self.generator.integers(1, 5)))
            assert self.inventory.replace(self.running[one.id]) == one

    def extend(self) -> None:
        if (one := self.any_of(self.spot())) is not None:
            sla = self.generator.uniform(0.0, 0.5) if one.promised else one.sla
            self.running[one.id] = replace(one, end_s=self.generator.uniform(1e3, 1e6), sla=sla)
            self.inventory.replace(self.running[one.id])

    def book(self) -> None:
        if (one := self.new(Kind.ON_DEMAND, self.inventory.room_soon())) is not None:
            self.inventory.book(one)
            self.waiting[one.id] = one

    def withdraw(self) -> None:
        if (one := self.any_of(list(self.waiting.values()))) is not None:
            assert self.inventory.withdraw(one.id) == self.waiting.pop(one.id)

    def start_waiting(self) -> None:
        one = self.any_of(list(self.waiting.values()))
        if one is None:
            return
        if (self.inventory.idle[:, one.node] >= self.inventory.needed(one)).all():
            self.inventory.place(one)
            self.running[one.id] = self.waiting.pop(one.id)

    def close(self) -> None:
        node = int(self.generator.integers(len(self.node_cores)))
        self.inventory.close((node,), closed=True)
        self.closed.add(node)

    def reopen(self) -> None:
        self.inventory.close(None, closed=False)
        self.closed.clear()

    def ask_for_columns(self) -> None:
        assert len(self.inventory.spots) == len(self.spot())


STEPS = (
    *(Twin.place,) * 4, *(Twin.remove,) * 2, Twin.notice, Twin.extend, Twin.book, Twin.book, Twin.withdraw,
    Twin.start_waiting, Twin.close, Twin.reopen, Twin.ask_for_columns,
)  # fmt: skip


def check(twin: Twin) -> None:
    inventory = twin.inventory
    inventory.validate()
    capacity = np.array([twin.node_cores, *(of_nodes for _, of_nodes in twin.details.amounts)])
    on_demand, noticed, weak, strong, booked = (np.zeros_like(capacity) for _ in range(5))
    for one in (*twin.running.values(), *twin.waiting.values()):
        if one.id in twin.waiting:
            held = booked
        elif one.kind is Kind.ON_DEMAND:
            held = on_demand
        elif one.evict_at_s is not None:
            held = noticed
        else:
            held = strong if one.sla is not None and one.sla < 1 else weak
        held[:, one.node] += (one.cores, *(dict(one.amounts).get(n, 0) for n in twin.details.resources[1:]))
    idle = capacity - on_demand - noticed - weak - strong
    np.testing.assert_array_equal(inventory.idle, idle)
    np.testing.assert_array_equal(inventory.room_soon(), idle + noticed - booked)
    for node in range(len(twin.node_cores)):
        here = [one for one in twin.running.values() if one.node == node and one.evict_at_s is not None]
        here.sort(key=lambda one: (one.evict_at_s or 0.0, one.number))
        leaving = [np.array(inventory.needed(one)) for one in here]
        waiting = [np.array(inventory.needed(one)) for one in twin.waiting.values() if one.node == node]
        np.testing.assert_array_equal(inventory.free_full[:, node], room_now(idle[:, node], leaving, waiting))
    np.testing.assert_array_equal(inventory.free, inventory.free_full[0])
    np.testing.assert_array_equal(inventory.free_normal, capacity - on_demand - booked)
    np.testing.assert_array_equal(inventory.yielding, weak)
    np.testing.assert_array_equal(inventory.room(promised=True), inventory.free_full + weak)
    assert inventory.any_yields == bool(weak.any())
    assert len(inventory) == len(twin.running)
    assert {one.id: one for one in inventory} == twin.running
    assert set(np.flatnonzero(inventory.closed)) == twin.closed
    assert inventory.any_closed == bool(twin.closed)
    everybody = [*twin.running.values(), *twin.waiting.values()]
    for group in ("g0", "g1"):
        nodes = Counter(one.node for one in everybody if one.group == group)
        assert inventory.nodes_of_group(group) == sorted(nodes)


def columns(spots: SpotColumns) -> dict[str, tuple[object, ...]]:
    """What the columns say of each instance; rows have no order."""
    found = {}
    for row in spots.rows().tolist():
        instance = spots.instances[row]
        assert instance is not None
        assert row in spots.slots[instance.node]
        found[instance.id] = (
            instance, int(spots.node[row]), int(spots.number[row]), float(spots.start_s[row]),
            float(spots.end_s[row]), float(spots.sla[row]), *spots.amounts[row].tolist(),
        )  # fmt: skip
    in_slots = spots.slots[spots.slots != NOBODY].tolist()
    assert sorted(in_slots) == spots.rows().tolist(), "each row is on one node"
    for on_node in spots.slots:
        assert (np.diff(on_node == NOBODY) >= 0).all(), "rows of a node are packed at the front"
    assert len(found) == len(spots)
    return found


@given(seeds)
def test_room_is_what_the_instances_leave_after_every_step(seed: int) -> None:
    generator = np.random.default_rng(seed)
    twin = Twin(generator)
    for _ in range(40):
        STEPS[generator.integers(len(STEPS))](twin)
        check(twin)


@given(seeds)
def test_columns_are_those_of_a_fresh_build(seed: int) -> None:
    generator = np.random.default_rng(seed)
    twin = Twin(generator)
    for _ in range(3):
        for _ in range(30):
            STEPS[generator.integers(len(STEPS))](twin)
        copy = twin.inventory.copy()
        kept, fresh = columns(twin.inventory.spots), columns(copy.spots)
        assert kept == fresh
        assert {one.id for one in twin.spot()} == kept.keys()
        twin.inventory = copy if generator.random() < 0.5 else twin.inventory
        check(twin)


def test_more_instances_on_a_node_than_there_were_slots() -> None:
    inventory = Inventory((64, 4))
    assert len(inventory.spots) == 0
    for number in range(64):
        inventory.place(Instance(f"i{number}", Kind.SPOT, 1, 0, float(number), math.inf, number))
    for number in range(0, 64, 3):
        inventory.remove(f"i{number}")
    inventory.place(Instance("last", Kind.SPOT, 4, 1, 64.0, math.inf, 64))
    assert columns(inventory.spots) == columns(inventory.copy().spots)
    assert len(inventory.spots) == 64 - 22 + 1
