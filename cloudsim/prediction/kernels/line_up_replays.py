"""Line-ups as codes, and the state of a replay, as the compiled replays of a line-up read them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.errors import SpecError
from cloudsim.scheduling import filters, lineups, weighers
from cloudsim.scheduling.lineups import LineUp, Ranking, Weighers

#: Weighers.
FIRST: Final = 0
LAST: Final = 1
FULLEST: Final = 2
EMPTIEST: Final = 3

#: Orders of victims, and costs.
YOUNGEST: Final = 0
OLDEST: Final = 1
RANDOM: Final = 2
WEAKEST: Final = 3
PARTIAL_HOUR: Final = 4
LOST_WORK: Final = 5
ONE_EACH: Final = 6
BROKEN_PROMISES: Final = 7
FIRST_COST: Final = PARTIAL_HOUR


class Rules(NamedTuple):
    """A line-up as codes: who leaves, which weigher places spot and all others, and how the node is chosen
    whose victims cost least: by the sum of both, stretched, or by the cost first."""

    victims: int
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
    """

    cores: int
    further: NDArray[np.int64]
    sla: float


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
_VICTIMS = {
    lineups.YOUNGEST_JOB_FIRST.victims: YOUNGEST,
    lineups.OLDEST_JOB_FIRST.victims: OLDEST,
    lineups.RANDOM_VICTIMS.victims: RANDOM,
    lineups.WEAKEST_PROMISE_FIRST.victims: WEAKEST,
    lineups.PARTIAL_HOUR.victims: PARTIAL_HOUR,
    lineups.LEAST_LOST_WORK.victims: LOST_WORK,
    lineups.FEWEST_VICTIMS.victims: ONE_EACH,
    lineups.PROMISE_KEEPING.victims: BROKEN_PROMISES,
}


def rules_of(lineup: LineUp) -> Rules:
    """The line-up as codes. Raises SpecError where replays know no such rule."""
    if lineup.victims not in _VICTIMS or lineup.filters != filters.ALL or lineup.draws:
        raise SpecError(f"predictions know no line-up that chooses as {lineup.name} does", field="lineup")
    spot_weigher, _ = _weigher(lineup, lineup.spot_weighers)
    weigher, factor = _weigher(lineup, lineup.weighers)
    weighted = lineup.ranking is Ranking.WEIGHTED
    return Rules(_VICTIMS[lineup.victims], spot_weigher, weigher, weighted, float(lineup.cost_factor), factor)


def _weigher(lineup: LineUp, several: Weighers) -> tuple[int, float]:
    if not several:
        return FIRST, 1.0
    weigher, factor = several[0]
    if len(several) > 1 or factor <= 0 or weigher not in _WEIGHERS:
        raise SpecError(f"predictions know no line-up that weighs as {lineup.name} does", field="lineup")
    return _WEIGHERS[weigher], float(factor)
