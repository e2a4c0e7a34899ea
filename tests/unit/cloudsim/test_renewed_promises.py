"""Promises of extensions are kept where they move an instance in the order, or keep its place in a stack."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec, sampler_spec
from cloudsim.model.changes import Change, End, Ended, Extended
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind, Request
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.scheduling.lineups import EVICTIONS
from tests.unit.workers.test_products_replay import HOUR_S, load

SLA, DAYS = 0.1, 5.0


def extended_once(eviction: str, seed: int) -> list[bool]:
    """Every instance asks, from a random age on, until it has been promised a later end: who was evicted."""
    spec = CloudSpec("A", (8,) * 5, lineup=EVICTIONS[eviction])
    pools, generator = spec.products.pools, np.random.default_rng(seed)
    cloud = Cloud(spec, load("own", seed, DAYS, 6.0, [1], 5.0))
    predictor = LocalPredictor(sampler_spec(spec, seed, 200), pools.flavours if pools else [1])
    spot = load("spot", seed + 50, DAYS, 6.0, [1], 2.0)
    asks_s: dict[str, float] = {}
    until_s: dict[str, float] = {}
    evicted_s: dict[str, float] = {}

    def note(changes: list[Change]) -> None:
        for change in changes:
            if isinstance(change, Ended) and change.how is End.EVICTED:
                evicted_s[change.instance.id] = change.at_s

    for row, (now_s, stop_s) in enumerate(zip(spot.start_s.tolist(), spot.stop_s.tolist(), strict=True)):
        note(cloud.advance(now_s))
        due_s = cloud.table_due_s(now_s)
        if due_s is not None:
            cloud.table = predictor.table(cloud.history.cut(due_s), due_s)
        for one in cloud.inventory.spot():
            if one.id not in until_s and now_s >= asks_s[one.id]:
                later_s = one.end_s + float(generator.exponential(2 * HOUR_S))
                changes = cloud.extend(one.id, later_s, now_s, SLA)
                asks_s[one.id] = now_s + HOUR_S / 2
                if not isinstance(changes, Refusal):
                    (change,) = changes
                    assert isinstance(change, Extended)
                    assert (change.instance.renewed_at_s == now_s) == spec.lineup.renews
                    until_s[one.id] = later_s
        wish = Request(f"s{row}", Kind.SPOT, 1, stop_s - now_s, 0.2, "x")
        if not isinstance(cloud.admit(wish, now_s), Refusal):
            asks_s[wish.id] = now_s + float(generator.exponential(HOUR_S))
    note(cloud.advance(math.inf, 0))
    cloud.inventory.validate()
    return [evicted_s.get(one, math.inf) < end_s for one, end_s in until_s.items()]


@pytest.mark.parametrize("eviction", ["lifo-recency", "fifo", "lifo-pools"])
def test_extensions_are_kept(eviction: str) -> None:
    broken = [one for seed in range(3) for one in extended_once(eviction, seed)]
    assert len(broken) > 250
    assert np.mean(broken) <= SLA
