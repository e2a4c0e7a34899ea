"""The command line as a user meets it: JSON, exit codes, messages that name what is wrong."""

import csv
import gzip
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from broker.cli import errors, formatting
from broker.cli.app import COMMANDS as ENTRIES
from broker.settings import settings
from cloudsim.model.binomial import clopper_pearson
from tests.unit.broker.running import Run, runner

Spotfed = Run

HEAVY = {
    "numpy",
    "pandas",
    "numba",
    "fastapi",
    "celery",
    "redis",
    "httpx",
    "pydantic",
    "matplotlib",
    "uvicorn",
}
COMMANDS = [
    "demo",
    "up",
    "ps",
    "doctor",
    "clouds",
    "quote",
    "submit",
    "leases",
    "extend",
    "release",
    "acknowledge",
    "events",
    "ledger",
    "replay",
    "table",
    "federate",
    "prices",
]
JOB_COMMANDS = ["job submit", "job list", "job status", "job logs", "job cancel"]
FEDERATION = """
[[cloud]]
id = "north"
nodes = "4x4"
trace = { synthetic = "table-1", hours = 30, seed = 1 }

[[cloud]]
id = "south"
nodes = "8x4"
trace = { synthetic = "table-1", hours = 30, seed = 2 }

[[workload]]
origin = "north"
trace = { synthetic = "table-1", hours = 1, seed = 3 }
delay = "24h"
sla = 0.1
"""


@pytest.fixture
def spotfed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Spotfed:
    """Runs a command in this process, with nothing but the defaults in the environment."""
    for name in ("URL", "API_KEY", "DATA", "SAMPLES", "SEED"):
        monkeypatch.delenv(f"SPOTFED_{name}", raising=False)
    monkeypatch.setenv("SPOTFED_STATE_DIR", str(tmp_path / "state"))
    settings.cache_clear()

    return runner(monkeypatch, capsys)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """40 instances of one core, one an hour, that stay for three hours; two cores every tenth."""
    lines = []
    for hour in range(40):
        lines.append((hour * 3600, f"START {hour * 3600} vm-{hour} n0 {2 if hour % 10 == 0 else 1}"))
        lines.append(((hour + 3) * 3600, f"STOP {(hour + 3) * 3600} vm-{hour}"))
    path = tmp_path / "trace.txt"
    path.write_text("\n".join(line for _, line in sorted(lines, key=lambda pair: pair[0])) + "\n")
    return path


def test_importing_it_imports_nothing_heavy() -> None:
    code = f"import sys, broker.cli; print(sorted({HEAVY} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("command", [*COMMANDS, *JOB_COMMANDS])
def test_every_command_has_help_with_an_example_and_json(spotfed: Spotfed, command: str) -> None:
    shown = spotfed(*command.split(), "--help")
    assert shown.code == 0
    assert f"Example: spotfed {command}" in shown.out
    assert "--json" in shown.out


