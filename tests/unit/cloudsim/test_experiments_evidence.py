"""What a strict promise has no evidence for: the baseline request by request, whose work it completes, and
what is said about it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from cloudsim.experiments import registry
from cloudsim.experiments.experiment import Row
from cloudsim.experiments.ours import evidence
from cloudsim.experiments.promise import pairs, published_numbers
from cloudsim.experiments.runs import single_cloud_row
from cloudsim.traces.trace import Trace

DAY_S, HOUR_S = 86_400.0, 3600.0
NODES = "2x4"


def trace(*rows: tuple[float, float, int]) -> Trace:
    """Instances of (start in days, lifetime in days, cores)."""
    start_s = np.array([start for start, _, _ in rows]) * DAY_S
    stop_s = start_s + np.array([lifetime for _, lifetime, _ in rows]) * DAY_S
    return Trace.checked("t", [str(i) for i in range(len(rows))], start_s, stop_s, [row[2] for row in rows])


def random_trace(seed: int, count: int = 150) -> Trace:
    rng = np.random.default_rng(seed)
    start = np.sort(rng.uniform(0, 10, count))
    return trace(*zip(start.tolist(), rng.exponential(0.5, count).tolist(),
                      rng.choice([1, 2, 4, 5], count).tolist(), strict=True))  # fmt: skip


ON_DEMAND = trace((0, 9, 1), (4, 1, 4))
#: On a cloud of 2 x 4, one day later than here.
SPOT = trace(
    (0, 0.2, 1),  # history of one day: a fifth
    (0, 0.4, 1),  # more than a quarter, less than a half
    (0, 0.9, 1),
    (0, 1.5, 1),  # longer than all of it
    (1, 0.1, 5),  # wider than a node
    (2, 2.0, 4),  # evicted after a day by the on-demand instance of four cores
)  # fmt: skip


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A-B is the two traces above."""
    monkeypatch.setattr(pairs, "read", lambda path: (ON_DEMAND if "DS2" in path.name else SPOT, None))


def test_the_baseline_is_that_of_single_cloud_row() -> None:
    on_demand, spot = random_trace(1), random_trace(2)
    found = evidence.unaware(NODES, on_demand, spot)
    row = single_cloud_row(pair="p", nodes=NODES, on_demand=on_demand, spot=spot, sla=None, births=1)
    assert row["evicted"] > 0
    assert int(found.completed.sum()) == row["spot_completed"] > 0
    assert len(found.cores) == row["spot_requests"]
    assert found.core_hours.sum() == pytest.approx(row["spot_core_hours_requested"])
    assert found.core_hours[found.completed].sum() == pytest.approx(row["spot_core_hours_completed"])


@pytest.mark.usefixtures("recorded")
def test_work_is_told_apart_by_lifetime_and_history() -> None:
    rows = evidence.measure_work(Path("data"), pair="A-B", nodes=NODES, most=None)
    of = {row["history_share"]: row for row in rows}
    assert {share: row["eligible"] for share, row in of.items()} == {None: 5, 1.0: 4, 0.5: 2, 0.25: 1}
    assert all(row["spot_requests"] == 6 for row in rows)
    requested = (0.2 + 0.4 + 0.9 + 1.5 + 0.5 + 8) * 24
    assert of[None]["core_hours_requested"] == pytest.approx(requested)
    assert of[None]["core_hours_eligible"] == pytest.approx(requested - 0.5 * 24)
    assert of[1.0]["core_hours_eligible"] == pytest.approx((0.2 + 0.4 + 0.9 + 8) * 24)
    done = {None: 3.0, 1.0: 1.5, 0.5: 0.6, 0.25: 0.2}
    for share, days in done.items():
        assert of[share]["core_hours_of_baseline"] == pytest.approx(days * 24)
        assert of[share]["core_hours_alone"] == pytest.approx(days * 24)


def test_alone_the_short_ones_find_the_room_of_the_long_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    long, short = (0.0, 3.0, 4), (1.0, 1.0, 4)
    monkeypatch.setattr(
        pairs, "read",
        lambda path: (trace((0, 9, 4)) if "DS2" in path.name else trace(long, short), None),
    )  # fmt: skip
    whole, within, *_ = evidence.measure_work(Path("data"), pair="A-B", nodes=NODES, most=None)
    assert whole["core_hours_of_baseline"] == whole["core_hours_alone"] == pytest.approx(3 * 4 * 24)
    assert within["core_hours_of_baseline"] == 0
    assert within["core_hours_alone"] == within["core_hours_eligible"] == pytest.approx(4 * 24)


