"""The federation simulated: no seed breaks an invariant, and a seed is one history."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.__main__ import main
from tests.simulation.bugs import BUGS
from tests.simulation.world import run_seed

SEEDS = 40
#: Each broke an invariant once, by a fault of the product or of the rules it is held against.
ONCE_BROKEN = (17958872005813, 17958909534601)


def test_no_seed_breaks_an_invariant():
    reports = [run_seed(seed) for seed in (*range(SEEDS), *ONCE_BROKEN)]
    broken = [f"seed {one.seed}: {one.violation}" for one in reports if one.violation is not None]
    assert broken == []
    # A quiet simulation finds nothing: all of this has happened.
    kinds = {kind for report in reports for kind in report.kinds}
    assert {
        *("opened", "reserved", "admitted", "declined", "released", "evicted", "completed", "cancelled"),
        *("extended", "noticed", "booked", "withdrawn", "cordoned", "turned_away"),
    } <= kinds
    befell = {what for report in reports for what in report.befell}
    assert {
        *(
            "killed",
            "held",
            "outage",
            "jump",
            "lost",
            "unheard",
            "repeated",
            "again",
            "late",
            "poison",
            "fenced",
            "refused",
            "reloaded",
            "failover",
        ),
    } <= befell


def test_a_seed_is_one_history_in_every_process():
    seeds = [3, 17]
    here = [run_seed(seed).digest for seed in seeds]
    assert here == [run_seed(seed).digest for seed in seeds]
    assert len(set(here)) == len(seeds)
    code = "from tests.simulation.world import run_seed; print([run_seed(s).digest for s in (3, 17)])"
    root = Path(__file__).resolve().parents[2]
    there = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(there.stdout) == here


def test_a_violation_is_told_and_can_be_had_again(capsys: pytest.CaptureFixture[str]):
    bug = next(one for one in BUGS if one.name == "cancelled counted as completed")
    with bug.planted():
        assert main(["--seeds", "5", "--json"]) == 1
        told = capsys.readouterr()
        summary = json.loads(told.out)
        (found,) = summary["violations"]
        again = f"--from {found['seed']} --seeds 1"
        assert f"again: python -m tests.simulation {again}" in told.err
        assert "completed before its end" in told.err
        assert main([*again.split(), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["violations"] == [found]