def test_help_lists_every_command(spotfed: Spotfed) -> None:
    shown = spotfed("--help").out
    assert all(f" {command} " in shown for command in COMMANDS)
    assert all(f" {entry.name} " in shown for entry in ENTRIES)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_the_overview_imports_no_command(arguments: list[str]) -> None:
    code = (
        f"import sys; sys.argv[1:] = {arguments}\n"
        "from broker.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        f"print(sorted({HEAVY | {'broker.cli.cloud'}} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"


def test_replay_json(spotfed: Spotfed, trace: Path, tmp_path: Path) -> None:
    done = spotfed(
        *("replay", "--on-demand", trace, "--spot", trace, "--nodes", "3x4"),
        *("--sla", "none", "--spot-delay", "1h", "--json", "--requests", tmp_path / "requests.csv.gz"),
    )
    assert done.code == 0
    result = json.loads(done.out)
    assert result["on_demand"] == {"requests": 40, "admitted": 40}
    assert {"requests": 40, "admitted": 40, "completed": 40, "evicted": 0}.items() <= result["spot"].items()
    assert result["sla"] is None
    assert result["seconds"] >= 0
    hours = result["spot_core_hours"]
    assert hours["completed"] == hours["baseline"] == 44 * 3
    assert (hours["completed_of_requested"], hours["completed_of_baseline"]) == (1.0, 1.0)
    with gzip.open(tmp_path / "requests.csv.gz", "rt") as lines:
        requests = list(csv.DictReader(lines))
    assert [request["end"] for request in requests] == ["completed"] * 40
    assert {request["request"] for request in requests} == {f"spot-w0-{number}" for number in range(40)}
    assert list(tmp_path.glob(".*")) == []


def test_replay_counts_the_promises_of_renewals(spotfed: Spotfed, trace: Path) -> None:
    renewed = spotfed(
        *("replay", "--on-demand", trace, "--spot", trace, "--nodes", "3x4", "--samples", 50),
        *("--renew", "--least", "10m", "--json"),
    )
    result = json.loads(renewed.out)
    assert set(result["promises"]) == {"made", "evicted", "not_renewed"}
    assert result["promises"]["made"] >= result["spot"]["admitted"]
    unpromised = spotfed(
        "replay", "--on-demand", trace, "--spot", trace, "--nodes", "3x4", "--renew", "--sla", "none"
    )
    assert unpromised.code == 2
    assert "--renew" in unpromised.err


def test_replay_promises_a_hundredth_by_default(spotfed: Spotfed, trace: Path) -> None:
    done = spotfed(
        "replay", "--on-demand", trace, "--spot", trace, "--nodes", "2x4", "--samples", 50, "--json"
    )
    result = json.loads(done.out)
    assert result["sla"] == 0.01
    assert sum(result["refusals"].values()) == result["spot"]["requests"] - result["spot"]["admitted"]


def test_replay_for_people_says_the_same(spotfed: Spotfed, trace: Path) -> None:
    done = spotfed("replay", "--on-demand", trace, "--spot", trace, "--nodes", "1x1", "--sla", "none")
    assert "on-demand" in done.out
    assert "larger than any of its nodes" in done.out


def test_load_that_can_never_be_placed_is_told_with_its_share(spotfed: Spotfed, tmp_path: Path) -> None:
    jobs = ((1, 0, 86_400, 64), (2, 100, 60, 1), (3, 90_000, 86_400, 64), (4, 180_000, 100_000, 1))
    lines = [f"{job} {at} 0 {run} {n} -1 -1 {n} {run} -1 1 1 1 1 1 1 -1 -1" for job, at, run, n in jobs]
    trace = tmp_path / "jobs.swf"
    trace.write_text("\n".join(["; UnixStartTime: 0", *lines, ""]))
    shown = {}
    for nodes in ("4x16", "64x1"):
        done = spotfed("table", "--trace", trace, "--nodes", nodes, "--sizes", "1", "--samples", 50, "--json")
        assert done.code == 0
        assert "no room" not in done.err.replace("found no room and count as no load: 1 (0.0%", "")
        shown[nodes] = json.loads(done.out)["rows"]
    assert shown["4x16"] == shown["64x1"]
    done = spotfed("table", "--trace", trace, "--nodes", "2x16", "--sizes", "1", "--samples", 50, "--json")
    share = "2 of 4 instances (99.1% of the core-hours)"
    assert f"{share} of the own load of cloud need more than its nodes have" in done.err
    assert "found no room and count as no load: 2 (99.1% of the core-hours)" in done.err
    done = spotfed("replay", "--on-demand", trace, "--spot", trace, "--nodes", "4x16", "--samples", 50)
    assert f"{share} of the spot that spot asks for fit on no node of cloud: they are refused" in done.err
    assert "own load" not in done.err


def test_table_json(spotfed: Spotfed, trace: Path) -> None:
    done = spotfed("table", "--trace", trace, "--nodes", "1x4", "--samples", 200, "--sla", "0.5", "--json")
    assert done.code == 0
    result = json.loads(done.out)
    assert {row["cores"] for row in result["rows"]} == {1, 2}
    assert all(set(row["quantiles_s"]) == {"0.5"} for row in result["rows"])
    assert sum(row["samples"] for row in result["rows"]) >= 200


def test_table_at_an_earlier_time_and_with_spot_load(spotfed: Spotfed, trace: Path) -> None:
    done = spotfed(
        *("table", "--trace", trace, "--nodes", "2x4", "--spot", trace, "--spot-delay", "1h"),
        *("--spot-sla", "none", "--sizes", "1,4", "--at", "30h", "--samples", 100, "--json"),
    )
    result = json.loads(done.out)
    assert result["at_s"] == 30 * 3600
    assert {row["cores"] for row in result["rows"]} >= {1, 2, 4}


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_table_plot(spotfed: Spotfed, trace: Path, tmp_path: Path, ending: str) -> None:
    picture = tmp_path / f"table{ending}"
    done = spotfed("table", "--trace", trace, "--nodes", "1x4", "--samples", 100, "--picture", picture)
    assert done.code == 0
    assert done.out == ""
    assert picture.stat().st_size > 5_000


def test_federate_needs_something_that_happens(spotfed: Spotfed, tmp_path: Path) -> None:
    instances = '[cloud.instances]\ndriver = "ec2"\nregion = "r"\nimage = "i"\n'
    (tmp_path / "idle.toml").write_text(f'[[cloud]]\nid = "north"\nnodes = "4x4"\n{instances}')
    done = spotfed("federate", tmp_path / "idle.toml")
    assert (done.code, done.out) == (2, "")
    assert "no cloud has a trace and none offers a workload" in done.err
    assert "idle.toml" in done.err


def test_federate_in_process(spotfed: Spotfed, tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(FEDERATION)
    done = spotfed("federate", file, "--samples", 100, "--until", "25h", "--json")
    assert done.code == 0
    report = json.loads(done.out)
    assert report["mode"] == "in-process"
    assert report["until_s"] == 25 * 3600
    assert report["origins"]["north"]["requests"] == report["total"]["requests"] > 0
    shown = spotfed("federate", file, "--samples", 100, "--until", "25h")
    assert "in-process" in shown.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nodes", "7xx12"], "--nodes: '7xx12' is not NODESxCORES"),
        (["--sla", "1.5"], "--sla: '1.5' is not a probability from 0 to 1, or none"),
        (["--sla", "nan"], "--sla: 'nan' is not a probability"),
        (["--spot-delay", "soon"], "--spot-delay: 'soon' is not a duration"),
        (["--spot", "missing.txt"], "--spot: no such file: missing.txt"),
        (["--requests", "rows.xls"], "--requests: 'rows.xls' does not end in one of .csv, .csv.gz, .parquet"),
        (["--requests", "nowhere/rows.csv"], "--requests: there is no directory "),
    ],
)
def test_bad_input_names_the_option(
    spotfed: Spotfed, trace: Path, arguments: list[str], message: str
) -> None:
    given = {"--on-demand": str(trace), "--spot": str(trace), "--nodes": "2x4"}
    given |= dict(zip(arguments[::2], arguments[1::2], strict=True))
    done = spotfed("replay", *(part for pair in given.items() for part in pair))
    assert done.code == 2
    assert done.out == ""
    assert message in done.err


def test_a_damaged_line_is_set_aside_and_named(spotfed: Spotfed, trace: Path, tmp_path: Path) -> None:
    trace.write_text(trace.read_text().replace("START 7200 vm-2 n0 1", "START 7200 vm-2 n0 many"))
    done = spotfed("replay", "--on-demand", trace, "--spot", trace, "--nodes", "2x4", "--json")
    assert done.code == 0
    assert f"{trace}: 2 lines were quarantined, first line 3: " in done.err
    assert json.loads(done.out)["on_demand"]["requests"] == 39
    file = tmp_path / "federation.toml"
    file.write_text(f'[[cloud]]\nid = "a"\nnodes = "2x4"\ntrace = "{trace.name}"\n')
    done = spotfed("federate", file, "--json")
    assert done.code == 0
    assert f"{trace}: 2 lines were quarantined, first line 3: " in done.err


def test_a_trace_that_is_damaged_all_over_names_file_and_line(spotfed: Spotfed, trace: Path) -> None:
    trace.write_text(trace.read_text().replace(" n0 1", " n0 many"))
    done = spotfed("replay", "--on-demand", trace, "--spot", trace, "--nodes", "2x4")
    assert done.code == 2
    assert f"{trace}:2: " in done.err


def test_an_unknown_field_names_file_and_field(spotfed: Spotfed, tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(FEDERATION.replace('nodes = "4x4"', 'nodes = "4x4"\nspeed = 3'))
    done = spotfed("federate", file)
    assert done.code == 2
    assert f"{file}: cloud[0].speed: unknown field" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table", "--sizes", "1,x"], "--sizes: '1,x' is not a list of sizes"),
        (["table", "--sizes", "9"], "--sizes: an instance of 9 cores fits on no node of 2x4"),
        (["table", "--sla", "none"], "--sla: a quantile needs a probability"),
        (["table", "--at", "100d"], "--at: the trace runs from 0 to"),
        (["table", "--picture", "table.gif"], "--picture: 'table.gif' does not end in .png, .svg or .pdf"),
        (["table", "--picture", "nowhere/table.png"], "--picture: there is no directory"),
    ],
)
def test_bad_input_to_table(spotfed: Spotfed, trace: Path, arguments: list[str], message: str) -> None:
    done = spotfed(*arguments, "--trace", trace, "--nodes", "2x4")
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize("options", [["--cores", "0"], ["--cores", "two"], ["--nothing"], []])
def test_wrong_usage_is_2(spotfed: Spotfed, options: list[str]) -> None:
    assert spotfed("submit", "--lifetime", "2h", *options).code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lifetime", "0"], "--lifetime: '0' is no time at all"),
        (["--lifetime", "PT1H"], "--lifetime: 'PT1H' is not a duration"),
        (["--lifetime", "2h", "--sla", "1.5"], "--sla: '1.5' is not a probability"),
        (["--lifetime", "2h", "--cloud", "a b"], "--cloud: "),
        (["--lifetime", "2h", "--origin", "ä"], "--origin: "),
        (["--lifetime", "2h", "--id", "x", "--count", "2"], "--id: "),
    ],
)
def test_bad_requests_are_refused_before_they_are_sent(
    spotfed: Spotfed, options: list[str], message: str
) -> None:
    done = spotfed("submit", "--cores", 1, *options)
    assert done.code == 2
    assert message in done.err


