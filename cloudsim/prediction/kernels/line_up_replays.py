"""What the replays of a line-up are made of (``lineup_kernel.py``), and line-ups as codes."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.errors import SpecError
from cloudsim.scheduling import filters, weighers
from cloudsim.scheduling.eviction import Cost
from cloudsim.scheduling.lineups import LineUp, Ranking, Weighers
from cloudsim.scheduling.victims import Cheapest, InOrder

#: Weighers.
FIRST: Final = 0
LAST: Final = 1
FULLEST: Final = 2
EMPTIEST: Final = 3

#: In ``Rules.order``: victims are chosen by what they cost.
BY_COST: Final = -1
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
    """The virtual instance: what it needs, int64[further resources], and the SLA that it was promised."""

    cores: int
    further: NDArray[np.int64]
    sla: float


class ExtraResources(NamedTuple):
    """What a replay is beside ``Replays``; one row a replay.

    further: int64[rows, further resources, nodes], free amounts. birth_s: float64, of the virtual instance.
    draw: uint64, its place in the random order.
    """

    further: NDArray[np.int64]
    birth_s: NDArray[np.float64]
    draw: NDArray[np.uint64]


class EventDetails(NamedTuple):
    """What is known of a chunk beside ``Events``.

    By event: time_s, float64; labels, int64, a row of ``masks``; group, int64; spread, int8. By slot number:
    further, int64[slots, further resources]; slot_group, int64. masks: bool[label sets, nodes], which nodes
    have them all.
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

    amounts: int64[places + 1, resources], cores first; the last row is the virtual instance. start_s, sla:
    float64. order: int64, places in the order in which they leave. Of a random order also draw, later_draw:
    uint64, each one's place in it; later_draw and later_order if it starts after the virtual instance and has
    the next higher number therefore.
    """

    slot: NDArray[np.int32]
    ordinal: NDArray[np.int64]
    amounts: NDArray[np.int64]
    start_s: NDArray[np.float64]
    sla: NDArray[np.float64]
    order: NDArray[np.int64]
    draw: NDArray[np.uint64]
    later_order: NDArray[np.int64]
    later_draw: NDArray[np.uint64]


class Replay(NamedTuple):
    """One replay: rows of ``Replays`` and ``ExtraResources``."""

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
        case InOrder(compiled=int(order), sparing_last=False):
            pass
        case _:
            raise _unknown(lineup, "chooses")
    if lineup.filters != filters.ALL or lineup.draws:
        raise _unknown(lineup, "chooses")
    spot_weigher, _ = _weigher(lineup, lineup.spot_weighers)
    weigher, factor = _weigher(lineup, lineup.weighers)
    weighted = lineup.ranking is Ranking.WEIGHTED
    return Rules(order, cost, spot_weigher, weigher, weighted, float(lineup.cost_factor), factor)


def _unknown(lineup: LineUp, how: str) -> SpecError:
    return SpecError(f"predictions know no line-up that {how} as {lineup.name} does", field="lineup")


def _weigher(lineup: LineUp, several: Weighers) -> tuple[int, float]:
    if not several:
        return FIRST, 1.0
    weigher, factor = several[0]
    if len(several) > 1 or factor <= 0 or weigher not in _WEIGHERS:
        raise _unknown(lineup, "weighs")
    return _WEIGHERS[weigher], float(factor)
