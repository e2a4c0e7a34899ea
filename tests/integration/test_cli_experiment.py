"""``spotfed experiment`` as a user meets it. Experiments are small ones of our own, or --quick."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from broker.cli.app import app
from broker.cli.errors import exit_code_of
from broker.experiments import papers
from broker.experiments.papers import comparison
from broker.settings import settings
from cloudsim.experiments import registry
from cloudsim.experiments.experiment import Case, Experiment
from tests.unit.cloudsim import experiment_fakes as fakes

pytestmark = pytest.mark.timeout(120)

Spotfed = Callable[..., SimpleNamespace]


@pytest.fixture
def spotfed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spotfed:
    """Runs a command in an empty directory, without recorded traces."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPOTFED_DATA", str(tmp_path / "nowhere"))
    settings.cache_clear()

    def run(*arguments: str) -> SimpleNamespace:
        done = CliRunner().invoke(app, ["experiment", *arguments])
        error = done.exception
        code = exit_code_of(error) if error is not None and not isinstance(error, SystemExit) else None
        assert code is not None or error is None or isinstance(error, SystemExit), repr(error)
        return SimpleNamespace(
            code=done.exit_code if code is None else code, out=done.stdout, err=done.stderr, error=error
        )

    return run


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Experiment]:
    """The experiments there are, instead of the real ones."""
    experiments: dict[str, Experiment] = {}
    monkeypatch.setattr(registry, "MODULES", experiments)
    monkeypatch.setattr(registry, "load", lambda name: experiments[name])
    return experiments


@pytest.fixture(autouse=True)
def forget_settings() -> object:
    yield
    settings.cache_clear()


def test_the_list_names_every_experiment_there_is(spotfed: Spotfed) -> None:
    done = spotfed("list", "--json")
    assert done.code == 0
    listed = json.loads(done.out)
    assert listed["schema"] == "spotfed.experiment-list/1"
    assert [one["name"] for one in listed["experiments"]] == list(registry.MODULES)
    assert all(one["title"] and one["source"] for one in listed["experiments"])
    shown = spotfed("list")
    assert all(name in shown.out for name in registry.MODULES)


def test_names_of_experiments_are_unique_and_their_cases_too() -> None:
    for name in registry.MODULES:
        experiment = registry.load(name)
        for quick in (True, False):
            names = [case.name for case in experiment.cases(quick)]
            assert len(set(names)) == len(names), name
            json.dumps([dict(case.options) for case in experiment.cases(quick)])
        assert len({picture.name for picture in experiment.pictures}) == len(experiment.pictures)


def test_json_is_the_result_and_nothing_else(spotfed: Spotfed, known: dict[str, Experiment]) -> None:
    known["tiny"] = fakes.experiment(fakes.squares(), pictures=True)
    done = spotfed("tiny", "--json", "--processes", "1")
    assert (done.code, done.err) == (0, "")
    result = json.loads(done.out)
    assert result["schema"] == "spotfed.experiment/1"
    assert {"rows", "findings", "manifest"} <= set(result)
    assert result == json.loads(Path("experiments/tiny/result.json").read_text())
    shown = spotfed("tiny")
    assert "the largest is 9" in shown.out
    assert "3 kept from before" in shown.out


def test_all_writes_a_report_of_everything(spotfed: Spotfed, known: dict[str, Experiment]) -> None:
    known["one"] = fakes.experiment(fakes.squares(), "one", pictures=True)
    known["two"] = fakes.experiment(fakes.squares(numbers=[5]), "two")
    done = spotfed("all", "--json", "--out", "there", "--processes", "1")
    assert done.code == 0
    assert [one["name"] for one in json.loads(done.out)["experiments"]] == ["one", "two"]
    page = Path("there/index.html").read_text()
    assert '<section id="one">' in page
    assert '<section id="two">' in page


