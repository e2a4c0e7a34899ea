"""Experiments about victims: the preemption paper's tables, and every line-up beside the others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from broker.cli.app import app
from broker.experiments import runner
from cloudsim.experiments import registry
from cloudsim.experiments.experiment import Experiment, Row
from cloudsim.experiments.preemption import lineups, tables
from cloudsim.scheduling.lineups import LINEUPS
from tests.unit.cloudsim import experiment_fakes as fakes

VICTIMS = {"table3": ["BP1"], "table4": ["CP1"], "table5": ["AP2", "AP3", "AP4"], "table6": ["BP3"]}
TABLES = tables.EXPERIMENT


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [row for case in TABLES.cases(False) for row in case.function(None, **case.options)]


def test_the_four_tables_come_out_as_the_paper_marks_them(rows: list[Row]) -> None:
    assert TABLES.own_keys(rows) == VICTIMS
    ours = [row for row in rows if row["lineup"] == "partial-hour"]
    assert all(row["evicted"] == row["marked"] for row in ours)
    cost = sum(row["partial_minutes"] for row in ours if row["table"] == "table5" and row["evicted"])
    assert cost == 55


def test_hosts_are_as_printed(rows: list[Row]) -> None:
    assert len(rows) == 2 * (16 + 16 + 12 + 13)
    for table in tables.TESTS:
        used = dict.fromkeys(("host-A", "host-B", "host-C", "host-D"), 0)
        for row in rows:
            if (row["table"], row["lineup"]) == (table, "partial-hour"):
                used[row["host"]] += row["cores"]
        assert all(7 <= cores <= 8 for cores in used.values()), table
    (largest,) = {row["memory_mb"] for row in rows if row["size"] == "L"}
    assert largest == 8_000


def test_the_papers_algorithms_word_by_word_pick_others(rows: list[Row]) -> None:
    hosts = [tables.as_printed(rows, table).host for table in tables.TESTS]
    assert hosts == ["host-B", "host-C", "host-B", "host-A"], "wrong in Tables 5 and 6 only"
    victims = tables.as_printed(rows, "table3").victims
    assert victims == ("BP1", "BP2"), "one that frees just enough is not enough for >"
    assert tables.evicted(rows, "table5", "partial-hour-weighted") == ["CP1"]


def test_findings_name_what_is_printed_wrongly(rows: list[Row]) -> None:
    text = " ".join(TABLES.findings(rows))
    for part in (
        "Table 5: for a request of size L, AP2 + AP3 + AP4 must leave, 55 min",
        "wrong host in 2 of 4 tables: Table 5 host-B instead of host-A; Table 6 host-A instead of host-B",
        "Table 3 BP1 + BP2",
        "in 1 of 4 tables: Table 5 CP1",
        "12 of the 57",
    ):
        assert part in text
    assert text.count("as the paper marks") == 4
    other = [row | {"evicted": row["instance"] == "AP1"} for row in rows]
    assert "not BP1" in " ".join(TABLES.findings(other))


def test_the_picture_marks_who_leaves(rows: list[Row]) -> None:
    figure = TABLES.pictures[0].draw(rows)
    figure.canvas.draw()
    # The first one is for the legend.
    hatched = [sum(bool(bar.get_hatch()) for bar in axis.patches) - 1 for axis in figure.axes]
    assert hatched == [1, 1, 3, 1]


def test_the_victims_are_top_level_keys_of_the_json(tmp_path: Path) -> None:
    arguments = ["experiment", TABLES.name, "--json", "--out", str(tmp_path), "--processes", "1"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0
    result = json.loads(done.stdout)
    assert {key: result[key] for key in VICTIMS} == VICTIMS
    assert len(result["rows"]) == 114
    assert result["manifest"]["command"] == "spotfed experiment preemption-tables"
    assert json.loads((tmp_path / TABLES.name / "result.json").read_text()) == result


def tiny(own_keys: dict[str, Any]) -> Experiment:
    return replace(fakes.experiment(fakes.squares()), own_keys=lambda _rows: own_keys)


def test_own_keys_hide_no_others(tmp_path: Path) -> None:
    def run(own_keys: dict[str, Any]) -> dict[str, Any]:
        return runner.run(tiny(own_keys), tmp_path, data=None, quick=True, processes=1)

    assert run({"answer": 42})["answer"] == 42
    with pytest.raises(AssertionError, match="own keys"):
        run({"rows": []})


# -- line-ups ------------------------------------------------------------------------------------------------


def made_up(pair: str, name: str, sla: float, evicted: int) -> Row:
    return {
        "pair": pair, "lineup": name, "sla": sla, "spot_requests": 1_000, "spot_admitted": 500,
        "evicted": evicted, "evicted_share": evicted / 500, "evicted_low": evicted / 600,
        "evicted_high": evicted / 400, "spot_core_hours_completed": 900.0 - evicted,
        "core_hours_lost": float(evicted), "completed_of_requested": 0.9 - evicted / 1_000,
        "spot_core_hours_requested": 1_000.0, "spot_core_hours_baseline": 950.0,
    }  # fmt: skip


@pytest.fixture
def compared() -> list[Row]:
    """All keep their promises but random victims, which evict 12 % at .05 and just above .01 elsewhere."""
    more = {("mixed", "random-victims", 0.05): 60, ("C-D", "random-victims", 0.01): 6}
    return [
        made_up(pair, one.name, sla, more.get((pair, one.name, sla), 3))
        for pair in ("mixed", "C-D")
        for one in LINEUPS
        for sla in lineups.SLAS
    ]


def test_every_line_up_is_examined_on_both_clouds() -> None:
    cases = lineups.EXPERIMENT.cases(False)
    names = {(case.function.__name__, case.options["order"]) for case in cases}
    assert names == {(place, one.name) for place in ("on_bed", "on_pair") for one in LINEUPS}
    quick = lineups.EXPERIMENT.cases(True)
    assert {case.options["order"] for case in quick} == {one.name for one in LINEUPS}
    assert not any(case.needs for case in quick)


def test_broken_promises_are_named(compared: list[Row]) -> None:
    findings = lineups.EXPERIMENT.findings(compared)
    assert len(findings) == 2 * (len(LINEUPS) + 2) + 1
    assert findings[-1] == (
        "Evicted <= p in 50 of 52 runs, examined for each line-up; not with random-victims on mixed at "
        "p = 0.05 (60 of 500, beyond the interval); random-victims on C-D at p = 0.01 (6 of 500, within the "
        "interval)."
    )
    of_mixed = findings[5]
    assert of_mixed.startswith(
        "mixed, random-victims: at p = 0.05 .500 admitted, work .840 (.884 of the baseline's), .120 of them "
        "evicted ("
    )
    assert "more than promised" in of_mixed
    kept = [made_up(row["pair"], row["lineup"], row["sla"], 3) for row in compared]
    assert lineups.EXPERIMENT.findings(kept)[-1].startswith("Evicted <= p in 52 of 52 runs")


def test_line_ups_are_drawn(compared: list[Row]) -> None:
    figure = lineups.EXPERIMENT.pictures[0].draw(compared)
    figure.canvas.draw()
    assert len(figure.axes) == 4
    dots = [line for line in figure.axes[0].lines if line.get_marker() not in ("None", None)]
    assert [len(line.get_xdata()) for line in dots] == [len(LINEUPS)] * 2  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["partial-hour", "consolidation"])
def test_a_short_bed_runs_under_a_line_up(name: str) -> None:
    rows = lineups.on_bed(None, order=name, births=20, hours=40.0)
    assert [row["sla"] for row in rows] == list(lineups.SLAS)
    assert all(row["lineup"] == name and row["pair"] == "mixed" for row in rows)
    assert all(row["spot_requests"] > 0 for row in rows)


@pytest.mark.parametrize("name", ["preemption-tables", "line-ups"])
def test_both_are_registered(name: str) -> None:
    assert registry.load(name).name == name
