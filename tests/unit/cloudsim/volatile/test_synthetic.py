"""Made pools: near what the paper prints of its exemplars (Tables 2 and 3), and its Section 3.3."""

import numpy as np
import pytest

from cloudsim.model.errors import SpecError
from cloudsim.volatile.availability import MAX_UNITS, STUDY_SAMPLES
from cloudsim.volatile.managers import RevocationPolicy, count_intervals
from cloudsim.volatile.synthetic import EXEMPLARS, PUBLISHED, make_daily_ramp, make_exemplar

SEEDS = range(5)


@pytest.mark.parametrize("name", EXEMPLARS)
def test_an_exemplar_has_the_published_volatility_and_hours(name: str) -> None:
    made = [make_exemplar(name, np.random.default_rng(seed)) for seed in SEEDS]
    assert all(len(one) == STUDY_SAMPLES and one.name == name and one.known.all() for one in made)
    assert all((one.units.min(), one.units.max()) == (0, MAX_UNITS) for one in made)
    published = PUBLISHED[name]
    assert np.mean([one.volatility for one in made]) == pytest.approx(published.volatility, rel=0.1)
    for one in made:
        assert one.volatility == pytest.approx(published.volatility, rel=0.3)
        assert one.total_volatile_hours == pytest.approx(published.total_volatile_hours, rel=0.08)


@pytest.mark.parametrize("name", EXEMPLARS)
def test_an_exemplar_has_about_the_published_number_of_intervals(name: str) -> None:
    units = make_exemplar(name, np.random.default_rng(0)).units
    for policy, count in zip(
        (RevocationPolicy.RANDOM, RevocationPolicy.FIFO, RevocationPolicy.LIFO),
        PUBLISHED[name].intervals,
        strict=True,
    ):
        (lengths,) = count_intervals(
            units, policy, np.random.default_rng(1) if policy is RevocationPolicy.RANDOM else None
        )
        assert lengths.counts.sum() == pytest.approx(count, rel=0.3)


def test_the_periodic_pool_is_far_more_daily_than_the_others() -> None:
    found = {
        name: [make_exemplar(name, np.random.default_rng(seed)).periodicity for seed in SEEDS]
        for name in EXEMPLARS
    }
    others = max(max(values) for name, values in found.items() if name != "periodic")
    assert min(found["periodic"]) > 3 * others


def test_a_generator_decides_everything() -> None:
    once, again = (make_exemplar("unstable", np.random.default_rng(3)).units for _ in range(2))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, make_exemplar("unstable", np.random.default_rng(4)).units)


def test_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(
        SpecError, match="name: 'stable' is not one of stable-1, stable-2, periodic, unstable"
    ):
        make_exemplar("stable", np.random.default_rng(0))
    with pytest.raises(SpecError, match="samples: must be at least 2"):
        make_exemplar("stable-1", np.random.default_rng(0), samples=1)
    with pytest.raises(SpecError, match="days: must be at least 1"):
        make_daily_ramp(0)
    assert len(make_exemplar("stable-1", np.random.default_rng(0), samples=2)) == 2


def test_the_daily_ramp() -> None:
    """6 h up from half to all, no plateau, 6 h down in the same portions, 12 h at half."""
    ramp = make_daily_ramp(2)
    day = ramp.units[:288].astype(int)
    assert np.array_equal(ramp.units[288:], day)
    assert (day[0], day[71], day[72], day[73], day[143]) == (2500, 4965, 5000, 4966, 2535)
    assert (day[144:] == 2500).all()
    assert np.array_equal(np.diff(day[:73]), -np.diff(day[72:145]))
    assert len(make_daily_ramp()) == STUDY_SAMPLES


def test_fifo_makes_intervals_of_thirty_hours_of_the_ramp() -> None:
    (lengths,) = count_intervals(make_daily_ramp().units, RevocationPolicy.FIFO)
    assert lengths.counts[360] / lengths.counts.sum() > 0.97
