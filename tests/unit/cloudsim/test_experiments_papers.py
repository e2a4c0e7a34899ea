"""The papers' experiments: which runs they ask for, what they say about made-up rows, and their pictures."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cloudsim.experiments.experiment import Experiment
from cloudsim.experiments.promise import (
    beds,
    figure_1,
    figures_2_3,
    pairs,
    published_numbers,
    scaling,
    tables_3_4,
)
from cloudsim.model.requests import Mode
from cloudsim.prediction.rule import CAREFUL_RULE, OUR_RULE


def row(
    pair: str, nodes: str, sla: float | None, *, admitted: int = 500, evicted: int = 0, **others: Any
) -> dict[str, Any]:
    """As of ``single_cloud_row``, of 1,000 spot and 100 on-demand requests."""
    return {
        "pair": pair, "nodes": nodes, "sla": sla, "seed": 0,
        "spot_requests": 1000, "spot_admitted": admitted, "evicted": evicted,
        "evicted_low": 0.5 * evicted / admitted, "evicted_high": 2 * evicted / admitted,
        "on_demand_requests": 100, "on_demand_admitted": 90, "on_demand_admitted_without_spot": 93,
        "spot_core_hours_requested": 4000.0, "spot_core_hours_completed": 2000.0 if sla is None else 500.0,
        "spot_core_hours_baseline": 2000.0,
        "core_hours_lost": 7.0, "utilisation": 0.4, "utilisation_without_spot": 0.3,
        "by_size": [{"cores": 2, "core_hours_requested": 4000.0, "core_hours_completed": 10.0}],
        **others,
    }  # fmt: skip


def draw(experiment: Experiment, rows: list[dict[str, Any]]) -> Iterator[Figure]:
    for picture in experiment.pictures:
        figure = picture.draw(rows)
        FigureCanvasAgg(figure).draw()
        yield figure


def said(experiment: Experiment, rows: list[dict[str, Any]]) -> str:
    return "\n".join(experiment.findings(rows))


def test_each_pair_plays_its_own_traces_on_its_own_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def single_cloud_row(**told: Any) -> dict[str, Any]:
        asked.append(told)
        return {}

    monkeypatch.setattr(pairs, "single_cloud_row", single_cloud_row)
    monkeypatch.setattr(pairs, "read", lambda path: (path.name, None))
    for case in tables_3_4.EXPERIMENT.cases(False):
        case.function(Path("data"), **case.options)
        assert [Path(name).name for name in case.needs] == [asked[-1]["on_demand"], asked[-1]["spot"]]
    assert len({(told["pair"], told["sla"]) for told in asked}) == len(asked) == 20
    platforms = {told["pair"]: (told["nodes"], told["on_demand"], told["spot"]) for told in asked}
    assert platforms == {
        "A-B": ("7x12", "DS2-trace.txt", "DS3-trace.txt"),
        "B-A": ("7x8", "DS3-trace.txt", "DS2-trace.txt"),
        "C-D": ("31x32", "DS5-trace.txt", "DS6-trace.txt"),
        "D-C": ("31x32", "DS6-trace.txt", "DS5-trace.txt"),
    }


def test_scaling_asks_for_every_platform_whose_counts_are_known() -> None:
    options = [case.options for case in scaling.EXPERIMENT.cases(False)]
    asked = {(told["pair"], f"{told['nodes']}x{pairs.TRACES[told['pair'][0]][1]}") for told in options}
    assert asked == set(published_numbers.BASELINE_COUNTS)
    assert len(options) == 2 * len(asked)


def test_figure_1_runs_three_rules_and_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any, Any, float | None]] = []

    def single_cloud_row(**told: Any) -> dict[str, Any]:
        asked.append((told["seed"], told["admission"].mode, told["prediction"], told["sla"]))
        return {}

    monkeypatch.setattr(beds, "single_cloud_row", single_cloud_row)
    for case in figure_1.EXPERIMENT.cases(False):
        if case.options["seed"] == 0:
            case.function(None, **{**case.options, "hours": 26.0})
    assert len(figure_1.EXPERIMENT.cases(False)) == 4 * 30
    assert len(asked) == 1 + 3 * 4
    assert {sla for _, mode, _, sla in asked if mode is Mode.POPULATION} == {0.25, 0.10, 0.05, 0.01}
    rules = {prediction for _, _, prediction, _ in asked}
    assert {OUR_RULE, CAREFUL_RULE} < rules
    assert [rule.always_youngest for rule in rules - {OUR_RULE, CAREFUL_RULE}] == [True]


def test_tables_say_where_the_promise_is_broken_and_what_work_is_done() -> None:
    rows = [
        row("A-B", "7x12", None, evicted=4),
        row("A-B", "7x12", 0.01, evicted=6),
        row("B-A", "7x8", None, evicted=50),
        row("B-A", "7x8", 0.01, evicted=5),
    ]
    text = said(tables_3_4.EXPERIMENT, rows)
    assert "kept in 1 of 2 runs with one; not by A-B at 0.01 (6 of 500)" in text
    assert "work .125 (.250 of the baseline's) (0.500); " in text
    assert "eviction ratio of A-B is already below .01" in text
    first, second = draw(tables_3_4.EXPERIMENT, rows)
    assert [axes.get_title() for axes in first.axes[:2]] == ["A-B", "B-A"]
    assert len(second.axes) == 2


def test_scaling_compares_with_the_counts_only_where_whole_traces_were_played() -> None:
    whole = row(
        "A-B", "6x12", None, on_demand_requests=900, on_demand_admitted=879, evicted=29, admitted=2599
    )
    other = row("B-A", "6x8", None, on_demand_requests=2600)
    rows = [whole, other, row("A-B", "6x12", 0.01, evicted=6), row("B-A", "6x8", 0.01, evicted=5)]
    text = said(scaling.EXPERIMENT, rows)
    assert "kept on 1 of 2 platforms; not on A-B on 6x12 (6 of 500" in text
    assert "1 of 2 platforms give exactly the counts of docs/design/prediction.md; others: B-A on 6x8" in text
    assert "with 3 on-demand requests fewer than without spot" in text
    assert "docs/design/prediction.md" not in said(scaling.EXPERIMENT, rows[2:])
    (figure,) = draw(scaling.EXPERIMENT, rows)
    assert [axes.get_title() for axes in figure.axes[:2]] == ["A-B", "B-A"]


def test_figure_1_says_what_lies_within_what_was_expected() -> None:
    rows = [
        row("synthetic", "8x4", None, admitted=708, evicted=200, rule="unaware"),
        row("synthetic", "8x4", 0.25, admitted=600, evicted=39, rule="papers"),
        row("synthetic", "8x4", 0.25, admitted=600, evicted=39, rule="strict"),
        row("synthetic", "8x4", 0.25, admitted=640, evicted=64, rule="population"),
    ]
    text = said(figure_1.EXPERIMENT, rows)
    assert "Spot admitted without an SLA: 0.7080 ± 0.0000 (95 % of the mean), within" in text
    assert "Spot evicted without an SLA: 0.2825 ± 0.0000 (95 % of the mean), outside" in text
    assert "Admitted by population minus strict: +0.040 at 0.25." in text
    assert "0 of 1 seeds under the rule 'strict'" in text
    assert "1 of 1 seeds under the rule 'population'" in text
    (figure,) = draw(figure_1.EXPERIMENT, rows)
    assert len(figure.axes) == 2


def test_figures_2_3_sample_the_synthetic_set_up() -> None:
    both = figures_2_3.run(None, seed=0, days=1.5, births=2000)
    rows = [row for row in both if row["rank"] == figures_2_3.EXACT]
    assert {row["free_slots"] for row in rows} == set(range(1, 33))
    first = [row for row in rows if row["quantile"] == 0.01]
    assert sum(row["samples"] for row in first) >= 2000
    for one in first:
        lives = [other["quantile_s"] for other in rows if other["free_slots"] == one["free_slots"]]
        if one["samples"] >= 30:
            assert lives == sorted(lives), "a larger risk buys a longer lifetime"
        else:
            assert lives == [None] * len(figures_2_3.QUANTILES)
    known = {(row["rank"], row["free_slots"], row["quantile"]): row["quantile_s"] for row in both}
    for (rank, *condition), life in known.items():
        if rank == figures_2_3.ALWAYS_YOUNGEST and life is not None:
            assert life <= known[figures_2_3.EXACT, *condition], "the youngest is the first to go"
    assert "The most frequent numbers of free slots are" in said(figures_2_3.EXPERIMENT, both)
    (figure,) = draw(figures_2_3.EXPERIMENT, both)
    assert len(figure.axes) == 3
