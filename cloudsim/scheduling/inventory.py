"""Nodes, running instances, free room and free slots of one cloud.

The inventory places and removes; it never decides. Its invariants (checked by ``validate``): nothing is
booked twice, free room is what the instances leave, spot instances are kept in order of arrival.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.errors import SpecError
from cloudsim.model.instances import Instance
from cloudsim.model.nodes import CORES_ONLY, NodeDetails
from cloudsim.model.requests import Amounts, Kind, Labels, Request, amounts_of_member
from cloudsim.scheduling.fit import fits, nodes_with_room, slots_of_nodes
from cloudsim.scheduling.spot_columns import SpotColumns


def latest_start_s(inventory: Inventory, instance: Instance) -> float:
    """Return when an instance that is about to be booked starts at the latest, in the cloud's time.

    Instances that wait on its nodes start in the order of their booking, as soon as enough of the instances
    under notice have left on all of their nodes.
    """
    ahead: list[Instance] = []
    starts_s: list[float] = []
    for booked in (*inventory.booked(), instance):
        of_ahead = [at_s for other, at_s in zip(ahead, starts_s, strict=True) if _share_node(other, booked)]
        if booked is instance or booked.parts:
            of_ahead += [
                _room_from_s(inventory, booked, node, needed, ahead)
                for node, needed in inventory.footprint(booked)
            ]
        ahead.append(booked)
        starts_s.append(max(of_ahead, default=-math.inf))
    return starts_s[-1]


def _share_node(one: Instance, other: Instance) -> bool:
    return not set(one.nodes).isdisjoint(other.nodes)


def _room_from_s(
    inventory: Inventory, instance: Instance, node: int, needed: tuple[int, ...], ahead: Iterable[Instance]
) -> float:
    """Return when a node has room for its part of an instance, behind those ``ahead`` of it."""
    room = inventory.idle[:, node].copy()
    for booked in ahead:
        room -= np.array(inventory.needed_on(booked, node))
    if fits(room.tolist(), needed):
        return -math.inf
    leaving = [
        (spot.evict_at_s, inventory.needed(spot))
        for spot in inventory.spot()
        if spot.node == node and spot.evict_at_s is not None
    ]
    for evict_at_s, freed in sorted(leaving):
        room += np.array(freed)
        if fits(room.tolist(), needed):
            return evict_at_s
    raise AssertionError(f"{instance.id} would wait for room that no instance leaves")


_SHAPE = re.compile(r"\s*(\d{1,6})\s*[xX×]\s*(\d{1,6})\s*")

_MOST_NODES = 100_000

#: Nodes, each with an amount of each resource.
Footprint = list[tuple[int, tuple[int, ...]]]


def parse_nodes(text: str, *, field: str = "nodes") -> tuple[int, ...]:
    """Return the cores of each node from a shape.

    ``"7x12"`` is 7 nodes of 12 cores, ``"4x8,2x16"`` two groups in node order.

    Raises
    ------
    SpecError
        When the shape cannot be read; it names ``field``.
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


@dataclass(frozen=True)
class Misfit:
    """Instances that cannot run, or wait for their room, on what their node would be.

    why: what the node would be or lack, as ``would be gone``.
    """

    node: int
    why: str
    instances: tuple[Instance, ...]