def test_each_rule_of_evidence_reaches_the_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is ever evicted; lifetimes are .2, .4 and .8 of the history, asked in the same condition."""
    spot = trace((9, 2, 1), (19, 8, 1), (39, 32, 1))
    monkeypatch.setattr(
        pairs, "read", lambda path: (trace((0, 100, 1)) if "DS2" in path.name else spot, None)
    )
    admitted = {}
    for lifetimes in evidence.HISTORY_LIFETIMES:
        (row,) = evidence.measure_rule(
            Path("data"), pair="A-B", nodes=NODES, history_lifetimes=lifetimes, most=None
        )
        assert (row["measure"], row["sla"], row["history_lifetimes"]) == ("rule", 0.01, lifetimes)
        admitted[lifetimes] = row["spot_admitted"]
    assert admitted == {0.0: 3, 0.02: 2, 0.04: 1}


def test_all_platforms_are_asked_for_and_travel_as_json() -> None:
    cases = evidence.EXPERIMENT.cases(False)
    assert registry.load("evidence") is evidence.EXPERIMENT
    rules = [case.options for case in cases if case.function is evidence.measure_rule]
    assert {(one["pair"], one["nodes"]) for one in rules} == set(published_numbers.BASELINE_COUNTS)
    works = [case.options for case in cases if case.function is evidence.measure_work]
    assert [(one["pair"], one["nodes"]) for one in works] == [
        ("A-B", "7x12"), ("B-A", "7x8"), ("C-D", "31x32"), ("D-C", "31x32"),
    ]  # fmt: skip
    assert json.loads(json.dumps([dict(case.options) for case in cases])) == [case.options for case in cases]


def rule(pair: str, nodes: str, lifetimes: float, admitted: int, evicted: int, hours: float) -> Row:
    return {
        "measure": "rule", "pair": pair, "nodes": nodes, "history_lifetimes": lifetimes, "sla": 0.01,
        "spot_requests": 1000, "spot_admitted": admitted, "evicted": evicted, "evicted_low": 0.001,
        "evicted_high": 0.02, "spot_core_hours_completed": hours,
        "spot_core_hours_requested": 1000.0, "spot_core_hours_baseline": 800.0,
        "refusals": {"no_evidence": 50},
    }  # fmt: skip


def work_row(share: float | None, eligible: int, asked: float, baseline: float, alone: float) -> Row:
    return {
        "measure": "work", "pair": "D-C", "nodes": "31x32", "history_share": share, "spot_requests": 1000,
        "eligible": eligible, "core_hours_requested": 1000.0, "core_hours_eligible": asked,
        "core_hours_of_baseline": baseline, "core_hours_alone": alone,
    }  # fmt: skip


@pytest.fixture
def rows() -> list[Row]:
    return [
        rule("B-A", "5x8", 0.0, 676, 8, 10.0), rule("B-A", "5x8", 0.04, 682, 5, 9.0),
        rule("D-C", "31x32", 0.0, 957, 1, 120.0), rule("D-C", "31x32", 0.04, 950, 1, 100.0),
        work_row(None, 1000, 1000.0, 400.0, 400.0), work_row(1.0, 970, 300.0, 100.0, 220.0),
        work_row(0.5, 960, 250.0, 80.0, 180.0), work_row(0.25, 950, 200.0, 60.0, 140.0),
    ]  # fmt: skip


def test_findings_say_what_breaks_what_is_out_of_reach_and_what_is_reached(rows: list[Row]) -> None:
    found = evidence.EXPERIMENT.findings(rows)
    assert all(sentence.endswith(".") for sentence in found)
    said = "\n".join(found)
    assert "kept on 1 of 2 platforms; broken on B-A on 5x8 (8 of 676, 0.0118" in said
    assert "A history of 0.04/p lifetimes: SLA .01 is kept on 2 of 2 platforms." in said
    assert "costs 0.007" in said
    assert "30 ask for longer than there is history, 50 for longer than a quarter" in said
    assert "0.75 with one longer than all of it" in said
    assert "ask for 0.75 of what the baseline completes" in said
    assert "completes 0.55 (no longer than a quarter of it: 0.35)" in said
    assert "completes 0.30 with no rule and 0.25 with 0.04/p lifetimes" in said
    assert "out of reach on D-C (0.75)" in said
    assert "0.10 on D-C." in said
    assert "0.30 with no rule (0.12 of the requested)" in said


def test_the_papers_count_is_not_read_as_ours_where_it_could_be_of_the_requested(rows: list[Row]) -> None:
    for row in rows:
        if row["measure"] == "work":
            row["core_hours_requested"] = 500.0
    assert not any("P2 §3.6" in sentence for sentence in evidence.EXPERIMENT.findings(rows))


@pytest.mark.parametrize("measures", [("rule", "work"), ("rule",), ("work",), ()])
def test_what_was_skipped_is_left_out_of_sentences_and_pictures(
    rows: list[Row], measures: tuple[str, ...]
) -> None:
    some: list[dict[str, Any]] = [row for row in rows if row["measure"] in measures]
    assert bool(evidence.EXPERIMENT.findings(some)) == bool(some)
    (picture,) = evidence.EXPERIMENT.pictures
    figure = picture.draw(some)
    FigureCanvasAgg(figure).draw()
    promises, works = figure.axes
    assert bool(works.patches) == ("work" in measures)
    assert len(promises.get_xticks()) == (2 if "rule" in measures else 0)
