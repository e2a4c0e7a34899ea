"""The map of the promise: a row for each bed, platform, door and rule, beside the figures before."""

from __future__ import annotations

import itertools
import json

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from cloudsim.experiments import registry
from cloudsim.experiments.experiment import Row
from cloudsim.experiments.ours import overflow_beds, promise_map
from cloudsim.experiments.promise import published_numbers


def row(bed: str, platform: str, door: str, admitted: int, evicted: int, **found: int) -> Row:
    asked = {"requests": 1000, "core_hours_requested": 400.0, "core_hours_completed": 100.0}
    told = {"admitted": admitted, "evicted": evicted, "not_renewed": 3, **asked, **found}
    return promise_map._row(bed, platform, door, promise_map.STRICT, 0.01, told)


@pytest.fixture
def rows() -> list[Row]:
    return [
        row("A-B", "7x12", "user", 900, 5),
        row("A-B", "7x12", "renewable", 950, 9, promises=1900),
        row("B-A", "4x8", "renewable", 500, 6, promises=900),
        row("A to D, reduced", "whole traces", "overflow", 0, 0),
        row("bursts", "seed 0", "user", 300, 3),
        row("bursts", "seed 1", "user", 300, 4),
        row("common cycle", "seed 101", "overflow", 80, 0, bare_admitted=100, bare_evicted=1),
        row("common cycle", "seed 102", "overflow", 90, 0, bare_admitted=100, bare_evicted=1),
    ]


def test_findings_judge_promises_and_admitted(rows: list[Row]) -> None:
    said = promise_map.EXPERIMENT.findings(rows)
    assert "A-B (7x12), renewable, strict, SLA 0.01: 950 of 1000 admitted, 9 evicted" in said[1]
    assert "0.0047 of 1900 promises; 3 not renewed; 0.250 of the core-hours complete" in said[1]
    assert "10,000 births): 2.386 admitted, 0.0021 evicted, 0.487 completed" in said[0]
    assert said[0].endswith("bar: evicted at most 0.01; 0.93 admitted: short: 0.900 admitted.")
    assert "600 of 2000 admitted, 7 evicted" in said[4]
    assert "kept in 1 of 2 seeds" in said[4]
    # Six of nine hundred promises are few enough, but not six of five hundred admitted.
    assert said[2].endswith("bar: evicted at most 0.01: short: 0.0120 evicted.")
    # Where the promise was kept without room for a peak, most of what was admitted is to be left.
    assert "0.100 admitted, 0.0100 evicted, kept in 2 of 2" in said[5]
    assert said[5].endswith("0.9 of the admissions: short: 0.850 of the admissions.")
    assert said[6].startswith("At SLA 0.01 1 of 6 rows hold their bar; short are A-B (7x12)")


def test_a_bed_of_overflow_is_run_with_and_without_room_for_a_peak() -> None:
    (found,) = promise_map.measure_overflow(
        None, bed="common cycle, 12 h apart", seed=101, slas=[0.05], births=50, days=1.5
    )
    assert found["admitted"] < found["bare_admitted"] <= found["requests"]
    assert found["core_hours_completed"] < found["core_hours_requested"]


def test_the_map_is_told_as_a_table_and_drawn(rows: list[Row]) -> None:
    table = json.loads(json.dumps(promise_map.EXPERIMENT.own_keys(rows)["map"]))
    assert [(row["bed"], row["runs"], row["kept"]) for row in table[-2:]] == [
        ("bursts", 2, 1), ("common cycle", 2, 2),
    ]  # fmt: skip
    (picture,) = promise_map.EXPERIMENT.pictures
    figure = picture.draw(rows)
    FigureCanvasAgg(figure).draw()
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == list(dict.fromkeys(f"{row['bed']} · {row['platform']}" for row in table))


def test_quick_cases_need_no_data_and_whole_ones_cover_all_that_is_promised() -> None:
    assert registry.load("promise-map") is promise_map.EXPERIMENT
    assert all(not case.needs for case in promise_map.EXPERIMENT.cases(True))
    cases = promise_map.EXPERIMENT.cases(False)
    options = [json.loads(json.dumps(dict(case.options))) for case in cases]
    assert options == [case.options for case in cases]
    assert len({case.name for case in cases}) == len(cases)
    renewed = {(o["pair"], o["nodes"]) for o in options if ["renewable", "strict"] in o.get("ways", ())}
    assert renewed == set(published_numbers.BASELINE_COUNTS)
    assert {(o["own"], o["node_cores"]) for o in options if "own" in o} == set(
        itertools.product(promise_map.LOGS, (1, 2, 4, 16))
    )
    beds = {o["bed"] for o in options if "bed" in o}
    assert beds >= {"bursts", "mixed-bursts", "long-lived", *overflow_beds.BEDS}
    assert {o["market"] for o in options if "market" in o} == set(promise_map.MARKETS)
    for bed, seeds in (("bursts", 40), ("mixed-bursts", 40), ("common cycle, 0 h apart", 40)):
        assert sum(o.get("bed") == bed and o.get("rule") != promise_map.STRICT for o in options) == seeds
    # An interrupted run has something of each bed.
    seeds_in_order = [o["seed"] % overflow_beds.FIRST_SEED for o in options if "seed" in o]
    assert seeds_in_order == sorted(seeds_in_order)
