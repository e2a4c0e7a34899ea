"""Experiments about batch jobs: rows, sentences and pictures; on recorded prices where they are."""

import json
from pathlib import Path

import pytest

from cloudsim.experiments import registry
from cloudsim.experiments.experiment import Experiment, Row
from cloudsim.experiments.jobs import equations, figure_5
from cloudsim.experiments.jobs.mechanisms import EXPECTED, FIGURE_7

NAMES = [name for name in registry.MODULES if name.startswith("jobs-")]
MADE = [name for name in NAMES if not any(case.needs for case in registry.load(name).cases(True))]
RECORDED = [name for name in NAMES if name not in MADE]
SEVEN = "jobs-figure-7"


def rows_of(experiment: Experiment, data: Path | None = None) -> list[Row]:
    rows = [row for case in experiment.cases(True) for row in case.function(data, **case.options)]
    found: list[Row] = json.loads(json.dumps(rows, allow_nan=False))
    return found


def said_and_drawn(experiment: Experiment, rows: list[Row]) -> None:
    """Its findings are sentences with figures and pictures show something."""
    findings = experiment.findings(rows)
    assert all(sentence.endswith(".") and any(map(str.isdigit, sentence)) for sentence in findings)
    assert any("holds here" in sentence or "does not hold here" in sentence for sentence in findings)
    for picture in experiment.pictures:
        figure = picture.draw(rows)
        figure.canvas.draw()
        assert any(len(axes.lines) for axes in figure.axes)


def test_all_of_the_papers_figures_are_there() -> None:
    figures = {f"jobs-figure-{number}" for number in (1, 2, 5, 6, 7, 8, 9, 10, 11)}
    assert figures | {"jobs-table-1", "jobs-equations", "jobs-ablations"} <= set(NAMES)


@pytest.fixture(scope="module")
def figure_7() -> list[Row]:
    return rows_of(FIGURE_7)


@pytest.mark.parametrize("name", [name for name in MADE if name != SEVEN])
def test_made_markets_become_sentences_and_pictures(name: str) -> None:
    experiment = registry.load(name)
    said_and_drawn(experiment, rows_of(experiment))


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_prices_become_sentences_and_pictures(name: str, data_dir: Path) -> None:
    experiment = registry.load(name)
    said_and_drawn(experiment, rows_of(experiment, data_dir))


def test_programs_get_time_and_cost_of_each_mechanism(figure_7: list[Row]) -> None:
    keys = FIGURE_7.own_keys(figure_7)
    assert set(keys) == {"checkpoint", "replicate", "backup", "simulated"}
    for name, (time, cost) in EXPECTED.items():
        assert set(keys[name]) == {"time", "cost"}
        assert keys[name]["time"] == pytest.approx(time, rel=0.01)
        assert keys[name]["cost"] == pytest.approx(cost, rel=0.006)
        simulated = keys["simulated"][name]
        assert abs(simulated["cost"] - keys[name]["cost"]) < 2.5 * simulated["cost_plus_minus"]
        assert abs(simulated["time"] - keys[name]["time"]) < 2.5 * simulated["time_plus_minus"]


def test_the_papers_job_bears_the_paper_out(figure_7: list[Row]) -> None:
    said_and_drawn(FIGURE_7, figure_7)
    findings = FIGURE_7.findings(figure_7)
    assert sum("holds here" in one for one in findings) == len(FIGURE_7.claims)


def test_printed_equations_are_told_from_the_corrected_ones() -> None:
    rows = rows_of(equations.EXPERIMENT)
    by = {(row["job"], row["per_day"], row["equations"]): row for row in rows}
    job = "an hour, checkpoint an hour"
    assert by[job, 0.01, "printed"]["checkpoint"] == pytest.approx(0.425, rel=0.02), "twice 0.2125"
    assert by[job, 0.01, "corrected"]["checkpoint"] == pytest.approx(0.2125, rel=0.01)
    assert by[job, 0.01, "printed"]["chosen"] == "replicate"


def test_more_replicas_complete_more_often_where_prices_are_low(data_dir: Path) -> None:
    """Figure 5's statement needs prices between a third and a half of on-demand."""
    findings = figure_5.EXPERIMENT.findings(rows_of(figure_5.EXPERIMENT, data_dir))
    assert "does not hold here" in findings[-1]
    assert "prices are 0.1" in findings[-1]
