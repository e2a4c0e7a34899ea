"""What the replays of a line-up are made of (``lineup_kernel.py``), and line-ups as codes."""

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
