"""Make the own load of a public cloud, of which outsiders see only that it takes spot back.

Its own users are one on-demand request for each node, for all cores of the node, for as long as no spot is
sold. Then all spot leaves at once, as the instances of one market do. The rest of the product sees an
ordinary cloud: its tables, promises and evictions follow from this load.

A last request of one core and no length marks the end of what is known: a replay ends with the loads of its
clouds, and so goes on until then.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cloudsim.markets.prices import PriceSeries
from cloudsim.markets.revocation import PriceHistory
from cloudsim.model.arrays import FloatArray
from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import Survival
from cloudsim.traces.trace import Trace

_DAY_S = 86_400.0


def priced_load(series: PriceSeries, bid_usd_per_hour: float, node_cores: Sequence[int]) -> Trace:
    """Make the load of a cloud that takes spot back while the price is above the bid or unknown.

    A gap in the recording counts as unknown: nobody could be sure of an instance then. Time 0 is the first
    known price, ``PriceHistory.at_s[0]`` in unix seconds.

    Parameters
    ----------
    bid_usd_per_hour
        Bid for an instance, US dollars an hour.
    node_cores
        Cores of each node of the cloud.
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
    """Make a renewal process: the cloud is free for a lifetime, then taken for ``taken_s`` seconds.

    An instance that starts when the cloud becomes free lives as long as those that were observed; one that
    starts later lives for the rest of that. Assumed is that lifetimes do not depend on each other, on the
    hour or on the day, and that all nodes are taken at once (independent machines are clouds of one node with
    their own seeds). Preemptions do not tell for how long a machine is then with others. All times are whole
    seconds.

    Parameters
    ----------
    lifetimes
        Distribution of the lifetimes.
    days
        Length of the load.

    Raises
    ------
    SpecError
        When the lifetimes hold no evidence.
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
