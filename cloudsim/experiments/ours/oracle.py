"""The zero-eviction oracle, which knows the future: an upper bound for every admission rule.

It admits the largest number of spot requests so that none is evicted and on-demand requests fare as if there
were no spot instances (docs/design/prediction.md "Upper bounds"). It is exact where all instances have one
size, because nodes do not matter then; for mixed sizes a linear relaxation bounds it from above.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.history.event_log import PHASE_ON_DEMAND, PHASE_SPOT
from cloudsim.history.history import stop_phase
from cloudsim.model.arrays import BoolArray, FloatArray, IntArray
from cloudsim.model.changes import Started
from cloudsim.model.errors import SpecError
from cloudsim.traces.trace import Trace

#: Kind of an event: an on-demand instance stops or starts, a spot instance stops or starts.
_ON_DEMAND_STOP, _ON_DEMAND_START, _SPOT_STOP, _SPOT_START = range(4)


def zero_eviction(on_demand: Trace, spot: Trace, node_cores: Sequence[int]) -> BoolArray:
    """Return which rows of ``spot`` the oracle admits, shape (len(spot),): as many as possible.

    ``spot`` is in the cloud's time (delayed, and without the requests that are not asked). On-demand requests
    are admitted when a slot is free that no on-demand instance holds, as always: spot instances give way.

    From the first event to the last, every spot request is kept until more are kept than there are slots
    left; then the running one that ends last is given up. That is optimal, as each step leaves a best choice
    among those not given up. Suppose one of them still holds x, the running one that ends last. It lacks some
    y that runs as well, for not all of them fit. Take y for x: from now on y needs no slot that x did not
    have, and until now all that were kept fitted, hence so does every part of them.

    Raises
    ------
    SpecError
        When the instances are not all of one size, or no node holds that size.
    """
    slots = _slots(on_demand, spot, node_cores)
    events = [*_events(on_demand, _ON_DEMAND_START, _ON_DEMAND_STOP), *_events(spot, _SPOT_START, _SPOT_STOP)]
    events.sort()
    kept = np.ones(len(spot), dtype=np.bool_)
    served: set[int] = set()  # rows of running on-demand instances
    running = 0
    latest: list[tuple[float, int, int]] = []  # heap of (-stop, -phase, row) of spot, some of them ended
    for at_s, _, row, kind in events:
        if kind == _ON_DEMAND_STOP:
            served.discard(row)
        elif kind == _SPOT_STOP:
            running -= int(kept[row])
        elif kind == _SPOT_START:
            running += 1
            stop_s = float(spot.stop_s[row])
            heapq.heappush(latest, (-stop_s, -stop_phase(at_s, stop_s), row))
        elif len(served) < slots:
            served.add(row)
        if running + len(served) > slots:
            given_up = heapq.heappop(latest)[-1]
            assert spot.stop_s[given_up] >= at_s, "of those not given up, one that runs ends last"
            kept[given_up] = False
            running -= 1
    return kept


def zero_eviction_bound(on_demand: Trace, spot: Trace, node_cores: Sequence[int]) -> float:
    """Return an upper bound of the spot requests of any size that can be admitted without an eviction.

    In the linear relaxation the cloud is one pool of cores, and a part of a request may be admitted. The
    bound is loose, because instances neither span nodes nor can be cut; it is exact for one size, where an
    optimum without cut requests exists (the matrix of intervals is totally unimodular). On-demand instances
    are those of the cloud without spot; ``spot`` is in the cloud's time, and requests larger than a node are
    left out. Needs scipy (``pip install 'spotfed[solvers]'``).

    It is a network flow: cores in use flow from one start of an instance to the next, as many as are free
    there; spot requests are arcs into that flow at their start and out of it at their stop.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix

    spot = spot.select(spot.cores <= max(node_cores))
    if not len(spot):
        return 0.0
    own = Cloud(CloudSpec("alone", tuple(node_cores)), on_demand)
    served = [change.instance for change in own.advance(math.inf) if isinstance(change, Started)]
    served_start_s = np.array([instance.start_s for instance in served])
    served_stop_s = np.array([instance.end_s for instance in served])
    served_cores = np.array([instance.cores for instance in served], dtype=np.int64)
    # The cores in use rise at starts only: at no other time need they be compared with the free ones.
    starts_s = np.unique(np.concatenate((served_start_s, spot.start_s)))
    used = np.zeros(len(starts_s) + 1)
    # An instance that stops in the very instant in which it started is there at that instant.
    np.add.at(used, np.searchsorted(starts_s, served_start_s), served_cores)
    np.add.at(used, _after(starts_s, served_start_s, served_stop_s), -served_cores)
    free = sum(node_cores) - np.cumsum(used)[:-1]
    begins = np.searchsorted(starts_s, spot.start_s)
    ends = _after(starts_s, spot.start_s, spot.stop_s)
    # Unknowns: cores of each spot request, then spot cores in use at each start. One equation for each start:
    # in use here - in use before - begun here + ended since = 0.
    requests, times = np.arange(len(spot)), np.arange(len(starts_s))
    ended = ends < len(starts_s)
    entries = [
        (begins, requests, -1.0),
        (ends[ended], requests[ended], 1.0),
        (times, len(spot) + times, 1.0),
        (times[1:], len(spot) + times[:-1], -1.0),
    ]
    values = np.concatenate([np.full(len(row), value) for row, _, value in entries])
    row = np.concatenate([row for row, _, _ in entries])
    column = np.concatenate([column for _, column, _ in entries])
    balance = csr_matrix((values, (row, column)), shape=(len(starts_s), len(spot) + len(starts_s)))
    solution = linprog(
        np.concatenate((-1.0 / spot.cores, np.zeros(len(starts_s)))),
        A_eq=balance,
        b_eq=np.zeros(len(starts_s)),
        bounds=[(0.0, most) for most in np.concatenate((spot.cores, free)).tolist()],
        method="highs",
    )
    assert solution.status == 0, f"admitting nothing is a solution: {solution.message}"
    return float(-solution.fun)


def _after(times_s: FloatArray, start_s: FloatArray, stop_s: FloatArray) -> IntArray:
    """Return the index of the first time at which an instance is gone, at least one after its start's."""
    index: IntArray = np.maximum(np.searchsorted(times_s, stop_s), np.searchsorted(times_s, start_s) + 1)
    return index


def _slots(on_demand: Trace, spot: Trace, node_cores: Sequence[int]) -> int:
    sizes = np.union1d(on_demand.cores, spot.cores).tolist()
    if len(sizes) != 1:
        raise SpecError(f"the oracle needs instances of one size, not of {sizes}", field="cores")
    slots = sum(cores // sizes[0] for cores in node_cores)
    if slots == 0:
        raise SpecError(f"no node holds {sizes[0]} cores", field="node_cores")
    return int(slots)


def _events(trace: Trace, start: int, stop: int) -> list[tuple[float, int, int, int]]:
    """List (time, phase, row, kind) of a trace's starts and stops.

    See docs/design/prediction.md "Order of events".
    """
    phase = PHASE_ON_DEMAND if start == _ON_DEMAND_START else PHASE_SPOT
    starts_s, stops_s = trace.start_s.tolist(), trace.stop_s.tolist()
    events = [(start_s, phase, row, start) for row, start_s in enumerate(starts_s)]
    events += [
        (stop_s, stop_phase(start_s, stop_s), row, stop)
        for row, (start_s, stop_s) in enumerate(zip(starts_s, stops_s, strict=True))
    ]
    return events
