"""The rule of evidence is chosen by some draws and judged on others; the work that no evidence reaches."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from cloudsim.experiments import registry
from cloudsim.experiments.experiment import Row, where
from cloudsim.experiments.ours import evidence
from cloudsim.experiments.ours.evidence import CANDIDATES, CHOOSING, JUDGING, WORK, choose
from cloudsim.experiments.promise import beds, pairs
from cloudsim.experiments.promise.published_numbers import BASELINE_COUNTS
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
    completed = found["end"] == "completed"
    assert completed.sum() == row["spot_completed"] > 0
    assert len(found) == row["spot_requests"]
    assert found["core_hours"].sum() == pytest.approx(row["spot_core_hours_requested"])
    assert found["core_hours"][completed].sum() == pytest.approx(row["spot_core_hours_completed"])


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
    for lifetimes in (0.0, 0.02, 0.04):
        (found,) = evidence.measure_pair(
            Path("data"), pair="A-B", nodes=NODES, history_lifetimes=lifetimes, most=None
        )
        assert (found["role"], found["sla"], found["history_lifetimes"]) == (JUDGING, 0.01, lifetimes)
        admitted[lifetimes] = found["spot_admitted"]
    assert admitted == {0.0: 3, 0.02: 2, 0.04: 1}


def row(role: str, bed: str, platform: str, lifetimes: float, evicted: int, admitted: int = 100) -> Row:
    return {
        "role": role, "bed": bed, "platform": platform, "history_lifetimes": lifetimes, "sla": 0.01,
        "spot_requests": 200, "spot_admitted": admitted, "evicted": evicted,
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
    for case in evidence.EXPERIMENT.cases(False):
        if case.function is evidence.measure_bed:
            seeds[case.options["role"]].add(case.options["seed"])
    assert not seeds[CHOOSING] & seeds[JUDGING]
    assert len(seeds[CHOOSING]) == len(seeds[JUDGING]) == 40


def test_all_platforms_judge_all_candidates() -> None:
    assert registry.load("evidence") is evidence.EXPERIMENT
    cases = evidence.EXPERIMENT.cases(False)
    judged = [case.options for case in cases if case.function is evidence.measure_pair]
    assert {(one["pair"], one["nodes"], one["history_lifetimes"]) for one in judged} == {
        (*platform, lifetimes) for platform in BASELINE_COUNTS for lifetimes in CANDIDATES
    }
    works = [case.options for case in cases if case.function is evidence.measure_work]
    assert [(one["pair"], one["nodes"]) for one in works] == [
        ("A-B", "7x12"), ("B-A", "7x8"), ("C-D", "31x32"), ("D-C", "31x32"),
    ]  # fmt: skip
    assert json.loads(json.dumps([dict(case.options) for case in cases])) == [case.options for case in cases]


def test_the_first_jobs_of_a_log_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = beds.draw("long-lived", 1, 72.0)
    monkeypatch.setattr(
        evidence, "read", lambda path: (bed.on_demand if "NASA" in path.name else bed.spot, None)
    )
    (found,) = evidence.measure_log(Path("data"), own="NASA", spot="KTH", history_lifetimes=0.04, jobs=10)
    assert (found["role"], found["bed"], found["platform"]) == (CHOOSING, "NASA-KTH", "8x16")
    assert 0 < found["spot_requests"] <= 10


def test_findings_name_the_choice_and_its_effect(rows: list[Row]) -> None:
    said = "\n".join(found := evidence.EXPERIMENT.findings(rows))
    assert all(sentence.endswith(".") for sentence in found)
    assert "no rule on log; 0.04/p lifetimes on log; 0.08/p lifetimes on bed, log" in said
    assert "the choice is 0.08/p lifetimes. No candidate holds on full log." in said
    assert "The effect of 0.08/p lifetimes beside no rule" in said
    assert "-0.100 and +0.000 on A-B" in said


def work_row(share: float | None, eligible: int, asked: float, baseline: float, alone: float) -> Row:
    return {
        "role": WORK, "bed": "D-C", "platform": "31x32", "history_share": share, "spot_requests": 1000,
        "eligible": eligible, "core_hours_requested": 1000.0, "core_hours_eligible": asked,
        "core_hours_of_baseline": baseline, "core_hours_alone": alone,
    }  # fmt: skip


@pytest.fixture
def works() -> list[Row]:
    return [
        row(JUDGING, "D-C", "31x32", 0.0, evicted=1) | {"spot_core_hours_completed": 120.0},
        row(JUDGING, "D-C", "31x32", 0.04, evicted=1) | {"spot_core_hours_completed": 100.0},
        work_row(None, 1000, 1000.0, 400.0, 400.0), work_row(1.0, 970, 300.0, 100.0, 220.0),
        work_row(0.5, 960, 250.0, 80.0, 180.0), work_row(0.25, 950, 200.0, 60.0, 140.0),
    ]  # fmt: skip


def test_findings_say_what_is_out_of_reach_and_what_is_reached(works: list[Row]) -> None:
    said = "\n".join(evidence.EXPERIMENT.findings(works))
    assert "0.75 with one longer than all of it" in said
    assert "ask for 0.75 of what the baseline completes" in said
    assert "completes 0.55 (no longer than a quarter of it: 0.35)" in said
    assert "completes 0.30 with no rule and 0.25 with 0.04/p lifetimes" in said
    assert "out of reach on D-C (0.75)" in said
    assert "0.10 on D-C." in said
    assert "0.30 with no rule (0.12 of the requested)" in said


def test_the_papers_count_is_not_read_as_ours_where_it_could_be_of_the_requested(works: list[Row]) -> None:
    for one in where(works, role=WORK):
        one["core_hours_requested"] = 500.0
    assert not any("P2 §3.6" in sentence for sentence in evidence.EXPERIMENT.findings(works))


def test_a_draw_bears_fewer_evictions_than_the_promise_says() -> None:
    """At a rate of .0045, 435 promises have at most four evictions in .95 of all draws."""
    draws = [row(CHOOSING, "long-lived", f"seed {seed}", 0.04, evicted=1, admitted=435) for seed in range(2)]
    said = "\n".join(evidence.EXPERIMENT.findings(draws))
    assert "some 435 promises with 0.04/p lifetimes and bears 4 evictions" in said
    assert "may evict .0045 if" in said


@pytest.mark.parametrize("role", [CHOOSING, JUDGING, WORK, None])
def test_what_was_skipped_is_left_out_of_sentences_and_pictures(
    rows: list[Row], works: list[Row], role: str | None
) -> None:
    some = where([*rows, *works], role=role)
    assert bool(evidence.EXPERIMENT.findings(some)) == bool(some)
    choice, work = (picture.draw(some) for picture in evidence.EXPERIMENT.pictures)
    for figure in (choice, work):
        FigureCanvasAgg(figure).draw()
    assert len(choice.axes) == 2
    assert bool(work.axes[0].patches) == (role == WORK)
