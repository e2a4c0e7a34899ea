"""The map of the promise: a row for each bed, platform, door and rule, beside the figures before."""

from __future__ import annotations

import json

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from cloudsim.experiments import registry
from cloudsim.experiments.experiment import Row
from cloudsim.experiments.ours import promise_map
from cloudsim.experiments.promise import published_numbers


def row(bed: str, platform: str, door: str, admitted: int, evicted: int, promises: int | None = None) -> Row:
    found = {
        "requests": 1000, "admitted": admitted, "evicted": evicted, "promises": promises, "not_renewed": 3,
        "completed": None if door == promise_map.OVERFLOW else 0.25,
    }  # fmt: skip
    return promise_map._row(bed, platform, door, promise_map.STRICT, 0.01, found)


@pytest.fixture
def rows() -> list[Row]:
    return [
        row("A-B", "7x12", "user", 900, 5),
        row("A-B", "7x12", "renewable", 950, 9, 1900),
        row("B-A", "4x8", "renewable", 500, 6, 900),
        row("A to D, reduced", "all", "overflow", 0, 0),
        row("bursts", "seed 0", "user", 300, 3),
        row("bursts", "seed 1", "user", 300, 4),
    ]


def test_findings_judge_promises_and_admitted(rows: list[Row]) -> None:
    said = promise_map.EXPERIMENT.findings(rows)
    assert "A-B (7x12), renewable, strict, SLA 0.01: 950 of 1000 admitted, 9 evicted" in said[1]
    assert "0.0047 of 1900 promises; 3 not renewed" in said[1]
    assert said[0].endswith("before: 2386 admitted, 5 evicted, 0.487 complete.")
    assert "600 of 2000 admitted, 7 evicted" in said[4]
    assert "kept in 1 of 2 seeds" in said[4]
    # Six of nine hundred promises are few enough, but not six of five hundred admitted.
    assert said[5].startswith("The promise is kept in 3 of 5 rows; not in B-A (4x8)")


def test_the_picture_has_a_place_for_each_row(rows: list[Row]) -> None:
    (picture,) = promise_map.EXPERIMENT.pictures
    figure = picture.draw(rows)
    FigureCanvasAgg(figure).draw()
    names = [label.get_text() for label in figure.axes[1].get_xticklabels()]
    assert names == ["A-B 7x12", "B-A 4x8", "A to D, reduced all", "bursts all seeds"]


def test_quick_cases_need_no_data_and_whole_ones_cover_all_platforms() -> None:
    assert registry.load("promise-map") is promise_map.EXPERIMENT
    assert all(not case.needs for case in promise_map.EXPERIMENT.cases(True))
    cases = promise_map.EXPERIMENT.cases(False)
    renewed = [case.options for case in cases if case.options.get("door") == promise_map.RENEWABLE]
    assert {(one["pair"], one["nodes"]) for one in renewed} == set(published_numbers.BASELINE_COUNTS)
    assert json.loads(json.dumps([dict(case.options) for case in cases])) == [case.options for case in cases]
    assert len({case.name for case in cases}) == len(cases)
