"""What a quote rests on: risk and lifetime of a table agree exactly, for any samples."""

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import QuantileTable

# Few distinct values, so that ties are common, and any float, so that nothing hangs on round ones.
durations = st.one_of(st.integers(0, 6).map(float), st.floats(0, 1e7, allow_subnormal=False))
outcomes = st.lists(st.tuples(durations, st.booleans()), max_size=60)
slas = st.one_of(st.sampled_from([0.0, 0.01, 0.05, 0.25, 0.5, 1.0]), st.floats(0, 1))


def distribution(samples: list[tuple[float, bool]]) -> LifetimeDistribution:
    return LifetimeDistribution.from_samples(
        np.array([one[0] for one in samples], np.float64), np.array([one[1] for one in samples], np.bool_)
    )


def assert_agree(curve: LifetimeDistribution, sla: float) -> None:
    survives_s = curve.survives_s(sla)
    assert curve.risk(survives_s) <= sla
    assert 0 <= survives_s <= curve.followed_up_s
    longer = math.nextafter(survives_s, math.inf)
    assert not curve.has_evidence(longer) or curve.risk(longer) > sla, "a longer lifetime keeps the promise"


@given(outcomes, slas)
def test_the_longest_lifetime_keeps_the_promise_and_is_the_longest(samples, sla):
    assert_agree(distribution(samples), sla)


@given(outcomes, outcomes, st.floats(0, 1, exclude_min=True), slas)
def test_so_it_is_for_interpolated_conditions(lower, upper, weight, sla):
    assert_agree(LifetimeDistribution.mixture(distribution(lower), distribution(upper), weight), sla)
    assert_agree(LifetimeDistribution.mixture(None, distribution(upper), weight), sla)


@given(outcomes, st.lists(st.floats(0, 2e7), min_size=2, max_size=20))
def test_risk_never_falls_with_the_lifetime(samples, lifetimes):
    curve = distribution(samples)
    risks = curve.risk(np.sort(np.array(lifetimes)))
    assert np.all(np.diff(risks) >= 0)
    assert np.all((risks >= 0) & (risks <= 1))
    assert risks.tolist() == [curve.risk(one) for one in sorted(lifetimes)]


@given(outcomes, slas)
def test_counting_running_ones_as_evicted_is_never_less_careful(samples, sla):
    careful = distribution([(duration, True) for duration, _ in samples])
    assert careful.survives_s(sla) <= distribution(samples).survives_s(sla)


cells = st.dictionaries(
    st.integers(1, 64), st.lists(st.tuples(durations, st.booleans()), min_size=1, max_size=45), max_size=6
)


@given(cells, st.integers(0, 80), slas)
def test_estimates_and_lifetimes_of_a_table_agree(by_slots, free_slots, sla):
    rows = [(slots, *one) for slots, ones in by_slots.items() for one in ones]
    samples = Samples(
        1,
        1e7,
        0,
        np.arange(1, len(rows) + 1),
        np.zeros(len(rows)),
        np.array([row[0] for row in rows], np.int32),
        np.array([row[1] for row in rows], np.float64),
        np.array([row[2] for row in rows], np.bool_),
        np.zeros(len(rows)),
    )
    table = QuantileTable.from_samples([samples], (32, 32), 1e7)
    survives_s = table.survives_s(1, free_slots, sla)
    assert table.estimate(1, free_slots, survives_s).eviction_probability <= sla
    longer = table.estimate(1, free_slots, math.nextafter(survives_s, math.inf))
    assert longer.eviction_probability > sla or not longer.evidence
    assert longer.evidence or longer.eviction_probability == 1.0
    # Every sample is in exactly one cell, and only the lowest may be small: it has none to merge with.
    shown = table.rows()
    assert sum(row["samples"] for row in shown) == len(rows)
    assert all(row["samples"] >= 30 for row in shown[1:])
    spans = [(row["free_slots_from"], row["free_slots_to"]) for row in shown]
    assert all(first <= last for first, last in spans)
    assert all(one[1] < other[0] for one, other in pairwise(spans))
