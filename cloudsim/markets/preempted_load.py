"""The own load of a public cloud, of which nobody outside sees more than that it takes spot back.

So its own users are one on-demand request for each node, of all cores of the node, for as long as spot is not
to be had. Then all spot leaves at once, as the instances of one market do. The rest of the product sees an
ordinary cloud: its tables, promises and evictions follow from this load.

A last request of one core and no length marks the end of what is known, so that a replay, which ends with the
loads of its clouds, goes on until then.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cloudsim.markets.prices import FloatArray, PriceSeries
from cloudsim.markets.revocation import PriceHistory
from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import Survival
from cloudsim.traces.trace import Trace

_DAY_S = 86_400.0


def priced_load(series: PriceSeries, bid_usd_per_hour: float, node_cores: Sequence[int]) -> Trace:
    """Spot is taken back while the price of an instance is above the bid, and while it is unknown: a gap in
    the recording is no time at which anybody could be sure of an instance.

    Time 0 is the first known price, ``PriceHistory.at_s[0]`` in unix seconds.
    """
    history = PriceHistory.of(series)
    taken = np.concatenate([[False], ~(history.price[:-1] <= bid_usd_per_hour), [False]])  # NaN: unknown
    edges = np.flatnonzero(taken[1:] != taken[:-1])
    at_s = history.at_s - history.at_s[0]
    return _load(series.name, at_s[edges[::2]], at_s[edges[1::2]], float(at_s[-1]), node_cores)


def preempted_load(
    rng: np.random.Generator,
    lifetimes: Survival,
    node_cores: Sequence[int],
    *,
    days: float,
    taken_s: float,
    name: str = "preempted",
) -> Trace:
    """A renewal process: the cloud is free for a lifetime, then taken for ``taken_s`` seconds, and again.

    An instance that starts when the cloud becomes free lives as long as those that were observed; who starts
    later lives what is left of it. Assumed is that lifetimes do not depend on each other, on the hour or on
    the day, that all nodes are taken at once (independent machines are clouds of one node with seeds of their
    own), and how long a machine then is with others, which preemptions do not tell. Whole seconds.

    Raises SpecError where the lifetimes hold no evidence.
    """
    if lifetimes.mean_s <= 0:
        raise SpecError("no lifetime is known", field="lifetimes")
    end_s = days * _DAY_S
    starts_s: list[float] = []
    at_s = 0.0
    while True:
        at_s += max(float(np.rint(lifetimes.quantile_s(float(rng.uniform())))), 1.0)
        if at_s >= end_s:
            break
        starts_s.append(at_s)
        at_s += taken_s
    start_s = np.array(starts_s)
    return _load(name, start_s, np.minimum(start_s + taken_s, end_s), end_s, node_cores)


def _load(
    name: str, start_s: FloatArray, stop_s: FloatArray, end_s: float, node_cores: Sequence[int]
) -> Trace:
    cores = sorted(node_cores, reverse=True)  # a small one first would take a large node
    nodes, times = len(cores), len(start_s)
    ids = [f"{name.replace(' ', '/')}-{number}-{node}" for number in range(times) for node in range(nodes)]
    return Trace.checked(
        name,
        [*ids, f"{name.replace(' ', '/')}-end"],
        np.append(np.repeat(start_s, nodes), end_s),
        np.append(np.repeat(stop_s, nodes), end_s),
        [*cores * times, 1],
    )
