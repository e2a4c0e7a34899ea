from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from cloudsim.model.errors import SpecError
from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.prediction.rule import Censoring, PredictionRule


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


# -- intervals of births -------------------------------------------------------------------------------------


def of_intervals(*samples: tuple[float, float, bool]) -> LifetimeDistribution:
    """shortest and longest lifetime, whether evicted."""
    shortest, longest, evicted = zip(*samples, strict=True)
    return LifetimeDistribution.from_samples(
        np.array(longest), np.array(evicted), np.subtract(longest, shortest)
    )


def test_intervals_without_censoring_are_shares_of_time():
    curve = of_intervals((0.0, 10.0, True), (5.0, 10.0, True), (8.0, 20.0, True))
    assert curve.ends_s.tolist() == [5.0, 8.0, 10.0, 20.0]
    assert curve.risks.tolist() == pytest.approx([5 / 27, 11 / 27, 17 / 27, 1.0])
    assert (curve.samples, curve.evictions) == (3, 3)


def test_intervals_with_censoring_in_closed_form():
    curve = of_intervals((0.0, 10.0, True), (5.0, 15.0, False))
    # 20 s at risk, 15 s after 5 s; then two leave at a time, one of them by eviction.
    after_5, after_10 = 15 / 20, 15 / 20 * (5 / 15) ** 0.5
    assert curve.ends_s.tolist() == [5.0, 15.0]
    assert curve.risks.tolist() == pytest.approx([1 - after_5, 1 - after_10])
    assert curve.followed_up_s == 15.0
    assert not curve.has_evidence(15.1)


def test_nobody_is_evicted_before_the_shortest_lifetime():
    curve = of_intervals((5.0, 10.0, True), (5.0, 30.0, False))
    assert curve.risk(5.0) == 0.0
    assert curve.risk(5.1) == pytest.approx(1 - (20 / 30) ** 0.5)
    assert of_intervals((0.0, 9.0, False)).risk(9.0) == 0.0


def test_the_end_may_be_certain_eviction():
    curve = of_intervals((0.0, 10.0, True), (0.0, 10.0, False), (0.0, 4.0, False))
    assert curve.risks[-1] == 1.0
    assert np.all(np.diff(curve.risks) > 0)


@pytest.mark.parametrize("seed", range(10))
def test_intervals_are_the_limit_of_ever_more_points(seed: int):
    generator = np.random.default_rng(seed)
    count = 40
    span_s = generator.uniform(1.0, 50.0, count)
    duration_s = span_s + np.where(generator.random(count) < 0.3, 0.0, generator.exponential(100.0, count))
    evicted = generator.random(count) < 0.6
    curve = LifetimeDistribution.from_samples(duration_s, evicted, span_s)
    step_s = 0.02
    points = [np.arange(step_s / 2, span, step_s) for span in span_s]
    lifetimes = np.concatenate([longest - one for longest, one in zip(duration_s, points, strict=True)])
    dense = LifetimeDistribution.from_samples(lifetimes, np.repeat(evicted, [len(one) for one in points]))
    ends_s = curve.ends_s[
        curve.ends_s < duration_s.max() - 2.0
    ]  # at the very end a point more or less is much
    assert len(ends_s) > count / 2
    assert np.allclose(curve.risk(ends_s), dense.risk(ends_s), atol=2e-3)
    # In between on the careful side, and by no more than to the next end.
    between_s = (ends_s[:-1] + ends_s[1:]) / 2
    assert np.all(curve.risk(between_s) >= dense.risk(between_s) - 2e-3)
    assert np.all(curve.risk(between_s) == curve.risk(ends_s[1:]))


def test_points_and_intervals_do_not_mix():
    with pytest.raises(SpecError, match="mix"):
        LifetimeDistribution.from_samples(np.array([1.0, 2.0]), np.array([True, True]), np.array([0.0, 1.0]))


@pytest.mark.parametrize("span_s", [-1.0, float("nan")])
def test_spans_that_are_none(span_s: float):
    with pytest.raises(SpecError, match="spans"):
        LifetimeDistribution.from_samples(np.array([1.0]), np.array([True]), np.array([span_s]))


# -- rules ---------------------------------------------------------------------------------------------------


SOME = np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, False, True, False])


@pytest.mark.parametrize("span_s", [None, np.full(4, 1e-9)])
def test_censoring(span_s):
    def risks(censoring: Censoring) -> list[float]:
        curve = LifetimeDistribution.from_samples(*SOME, span_s, PredictionRule(censoring=censoring))
        return [curve.risk(lifetime_s) for lifetime_s in (1.5, 2.5, 3.5, 3.99)]

    assert risks(Censoring.KAPLAN_MEIER) == pytest.approx([1 / 4, 1 / 4, 1 - 3 / 8, 1 - 3 / 8], abs=0.01)
    assert risks(Censoring.AS_EVICTED) == pytest.approx([1 / 4, 1 / 2, 3 / 4, 3 / 4], abs=0.01)
    assert risks(Censoring.DROPPED) == pytest.approx([1 / 2, 1 / 2, 1.0, 1.0], abs=0.01)


