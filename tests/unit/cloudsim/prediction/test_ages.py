"""Better information from ages: forecasts of room against a count by hand, alike live and in history."""

from __future__ import annotations

import math
from dataclasses import replace

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
from cloudsim.prediction.ages import LEVELS, Forecast, OnDemandRuns
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.rule import AGED_RULE, INFORMED_RULE, OUR_RULE, PredictionRule
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.prediction.tables import QuantileTable

HORIZONS_S = (10.0, 40.0)
RULE = PredictionRule(release_horizons_s=HORIZONS_S, on_demand_ages=True)


class Life:
    """A small cloud whose instances come at random; the same seed lives the same life again."""

    def __init__(self, seed: int):
        self.cloud = Cloud(CloudSpec("a", (6,), prediction=RULE))
        self._rng = np.random.default_rng(seed)
        self._number = 0
        self.next_s = 0.0

    def go_on(self) -> None:
        """The next request."""
        self.cloud.advance(self.next_s)
        lifetime_s, own = float(self._rng.lognormal(3.0, 1.0)), self._rng.random() < 0.6
        name = f"i{self._number}"
        self._number += 1
        if own:
            self.cloud.start_on_demand(Request(name, Kind.ON_DEMAND, 1, lifetime_s), self.next_s)
        elif self.cloud.inventory.free_slots(1):
            number = self.cloud.history.instances
            end_s = self.next_s + lifetime_s
            spot = Instance(name, Kind.SPOT, 1, 0, self.next_s, end_s, number, sla=0.1, risk=0.0)
            self.cloud.apply(Started(spot))
        self.next_s += float(self._rng.exponential(5.0))


def lived(seed: int, cuts: list[float]) -> QuantileTable:
    """The table of 400 s of a life, fed in parts."""
    life, boundaries = Life(seed), sorted(cuts)
    predictor = LocalPredictor(SamplerSpec((6,), seed=1, births=10), [1], RULE)
    while life.next_s < 400.0:
        while boundaries and boundaries[0] <= life.next_s:
            predictor.table(life.cloud.history.cut(boundaries[0]), boundaries.pop(0))
        life.go_on()
    return predictor.table(life.cloud.history.cut(400.0), 400.0)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.lists(st.floats(1, 390), max_size=4, unique=True))
def test_a_birth_in_history_is_looked_up_as_the_cloud_itself_would_have_been_then(
    seed: int, cuts: list[float]
) -> None:
    table = lived(seed, cuts)
    samples, levels = table.samples[1, ()], table.levels(1)
    forecast = Forecast(samples.on_demand, 400.0, HORIZONS_S)
    life = Life(seed)
    for row, middle_s in enumerate((samples.birth_s + samples.span_s / 2).tolist()):
        while life.next_s < middle_s:
            life.go_on()
        life.cloud.advance(middle_s)
        inventory = life.cloud.inventory
        room = inventory.free_slots_as_spot_leaves(1, [middle_s + one for one in HORIZONS_S])
        assert tuple(levels[row]) == forecast.level(room, inventory.on_demand_ages_s(middle_s))
    assert len(samples) > 5


def test_a_quote_is_what_its_table_says_of_room_and_ages() -> None:
    table, life = lived(3, []), Life(4)
    while life.next_s < 200.0:
        life.go_on()
    cloud = life.cloud
    cloud.advance(200.0)
    cloud.table = table
    room = cloud.inventory.free_slots_as_spot_leaves(1, [200.0 + one for one in HORIZONS_S])
    ages_s = cloud.inventory.on_demand_ages_s(200.0)
    distribution = table.informed_distribution(1, room, ages_s)
    assert ages_s
    assert distribution is not None
    for lifetime_s in (1.0, 20.0, 60.0):
        answer = cloud.quote(Request("r", Kind.SPOT, 1, lifetime_s, 0.9))
        assert isinstance(answer, Quote | Refusal)
        assert answer.eviction_probability == distribution.risk(lifetime_s)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0, 900), st.floats(0.5, 400)), min_size=1, max_size=30),
    st.integers(1, 6),
)
def test_levels_are_those_of_a_naive_forecast(spans: list[tuple[float, float]], free: int) -> None:
    spans.sort()
    start_s, length_s = np.array(spans).T
    left_s = np.where(start_s + length_s < 1000.0, start_s + length_s, np.inf)
    runs = OnDemandRuns(start_s, left_s)
    forecast = Forecast(runs, 1000.0, HORIZONS_S)
    at_s = np.linspace(0.25, 999.0, 23)
    found = forecast.levels(at_s, np.full((23, 2), free), runs)
    for row, now_s in enumerate(at_s.tolist()):
        short: list[float] = []
        for column, arriving in enumerate(forecast.arriving.tolist()):
            shares = []
            for begin_s, end_s in zip(start_s.tolist(), left_s.tolist(), strict=True):
                if begin_s <= now_s < end_s:
                    age = int(4 * math.log2(1 + (now_s - begin_s) / 10))
                    shares.append(float(forecast.ending[age, column]))
            spare = free + sum(shares) - arriving - 0.5
            spread = math.sqrt(sum(one * (1 - one) for one in shares) + arriving)
            short.append(0.5 * math.erfc(spare / spread / math.sqrt(2)))
            level = min(-2 * math.log(max(sum(short) / len(short), 1e-300)), LEVELS - 1.0)
            assert found[row, column] == pytest.approx(1 + int(level), abs=abs(level % 1 - 0.5) > 0.4999)


def test_who_has_run_for_long_is_expected_to_end_as_the_history_says() -> None:
    # Of forty 30 end at 100 s, nine at 1000 s and one at 1500 s: at 200 s only the last two kinds run.
    start_s = np.arange(40, dtype=np.float64) * 2000.0
    runs = OnDemandRuns(start_s, start_s + np.repeat([100.0, 1000.0, 1500.0], [30, 9, 1]))
    forecast = Forecast(runs, 80_000.0, (150.0, 850.0))
    young, old = 0, int(4 * math.log2(1 + 200 / 10))
    assert forecast.ending[young] == pytest.approx([0.75, 0.75])
    assert forecast.ending[old] == pytest.approx([0.0, 0.9])
    assert forecast.arriving[0] == pytest.approx(40 / 80_000 * (100 + 50 / 4), rel=0.02)
    assert forecast.level((1, 1), [50.0] * 8) > forecast.level((1, 1), [200.0] * 8)


def test_nothing_is_forecast_from_nothing() -> None:
    forecast = Forecast(OnDemandRuns(), 100.0, HORIZONS_S)
    assert forecast.level((1, 2), []) == (LEVELS, LEVELS)
    assert forecast.level((1, 2), [50.0]) == (LEVELS, LEVELS)


def test_versions_tell_whether_ages_count_and_those_of_other_rules_stay() -> None:
    table = lived(5, [])
    samples = list(table.samples.values())
    without = QuantileTable(samples, (6,), 400.0, replace(RULE, on_demand_ages=False))
    assert without.version != table.version
    assert "ages" not in repr(OUR_RULE) + repr(INFORMED_RULE)
    assert AGED_RULE.lookup_limits_s == (150.0, 600.0, 2400.0, 9600.0, math.inf)


def test_ages_need_horizons() -> None:
    with pytest.raises(SpecError, match="need release horizons"):
        PredictionRule(on_demand_ages=True)
