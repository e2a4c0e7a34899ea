"""Test beds: a seed gives a cloud's on-demand load and the spot requests sent to it.

See docs/design/prediction.md "Test beds".

On-demand and spot requests come from two generators keyed (seed, 1) and (seed, 2), so that one can be changed
without the other. A replay delays the spot requests by ``SPOT_DELAY_S`` (P2 §3.1). Requests that would then
come after the last on-demand request are left out: the cloud drains for hours after its last arrival, and
everything admitted then is safe (with them, the baseline on the synthetic bed admits .723 and evicts .360
instead of .708 and .386).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cloudsim.experiments.experiment import Row
from cloudsim.experiments.runs import SPOT_DELAY_S, single_cloud_row
from cloudsim.model.errors import SpecError
from cloudsim.traces.synthesis import Sizes, arrival_mu_for_load, bursty_trace, lognormal_trace
from cloudsim.traces.trace import Trace

_ON_DEMAND, _SPOT = 1, 2  # keys of the two random streams of a seed

_SYNTHETIC_HOURS = 240.0
_SYNTHETIC_GAP_S = math.exp(4)  # Table I as settled: exp(3.5 + 1/2)

_MIXED_NODES, _MIXED_CORES = "12x16", 12 * 16
_MIXED_HOURS = 30 * 24.0
_MIXED_SIZES: Sizes = ((1, 2, 4, 8, 12), (0.4, 0.25, 0.2, 0.1, 0.05))
_MIXED_MU, _MIXED_SIGMA = 8.0, 1.5  # of durations
_MIXED_LOAD = 0.6

_LONG_LIVED_HOURS = 60 * 24.0


@dataclass(frozen=True)
class Bed:
    """One draw of a test bed. nodes: the cloud's shape as written, for example "8x4"."""

    name: str
    nodes: str
    on_demand: Trace
    spot: Trace

    def row(self, **options: Any) -> Row:
        """Run the bed and return its row; ``options`` are the others of ``single_cloud_row``."""
        return single_cloud_row(
            pair=self.name, nodes=self.nodes, on_demand=self.on_demand, spot=self.spot, **options
        )


@dataclass(frozen=True)
class _Batches:
    """Arrivals in batches: their share of all arrivals, and the smallest and largest size."""

    share: float
    sizes: tuple[int, int]


_BATCHES = _Batches(0.02, (2, 14))
_MIXED_BATCHES = _Batches(0.03, (2, 10))


def _base_per_minute(mean_gap_s: float, batches: _Batches) -> float:
    """Return arrivals a minute, batches counted once, for an instance every ``mean_gap_s`` on average."""
    mean_batch = sum(batches.sizes) / 2
    return 60 / mean_gap_s / (1 + batches.share * (mean_batch - 1))