def test_dropping_those_that_run_may_leave_nobody():
    rule = PredictionRule(censoring=Censoring.DROPPED)
    curve = LifetimeDistribution.from_samples(np.array([5.0]), np.array([False]), rule=rule)
    assert (curve.samples, curve.risk(1.0), curve.survives_s(0.9)) == (0, 1.0, 0.0)


def test_wilsons_bound_on_the_risk():
    durations, evicted = np.arange(1.0, 101.0), np.arange(100) < 10
    plain = LifetimeDistribution.from_samples(durations, evicted)
    curve = LifetimeDistribution.from_samples(durations, evicted, rule=PredictionRule(confidence_z=1.96))
    # 10 of 100 at .95: (.0552, .1744) in every table of Wilson intervals; none of 100: .0370.
    assert curve.risk(50.0) == pytest.approx(0.1744, abs=1e-4)
    assert curve.risk(0.5) == pytest.approx(0.0370, abs=1e-4)
    assert curve.risk(0.0) == 0.0
    assert curve.estimates.tolist() == plain.risks.tolist()
    assert plain.interval(50.0) == pytest.approx((0.0552, 0.1744), abs=1e-4)
    assert curve.interval(50.0) == plain.interval(50.0)
    assert plain.interval(50.0, confidence=0.5) == pytest.approx((0.0815, 0.1221), abs=1e-4)
    assert (plain.interval(0.0), plain.interval(101.0)) == ((0.0, 0.0), (0.0, 1.0))
    with pytest.raises(SpecError, match="confidence"):
        plain.interval(1.0, 1.0)


@pytest.mark.parametrize("z", [0.5, 3.0])
def test_the_bounded_risk_keeps_its_promises_exactly(z: float):
    for seed in range(50):
        generator = np.random.default_rng(seed)
        durations, evicted = generator.exponential(50.0, 60), generator.random(60) < 0.5
        curve = LifetimeDistribution.from_samples(durations, evicted, rule=PredictionRule(confidence_z=z))
        plain = LifetimeDistribution.from_samples(durations, evicted)
        assert np.all(np.diff(curve.risks) >= 0)
        assert np.all((curve.risks >= plain.risks) & (curve.risks <= 1.0))
        for sla in (0.0, 0.01, 0.1, 0.5, 1.0):
            survives_s = curve.survives_s(sla)
            assert curve.risk(survives_s) <= sla
            longer = float(np.nextafter(survives_s, np.inf))
            assert curve.risk(longer) > sla or not curve.has_evidence(longer)


def test_a_mixture_keeps_the_estimates_behind_its_bounds():
    short = distribution((1.0, True), (5.0, False))
    long = distribution((2.0, True), (9.0, False), (9.0, False))
    mixture = LifetimeDistribution.mixture(short.bounded(1.0), long.bounded(1.0), 0.5)
    assert mixture.estimates.tolist() == LifetimeDistribution.mixture(short, long, 0.5).risks.tolist()
    assert mixture.risk(3.0) == pytest.approx(
        (short.bounded(1.0).risk(3.0) + long.bounded(1.0).risk(3.0)) / 2
    )


def test_nothing_is_known_beyond_the_horizon():
    whole = distribution((1.0, True), (3.0, True), (9.0, False))
    for horizon_s, ends_s in (
        (0.5, [0.5]),
        (1.0, [1.0]),
        (2.0, [1.0, 2.0]),
        (5.0, [1.0, 3.0, 5.0]),
        (9.0, None),
    ):
        rule = PredictionRule(horizon_s=horizon_s)
        cut = LifetimeDistribution.from_samples(
            np.array([1.0, 3.0, 9.0]), np.array([True, True, False]), rule=rule
        )
        assert cut.ends_s.tolist() == (ends_s or whole.ends_s.tolist())
        assert [cut.risk(end) for end in cut.ends_s] == [whole.risk(end) for end in cut.ends_s]
        assert cut.risk(horizon_s + 0.1) == 1.0


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"confidence_z": -0.1}, "confidence_z"),
        ({"confidence_z": float("nan")}, "confidence_z"),
        ({"confidence_z": float("inf")}, "confidence_z"),
        ({"horizon_s": 0.0}, "horizon_s"),
        ({"horizon_s": float("nan")}, "horizon_s"),
    ],
)
def test_a_rule_that_makes_no_sense(arguments: dict[str, float], field: str):
    with pytest.raises(SpecError) as caught:
        PredictionRule(**arguments)  # type: ignore[arg-type]
    assert caught.value.field == field
