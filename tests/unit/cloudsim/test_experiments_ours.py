"""Our own experiments: their cases, sentences and pictures, on made-up rows and on short real ones."""

import json
from typing import Any

import numpy as np
import pytest

from cloudsim.experiments.experiment import Experiment, Row
from cloudsim.experiments.ours import sampling_error, upper_bound
from cloudsim.experiments.promise import beds, censoring, outcomes
from cloudsim.experiments.promise.reliability import BURSTS, CALIBRATION, MIXED

PROMISES = [BURSTS, CALIBRATION, MIXED]
EXPERIMENTS = [*PROMISES, censoring.EXPERIMENT, sampling_error.EXPERIMENT, upper_bound.EXPERIMENT]
NAMES = [experiment.name for experiment in EXPERIMENTS]


def row(admitted: int, evicted: int, **columns: Any) -> Row:
    return {
        "spot_requests": 1000,
        "spot_admitted": admitted,
        "spot_completed": admitted - evicted,
        "evicted": evicted,
        "spot_core_hours_requested": 4000.0,
        "spot_core_hours_completed": 1000.0,
        "spot_core_hours_baseline": 2000.0,
        **columns,
    }


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that take no time: half are admitted, and the share evicted is a quarter of the SLA."""

    def single_cloud_row(*, sla: float | None, seed: int, **other: Any) -> Row:
        return row(500 + seed, 100 if sla is None else int(500 * sla / 4), sla=sla, seed=seed)

    monkeypatch.setattr(beds, "single_cloud_row", single_cloud_row)


def rows_of(experiment: Experiment) -> list[Row]:
    return [one for case in experiment.cases(True) for one in case.function(None, **case.options)]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=NAMES)
@pytest.mark.parametrize("quick", [True, False])
def test_cases_are_named_apart_and_travel_as_json(experiment: Experiment, quick: bool) -> None:
    cases = experiment.cases(quick)
    assert len({case.name for case in cases}) == len(cases) > 0
    for case in cases:
        assert json.loads(json.dumps(case.options)) == dict(case.options)
    if quick:
        assert not any(case.needs for case in cases), "tests run without recorded traces"
        assert len(cases) <= 4


@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=NAMES)
def test_rows_become_sentences_and_pictures(experiment: Experiment) -> None:
    rows = rows_of(experiment)
    assert json.loads(json.dumps(rows)) == rows
    findings = experiment.findings(rows)
    assert findings
    assert all(sentence.endswith(".") and any(map(str.isdigit, sentence)) for sentence in findings)
    assert len({picture.name for picture in experiment.pictures}) == len(experiment.pictures) > 0
    for picture in experiment.pictures:
        figure = picture.draw(rows)
        figure.canvas.draw()
        assert any(len(axes.lines) for axes in figure.axes)


@pytest.mark.parametrize("experiment", PROMISES, ids=[one.name for one in PROMISES])
def test_a_promise_to_the_population_is_judged_in_forty_seeds(experiment: Experiment) -> None:
    options = [case.options for case in experiment.cases(False)]
    for bed in {one["bed"] for one in options}:
        judged = [one["seed"] for one in options if one["bed"] == bed and "population" in one["rules"]]
        assert sorted(judged) == list(range(40))


def test_an_outcome_counts_seeds_and_pools_requests() -> None:
    rows = [row(500, 5, sla=0.01), row(100, 2, sla=0.01), row(0, 0, sla=0.01)]
    found = outcomes.outcome(rows)
    assert (found.seeds, found.kept, found.kept_text) == (3, 2, "2 of 3")
    assert found.admitted == pytest.approx(600 / 3000)
    assert found.evicted == pytest.approx(7 / 600)
    assert found.low < found.evicted < found.high


@pytest.mark.parametrize(
    ("value", "text"), [(0.7083, ".708"), (0.00123, ".0012"), (0.0, "0"), (1.0, "1.000")]
)
def test_shares_are_written_as_in_the_papers(value: float, text: str) -> None:
    assert outcomes.share(value) == text


def test_what_falls_short_is_said() -> None:
    rows = [
        row(400, evicted, sla=0.01, seed=seed, bed="synthetic", rule="strict")
        for seed, evicted in enumerate((5, 1, 1))
    ]
    *_, last = outcomes.sentences(rows, {("synthetic", "strict", 0.01): 0.431})
    assert last.startswith("What falls short: ")
    assert "the promise breaks in 1 of 3 seeds" in last
    assert ".031 less is admitted" in last
    kept = [one | {"evicted": 1} for one in rows]
    assert len(outcomes.sentences(kept, {("synthetic", "strict", 0.01): 0.405})) == 1


def test_a_deadlock_is_found() -> None:
    rows = [
        row(0 if variant == "dropped" else 900, 0, sla=0.01, bed="long-lived", variant=variant)
        for variant in censoring.VARIANTS
    ]
    *_, last = censoring.EXPERIMENT.findings(rows)
    assert last.startswith("Deadlock: on long-lived nothing at all")
    rows[-1]["spot_admitted"] = 1
    assert not any("Deadlock" in sentence for sentence in censoring.EXPERIMENT.findings(rows))


def test_a_real_case_holds_what_the_sentences_need() -> None:
    rows = outcomes.measure(
        None, bed="synthetic", seed=0, rules=("unaware", "strict"), births=100, slas=(0.25, 0.01), hours=48.0
    )
    assert [(one["rule"], one["sla"]) for one in rows] == [
        ("unaware", None), ("strict", 0.25), ("strict", 0.01),
    ]  # fmt: skip
    unaware, loose, tight = (one["spot_admitted"] for one in rows)
    assert unaware > loose > tight > 0
    assert len({one["spot_requests"] for one in rows}) == 1


def test_no_rule_completes_more_than_the_oracle() -> None:
    rows = upper_bound.measure(None, bed="synthetic", seed=1, births=100, hours=40.0)
    *judged, best = rows
    assert best["rule"] == "oracle"
    assert best["spot_requests"] == judged[0]["spot_requests"]
    completed = np.array([one["spot_admitted"] for one in judged if one["evicted"] == 0])
    assert (completed <= best["spot_admitted"]).all()
    unaware = judged[0]
    assert unaware["evicted"] > 0
    assert unaware["spot_completed"] < best["spot_completed"]


def test_running_samples_matter() -> None:
    """As evicted is the most careful of the three, and always the youngest is more careful than by age."""
    rows = censoring.on_bed(None, bed="synthetic", seed=0, births=300, hours=48.0)
    admitted = {one["variant"]: one["spot_admitted"] for one in rows}
    assert admitted["as evicted"] < admitted["Kaplan–Meier"]
    assert admitted["always youngest"] < admitted["Kaplan–Meier"]
