"""Room that a cloud keeps free of spot for users who call it directly.

The owner of this cloud hears of own users only when they have come. So blocks of cores, the *headroom*, are
held by on-demand instances ``<cloud>/headroom-N`` which the cloud places by itself (N: their number). An own
request that would otherwise evict or be turned away takes the room of as few blocks as it needs; the blocks
are placed anew after the on-demand starts of that instant, where they evict spot as every on-demand instance
does. A block that finds no room is tried again whenever an on-demand instance has left or nodes are reopened.
The history records the blocks as on-demand instances, so replays and tables know of them.

``<cloud>/freed-N`` are blocks that an agent starts and that end by themselves: room for an own request that
the cloud itself had to refuse.

A stop comes before the starts of its instant (docs/design/prediction.md "Order of events"). Where something
has started in the instant in which a block is given up, that happens at the next representable one.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from cloudsim.history.event_log import PHASE_ON_DEMAND, PHASE_STOP
from cloudsim.history.history import stop_phase
from cloudsim.model.changes import Booked, Change, Cordoned, Ended, Extended, Started, TurnedAway, Withdrawn
from cloudsim.model.errors import SpecError
from cloudsim.model.instances import Instance, Placement
from cloudsim.model.nodes import NodeDetails
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Kind, Request
from cloudsim.model.reserved_ids import FREED, HEADROOM, is_block
from cloudsim.scheduling.fit import fits
from cloudsim.scheduling.inventory import Inventory, parse_nodes
from cloudsim.scheduling.lineups import LineUp
from cloudsim.scheduling.pipeline import allowed_nodes, plan


def headroom_of(
    shape: str | None, node_cores: tuple[int, ...], details: NodeDetails, field: str
) -> tuple[int, ...]:
    """Return the cores of each block, from a shape such as ``"2x12"``; none from None.

    Raises
    ------
    SpecError
        When the nodes have no room for the blocks and for others; it names ``field``.
    """
    if shape is None:
        return ()
    blocks = parse_nodes(shape, field=field)
    for cores in sorted(set(blocks)):
        needed = (cores, *(dict(details.flavour(cores)).get(name, 0) for name in details.resources[1:]))
        columns = (node_cores, *(amounts for _, amounts in details.amounts))
        if not any(fits(node, needed) for node in zip(*columns, strict=True)):
            raise SpecError(f"no node has room for a block of {cores} cores", field=field)
    if sum(blocks) >= sum(node_cores):
        raise SpecError(f"{sum(blocks)} cores of {sum(node_cores)} leave nothing for others", field=field)
    return blocks


class Headroom:
    """The blocks of one cloud: which are there, whose room a request takes, and when they are placed anew.

    ``note_change`` follows the changes of the cloud, live and in recovery alike. blocks: the cores of each
    block that is to be kept. schedule: called with the time and the phase at which blocks are to be placed or
    given up, before the spot starts of that instant.
    """

    def __init__(self, cloud: str, blocks: tuple[int, ...], schedule: Callable[[float, int], None]):
        self._schedule = schedule
        self._prefix, self._cloud = f"{cloud}/{HEADROOM}", cloud
        self._blocks = blocks
        self._present: dict[str, int] = {}  # cores of the blocks that run or wait
        self._latest_s = -math.inf  # of the latest start, which must not come after a stop of its instant
        if blocks:
            schedule(0.0, PHASE_STOP)

    def present(self, inventory: Inventory) -> Iterator[Instance]:
        """Yield the blocks in an inventory, also those that wait for their room."""
        for name in self._present:
            block = inventory.get(name) or inventory.waiting(name)
            if block is not None:
                yield block

    def surplus(self, inventory: Inventory) -> list[Instance]:
        """Return the blocks beyond those that are to be kept: the specification has changed."""
        left, surplus = Counter(self._blocks), []
        for block in self.present(inventory):
            if block.id.startswith(self._prefix):
                left[block.cores] -= 1
                if left[block.cores] < 0:
                    surplus.append(block)
        return surplus

    def missing(self) -> list[int]:
        """Return the cores of the blocks that are not there, the largest first."""
        return sorted((Counter(self._blocks) - self._kept()).elements(), reverse=True)

    def _kept(self) -> Counter[int]:
        return Counter(cores for name, cores in self._present.items() if name.startswith(self._prefix))

    def request(self, cores: int, number: int, details: NodeDetails) -> Request:
        """Return the request for a block that is to be placed as instance ``number`` of its cloud."""
        amounts = details.flavour(cores)
        return Request(
            f"{self._prefix}{number}", Kind.ON_DEMAND, cores, None, origin=self._cloud, amounts=amounts
        )

    # -- time ------------------------------------------------------------------------------------------------

    def not_before(self, at_s: float) -> float:
        """Return ``at_s``, or the latest start where blocks have moved it past ``at_s``."""
        return max(at_s, self._latest_s)

    def after_starts(self, at_s: float) -> float:
        """Return ``at_s``, or the first time after it at which a stop follows all starts so far."""
        return at_s if at_s > self._latest_s else math.nextafter(self._latest_s, math.inf)

    def note_change(self, change: Change) -> None:
        """Note a change that has become true."""
        match change:
            case Started(block) | Booked(block) if block.kind is Kind.ON_DEMAND and is_block(block.id):
                self._present[block.id] = block.cores
                if self._kept() - Counter(self._blocks):
                    self._schedule(block.start_s, PHASE_ON_DEMAND)
        if self._present or self._blocks:
            self._note_time(change)

    def _note_time(self, change: Change) -> None:
        match change:
            case Started(instance) | Booked(instance):
                self._latest_s = max(self._latest_s, instance.start_s)
            case Extended(_, at_s) | TurnedAway(_, at_s):
                self._latest_s = max(self._latest_s, at_s)
            case Ended(instance, at_s) | Withdrawn(instance, at_s) if instance.kind is Kind.ON_DEMAND:
                self._present.pop(instance.id, None)
                late = stop_phase(instance.start_s, at_s) != PHASE_STOP
                self._latest_s = max(self._latest_s, at_s) if late else self._latest_s
                self._schedule_care(math.nextafter(at_s, math.inf) if late else at_s)
            case Cordoned(_, False, at_s):
                self._schedule_care(math.nextafter(at_s, math.inf))

    def _schedule_care(self, at_s: float) -> None:
        if self._present or self._blocks:
            self._schedule(at_s, PHASE_ON_DEMAND)

    def restore(self, inventory: Inventory, now_s: float, latest_s: float) -> None:
        """Restore the state after the changes that made the inventory. latest_s: the latest start."""
        instances = [*inventory, *inventory.booked()]
        blocks = sorted((block for block in instances if is_block(block.id)), key=lambda block: block.number)
        self._present = {block.id: block.cores for block in blocks}
        if self._present or self._blocks:
            self._latest_s = latest_s
            self._schedule(now_s, PHASE_ON_DEMAND)

    # -- room ------------------------------------------------------------------------------------------------

    def find_room(
        self, inventory: Inventory, request: Request, lineup: LineUp, now_s: float
    ) -> tuple[tuple[Instance, ...], Placement | RefusalReason]:
        """Return the blocks whose room an on-demand request takes, and where it then goes. Plans only.

        All blocks are of one node, but for a gang. There are none where there is room without, and for
        headroom itself; else as few as let it start at once without an eviction; else one that waits for its
        room, if the request may then wait in its place; else, only where it would be turned away, as few as
        let it in at all.
        """
        placement = plan(inventory, request, lineup, now_s)
        at_once = isinstance(placement, Placement) and not placement.waits and not placement.victims
        hopeless = placement in (RefusalReason.TOO_LARGE, RefusalReason.NO_SUCH_NODE)
        if at_once or hopeless or not self._present or f"/{HEADROOM}" in request.id:
            return (), placement
        return self._instead_of(placement, inventory, request, lineup, now_s)

    def _instead_of(
        self,
        placement: Placement | RefusalReason,
        inventory: Inventory,
        request: Request,
        lineup: LineUp,
        now_s: float,
    ) -> tuple[tuple[Instance, ...], Placement | RefusalReason]:
        allowed = allowed_nodes(inventory, request, lineup)
        blocks = [
            block for block in self.present(inventory) if allowed is None or allowed[list(block.nodes)].any()
        ]
        if f"/{FREED}" in request.id:  # a user was refused: evicting comes first
            if isinstance(placement, Placement):
                return (), placement
            blocks = [block for block in blocks if f"/{FREED}" not in block.id]
        running = [block for block in blocks if inventory.waiting(block.id) is None]
        calm = [
            block for block in running if all(inventory.first_waiting(node) is None for node in block.nodes)
        ]
        if inventory.makes_gang(request):
            return _for_gang(inventory, request, lineup, now_s, placement, calm, blocks)
        given_up, node = _fewest(inventory, request, calm, allowed, at_once=True)
        if given_up:
            return given_up, Placement(node)
        if isinstance(placement, Placement) and not placement.victims:
            return (), placement
        for block in blocks:
            if inventory.waiting(block.id) is not None:
                instead = plan(_without(inventory, (block,)), request, lineup, now_s)
                if isinstance(instead, Placement) and not instead.victims:
                    return (block,), instead
        if not isinstance(placement, Placement):
            given_up, _ = _fewest(inventory, request, blocks, allowed, at_once=False)
            placement = plan(_without(inventory, given_up), request, lineup, now_s)
        return given_up, placement


def _for_gang(
    inventory: Inventory,
    request: Request,
    lineup: LineUp,
    now_s: float,
    placement: Placement | RefusalReason,
    calm: list[Instance],
    blocks: list[Instance],
) -> tuple[tuple[Instance, ...], Placement | RefusalReason]:
    """Return the blocks whose room a gang takes, the largest first, and where it then goes."""
    for choice in (calm, blocks):
        largest_first = sorted(choice, key=lambda block: (-block.cores, block.number))
        for count in range(1, len(choice) + 1):
            given_up = tuple(largest_first[:count])
            instead = plan(_without(inventory, given_up), request, lineup, now_s)
            if isinstance(instead, Placement) and (
                choice is blocks or not (instead.victims or instead.waits)
            ):
                return given_up, instead
        if isinstance(placement, Placement):
            break
    return (), placement


def _fewest(
    inventory: Inventory,
    request: Request,
    blocks: list[Instance],
    allowed: NDArray[np.bool_] | None,
    *,
    at_once: bool,
) -> tuple[tuple[Instance, ...], int]:
    """Return as few blocks of one node as make room for a request, and the node; none where none has enough.

    at_once: room for a start at once, else once all spot has left. Of equally many blocks freed ones come
    first, then the smallest, then node order.
    """
    needed = inventory.needed(request)
    room = inventory.free_full if at_once else inventory.free_normal
    of_nodes: defaultdict[int, list[Instance]] = defaultdict(list)
    for block in sorted(blocks, key=lambda block: (f"/{FREED}" not in block.id, block.cores, block.number)):
        for node in block.nodes:
            if allowed is None or allowed[node]:
                of_nodes[node].append(block)
    choices: list[tuple[int, bool, int, int, tuple[Instance, ...]]] = []
    for node, there in of_nodes.items():
        chosen = _enough(inventory, node, room[:, node].tolist(), needed, there)
        if chosen:
            kept = any(f"/{FREED}" not in block.id for block in chosen)
            choices.append((len(chosen), kept, sum(block.cores for block in chosen), node, chosen))
    *_, node, chosen = min(choices, default=(0, ()))
    return chosen, node


def _enough(
    inventory: Inventory, node: int, room: list[int], needed: tuple[int, ...], blocks: list[Instance]
) -> tuple[Instance, ...]:
    def room_without(chosen: list[Instance]) -> list[int]:
        freed = zip(*(inventory.needed_on(block, node) for block in chosen), strict=True)
        return [free + sum(more) for free, more in zip(room, freed, strict=True)]

    for block in blocks:
        if fits(room_without([block]), needed):
            return (block,)
    largest_first = sorted(blocks, key=lambda block: -block.cores)
    for count in range(2, len(blocks) + 1):
        if fits(room_without(largest_first[:count]), needed):
            return tuple(largest_first[:count])
    return ()


def _without(inventory: Inventory, blocks: tuple[Instance, ...]) -> Inventory:
    trial = inventory.copy()
    for block in blocks:
        (trial.remove if trial.waiting(block.id) is None else trial.withdraw)(block.id)
    return trial
