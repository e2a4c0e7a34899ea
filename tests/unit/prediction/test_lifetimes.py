from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from cloudsim.errors import SpecError
from cloudsim.prediction.lifetimes import LifetimeDistribution


def distribution(*samples: tuple[float, bool]) -> LifetimeDistribution:
    return LifetimeDistribution.from_samples(
        np.array([one[0] for one in samples], np.float64), np.array([one[1] for one in samples], np.bool_)
    )


def textbook(samples: list[tuple[float, bool]], lifetime_s: float) -> Fraction:
    """1 - S(L-): the product over times of death before L of (1 - deaths / at risk), exactly."""
    surviving = Fraction(1)
    for time in sorted({duration for duration, evicted in samples if evicted and duration < lifetime_s}):
        died = sum(1 for duration, evicted in samples if evicted and duration == time)
        at_risk = sum(1 for duration, _ in samples if duration >= time)
        surviving *= 1 - Fraction(died, at_risk)
    return 1 - surviving


def test_against_a_published_curve():
    """6-MP against placebo, the 6-MP arm: Freireich et al. 1963, S(t) as every textbook has it."""
    durations = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
    relapsed = [1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    curve = LifetimeDistribution.from_samples(np.array(durations, np.float64), np.array(relapsed, np.bool_))
    surviving = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}
    for week, published in surviving.items():
        assert 1 - curve.risk(week + 0.5) == pytest.approx(published, abs=0.0006)
    assert curve.risk(6.0) == 0.0  # strictly before
    assert curve.followed_up_s == 35.0
    assert (curve.samples, curve.evictions) == (21, 9)
    assert curve.survives_s(0.25) == 13.0  # risk .247 up to and including week 13
    assert curve.survives_s(0.6) == 35.0


def test_against_the_definition_on_random_samples():
    for seed in range(200):
        generator = np.random.default_rng(seed)
        count = int(generator.integers(1, 40))
        durations = generator.integers(0, 15, count).astype(float)  # many ties, some of 0
        evicted = generator.random(count) < generator.random()
        samples = list(zip(durations.tolist(), evicted.tolist(), strict=True))
        curve = LifetimeDistribution.from_samples(durations, evicted)
        for lifetime_s in np.arange(0, durations.max() + 0.5, 0.5):
            if lifetime_s <= curve.followed_up_s:
                exact = float(textbook(samples, lifetime_s))
                assert curve.risk(lifetime_s) == pytest.approx(exact, abs=1e-12), f"seed {seed}"


def test_against_scipy():
    """Another implementation of the estimator."""
    for seed in range(20):
        generator = np.random.default_rng(seed)
        durations = np.round(generator.exponential(100.0, 300), 0) + 1
        evicted = generator.random(300) < 0.6
        curve = LifetimeDistribution.from_samples(durations, evicted)
        theirs = stats.ecdf(stats.CensoredData.right_censored(durations, ~evicted)).sf
        times = np.arange(0.5, durations.max(), 1.0)  # between the steps: S(t-) = S(t)
        assert np.allclose(1 - curve.risk(times), theirs.evaluate(times), atol=1e-12)


def test_a_death_comes_before_a_censoring_of_the_same_length():
    assert distribution((5.0, True), (5.0, False)).risk(5.0) == 0.0
    both = distribution((5.0, True), (5.0, False), (9.0, False))
    assert both.risk(6.0) == pytest.approx(1 / 3)


def test_beyond_the_last_time_followed_up_the_risk_is_one():
    curve = distribution((5.0, False), (3.0, False))
    assert curve.risk(5.0) == 0.0
    assert curve.has_evidence(5.0)
    after = float(np.nextafter(5.0, 6.0))
    assert curve.risk(after) == 1.0
    assert not curve.has_evidence(after)
    assert curve.survives_s(1.0) == curve.survives_s(0.0) == 5.0


def test_nothing_known():
    curve = LifetimeDistribution.from_samples(np.empty(0), np.empty(0, np.bool_))
    assert curve.risk(0.0) == 0.0
    assert curve.risk(1e-9) == 1.0
    assert curve.survives_s(0.5) == curve.followed_up_s == 0.0
    assert curve.samples == curve.evictions == 0


def test_all_evicted():
    curve = distribution((1.0, True), (2.0, True))
    assert curve.risk(1.5) == 0.5
    assert curve.survives_s(0.5) == 2.0
    assert curve.survives_s(0.49) == 1.0
    assert curve.survives_s(1.0) == 2.0


def test_a_whole_array_of_lifetimes():
    curve = distribution((1.0, True), (2.0, True), (4.0, False), (4.0, False))
    lifetimes = np.array([0.0, 1.0, 1.5, 2.5, 4.0, 4.5, -1.0])
    assert curve.risk(lifetimes).tolist() == [curve.risk(one) for one in lifetimes.tolist()]
    assert curve.risk(lifetimes).tolist() == [0.0, 0.0, 0.25, 0.5, 0.5, 1.0, 0.0]


@pytest.mark.parametrize("durations", [[-1.0], [float("nan")], [float("inf")]])
def test_durations_that_are_none(durations):
    with pytest.raises(SpecError, match="durations"):
        LifetimeDistribution.from_samples(np.array(durations), np.array([True]))


def test_columns_of_different_lengths():
    with pytest.raises(SpecError, match="outcomes"):
        LifetimeDistribution.from_samples(np.array([1.0]), np.array([True, False]))


@pytest.mark.parametrize("sla", [-0.1, 1.1, float("nan")])
def test_an_sla_is_a_probability(sla: float):
    with pytest.raises(SpecError, match="SLA"):
        distribution((1.0, True)).survives_s(sla)


def test_mixture_is_linear_in_the_risk_and_followed_up_as_far_as_both():
    short = distribution((1.0, True), (5.0, False))
    long = distribution((2.0, True), (9.0, False), (9.0, False), (9.0, False))
    mixture = LifetimeDistribution.mixture(short, long, 0.25)
    for lifetime_s in (0.5, 1.0, 1.5, 2.0, 2.5, 5.0):
        expected = 0.75 * short.risk(lifetime_s) + 0.25 * long.risk(lifetime_s)
        assert mixture.risk(lifetime_s) == pytest.approx(expected)
    assert mixture.risk(6.0) == 1.0
    assert not mixture.has_evidence(6.0)
    assert mixture.samples == 2  # of the one with fewer


def test_mixture_with_certain_eviction():
    curve = distribution((2.0, True), (9.0, False))
    mixture = LifetimeDistribution.mixture(None, curve, 0.75)
    assert mixture.risk(0.0) == 0.0
    assert mixture.risk(1.0) == 0.25
    assert mixture.risk(3.0) == pytest.approx(0.25 + 0.75 * 0.5)
    assert mixture.survives_s(0.2) == 0.0
    assert mixture.survives_s(0.25) == 2.0
