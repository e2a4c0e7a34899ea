"""Nodes, running instances, free cores and free slots of one cloud.

The inventory places and removes; it never decides. Its invariants (checked by ``validate``): no core is
booked twice, free cores are what the running instances leave, spot instances are kept in order of arrival.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from cloudsim.errors import SpecError
from cloudsim.requests import Instance, Kind
from cloudsim.scheduling.fit import fits

_SHAPE = re.compile(r"\s*(\d{1,6})\s*[xX×]\s*(\d{1,6})\s*")
_MOST_NODES = 100_000


def parse_nodes(text: str, *, field: str = "nodes") -> tuple[int, ...]:
    """Cores per node from a shape: ``"7x12"`` is 7 nodes of 12 cores, ``"4x8,2x16"`` two groups in node
    order.

    Raises SpecError naming ``field`` when the shape cannot be read.
    """
    cores: list[int] = []
    for group in text.split(","):
        match = _SHAPE.fullmatch(group)
        if match is None or int(match[1]) < 1 or int(match[2]) < 1:
            raise SpecError(f"{text!r} is not NODESxCORES, for example 7x12 or 4x8,2x16", field=field)
        cores.extend([int(match[2])] * int(match[1]))
        if len(cores) > _MOST_NODES:
            raise SpecError(f"{text!r} has more than {_MOST_NODES} nodes", field=field)
    return tuple(cores)


class Inventory:
    """Running instances of one cloud. Node and instance order are part of its meaning: first-fit goes by
    node order."""

    def __init__(self, node_cores: tuple[int, ...]):
        self.node_cores = node_cores
        self.capacity: NDArray[np.int64] = np.array(node_cores, dtype=np.int64)
        self.free: NDArray[np.int64] = self.capacity.copy()  # free cores per node
        # Cores that no-guarantee spot instances hold: whoever was promised something may take them.
        self.yielding: NDArray[np.int64] = np.zeros_like(self.capacity)
        self._yields = 0  # how many of them there are
        self.largest_node = max(node_cores)
        self._on_demand: dict[str, Instance] = {}
        self._spot: dict[str, Instance] = {}  # in order of arrival

    def __contains__(self, instance_id: str) -> bool:
        return instance_id in self._spot or instance_id in self._on_demand

    def __len__(self) -> int:
        return len(self._spot) + len(self._on_demand)

    def __iter__(self) -> Iterator[Instance]:
        yield from self._on_demand.values()
        yield from self._spot.values()

    def get(self, instance_id: str) -> Instance | None:
        """The running instance of that id, or None."""
        return self._spot.get(instance_id) or self._on_demand.get(instance_id)

    def spot(self) -> tuple[Instance, ...]:
        """Running spot instances in order of arrival."""
        return tuple(self._spot.values())

    def used_cores(self, kind: Kind) -> int:
        """Cores in use by instances of one kind."""
        running = self._spot if kind is Kind.SPOT else self._on_demand
        return sum(instance.cores for instance in running.values())

    def free_slots(self, cores: int, *, promised: bool = False) -> int:
        """Room for instances of ``cores`` cores: the sum over nodes of floor(free / cores) (P2 §2.1).

        promised: as an instance with a promise sees it, which takes the cores of those without as free.
        """
        free = self.free + self.yielding if promised and self._yields else self.free
        if cores > 1:
            free = free // cores
        return int(np.add.reduce(free))

    def free_slots_as_spot_leaves(self, cores: int, ends_s: Sequence[float]) -> tuple[int, ...]:
        """Free slots for an instance with a promise once all spot instances have left that are to end by each
        of some ascending times."""
        free = self.free + self.yielding
        leaving = sorted(
            (instance.end_s, instance.node, instance.cores) for instance in self.spot() if instance.promised
        )
        room, gone = [], 0
        for by_s in ends_s:
            while gone < len(leaving) and leaving[gone][0] <= by_s:
                free[leaving[gone][1]] += leaving[gone][2]
                gone += 1
            room.append(int((free // cores).sum()))
        return tuple(room)

    def on_demand_ages_s(self, now_s: float) -> list[float]:
        """How long each running on-demand instance has run, in order of start."""
        return [now_s - instance.start_s for instance in self._on_demand.values()]

    def place(self, instance: Instance) -> None:
        """Books the instance's cores on its node."""
        assert instance.id not in self, f"{instance.id} runs already"
        assert fits(int(self.free[instance.node]), instance.cores), (
            f"{instance.id} does not fit on {instance.node}"
        )
        self.free[instance.node] -= instance.cores
        if instance.yields:
            self.yielding[instance.node] += instance.cores
            self._yields += 1
        (self._spot if instance.kind is Kind.SPOT else self._on_demand)[instance.id] = instance

    def remove(self, instance_id: str) -> Instance:
        """Frees the instance's cores and returns it."""
        running = self._spot if instance_id in self._spot else self._on_demand
        instance = running.pop(instance_id)
        self.free[instance.node] += instance.cores
        if instance.yields:
            self.yielding[instance.node] -= instance.cores
            self._yields -= 1
        return instance

    def replace(self, instance: Instance) -> Instance:
        """What is known of a running spot instance changes, but not where it runs, its cores or its rank;
        returns it as it was."""
        before = self._spot[instance.id]
        assert (before.node, before.cores, before.promised) == (
            instance.node, instance.cores, instance.promised,
        )  # fmt: skip
        self._spot[instance.id] = instance
        return before

    def validate(self) -> None:
        """Walks everything; for tests and after recovery."""
        used = np.zeros_like(self.capacity)
        for instance in self:
            used[instance.node] += instance.cores
        assert (self.capacity - used == self.free).all(), "free cores differ from what the instances leave"
        assert (self.free >= 0).all(), "a core is booked twice"
        yielding = np.zeros_like(self.capacity)
        for instance in self.spot():
            yielding[instance.node] += instance.cores if instance.yields else 0
        assert (yielding == self.yielding).all(), "cores of no-guarantee instances are miscounted"
        arrivals = [instance.number for instance in self._spot.values()]
        assert arrivals == sorted(arrivals), "spot instances are out of order"
