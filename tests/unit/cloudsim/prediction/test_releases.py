"""Better information: the requested ends of running spot instances as a condition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.changes import Started
from cloudsim.model.errors import SpecError
from cloudsim.model.instances import Instance, Quote
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind, Request
from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.rule import PredictionRule
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.prediction.tables import QuantileTable

HORIZONS_S = (10.0, 40.0)
RULE = PredictionRule(release_horizons_s=HORIZONS_S)


class Life:
    """A small cloud whose instances come at random; the same seed lives the same life again."""

    def __init__(self, seed: int):
        self.cloud = Cloud(CloudSpec("a", (3,)))
        self._rng = np.random.default_rng(seed)
        self._number = 0
        self.next_s = 0.0
        self._wait()

    def _wait(self) -> None:
        self.next_s += float(self._rng.exponential(6.0))

    def go_on(self) -> None:
        """The next request."""
        self.cloud.advance(self.next_s)
        lifetime_s, own = float(self._rng.lognormal(3.0, 1.0)), self._rng.random() < 0.5
        name = f"i{self._number}"
        self._number += 1
        if own:
            self.cloud.start_on_demand(Request(name, Kind.ON_DEMAND, 1, lifetime_s), self.next_s)
        elif self.cloud.inventory.free_slots(1):
            number = self.cloud.history.instances
            end_s = self.next_s + lifetime_s
            spot = Instance(name, Kind.SPOT, 1, 0, self.next_s, end_s, number, sla=0.1, risk=0.0)
            self.cloud.apply(Started(spot))
        self._wait()


def lived(seed: int, cuts: list[float]) -> QuantileTable:
    """The table of 400 s of a life, fed in parts."""
    life, boundaries = Life(seed), sorted(cuts)
    predictor = LocalPredictor(SamplerSpec((3,), seed=1, births=10), [1], RULE)
    while life.next_s < 400.0:
        while boundaries and boundaries[0] <= life.next_s:
            predictor.table(life.cloud.history.cut(boundaries[0]), boundaries.pop(0))
        life.go_on()
    return predictor.table(life.cloud.history.cut(400.0), 400.0)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.lists(st.floats(1, 390), max_size=4, unique=True))
def test_releases_are_those_of_the_cloud_itself_however_the_history_was_cut(
    seed: int, cuts: list[float]
) -> None:
    table = lived(seed, cuts)
    samples = table.samples[1, ()]
    assert table.release_horizons_s(1) == HORIZONS_S
    life = Life(seed)
    for row, middle_s in enumerate((samples.birth_s + samples.span_s / 2).tolist()):
        while life.next_s < middle_s:
            life.go_on()
        life.cloud.advance(middle_s)
        slots = life.cloud.inventory.free_slots(1)
        assert samples.free_slots[row] == slots
        after = list(
            life.cloud.inventory.free_slots_as_spot_leaves(1, [middle_s + one for one in HORIZONS_S])
        )
        assert (samples.releases[row] + slots).tolist() == after
        ends_s = [middle_s + one for one in HORIZONS_S]
        assert list(life.cloud.inventory.free_slots_as_spot_leaves(1, ends_s)) == after
    assert len(samples) > 5


def steps(*pairs: tuple[float, float], samples: int = 50) -> LifetimeDistribution:
    return LifetimeDistribution(
        np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs]), samples, 1
    )


def test_each_lifetime_goes_by_its_own_part_and_the_risk_never_falls() -> None:
    first, second = steps((5.0, 0.1), (20.0, 0.3), samples=70), steps((8.0, 0.0), (30.0, 0.2), (90.0, 0.5))
    both = LifetimeDistribution.spliced([first, second], [10.0, math.inf])
    assert both is not None
    found = [both.risk(one) for one in (5.0, 6.0, 10.0, 10.1, 29.0, 31.0, 90.0, 91.0)]
    assert found == [0.1, 0.3, 0.3, 0.3, 0.3, 0.5, 0.5, 1.0]
    assert both.samples == 50


def test_nothing_is_known_beyond_the_first_gap() -> None:
    short, long = steps((4.0, 0.1)), steps((90.0, 0.0))
    cut = LifetimeDistribution.spliced([short, long], [10.0, math.inf])
    assert cut is not None
    assert cut.followed_up_s == 4.0
    ended = LifetimeDistribution.spliced([long, None], [10.0, math.inf])
    assert ended is not None
    assert ended.followed_up_s == 10.0
    assert LifetimeDistribution.spliced([None, long], [10.0, math.inf]) is None


def test_mixed_sizes_go_by_free_slots_alone() -> None:
    cloud = Cloud(CloudSpec("a", (4,)))
    cloud.start_on_demand(Request("one", Kind.ON_DEMAND, 1, 50.0), 1.0)
    cloud.start_on_demand(Request("two", Kind.ON_DEMAND, 2, 50.0), 2.0)
    predictor = LocalPredictor(SamplerSpec((4,), seed=1, births=10), [1], RULE)
    assert predictor.table(cloud.history.cut(100.0), 100.0).release_horizons_s(1) == ()


def test_an_informed_quote_is_what_its_table_says() -> None:
    table = lived(3, [])
    cloud = Cloud(CloudSpec("a", (3,), prediction=RULE))
    cloud.table = table
    cloud.apply(Started(Instance("s", Kind.SPOT, 1, 0, 1.0, 30.0, 0, sla=0.1, risk=0.0)))
    cloud.advance(5.0)
    distribution = table.informed_distribution(1, (2, 3))
    assert distribution is not None
    for lifetime_s in (1.0, 20.0, 60.0):
        answer = cloud.quote(Request("r", Kind.SPOT, 1, lifetime_s, 0.9))
        assert isinstance(answer, Quote | Refusal)
        assert answer.eviction_probability == distribution.risk(lifetime_s)


@pytest.mark.parametrize("horizons_s", [(0.0,), (5.0, 5.0), (9.0, 3.0)])
def test_horizons_rise_from_above_zero(horizons_s: tuple[float, ...]) -> None:
    with pytest.raises(SpecError, match="horizons rise"):
        PredictionRule(release_horizons_s=horizons_s)
