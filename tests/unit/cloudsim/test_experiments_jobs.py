"""Experiments about batch jobs: rows, sentences and pictures; on recorded prices where they are."""

import json
from pathlib import Path

import pytest

from cloudsim.experiments import registry
from cloudsim.experiments.experiment import Experiment, Row
from cloudsim.experiments.jobs import equations, figure_5, set_ups
from cloudsim.experiments.jobs.mechanisms import EXPECTED, FIGURE_7, FIGURE_8
from cloudsim.experiments.jobs.runs import world_2015

NAMES = [name for name in registry.MODULES if name.startswith("jobs-")]
MADE = [name for name in NAMES if not any(case.needs for case in registry.load(name).cases(True))]
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


def test_a_statement_is_judged_for_each_set_up() -> None:
    """Without I/O checkpoints of short jobs are cheapest, as Figure 8a says; with half of it they are not."""
    names = ("as in Figure 8", "no I/O")
    rows = [row for name in names for row in set_ups.measure_made(None, set_up=name)]
    (statement, *_) = set_ups.EXPERIMENT.own_keys(rows)["statements"]
    assert statement["where"] == FIGURE_8.claims[0].where
    assert {name: verdict["holds"] for name, verdict in statement["set_ups"].items()} == {
        "as in Figure 8": False,
        "no I/O": True,
    }
    assert "in 1 of 2 set-ups" in set_ups.EXPERIMENT.claims[0].judge(rows)


def test_markets_of_a_zone_are_revoked_together_where_that_is_asked_for(data_dir: Path) -> None:
    def spikes(together: bool) -> list[set[float]]:
        world = world_2015(data_dir, 1.0, zone="us-east-1a", together=together)
        spike = 10 * world.on_demand
        return [set(one.at_s[one.price == spike].tolist()) for one in world.histories]

    first, second = spikes(True)[:2]
    assert len(first & second) > 100
    first, second = spikes(False)[:2]
    assert not first & second


def test_markets_of_one_zone_are_those_of_that_zone(data_dir: Path) -> None:
    names = [history.name for history in world_2015(data_dir, zone="us-east-1a").histories]
    assert len(names) == 5
    assert all("us-east-1a" in name for name in names)