def test_nobody_there_is_4(spotfed: Spotfed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTFED_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("broker.cli.connection.DEADLINE_S", 0.1)
    settings.cache_clear()
    done = spotfed("clouds")
    assert done.code == 4
    assert "spotfed up" in done.err
    assert spotfed("ps").code == 4


def test_a_malformed_setting_is_named(spotfed: Spotfed, monkeypatch: pytest.MonkeyPatch, trace: Path) -> None:
    monkeypatch.setenv("SPOTFED_SAMPLES", "many")
    settings.cache_clear()
    done = spotfed("table", "--trace", trace, "--nodes", "2x4")
    assert done.code == 2
    assert "SPOTFED_SAMPLES" in done.err


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"), (float("inf"), "for ever"), (0, "0 s"), (59.6, "1 min"), (90, "1 min 30 s"),
        (3600, "1 h"), (93600, "1 d 2 h"), (86460, "1 d"), (-5, "−5 s"),
    ],
)  # fmt: skip
def test_durations_in_words(seconds: float | None, text: str) -> None:
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("events", "trials", "bounds"),
    [  # scipy.stats.binomtest(events, trials).proportion_ci(method="exact")
        (0, 0, (0.0, 1.0)),
        (0, 100, (0.0, 0.036217)),
        (1, 66, (0.000384, 0.081552)),
        (21, 158, (0.084194, 0.195968)),
        (7, 10, (0.347547, 0.933260)),
        (100, 100, (0.963783, 1.0)),
    ],
)
def test_exact_intervals(events: int, trials: int, bounds: tuple[float, float]) -> None:
    assert clopper_pearson(events, trials) == pytest.approx(bounds, abs=1e-6)


@pytest.mark.parametrize("name", errors.EXIT_CODES)
def test_errors_with_an_exit_code_have_these_names(name: str) -> None:
    module, _, kind = name.rpartition(".")
    error = getattr(importlib.import_module(module), kind)
    assert issubclass(error, Exception)
    assert f"{error.__module__}.{error.__qualname__}" == name