def test_exit_codes_and_messages(spotfed: Spotfed, known: dict[str, Experiment]) -> None:
    lost = Case("lost", fakes.read, {"name": "a"}, ("a",))
    known["lost"] = fakes.experiment([lost], "lost")
    known["broken"] = fakes.experiment([Case("bad", fakes.fail, {}), *fakes.squares()], "broken")
    known["partly"] = fakes.experiment([lost, *fakes.squares()], "partly")
    nothing = spotfed("lost")
    assert nothing.code == 2
    assert "'lost' is left out, there is no a" in nothing.err
    assert "SPOTFED_DATA" in str(nothing.error)
    broken = spotfed("broken")
    assert broken.code == 1
    assert "'bad' failed: ValueError: this one cannot be done" in broken.err
    partly = spotfed("partly")
    assert partly.code == 0
    assert "'lost' is left out" in partly.err
    assert "no findings and no pictures" in partly.out


def test_ctrl_c_ends_it_with_130_and_keeps_what_is_done(
    spotfed: Spotfed, known: dict[str, Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    stop = Case("stop", fakes.interrupt, {"parent": os.getpid()})
    known["tiny"] = fakes.experiment([*fakes.squares(), stop])
    done = spotfed("tiny", "--processes", "1")
    assert done.code == 130
    assert "finished cases are kept" in done.err
    known["tiny"] = fakes.experiment(fakes.squares())
    assert json.loads(spotfed("tiny", "--json").out)["manifest"]["cases_kept_from_before"] == 3


def test_an_unknown_name_says_what_there_is(spotfed: Spotfed) -> None:
    done = spotfed("figure-9")
    assert done.code == 2
    assert "figure-1" in str(done.error)


def test_a_quick_run_of_a_real_experiment(spotfed: Spotfed) -> None:
    done = spotfed("figure-1", "--quick", "--json", "--processes", "1")
    assert done.code == 0
    result = json.loads(done.out)
    assert {row["rule"] for row in result["rows"]} == {"unaware", "papers", "strict", "population"}
    assert result["papers"] == [], "figures of the whole experiment are not compared with a part of it"
    assert Path("experiments/figure-1/figure-1.png").is_file()


def test_the_papers_numbers_beside_those_that_could_be_run(
    spotfed: Spotfed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One real experiment, and the others without their data: another run takes up where this one ended."""
    real = registry.load("preemption-tables")
    lost = Case("lost", fakes.read, {"name": "a"}, ("a",))
    chosen = [
        real if each.name == real.name else fakes.experiment([lost], each.name)
        for each in comparison.experiments()
    ]
    for module in (papers, comparison):
        monkeypatch.setattr(module, "experiments", lambda: chosen)
    done = spotfed("papers", "--json", "--processes", "1")
    assert done.code == 0
    assert "'lost' is left out" in done.err
    report = json.loads(done.out)
    assert report["schema"] == "spotfed.experiment-papers/1"
    assert report["computed"] == len(comparison.NUMBERS["P5"])
    by_paper = {row["paper"]: row["verdicts"] for row in report["counts"]}
    assert by_paper["P5"] == {"holds": len(comparison.NUMBERS["P5"]) - 1, "does not hold": 1, "not run": 0}
    assert by_paper["P3"]["not run"] == len(comparison.NUMBERS["P3"])
    shown = spotfed("papers")
    assert f"{report['computed']} printed numbers computed" in shown.out
    assert "AP2, AP3, AP4" in Path("experiments/papers.html").read_text(encoding="utf-8")
    kept = json.loads(Path("experiments/preemption-tables/manifest.json").read_text())
    assert kept["cases_kept_from_before"] == kept["cases"]


def test_a_page_is_looked_at_before_anything_runs(spotfed: Spotfed) -> None:
    Path("page.md").write_text("# Nothing is marked here\n")
    refused = spotfed("papers", "--page", "page.md")
    assert refused.code == 2
    assert "has no line <!-- Numbers of P1 and P2" in str(refused.error)
    assert not Path("experiments").exists()
    for arguments in (["figure-1"], ["papers", "--quick"]):
        elsewhere = spotfed(*arguments, "--page", "page.md")
        assert elsewhere.code == 2
        assert "spotfed experiment papers, without --quick" in str(elsewhere.error)