def _streams(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    return np.random.default_rng([seed, _ON_DEMAND]), np.random.default_rng([seed, _SPOT])


def _bed(name: str, nodes: str, hours: float, on_demand: Trace, spot: Trace) -> Bed:
    return Bed(name, nodes, on_demand, spot.until(hours * 3600 - SPOT_DELAY_S))


def synthetic(seed: int, hours: float = _SYNTHETIC_HOURS) -> Bed:
    """Draw P2's Figure 1: 8 nodes of 4 cores, 240 h of single-core instances, parameters of Table I."""
    for_on_demand, for_spot = _streams(seed)
    return _bed(
        "synthetic", "8x4", hours,
        lognormal_trace(for_on_demand, hours=hours, name="on-demand"),
        lognormal_trace(for_spot, hours=hours, name="spot"),
    )  # fmt: skip


def bursts(seed: int, hours: float = _SYNTHETIC_HOURS) -> Bed:
    """Draw the synthetic bed under bursts and change points.

    Each load has an Ornstein-Uhlenbeck process and batches of its own: federated users have rush hours too,
    but others. The daily cycle and the change points, at a third and two thirds of either trace, are common
    to both. docs/design/prediction.md leaves the base rate open. Here the mean load before the first change
    point is that of the synthetic bed, so that batches gather arrivals instead of adding to them.
    """
    for_on_demand, for_spot = _streams(seed)
    base_per_minute = _base_per_minute(_SYNTHETIC_GAP_S, _BATCHES)
    return _bed(
        "bursts", "8x4", hours,
        bursty_trace(for_on_demand, hours=hours, base_per_minute=base_per_minute, name="on-demand"),
        bursty_trace(for_spot, hours=hours, base_per_minute=base_per_minute, name="spot"),
    )  # fmt: skip


def _mixed_arrival_mu() -> float:
    return arrival_mu_for_load(
        _MIXED_LOAD, _MIXED_CORES, duration_mu=_MIXED_MU, duration_sigma=_MIXED_SIGMA, cores=_MIXED_SIZES
    )


def mixed(seed: int, hours: float = _MIXED_HOURS) -> Bed:
    """Draw 12 nodes of 16 cores, 30 days, five sizes; each kind of request alone would fill .6 of it."""
    arrival_mu = _mixed_arrival_mu()
    on_demand, spot = (
        lognormal_trace(
            generator, hours=hours, arrival_mu=arrival_mu, duration_mu=_MIXED_MU,
            duration_sigma=_MIXED_SIGMA, cores=_MIXED_SIZES, name=name,
        )
        for name, generator in zip(("on-demand", "spot"), _streams(seed), strict=True)
    )  # fmt: skip
    return _bed("mixed", _MIXED_NODES, hours, on_demand, spot)


def mixed_bursts(seed: int, hours: float = _MIXED_HOURS) -> Bed:
    """Draw the mixed bed under bursts: OU memory 3 h, 3 % batches of 2 to 10, change points × 1.2 and × .8.

    The base rate keeps the mean load of ``mixed`` before the first change point, as in ``bursts``.
    """
    base_per_minute = _base_per_minute(math.exp(_mixed_arrival_mu() + 1 / 2), _MIXED_BATCHES)
    on_demand, spot = (
        bursty_trace(
            generator, hours=hours, base_per_minute=base_per_minute, ou_memory_s=3 * 3600.0,
            change_points=((1 / 3, 1.2), (2 / 3, 0.8)), batch_share=_MIXED_BATCHES.share,
            batch_sizes=_MIXED_BATCHES.sizes, duration_mu=_MIXED_MU, duration_sigma=_MIXED_SIGMA,
            cores=_MIXED_SIZES, name=name,
        )
        for name, generator in zip(("on-demand", "spot"), _streams(seed), strict=True)
    )  # fmt: skip
    return _bed("mixed-bursts", _MIXED_NODES, hours, on_demand, spot)


def long_lived(seed: int, hours: float = _LONG_LIVED_HOURS) -> Bed:
    """Draw 8 nodes of 4 cores, 60 days of instances that run for 17 hours on average.

    Half of it is full of on-demand instances, and room is seldom short: nearly all samples still run when
    the history ends, so that it matters how they are counted.
    Peaks that no history has shown break a strict .01 in a third of the draws, and no rule that was tried
    keeps it in 38 of 40 (docs/design/prediction.md "The rule of evidence").
    """
    mu, sigma = 10.5, 1.0
    on_demand, spot = (
        lognormal_trace(
            generator, hours=hours, duration_mu=mu, duration_sigma=sigma, name=name,
            arrival_mu=arrival_mu_for_load(load, 8 * 4, duration_mu=mu, duration_sigma=sigma),
        )
        for name, load, generator in zip(("on-demand", "spot"), (0.5, 0.2), _streams(seed), strict=True)
    )  # fmt: skip
    return _bed("long-lived", "8x4", hours, on_demand, spot)


#: Name of a bed → function that draws it from a seed and a length in hours.
BEDS: dict[str, Callable[..., Bed]] = {
    "synthetic": synthetic,
    "bursts": bursts,
    "mixed": mixed,
    "mixed-bursts": mixed_bursts,
    "long-lived": long_lived,
}

#: Beds whose instances all have one core: their tables are exact, whatever the number of births.
ONE_SIZE = frozenset({"synthetic", "bursts", "long-lived"})


def draw(name: str, seed: int, hours: float | None = None) -> Bed:
    """Draw a bed by name; ``hours`` None takes the bed's own length.

    Raises
    ------
    SpecError
        When no bed has this name.
    """
    if name not in BEDS:
        raise SpecError(f"{name!r} is not one of {', '.join(BEDS)}", field="bed")
    return BEDS[name](seed) if hours is None else BEDS[name](seed, hours)


def seeds(full: Sequence[int], quick: bool, few: int = 2) -> Sequence[int]:
    """Return all seeds of an experiment, or the first few."""
    return full[:few] if quick else full
