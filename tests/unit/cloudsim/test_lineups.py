"""Every line-up that can promise has a compiled form, and both forms weigh alike."""

from __future__ import annotations

import numpy as np
import pytest

from cloudsim.prediction.kernels.line_up_replays import rules_of
from cloudsim.scheduling.eviction import Cost, cost_of
from cloudsim.scheduling.lineups import EVICTIONS, LIFO_POOLS, LINEUPS, LineUp
from cloudsim.scheduling.victims import Cheapest
from cloudsim.scheduling.victims_kernel import cost_of_rows

REPLAYED = {lineup.name: lineup for lineup in (*LINEUPS, *EVICTIONS.values()) if lineup is not LIFO_POOLS}
COSTS = {lineup.name: lineup.victims.cost for lineup in LINEUPS if isinstance(lineup.victims, Cheapest)}


@pytest.mark.parametrize("lineup", REPLAYED.values(), ids=REPLAYED)
def test_a_line_up_has_a_compiled_form(lineup: LineUp) -> None:
    rules_of(lineup)


@pytest.mark.parametrize("cost", [*COSTS.values(), Cost(1.0, 2.0, 3.0, 4.0)], ids=[*COSTS, "all"])
def test_plain_and_compiled_costs_are_equal(cost: Cost) -> None:
    generator = np.random.default_rng(1)
    run_s, cores = generator.uniform(0, 1e6, 200), generator.integers(1, 64, 200)
    run_s[:4] = 0.0, 3600.0, 7200.0, 3599.9999999999995
    sla = generator.choice([0.0, 1e-13, 0.01, 0.05, 0.99, 1.0], 200)
    plain = np.rint(cost_of(cost, run_s, cores, sla) * 1000)
    assert plain.tolist() == cost_of_rows(tuple(cost), 0.0, 200, -run_s, sla, cores[:, None]).tolist()
    assert (plain >= 0).all()
