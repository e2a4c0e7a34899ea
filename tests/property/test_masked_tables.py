"""Coarse tables: never below a risk of the full one, and nothing but the disclosed figures in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudsim.disclosure.levels import SHARES, Disclosure
from cloudsim.disclosure.masked_tables import (
    CoarseTable,
    coarsen_table,
    make_promise_curve,
    select_usual_conditions,
)
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import QuantileTable

NODES = (4, 4, 4, 4, 4)

_sample = st.tuples(st.integers(1, 20), st.integers(0, 50), st.booleans())
_lives = st.lists(_sample, min_size=1, max_size=120)
_levels = st.sampled_from(sorted(SHARES))


def table_of(lives: list[tuple[int, int, bool]], spans: bool = False) -> QuantileTable:
    """Of (free slots, multiples of 100 s lived, evicted)."""
    slots, lived, evicted = zip(*sorted(lives), strict=True)
    count = len(slots)
    samples = replace(
        Samples.empty(1, 1e6),
        number=np.arange(count),
        birth_s=np.zeros(count),
        free_slots=np.array(slots, dtype=np.int32),
        duration_s=100.0 * np.array(lived, dtype=np.float64),
        evicted=np.array(evicted, dtype=np.bool_),
        span_s=np.full(count, 50.0 if spans else 0.0),
    )
    return QuantileTable.from_samples([samples], NODES, 1e6)


@settings(max_examples=150, deadline=None)
@given(lives=_lives, level=_levels, spans=st.booleans())
def test_what_a_coarse_table_promises_the_full_one_would_promise_too(
    lives: list[tuple[int, int, bool]], level: Disclosure, spans: bool
) -> None:
    full = table_of(lives, spans)
    coarse = CoarseTable(full, level)
    least = coarse.least_free_slots(1)
    for free_slots in range(1, 21):
        for lifetime_s in (1.0, 99.0, 100.0, 101.0, 550.0, 2500.0, 4999.0, 5000.0, 5001.0):
            told = coarse.estimate(1, free_slots, lifetime_s)
            if free_slots < least:
                assert not told.evidence
            elif told.evidence:
                real = full.estimate(1, free_slots, lifetime_s)
                assert real.evidence
                assert real.eviction_probability <= told.eviction_probability


@settings(max_examples=150, deadline=None)
@given(lives=_lives, level=_levels)
def test_it_is_made_of_the_disclosed_figures_alone(
    lives: list[tuple[int, int, bool]], level: Disclosure
) -> None:
    coarse = CoarseTable(table_of(lives), level)
    told = coarse.disclosed[1, ()]
    curve = make_promise_curve(told)
    found = coarse.distribution(1, 20)
    if curve is None:
        assert (found, coarse.rows()) == (None, [])
        return
    assert found is not None
    assert (found.ends_s.tolist(), found.risks.tolist()) == (curve.ends_s.tolist(), curve.risks.tolist())
    assert set(found.ends_s.tolist()) <= {told.median_s, told.quantile_s}
    assert set(found.risks.tolist()) <= {0.5, SHARES[level]}
    assert coarse.rows()[0]["quantiles_s"] == dict(zip(found.risks, found.ends_s, strict=True))
    assert coarsen_table(coarse, level) is coarse


@settings(max_examples=100, deadline=None)
@given(lives=_lives)
def test_usual_are_the_conditions_with_most_room_that_hold_half_of_all_births(
    lives: list[tuple[int, int, bool]],
) -> None:
    seen = table_of(lives).conditions((1, ()))
    usual = select_usual_conditions(seen)
    weights = [one.weight for one in seen]
    assert sum(weights) == len(lives)
    assert usual == seen[len(seen) - len(usual) :]
    held = sum(one.weight for one in usual)
    assert held >= len(lives) / 2 > held - usual[0].weight
