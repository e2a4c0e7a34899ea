"""Line-ups as codes, and the state of a replay, as the compiled replays of a line-up read them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.errors import SpecError
from cloudsim.scheduling import eviction, filters, weighers
from cloudsim.scheduling.eviction import ByKey, Cost
from cloudsim.scheduling.lineups import LineUp, Ranking, Weighers
from cloudsim.scheduling.victims import Cheapest, InOrder

#: Weighers.
FIRST: Final = 0
LAST: Final = 1
FULLEST: Final = 2
EMPTIEST: Final = 3

#: The orders of victims: by key and age, by a draw, or by what they cost.
YOUNGEST: Final = 0
OLDEST: Final = 1
RANDOM: Final = 2
BY_COST: Final = 3
NO_COST: Final = Cost()


class Rules(NamedTuple):
    """A line-up as the compiled replay reads it.

    order: the code of the order in which victims leave, or BY_COST. cost: the weights of what they cost.
    spot_weigher, weigher: the codes of the weighers that place spot and all others. weighted: True if a node
    is chosen by the sum of cost and weigher, both stretched; else by the cost first. cost_factor, factor: the
    factors of cost and weigher in that sum.
    """

    order: int
    cost: Cost
    spot_weigher: int
    weigher: int
    weighted: bool
    cost_factor: float
    factor: float


class Virtual(NamedTuple):
    """The virtual instance.

    Attributes
    ----------
    cores
        Its size.
    further
        int64[further resources], amounts of other resources.
    sla
        The SLA that it was promised.
    key
        Its key in the order in which victims leave; 0 where no key counts.
    """

    cores: int
    further: NDArray[np.int64]
    sla: float
    key: float


class ExtraResources(NamedTuple):
    """State of replays beside ``Replays``; one row a replay.

    Attributes
    ----------
    further
        int64[rows, further resources, nodes], free amounts.
    birth_s
        float64[rows], birth of the virtual instance in seconds.
    draw
        uint64[rows], place of the virtual instance in the random order.
    """

    further: NDArray[np.int64]
    birth_s: NDArray[np.float64]
    draw: NDArray[np.uint64]


class EventDetails(NamedTuple):
    """Details of a chunk's events and instances beside ``Events``.

    Attributes
    ----------
    time_s
        float64[events], seconds.
    labels
        int64[events], a row of ``masks``.
    group
        int64[events].
    spread
        int8[events].
    further
        int64[slots, further resources], amounts of the instance with that slot number.
    slot_group
        int64[slots], group of the instance with that slot number.
    masks
        bool[label sets, nodes], nodes that have all labels of a set.
    """

    time_s: NDArray[np.float64]
    labels: NDArray[np.int64]
    group: NDArray[np.int64]
    spread: NDArray[np.int8]
    further: NDArray[np.int64]
    slot_group: NDArray[np.int64]
    masks: NDArray[np.bool_]


class LineUpSpotLine(NamedTuple):
    """Spot instances that are open when a chunk begins or start in it, oldest first: ``SpotLine`` with more.

    In a random order, an instance that starts after the virtual instance has the next higher number: then
    ``later_order`` and ``later_draw`` hold for it.

    Attributes
    ----------
    amounts
        int64[places + 1, resources], cores first; the last row is the virtual instance.
    start_s
        float64[places], seconds.
    sla
        float64[places].
    order
        int64[places], places in the order in which they leave.
    key
        float64[places], by which they leave, the least first; empty where only age counts.
    draw
        uint64[places], place of each instance in a random order; else empty.
    later_order, later_draw
        Order and draws with the next higher number; else empty.
    """

    slot: NDArray[np.int32]
    ordinal: NDArray[np.int64]
    amounts: NDArray[np.int64]
    start_s: NDArray[np.float64]
    sla: NDArray[np.float64]
    order: NDArray[np.int64]
    key: NDArray[np.float64]
    draw: NDArray[np.uint64]
    later_order: NDArray[np.int64]
    later_draw: NDArray[np.uint64]


class Replay(NamedTuple):
    """One replay: a row of ``Replays`` and of ``ExtraResources``."""

    free: NDArray[np.int32]
    further: NDArray[np.int64]
    node: NDArray[np.int16]
    virtual_node: int
    rank: int
    birth_s: float
    draw: np.uint64


_WEIGHERS = {
    weighers.last_nodes: LAST,
    weighers.fewest_free_cores: FULLEST,
    weighers.most_free_cores: EMPTIEST,
}


def rules_of(lineup: LineUp) -> Rules:
    """Return a line-up as the compiled replay reads it. Raises SpecError where it knows no such rule."""
    order, cost = BY_COST, NO_COST
    match lineup.victims:
        case Cheapest(cost=cost):
            pass
        case InOrder(order=ByKey(oldest=oldest), sparing_last=False):
            order = OLDEST if oldest else YOUNGEST
        case InOrder(order=eviction.random_order, sparing_last=False):
            order = RANDOM
        case _:
            raise _unknown(lineup, "chooses")
    if lineup.filters != filters.ALL or lineup.draws:
        raise _unknown(lineup, "chooses")
    spot_weigher, _ = _weigher(lineup, lineup.spot_weighers)
    weigher, factor = _weigher(lineup, lineup.weighers)
    weighted = lineup.ranking is Ranking.WEIGHTED
    return Rules(order, cost, spot_weigher, weigher, weighted, float(lineup.cost_factor), factor)


def is_compiled(lineup: LineUp) -> bool:
    """Return True if the compiled replay knows the line-up."""
    try:
        rules_of(lineup)
    except SpecError:
        return False
    return True


def _unknown(lineup: LineUp, how: str) -> SpecError:
    return SpecError(
        f"no table can be made for the line-up {lineup.name}: replays know none that {how} as it does. "
        "Orders by ByKey, costs by Cost and the weighers of spotfed can be replayed",
        field="lineup",
    )


def _weigher(lineup: LineUp, several: Weighers) -> tuple[int, float]:
    if not several:
        return FIRST, 1.0
    weigher, factor = several[0]
    if len(several) > 1 or factor <= 0 or weigher not in _WEIGHERS:
        raise _unknown(lineup, "weighs")
    return _WEIGHERS[weigher], float(factor)