class Inventory:
    """The running instances of one cloud and the room that they leave.

    Node order and instance order are part of its meaning: first-fit goes by node order. Room is int64
    (resources, nodes), cores first, kept with every change (docs/design/preemption.md "The rule").

    idle: room that no instance uses. free_full: idle room that no booked instance waits for, the room for
    spot. free_normal: free if all spot instances were gone, the room for on-demand. yielding: held by spot
    instances without a guarantee, which an instance with a promise may take. An instance under notice yields
    only to those that wait for its room. closed: bool (nodes,), nodes that take no new instance.
    """

    def __init__(self, node_cores: tuple[int, ...], details: NodeDetails = CORES_ONLY):
        self.node_cores, self.details = node_cores, details
        self.resources = details.resources
        columns = [node_cores, *(amounts for _, amounts in details.amounts)]
        self.capacity: NDArray[np.int64] = np.array(columns, dtype=np.int64)
        self.idle = self.capacity.copy()
        self.free_full, self.free_normal = self.capacity.copy(), self.capacity.copy()
        self.yielding = np.zeros_like(self.capacity)
        self.free: NDArray[np.int64] = self.free_full[0]  # free cores per node, a view
        self.largest_node = max(node_cores)
        self.closed: NDArray[np.bool_] = np.zeros(
            len(node_cores), np.bool_
        )  # nodes that take no new instance
        self.any_closed = False
        self.may_spread = True  # no gangs are planned where this is False
        self.closes_new = False  # all were closed at once: nodes that are added are closed too
        self._leaving = np.zeros_like(self.capacity)  # held by instances under notice
        self._booked = np.zeros_like(self.capacity)  # by booked instances, which wait for room
        self._cells = self._view_cells()
        self._used = {Kind.SPOT: 0, Kind.ON_DEMAND: 0}  # cores
        self._yields, self._noticed = 0, 0  # the number of instances that yield, and under notice
        self._on_demand: dict[str, Instance] = {}
        self._spot: dict[str, Instance] = {}  # in order of arrival
        self._waiting: dict[str, Instance] = {}  # in order of booking
        self._groups: dict[str, Counter[int]] = {}  # nodes of the instances of a group
        self._spots: SpotColumns | None = None
        # Caches: nodes by labels, whether a size lacks a node, amounts in the order of resources.
        self._labelled: dict[Labels, NDArray[np.bool_]] = {}
        self._lacks: dict[tuple[int, Amounts], bool] = {}
        self._others: dict[Amounts, tuple[int, ...]] = {}

    def __contains__(self, instance_id: str) -> bool:
        return instance_id in self._spot or instance_id in self._on_demand

    def __len__(self) -> int:
        return len(self._spot) + len(self._on_demand)

    def __iter__(self) -> Iterator[Instance]:
        yield from self._on_demand.values()
        yield from self._spot.values()

    def get(self, instance_id: str) -> Instance | None:
        """Return the running instance of that id, or None."""
        return self._spot.get(instance_id) or self._on_demand.get(instance_id)

    def spot(self) -> tuple[Instance, ...]:
        """Return the running spot instances in order of arrival."""
        return tuple(self._spot.values())

    def spot_after(self, instance_id: str) -> Iterator[Instance]:
        """Yield the running spot instances that arrived after one of them, latest arrival first."""
        return itertools.takewhile(lambda instance: instance.id != instance_id, self.youngest_spot())

    def youngest_spot(self) -> Iterator[Instance]:
        """Yield the running spot instances, latest arrival first."""
        return reversed(self._spot.values())

    @property
    def spots(self) -> SpotColumns:
        """The spot instances that may be evicted, as columns; they are kept from the first call on."""
        if self._spots is None:
            self._spots = SpotColumns(len(self.node_cores), len(self.resources))
            for instance in self._spot.values():
                if instance.evict_at_s is None:
                    self._spots.add(instance, self.needed(instance))
        return self._spots

    @property
    def any_yields(self) -> bool:
        """True if a spot instance runs that was promised nothing."""
        return self._yields > 0

    @property
    def all_yield(self) -> bool:
        """True if nothing was promised to any of ``spots``."""
        return self._yields == len(self.spots)

    def waiting(self, instance_id: str) -> Instance | None:
        """Return the booked instance of that id, or None."""
        return self._waiting.get(instance_id)

    def booked(self) -> tuple[Instance, ...]:
        """Return the instances that wait for room, in the order of their booking."""
        return tuple(self._waiting.values())

    def first_waiting(self, node: int) -> Instance | None:
        """Return the booked instance that starts next on a node, or None."""
        return next((instance for instance in self._waiting.values() if node in instance.nodes), None)

    def labelled(self, labels: Labels) -> NDArray[np.bool_]:
        """Return the nodes that have all these labels, bool (nodes,)."""
        if labels not in self._labelled:
            of_nodes = self.details.labels or (frozenset(),) * len(self.node_cores)
            self._labelled[labels] = np.array([labels <= node_labels for node_labels in of_nodes], np.bool_)
        return self._labelled[labels]

    def nodes_of_group(self, group: str) -> list[int]:
        """Return the nodes on which instances of the group run or are booked."""
        return sorted(self._groups.get(group, ()))

    def needed(self, instance: Instance | Request) -> tuple[int, ...]:
        """Return the amount of each resource that an instance needs.

        Resources that no node has are left out: see ``lacks``.
        """
        return self._vector(instance.cores, instance.amounts)

    def footprint(self, instance: Instance) -> Footprint:
        """Return the nodes of an instance, each with the amount of each resource that it needs there."""
        if not instance.parts:
            return [(instance.node, self.needed(instance))]
        of_member = self.needed_by_member(instance)
        return [(node, tuple(cores * need for need in of_member)) for node, cores in instance.parts]

    def needed_on(self, instance: Instance, node: int) -> tuple[int, ...]:
        """Return the amount of each resource that an instance needs on one node; zeros if it is not there."""
        return dict(self.footprint(instance)).get(node, (0,) * len(self.resources))

    def needed_by_member(self, gang: Instance | Request) -> tuple[int, ...]:
        """Return the amount of each resource that each core of a gang needs."""
        return self._vector(1, amounts_of_member(gang.amounts, gang.cores))

    def makes_gang(self, request: Request) -> bool:
        """Return whether a request is placed as a gang, whose cores may be on several nodes."""
        if request.kind is Kind.SPOT or request.cores == 1 or not self.may_spread:
            return False
        return request.spread is None and (request.parallel or request.cores > self.largest_node)

    def lacks(self, request: Request) -> bool:
        """Return whether no node, even when empty, has all that the request needs; for a gang, all nodes."""
        if self.makes_gang(request):
            needed = self.needed_by_member(request)
            unknown = any(name not in self.resources for name, _ in request.amounts)
            return unknown or int(slots_of_nodes(self.capacity, needed).sum()) < request.cores
        if request.cores > self.largest_node:
            return True
        if not request.amounts:
            return False
        size = request.cores, request.amounts
        if size not in self._lacks:
            unknown = any(name not in self.resources for name, _ in request.amounts)
            self._lacks[size] = unknown or not nodes_with_room(self.capacity, self.needed(request)).any()
        return self._lacks[size]

    def _vector(self, cores: int, amounts: Amounts) -> tuple[int, ...]:
        if len(self.resources) == 1:
            return (cores,)
        if amounts not in self._others:
            needs = dict(amounts)
            self._others[amounts] = tuple(needs.get(name, 0) for name in self.resources[1:])
        return (cores, *self._others[amounts])

    def used_cores(self, kind: Kind) -> int:
        """Return the cores in use by instances of one kind."""
        return self._used[kind]

    def room(self, *, promised: bool) -> NDArray[np.int64]:
        """Return the room for spot, int64 (resources, nodes).

        promised: True for an instance with a promise, which counts room of instances without one as free.
        """
        return self.free_full + self.yielding if promised and self._yields else self.free_full

    def free_slots(
        self,
        cores: int,
        *,
        promised: bool = False,
        amounts: Amounts = (),
        allowed: NDArray[np.bool_] | None = None,
    ) -> int:
        """Return the free slots for instances of a size: the sum over nodes of floor(free / cores) (P2 §2.1).

        promised: see ``room``. amounts: further needs; a node then counts the smallest quotient of all
        resources. allowed: bool (nodes,), the nodes that count; None for all open ones.
        """
        room = self.room(promised=promised)
        if amounts:
            needed = self._vector(cores, amounts)
            slots = slots_of_nodes(room, needed)
        else:
            slots = room[0] // cores if cores > 1 else room[0]
        if allowed is None and self.any_closed:
            allowed = ~self.closed
        return int(np.add.reduce(slots if allowed is None else slots[allowed]))

    def free_slots_as_spot_leaves(self, cores: int, ends_s: Sequence[float]) -> tuple[int, ...]:
        """Return the free slots for an instance with a promise after the ends of running spot instances.

        ends_s: ascending times; each entry counts the instances that end by then as gone.
        """
        free = self.free + self.yielding[0]
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
        """Return how long each running on-demand instance has run, in order of start."""
        return [now_s - instance.start_s for instance in self._on_demand.values()]

    def has_room(self, instance: Instance) -> bool:
        """Return whether the instance's nodes are there and have idle room for it."""
        return all(
            node < len(self.node_cores) and fits(self.idle[:, node].tolist(), needed)
            for node, needed in self.footprint(instance)
        )

    def place(self, instance: Instance) -> None:
        """Start an instance on its node; if it was booked, it waits no more."""
        assert instance.id not in self, f"{instance.id} runs already"
        if instance.id in self._waiting:
            self.withdraw(instance.id)
        footprint = self.footprint(instance)
        for node, needed in footprint:
            assert fits(self.idle[:, node].tolist(), needed), f"{instance.id} does not fit on {node}"
        (self._spot if instance.kind is Kind.SPOT else self._on_demand)[instance.id] = instance
        self._use(instance, footprint, 1)
        if instance.kind is Kind.SPOT and self._spots is not None:
            self._spots.add(instance, footprint[0][1])

    def remove(self, instance_id: str) -> Instance:
        """Remove a running instance and return it."""
        running = self._spot if instance_id in self._spot else self._on_demand
        instance = running.pop(instance_id)
        self._use(instance, self.footprint(instance), -1)
        if instance.evict_at_s is None and instance.kind is Kind.SPOT and self._spots is not None:
            self._spots.remove(instance)
        return instance

    def _use(self, instance: Instance, footprint: Footprint, sign: int) -> None:
        """Take the room of an instance (sign 1) or give it back (-1)."""
        self._used[instance.kind] += sign * instance.cores
        idle, free_full, free_normal, yielding, leaving = self._cells
        by_kind: memoryview | None = None
        if instance.kind is Kind.ON_DEMAND:
            by_kind, weight = free_normal, -sign
        elif instance.evict_at_s is not None:
            by_kind, weight = leaving, sign
            self._noticed += sign
        elif instance.yields:
            by_kind, weight = yielding, sign
            self._yields += sign
        for node, needed in footprint:
            cell = node
            for amount in needed:
                idle[cell] -= sign * amount
                free_full[cell] -= sign * amount
                if by_kind is not None:
                    by_kind[cell] += weight * amount
                cell += len(self.node_cores)
            if self._noticed or self._waiting:
                self._settle(node)
            if instance.group is not None:
                self._count_group(instance.group, node, sign)

    def _view_cells(self) -> list[memoryview]:
        """Return the memory that ``_use`` writes, resource by resource: three times as fast as arrays."""
        rooms = self.idle, self.free_full, self.free_normal, self.yielding, self._leaving
        return [room.reshape(-1).data for room in rooms]

    def _settle(self, node: int) -> None:
        """Count the free room of a node anew: idle room that no booked instance needs.

        A booked instance starts, in order of booking, as soon as enough instances have left. Room that
        becomes free only later does not make up for idle room that another instance takes.
        """
        free = self.free_full[:, node]
        free[:] = self.idle[:, node]
        if not self._booked[0, node]:
            return
        leaving = [spot for spot in self._spot.values() if spot.node == node and spot.evict_at_s is not None]
        leaving.sort(key=lambda spot: (spot.evict_at_s, spot.number), reverse=True)
        then = free.copy()  # the room once the booked instance has started
        for booked in self._waiting.values():
            if node in booked.nodes:
                then -= self.needed_on(booked, node)
                while leaving and (then < 0).any():
                    then += self.needed(leaving.pop())
                np.minimum(free, then, out=free)

    def _count_group(self, group: str, node: int, count: int) -> None:
        nodes = self._groups.setdefault(group, Counter())
        nodes[node] += count
        if not nodes[node]:
            del nodes[node]
        if not nodes:
            del self._groups[group]

    def room_soon(self) -> NDArray[np.int64]:
        """Return the room once all instances under notice have left and all booked ones have started.

        int64 (resources, nodes).
        """
        if not (self._noticed or self._waiting):
            return self.free_full
        return self.idle + self._leaving - self._booked

    def book(self, instance: Instance) -> None:
        """Book an on-demand instance: it starts on its node as soon as there is room."""
        assert instance.id not in self, f"{instance.id} runs already"
        self._waiting[instance.id] = instance
        self._reserve(instance, 1)

    def withdraw(self, instance_id: str) -> Instance:
        """Give up a booking and return its instance."""
        instance = self._waiting.pop(instance_id)
        self._reserve(instance, -1)
        return instance

    def _reserve(self, instance: Instance, sign: int) -> None:
        """Reserve the room of a booked instance (sign 1) or give it back (-1)."""
        for node, needed in self.footprint(instance):
            amounts = sign * np.array(needed, np.int64)
            self._booked[:, node] += amounts
            self.free_normal[:, node] -= amounts
            self._settle(node)
            if instance.group is not None:
                self._count_group(instance.group, node, sign)

    def replace(self, instance: Instance) -> Instance:
        """Replace a running spot instance by its new value and return the old one.

        Node, room and promise stay; its place in the order of arrival changes only when it is renewed. It may
        come under notice, but a notice is never taken back.
        """
        before = self._spot[instance.id]
        assert (before.node, before.cores, before.amounts, before.promised) == (
            instance.node, instance.cores, instance.amounts, instance.promised,
        )  # fmt: skip
        self._spot[instance.id] = instance
        if instance.arrival != before.arrival:
            by_arrival = sorted(self._spot.values(), key=lambda spot: spot.arrival)
            self._spot = {spot.id: spot for spot in by_arrival}
        if instance.evict_at_s is not None and before.evict_at_s is None:
            self._note_notice(before)
        elif before.evict_at_s is None and self._spots is not None:
            self._spots.change(instance)
        return before

    def _note_notice(self, instance: Instance) -> None:
        amounts = self.needed(instance)
        self._leaving[:, instance.node] += amounts
        self._noticed += 1
        if instance.yields:
            self.yielding[:, instance.node] -= amounts
            self._yields -= 1
        if self._spots is not None:
            self._spots.remove(instance)
        self._settle(instance.node)

    def close(self, nodes: tuple[int, ...] | None, *, closed: bool) -> None:
        """Close nodes (None: all) for new instances, or open them again."""
        self.closed[slice(None) if nodes is None else list(nodes)] = closed
        self.any_closed = bool(self.closed.any())
        if nodes is None:
            self.closes_new = closed

    def copy(self) -> Inventory:
        """Return a copy to plan on."""
        other = copy.copy(self)
        for name in ("idle", "free_full", "free_normal", "yielding", "closed", "_leaving", "_booked"):
            setattr(other, name, getattr(self, name).copy())
        for name in ("_used", "_on_demand", "_spot", "_waiting"):
            setattr(other, name, dict(getattr(self, name)))
        other.free, other._cells = other.free_full[0], other._view_cells()
        other._groups = {group: Counter(nodes) for group, nodes in self._groups.items()}
        other._spots = None
        return other

    def with_nodes(self, node_cores: tuple[int, ...], details: NodeDetails) -> Inventory:
        """Return a copy on other nodes, known by their numbers, which have room (see ``misfits``)."""
        other = Inventory(node_cores, details)
        other.may_spread = self.may_spread
        other.closes_new = self.closes_new
        other.closed[:] = self.closes_new
        both = min(len(node_cores), len(self.node_cores))
        other.closed[:both] = self.closed[:both]
        other.any_closed = bool(other.closed.any())
        for instance in self:
            other.place(instance)
        for instance in self._waiting.values():
            other.book(instance)
        return other

    def widened(self, nodes: int, instance: Instance | None = None) -> Inventory:
        """Return an inventory with at least ``nodes`` nodes, and room for an instance that is to be placed.

        An instance in a journal had its place when it started, whatever the nodes are now. The room that is
        added is for the instances of then only; the inventory must not be planned on.
        """
        added = max(0, nodes - len(self.node_cores))
        capacity = np.pad(self.capacity, ((0, 0), (0, added)))
        if instance is not None:
            idle = np.pad(self.idle, ((0, 0), (0, added)))
            for node, needed in self.footprint(instance):
                capacity[:, node] += np.maximum(np.array(needed) - idle[:, node], 0)
        elif not added:
            return self
        labels = self.details.labels
        details = replace(
            self.details,
            amounts=tuple(
                (name, tuple(row.tolist()))
                for name, row in zip(self.resources[1:], capacity[1:], strict=True)
            ),
            labels=labels and (*labels, *[frozenset()] * added),
        )
        return self.with_nodes(tuple(capacity[0].tolist()), details)

    def misfits(self, node_cores: tuple[int, ...], details: NodeDetails) -> tuple[Misfit, ...]:
        """Return the nodes whose instances would not run on other nodes, in node order.

        Where all instances of a node together need too much, all of them are named.
        """
        other = Inventory(node_cores, details)
        of_nodes: defaultdict[int, list[Instance]] = defaultdict(list)
        for instance in (*self, *self._waiting.values()):
            for node in instance.nodes:
                of_nodes[node].append(instance)
        found = (other._misfit(node, there, self._waiting) for node, there in sorted(of_nodes.items()))
        return tuple(misfit for misfit in found if misfit is not None)

    def _misfit(self, node: int, instances: list[Instance], waiting: Container[str]) -> Misfit | None:
        """Return which instances of a node would not run on this empty one, or None.

        waiting: the ids of those that are booked.
        """
        if node >= len(self.node_cores):
            return Misfit(node, "would be gone", tuple(instances))
        labels = self.details.labels[node] if self.details.labels else frozenset()
        strangers = tuple(
            instance
            for instance in instances
            if not instance.labels <= labels
            or any(amount and name not in self.resources for name, amount in instance.amounts)
        )
        if strangers:
            return Misfit(node, "would lack a label or a resource that they need", strangers)
        nothing = (0,) * len(self.resources)
        running = [self.needed_on(instance, node) for instance in instances if instance.id not in waiting]
        to_stay = [self.needed_on(instance, node) for instance in instances if instance.evict_at_s is None]
        now, soon = np.sum([nothing, *running], axis=0), np.sum([nothing, *to_stay], axis=0)
        room = self.capacity[:, node]
        short = np.maximum(now, soon) > room
        if not short.any():
            return None
        row = int(short.argmax())
        return Misfit(node, f"would have {room[row]} {self.resources[row]}", tuple(instances))

    def without_spot(self) -> Inventory:
        """Return the inventory as if no spot instance ran, to be read only: its groups are empty."""
        alone = Inventory(self.node_cores, self.details)
        for room in (alone.idle, alone.free_full, alone.free_normal):
            room[:] = self.free_normal
        alone.closed, alone.any_closed, alone._on_demand = self.closed, self.any_closed, self._on_demand
        return alone

    def validate(self) -> None:
        """Check all invariants by counting anew; for tests and after recovery."""
        fresh = Inventory(self.node_cores, self.details)
        for instance in self:
            fresh._used[instance.kind] += instance.cores
            for node, amounts in self.footprint(instance):
                fresh.idle[:, node] -= amounts
                if instance.kind is Kind.ON_DEMAND:
                    fresh.free_normal[:, node] -= amounts
                elif instance.evict_at_s is not None:
                    fresh._leaving[:, node] += amounts
                elif instance.yields:
                    fresh.yielding[:, node] += amounts
        for instance in self._waiting.values():
            for node, amounts in self.footprint(instance):
                fresh._booked[:, node] += amounts
        fresh.free_normal -= fresh._booked
        fresh._spot, fresh._waiting = self._spot, self._waiting
        for node in range(len(self.node_cores)):
            fresh._settle(node)
        assert fresh._used == self._used, "used cores are miscounted"
        assert (fresh.idle == self.idle).all(), "idle room differs from what the instances leave"
        assert (self.idle >= 0).all(), "a core is booked twice"
        assert (fresh.free_full == self.free_full).all(), "free room is miscounted"
        assert (self.free_full >= 0).all(), "room is promised twice"
        assert (fresh._leaving == self._leaving).all(), "room of instances under notice is miscounted"
        assert (fresh._booked == self._booked).all(), "booked room is miscounted"
        assert (fresh.free_normal == self.free_normal).all(), "room for on-demand instances is miscounted"
        assert (fresh.yielding == self.yielding).all(), "room of no-guarantee instances is miscounted"
        arrivals = [instance.arrival for instance in self._spot.values()]
        assert arrivals == sorted(arrivals), "spot instances are out of order"
