"""The rule of evidence is chosen by some draws and judged on others."""

import json
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from cloudsim.experiments import registry
from cloudsim.experiments.experiment import Row
from cloudsim.experiments.ours import evidence_choice
from cloudsim.experiments.ours.evidence_choice import CANDIDATES, CHOOSING, JUDGING, choose
from cloudsim.experiments.promise.published_numbers import BASELINE_COUNTS


def row(role: str, bed: str, platform: str, lifetimes: float, evicted: int, admitted: int = 100) -> Row:
    return {
        "role": role, "bed": bed, "platform": platform, "history_lifetimes": lifetimes, "sla": 0.01,
        "spot_requests": 200, "spot_admitted": admitted, "evicted": evicted, "completed_of_requested": 0.5,
        "spot_core_hours_requested": 2.0, "spot_core_hours_completed": 1.0, "spot_core_hours_baseline": 1.5,
    }  # fmt: skip


@pytest.fixture
def rows() -> list[Row]:
    """.08 holds on the bed, 0 on a log; no candidate holds on the other log; nothing is kept on A-B."""
    return [
        *(row(CHOOSING, "bed", f"seed {seed}", 0.0, evicted=2) for seed in range(2)),
        row(CHOOSING, "bed", "seed 0", 0.04, evicted=1), row(CHOOSING, "bed", "seed 1", 0.04, evicted=2),
        *(row(CHOOSING, "bed", f"seed {seed}", rule, evicted=1) for seed in (0, 1) for rule in (0.08, 0.16)),
        *(row(CHOOSING, "log", "8x16", rule, evicted=0) for rule in (0.0, 0.04, 0.08, 0.16)),
        *(row(CHOOSING, "full log", "8x16", rule, evicted=9) for rule in (0.0, 0.04, 0.08, 0.16)),
        row(JUDGING, "A-B", "7x12", 0.0, evicted=9, admitted=120),
        row(JUDGING, "A-B", "7x12", 0.08, evicted=9, admitted=100),
    ]  # fmt: skip


def test_the_candidate_that_asks_for_least_of_those_that_hold_on_most_beds_is_chosen(rows: list[Row]) -> None:
    choice = choose(rows)
    assert choice.history_lifetimes == 0.08
    assert choice.unheld == ("full log",)
    assert choice.held == {0.0: ("log",), 0.04: ("log",), 0.08: ("bed", "log"), 0.16: ("bed", "log")}


def test_what_judges_does_not_choose(rows: list[Row]) -> None:
    assert choose(rows) == choose([one for one in rows if one["role"] == CHOOSING])
    assert choose([one for one in rows if one["role"] == JUDGING]).history_lifetimes is None
    seeds: dict[str, set[int]] = {CHOOSING: set(), JUDGING: set()}
    for case in evidence_choice.EXPERIMENT.cases(False):
        if case.function is evidence_choice.measure_bed:
            seeds[case.options["role"]].add(case.options["seed"])
    assert not seeds[CHOOSING] & seeds[JUDGING]
    assert len(seeds[CHOOSING]) == len(seeds[JUDGING]) == 40


def test_all_platforms_judge_all_candidates() -> None:
    assert registry.load("evidence-choice") is evidence_choice.EXPERIMENT
    cases = evidence_choice.EXPERIMENT.cases(False)
    judged = [case.options for case in cases if case.function is evidence_choice.measure_pair]
    assert {(one["pair"], one["nodes"], one["history_lifetimes"]) for one in judged} == {
        (*platform, lifetimes) for platform in BASELINE_COUNTS for lifetimes in CANDIDATES
    }
    assert json.loads(json.dumps([dict(case.options) for case in cases])) == [case.options for case in cases]


def test_each_candidate_reaches_the_cloud() -> None:
    found = evidence_choice.measure_bed(None, role=JUDGING, seed=1, births=50, hours=72.0)
    admitted = [one["spot_admitted"] for one in found]
    assert [one["history_lifetimes"] for one in found] == list(CANDIDATES)
    assert admitted[0] > admitted[-1]


def test_the_first_jobs_of_a_log_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    from cloudsim.experiments.promise.beds import draw

    bed = draw("long-lived", 1, 72.0)
    monkeypatch.setattr(
        evidence_choice, "read", lambda path: (bed.on_demand if "NASA" in path.name else bed.spot, None)
    )
    (found,) = evidence_choice.measure_log(
        Path("data"), own="NASA", spot="KTH", history_lifetimes=0.04, jobs=10
    )
    assert (found["role"], found["bed"], found["platform"]) == (CHOOSING, "NASA-KTH", "8x16")
    assert 0 < found["spot_requests"] <= 10


def test_findings_name_the_choice_and_its_effect(rows: list[Row]) -> None:
    said = "\n".join(found := evidence_choice.EXPERIMENT.findings(rows))
    assert all(sentence.endswith(".") for sentence in found)
    assert "no rule on log; 0.04/p lifetimes on log; 0.08/p lifetimes on bed, log" in said
    assert "the choice is 0.08/p lifetimes. No candidate holds on full log." in said
    assert "The effect of 0.08/p lifetimes beside no rule" in said
    assert "-0.100 and +0.000 on A-B" in said


@pytest.mark.parametrize("role", [CHOOSING, JUDGING, None])
def test_what_was_skipped_is_left_out_of_sentences_and_pictures(rows: list[Row], role: str | None) -> None:
    some = [one for one in rows if one["role"] == role]
    assert bool(evidence_choice.EXPERIMENT.findings(some)) == bool(some)
    (picture,) = evidence_choice.EXPERIMENT.pictures
    figure = picture.draw(some)
    FigureCanvasAgg(figure).draw()
    assert len(figure.axes) == 2
