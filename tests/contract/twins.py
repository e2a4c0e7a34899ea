"""Pairs of clouds whose lifetimes differ as much as they can while what is disclosed of them is the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cloudsim.admission.pools import Pools
from cloudsim.disclosure.levels import Disclosure
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import QuantileTable

NODES = (8, 8, 8)
SIZES = (1, 2, 4)
MADE_AT_S = 1e7  # a history of months, so that no SLA is too small for it

#: Seconds that forty instances lived, in the usual conditions: median and one percentile are the same.
_TENTH = ([60.0] * 3 + [600.0] * 2 + [700.0] * 14 + [3600.0] * 4 + [4000.0] * 17,
          [590.0] * 3 + [600.0] * 2 + [3500.0] * 14 + [3600.0] * 4 + [90_000.0] * 17)  # fmt: skip
_NINETIETH = ([60.0] * 18 + [3600.0] * 4 + [3700.0] * 13 + [36_000.0] * 2 + [36_300.0] * 3,
              [3500.0] * 18 + [3600.0] * 4 + [35_000.0] * 13 + [36_000.0] * 2 + [172_800.0] * 3)  # fmt: skip
_MEAN = ([1800.0] * 40, [60.0] * 20 + [3540.0] * 20)
LIVES: dict[Disclosure, tuple[Sequence[float], Sequence[float]]] = {
    Disclosure.NOTHING: _NINETIETH,
    Disclosure.MTTR: _MEAN,
    Disclosure.P10: _TENTH,
    Disclosure.P90: _NINETIETH,
    Disclosure.FULL: _NINETIETH,
}


def table_of(lives_s: Sequence[float], nodes: tuple[int, ...] = NODES) -> QuantileTable:
    """With few free slots everybody lives a tenth as long, which is not usual; with many, five times."""
    return QuantileTable.from_samples([_samples(cores, lives_s, nodes) for cores in SIZES], nodes, MADE_AT_S)


def pooled_table_of(lives_s: Sequence[float], pools: Pools) -> QuantileTable:
    """Of a cloud that sells pools: the same at each place in the stack."""
    plain = _samples(1, lives_s, NODES)
    samples = [replace(plain, amounts=amounts) for _, amounts in pools.flavours]
    return QuantileTable.from_samples(samples, NODES, MADE_AT_S)


def _samples(cores: int, lives_s: Sequence[float], nodes: tuple[int, ...]) -> Samples:
    most = sum(node // cores for node in nodes)
    parts = [(1, 0.1, 1), (max(most // 2, 1), 1.0, 2), (most, 5.0, 2)]  # free slots, how long, how often
    slots = np.concatenate([np.full(len(lives_s) * often, free, np.int32) for free, _, often in parts])
    lives = np.concatenate([np.tile(np.array(lives_s) * factor, often) for _, factor, often in parts])
    order = np.argsort(slots, kind="stable")
    count = len(slots)
    return replace(
        Samples.empty(cores, MADE_AT_S),
        number=np.arange(count),
        birth_s=np.zeros(count),
        free_slots=slots[order],
        duration_s=lives[order],
        evicted=np.ones(count, np.bool_),
        span_s=np.zeros(count),
    )
