"""The grid of readings: tables cut out of a whole history, unseen conditions, and the scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloudsim.experiments.experiment import Row
from cloudsim.experiments.promise import readings
from cloudsim.experiments.promise.beds import draw
from cloudsim.experiments.promise.published_numbers import QUANTITIES
from cloudsim.experiments.promise.readings import (
    DAY_S,
    FOR_EVER_S,
    IN_ADVANCE,
    LITERAL,
    NUMBERS,
    READINGS,
    TABLE_4,
    HistorySource,
    Reading,
    SetUp,
    Spot,
    Unevicted,
    Unseen,
    Until,
    record,
)
from cloudsim.history.event_log import START_SPOT, STOP, EventLog
from cloudsim.prediction.rule import PredictionRule
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from cloudsim.prediction.samples import Samples


@pytest.fixture(scope="module")
def setup() -> SetUp:
    bed = draw("synthetic", 1, 40.0)
    return SetUp(bed.nodes, bed.on_demand, bed.spot, DAY_S / 2)


def samples(free_slots: list[int], duration_s: list[float], evicted: list[bool]) -> Samples:
    count = len(free_slots)
    return Samples(
        1, 1e6, 0, np.arange(1, count + 1), np.arange(count, dtype=float), np.array(free_slots, np.int32),
        np.array(duration_s), np.array(evicted), np.zeros(count),
    )  # fmt: skip


@pytest.mark.parametrize("source", [HistorySource.OWN, HistorySource.UNAWARE, HistorySource.OBSERVED])
def test_a_table_cut_out_of_the_whole_history_is_that_of_its_moment(
    setup: SetUp, source: HistorySource
) -> None:
    log, end_s = record(setup, source)
    at_s = DAY_S
    spec = SamplerSpec((4,) * 8, 0, births=60)
    whole, at_that_time = ReplaySampler(spec, 1), ReplaySampler(spec, 1)
    whole.feed(log, end_s)
    before = log.time_s < at_s
    early = EventLog(
        log.time_s[before], log.kind[before], log.instance[before], log.cores[before], log.end_s[before]
    )
    at_that_time.feed(early, at_s)
    cut = readings._until(whole.samples(), at_s, replace(LITERAL, source=source))
    known = at_that_time.samples()
    at = np.searchsorted(known.number, cut.number)
    assert len(cut) > 20
    assert np.array_equal(known.number[at], cut.number)
    for column in ("birth_s", "free_slots", "duration_s", "evicted"):
        assert np.array_equal(getattr(known, column)[at], getattr(cut, column)), column


def test_histories_hold_what_their_source_says(setup: SetUp) -> None:
    own, unaware, observed = (
        record(setup, source)[0]
        for source in (HistorySource.OWN, HistorySource.UNAWARE, HistorySource.OBSERVED)
    )
    assert not (own.kind == START_SPOT).any()
    assert len(unaware) > len(own)
    ends = {
        source: log.time_s[log.kind == STOP].sum() for source, log in (("asked", unaware), ("seen", observed))
    }
    assert ends["seen"] < ends["asked"], "an evicted instance was seen to end early"


def test_the_second_round_begins_with_an_empty_cloud(setup: SetUp) -> None:
    log, end_s = record(setup, HistorySource.UNAWARE)
    again = readings._once_more(log, end_s)
    both = EventLog.concatenate([log, again])
    first = both.time_s <= end_s
    assert int(both.starts[first].sum()) == int((both.kind[first] == STOP).sum())
    assert np.all(np.diff(both.time_s) >= 0)
    sampler = ReplaySampler(SamplerSpec((4,) * 8, 0, births=20), 1)
    sampler.feed(log, end_s)
    sampler.feed(
        again, np.nextafter(2 * end_s, np.inf)
    )  # refuses a log in which an instance starts or stops twice


@pytest.mark.parametrize(
    ("unseen", "free_slots", "expected_s"),
    [(Unseen.LINE, 1, 50.0), (Unseen.LOWEST, 1, 100.0), (Unseen.REFUSED, 1, None),
     (Unseen.REFUSED, 3, 200.0), (Unseen.REFUSED, 9, 300.0)],
)  # fmt: skip
def test_what_is_promised_where_no_sample_was(
    unseen: Unseen, free_slots: int, expected_s: float | None
) -> None:
    drawn = samples([2, 2, 4, 4], [100.0, 150.0, 300.0, 400.0], [True] * 4)
    table = readings._Quantiles([drawn], (8,), 1e6, PredictionRule(), 0.01, unseen)
    lives = table.distribution(1, free_slots)
    assert (None if lives is None else lives.survives_s(0.01)) == expected_s


def table_of(reading: Reading, drawn: Samples, monkeypatch: pytest.MonkeyPatch, at_s: float = 1e6) -> float:
    monkeypatch.setattr(readings, "_samples", lambda *_: drawn)
    bed = draw("synthetic", 0, 1.0)
    setup = SetUp(bed.nodes, bed.on_demand, bed.spot, 0.0)
    spec = SamplerSpec((8,), 0)
    predictor = readings.ReadingPredictor(reading, setup, 0.5, [], spec, [(1, ())], PredictionRule())
    made = predictor.table(EventLog.empty(), at_s)
    lives = made.distribution(1, 2)
    return 0.0 if lives is None else lives.survives_s(0.5)


@pytest.mark.parametrize(
    ("unevicted", "expected_s"),
    [(Unevicted.DROPPED, 100.0), (Unevicted.AS_EVICTED, 300.0), (Unevicted.KAPLAN_MEIER, 900.0),
     (Unevicted.FOR_EVER, FOR_EVER_S)],
)  # fmt: skip
def test_what_becomes_of_samples_that_nothing_evicts(
    unevicted: Unevicted, expected_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = samples([2] * 4, [100.0, 200.0, 300.0, 900.0], [True, False, False, False])
    reading = replace(IN_ADVANCE, unevicted=unevicted)
    assert table_of(reading, drawn, monkeypatch) == expected_s


def test_a_window_forgets_old_births_and_a_boundary_cuts_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = replace(samples([2, 2], [50.0, 900.0], [True, True]), birth_s=np.array([0.0, 500.0]))
    reading = replace(IN_ADVANCE, refresh_s=60.0, unevicted=Unevicted.AS_EVICTED)
    assert table_of(reading, drawn, monkeypatch, at_s=600.0) == 100.0, "the second has lived for 100 s so far"
    assert table_of(replace(reading, until=Until.TRACE), drawn, monkeypatch, at_s=600.0) == 900.0
    assert (
        table_of(replace(reading, until=Until.TRACE, window_s=300.0), drawn, monkeypatch, at_s=600.0) == 900.0
    )
    assert table_of(replace(reading, window_s=50.0), drawn, monkeypatch, at_s=600.0) == 0.0


def test_spot_requests_come_as_the_reading_says(setup: SetUp) -> None:
    assert IN_ADVANCE.requests(setup.on_demand, setup.spot) is setup.spot
    capped = replace(IN_ADVANCE, cap_s=60.0).requests(setup.on_demand, setup.spot)
    assert capped.lifetime_s.max() == pytest.approx(60.0)
    even = replace(IN_ADVANCE, spot=Spot.EVEN).requests(setup.on_demand, setup.spot)
    assert np.allclose(np.diff(even.start_s), np.diff(even.start_s)[0])
    random = replace(IN_ADVANCE, spot=Spot.RANDOM).requests(setup.on_demand, setup.spot)
    assert np.array_equal(np.sort(random.cores), np.sort(setup.spot.cores))
    assert not np.array_equal(random.start_s, setup.spot.start_s)
    assert replace(IN_ADVANCE, fewer=1).nodes("A-B") == "6x12"
    assert replace(IN_ADVANCE, fewer=1).nodes("C-D", 5) == "21x32"


def printed_rows(reading: str) -> list[Row]:
    """Rows that hold exactly what is printed."""
    merged: dict[tuple[Any, ...], Row] = {}
    for numbers in NUMBERS.values():
        for number in numbers:
            key = tuple(sorted((name, str(value)) for name, value in number.of.items()))
            above, *below = QUANTITIES[number.quantity]
            row = merged.setdefault(
                key,
                {"reading": reading, **number.of, "spot_requests": 1.0, "on_demand_requests": 1.0,
                 "spot_core_hours_baseline": 1.0, "spot_core_hours_requested": 2.0,
                 "spot_core_hours_completed": 0.0, "spot_admitted": 1.0},
            )  # fmt: skip
            row[above] = number.number * (row[below[0]] if below else 1.0)
    return list(merged.values())


def test_the_printed_numbers_score_0_and_others_more() -> None:
    rows = printed_rows(LITERAL.name)
    assert sum(map(len, NUMBERS.values())) == 42
    assert all(value == pytest.approx(0.0) for value in readings.score(rows).values())
    assert set(readings.score(rows)) == {*NUMBERS, "all"}
    worse = [{**row, "spot_admitted": 0.5 * row["spot_admitted"]} for row in rows]
    assert readings.score(worse)[TABLE_4] > 0.1
    partly = [row for row in rows if row["block"] == "tables"]
    assert "all" not in readings.score(partly)
    assert TABLE_4 in readings.score(partly)


def test_the_findings_name_the_nearest() -> None:
    rows = printed_rows(IN_ADVANCE.name)
    rows += [{**row, "reading": LITERAL.name, "spot_admitted": 0.0} for row in printed_rows("x")]
    texts = readings.EXPERIMENT.findings(rows)
    assert any(text.startswith(f"Nearest on Table IV (0.000): {IN_ADVANCE.name}") for text in texts)
    assert any(text.startswith(f"Nearest on all (0.000): {IN_ADVANCE.name}") for text in texts)
    assert readings.EXPERIMENT.own_keys(rows)["scores"][IN_ADVANCE.name][TABLE_4] == pytest.approx(0.0)


def test_every_reading_has_a_name_of_its_own_and_its_cases() -> None:
    assert len(READINGS) > 80
    assert {LITERAL.name, IN_ADVANCE.name} <= set(READINGS)
    cases = readings.EXPERIMENT.cases(False)
    assert len({case.name for case in cases}) == len(cases)
    assert {case.options["reading"] for case in cases} == set(READINGS)
    assert len(readings.EXPERIMENT.cases(True)) == 6


@pytest.mark.parametrize("reading", [LITERAL, IN_ADVANCE], ids=["literal", "nearest"])
def test_a_reading_runs_on_the_synthetic_set_up(reading: Reading) -> None:
    rows = readings.on_synthetic(None, reading=reading.name, births=50, hours=40.0)
    assert [row["sla"] for row in rows] == [None, 0.25, 0.05, 0.01]
    assert all(row["spot_admitted"] <= rows[0]["spot_admitted"] for row in rows)
    assert rows[1]["completed_of_baseline"] <= 1.0
