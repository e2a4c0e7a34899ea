"""The runner: finished cases are kept and never confused, and one case is no other's trouble."""

import csv
import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

import cloudsim
from broker.experiments import manifest, runner
from broker.experiments.pool import FinishedRun, run_cases
from cloudsim.experiments.experiment import Case, Experiment
from tests.unit.cloudsim import experiment_fakes as fakes

pytestmark = pytest.mark.timeout(60)


def run(experiment: Experiment, out: Path, data: Path | None = None, *, processes: int = 1) -> dict[str, Any]:
    return runner.run(experiment, out, data=data, quick=False, processes=processes)


def test_rows_come_in_the_order_of_the_cases_and_everything_is_written(tmp_path: Path) -> None:
    done: list[int] = []
    result = runner.run(
        fakes.experiment(fakes.squares(), pictures=True), tmp_path, data=None, quick=True, processes=2,
        progress=done.append,
    )  # fmt: skip
    assert [row["square"] for row in result["rows"]] == [9, 1, 4]
    assert result["findings"] == ["3 rows, the largest is 9"]
    assert (result["failed"], result["skipped"]) == ({}, {})
    assert done == [0, 1, 2, 3]
    folder = tmp_path / "tiny"
    assert json.loads((folder / "result.json").read_text()) == result
    assert json.loads((folder / "manifest.json").read_text()) == result["manifest"]
    with (folder / "rows.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["number"], json.loads(row["parts"])) for row in rows[:1]] == [("3", {"half": 1.5})]
    assert (folder / "rows.parquet").is_file()
    assert (folder / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "plot.svg").read_text()
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")], (
        "a half-written file is left"
    )
    told = result["manifest"]
    assert told["command"] == "spotfed experiment tiny --quick"
    assert (told["cases"], told["cases_kept_from_before"], told["seeds"]) == (3, 0, [1, 2, 3])
    assert set(told["versions"]) == {"python", "numpy", "numba", "spotfed"}


def test_an_interrupted_run_keeps_what_is_finished_and_goes_on_from_there(tmp_path: Path) -> None:
    log = tmp_path / "log"
    cases = fakes.squares(log)
    stop = Case("stop", fakes.interrupt, {"parent": os.getpid()})
    with pytest.raises(KeyboardInterrupt):
        run(fakes.experiment([*cases[:2], stop, cases[2]]), tmp_path)
    assert log.read_text().split() == ["3", "1"]
    assert not multiprocessing.active_children(), "a case was left running"
    result = run(fakes.experiment(cases), tmp_path)
    assert log.read_text().split() == ["3", "1", "2"], "only what was not finished is run"
    assert [row["square"] for row in result["rows"]] == [9, 1, 4]
    assert result["manifest"]["cases_kept_from_before"] == 2


def test_a_result_of_other_code_options_or_data_is_never_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a").write_text("one")
    case = Case("case", fakes.read, {"name": "a"}, ("a",))
    digests = {manifest.case_digest(case, data)}
    digests.add(manifest.case_digest(Case("case", fakes.read, {"name": "b"}, ("a",)), data))
    digests.add(manifest.case_digest(Case("case", fakes.square, {"name": "a"}, ("a",)), data))
    digests.add(manifest.case_digest(Case("other", fakes.read, {"name": "a"}, ("a",)), data))
    assert run(fakes.experiment([case]), tmp_path, data)["rows"] == [{"text": "one"}]
    (data / "a").write_text("two")
    manifest.file_digest.cache_clear()
    digests.add(manifest.case_digest(case, data))
    assert run(fakes.experiment([case]), tmp_path, data)["rows"] == [{"text": "two"}]
    monkeypatch.setattr(manifest, "source_digest", lambda: "other code")
    digests.add(manifest.case_digest(case, data))
    assert len(digests) == 6
    assert run(fakes.experiment([case]), tmp_path, data)["manifest"]["cases_kept_from_before"] == 0
    assert run(fakes.experiment([case]), tmp_path, data)["manifest"]["cases_kept_from_before"] == 1
    manifest.file_digest.cache_clear()


def test_the_digest_of_the_source_is_of_every_file_and_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloudsim, "__file__", str(tmp_path / "__init__.py"))
    found = []
    for name, text in (("a.py", "1"), ("a.py", "2"), ("sub/b.py", "2"), ("notes.txt", "2")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        found.append(manifest.source_digest.__wrapped__())
    (tmp_path / "a.py").rename(tmp_path / "c.py")
    found.append(manifest.source_digest.__wrapped__())
    assert found[2] == found[3], "only source counts"
    assert len(set(found)) == 4


def test_a_case_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    cases = [
        Case("bad", fakes.fail, {}),
        Case("no JSON", fakes.not_a_number, {}),
        *fakes.squares(),
    ]
    result = run(fakes.experiment(cases, pictures=True), tmp_path, processes=2)
    assert result["failed"]["bad"] == "ValueError: this one cannot be done"
    assert result["failed"]["no JSON"].startswith("its rows are not fit for JSON")
    assert [row["square"] for row in result["rows"]] == [9, 1, 4]
    assert (result["findings"], result["pictures"]) == ([], []), "they would be about half of the rows"
    assert run(fakes.experiment(cases), tmp_path)["manifest"]["cases_kept_from_before"] == 3, (
        "a failure is kept"
    )


def test_rows_are_kept_when_nothing_can_be_said_about_them(tmp_path: Path) -> None:
    cases = [Case("threads", fakes.threads, {})]  # its row has nothing to draw
    result = run(fakes.experiment(cases, pictures=True), tmp_path)
    assert result["failed"] == {"findings and pictures": "KeyError: 'number'"}
    assert json.loads((tmp_path / "tiny" / "result.json").read_text())["rows"] == [{"threads": "1"}]


def test_a_case_that_kills_its_process_is_found_out_and_the_others_go_on(tmp_path: Path) -> None:
    cases = [Case("deadly", fakes.die, {}), *fakes.squares()]
    result = run(fakes.experiment(cases), tmp_path, processes=2)
    assert list(result["failed"]) == ["deadly"]
    assert [row["square"] for row in result["rows"]] == [9, 1, 4]


def test_cases_without_their_data_are_left_out_by_name(tmp_path: Path) -> None:
    cases = [Case("traces", fakes.read, {"name": "a"}, ("a", "b")), *fakes.squares()]
    (tmp_path / "b").touch()
    for data, absent in ((None, ["a", "b"]), (tmp_path, ["a"])):
        result = run(fakes.experiment(cases), tmp_path, data)
        assert result["skipped"] == {"traces": absent}
        assert len(result["rows"]) == 3


def test_each_process_has_one_thread_and_ours_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    ((_, answer),) = run_cases([Case("threads", fakes.threads, {})], None, 1)
    assert isinstance(answer, FinishedRun)
    assert answer.rows == [{"threads": "1"}]
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "OPENBLAS_NUM_THREADS" not in os.environ
