"""Jobs in markets of any prices: lifetimes as counted one by one; jobs end once and pay for it all."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.jobs.job import IMMEDIATE, OVERHEADS, Job
from cloudsim.jobs.planner import POLICIES, CostAware
from cloudsim.jobs.replicas import Replicate
from cloudsim.jobs.simulation import simulate_job
from cloudsim.jobs.world import World
from cloudsim.markets.billing import Billing
from cloudsim.markets.revocation import START_EVERY_S, PriceHistory, PriceWindow

NAN = float("nan")
HOUR = 3600.0


@st.composite
def histories(draw: st.DrawFn, hours: int = 12, unknown: bool = True) -> PriceHistory:
    """Prices of a tenth to five times on-demand, which change at whole minutes."""
    minutes = draw(st.lists(st.integers(1, hours * 60), unique=True, max_size=14))
    at_s = np.array([0, *sorted(minutes)], dtype=np.float64) * 60.0
    levels = st.sampled_from([0.1, 0.2, 0.4, 0.9, 5.0, *([NAN] if unknown else [])])
    prices = draw(st.lists(levels, min_size=len(at_s), max_size=len(at_s)))
    prices[0] = draw(st.sampled_from([0.1, 0.2, 5.0]))
    return PriceHistory(f"m{draw(st.integers(0, 9))}", at_s, np.array(prices))


def one_by_one(
    one: PriceHistory, now_s: float, window_s: float, bid: float, wall_s: float
) -> tuple[float, float, float]:
    """(P, M, C) as docs/design/batch-jobs.md defines them: each start is followed through the recorded
    prices.
    """
    begin_s, lives, ends = now_s - window_s, [], []
    ends_s = np.append(one.at_s[1:], np.inf)
    for number in range(math.ceil(window_s / START_EVERY_S)):
        start_s = begin_s + number * START_EVERY_S
        record = int(np.searchsorted(one.at_s, start_s, side="right")) - 1
        if record < 0 or not one.price[record] <= bid:
            continue
        while record + 1 < len(one.price) and ends_s[record] < now_s and one.price[record + 1] <= bid:
            record += 1
        end_s = min(float(ends_s[record]), now_s)
        revoked = end_s < now_s and not math.isnan(one.price[record + 1])
        if revoked and end_s - start_s <= wall_s:
            lives.append(end_s - start_s)
            ends.append(True)
        elif end_s - start_s >= wall_s:
            lives.append(wall_s)
            ends.append(False)
    low = np.clip(one.at_s, begin_s, now_s)
    length_s = np.clip(ends_s, begin_s, now_s) - low
    known = one.price <= bid
    price = (
        float((one.price * length_s)[known].sum() / length_s[known].sum()) if length_s[known].sum() else NAN
    )
    if not lives:
        return NAN, NAN, price
    return sum(ends) / len(ends), sum(lives) / len(lives), price


@given(
    st.lists(histories(), min_size=1, max_size=4),
    st.integers(1, 14 * 60),
    st.integers(1, 14 * 60),
    st.sampled_from([0.15, 0.2, 0.5, 1.0]),
    st.integers(1, 500),
)
def test_the_odds_of_a_window_are_those_of_its_starts(
    markets: list[PriceHistory], now_min: int, window_min: int, bid: float, wall_min: int
) -> None:
    now_s, window_s, wall_s = now_min * 60.0, window_min * 60.0, wall_min * 60.0
    known = PriceWindow(
        markets, now_s, on_demand=1.0, memory_gb=np.full(len(markets), np.inf), window_s=window_s
    )
    odds = known.odds(np.full(len(markets), bid), wall_s, 1)
    for number, one in enumerate(markets):
        expected = one_by_one(one, now_s, window_s, bid, wall_s)
        found = (odds.revoked[number], odds.running_s[number], odds.price[number])
        assert found == pytest.approx(expected, nan_ok=True), one.price


POLICY = st.sampled_from(
    [*POLICIES, CostAware("replicas", (Replicate(),)), CostAware("waits", (Replicate(waits=True),))]
)


@given(
    st.lists(histories(unknown=False), min_size=1, max_size=3),
    POLICY,
    st.builds(
        Job,
        st.floats(60.0, 30_000.0),
        st.floats(0.5, 12.0),
        io_share=st.floats(0.0, 1.0),
        disk_gb=st.floats(0.0, 20.0),
        idempotent=st.booleans(),
        instances=st.integers(1, 3),
    ),
    st.sampled_from([OVERHEADS, IMMEDIATE]),
    st.sampled_from(list(Billing)),
    st.integers(0, 12 * 60),
)
def test_every_job_ends_once_and_pays_for_what_it_used(
    markets: list[PriceHistory], policy: CostAware, job: Job, overheads, billing: Billing, at_min: int
) -> None:
    world = World(markets, 1.0, billing=billing)
    outcome = simulate_job(job, policy, world, at_min * 60.0, overheads)
    assert outcome.time_s >= job.work_s * (1 - 1e-9), "nothing is faster than on-demand"
    if billing is Billing.CONTINUOUS:
        assert outcome.cost_usd >= 0.1 * job.instances * job.work_s / HOUR * (1 - 1e-9), "nothing is free"
    assert outcome.attempts[0].start_s == outcome.submitted_s
    assert outcome.attempts[-1].end_s == outcome.finished_s
    for before, after in pairwise(outcome.attempts):
        assert before.end_s == after.start_s
    for attempt in outcome.attempts:
        if not job.idempotent:
            assert attempt.mechanism in {"migrate", "on-demand"}
        if job.instances > 1:
            assert attempt.mechanism in {"replicate", "backup", "on-demand"}
        for charge in attempt.charges:
            assert charge.usd >= 0
            assert charge.instances == job.instances
            assert charge.start_s <= charge.end_s
