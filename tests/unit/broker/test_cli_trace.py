"""``spotfed trace``: inspect, import, convert and plot, as a person and as a program meet them."""

import csv
import gzip
import json
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from broker import cli
from cloudsim.traces.formats import arrow, read
from tests.unit.broker.running import Run, runner

Spotfed = Run

LOG = "START 0 a n 2\nSTOP 3600 a\nSTART 1800 b n 4\nSTOP 7200 b\nSTART 9000 c n 1\nSTOP 9060 c\n"
PRICES = (
    "timestamp,instance_type,availability_zone,price_usd_per_hour\n"
    "2021-03-02T00:00:00Z,m1.large,a,0.1\n2021-03-02T01:00:00Z,m1.large,a,4\n"
    "2021-03-05T00:00:00Z,m1.large,a,0.1\n2021-03-02T00:00:00Z,m1.small,b,0.01\n"
    "2021-03-03T00:00:00Z,m1.small,b,null\n2021-03-04T00:00:00Z,m1.small,b,0.02\n"
)
PRICE_LIST = "Region,InstanceCode,Price\nus-east-1,m1.large,0.175\neu-west-1,m1.small,0.05\n"


@pytest.fixture
def spotfed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Spotfed:
    """Runs a command in this process."""

    return runner(monkeypatch, capsys)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "my log.txt"
    path.write_text(LOG)
    return path


@pytest.mark.parametrize("command", ["inspect", "import", "convert", "plot"])
def test_every_command_has_help_with_an_example_and_json(spotfed: Spotfed, command: str) -> None:
    shown = spotfed("trace", command, "--help")
    assert shown.code == 0
    assert f"Example: spotfed trace {command}" in shown.out
    assert "--json" in shown.out


def test_inspect_a_trace_as_json(spotfed: Spotfed, log: Path) -> None:
    done = spotfed("trace", "inspect", log, "--nodes", "1x5", "--json")
    assert (done.code, done.err) == (0, "")
    result = json.loads(done.out)
    assert result["schema"] == "spotfed.trace-inspect/1"
    assert (result["unreadable"], result["left_aside"]) == ([], [])
    (told,) = result["inspected"]
    assert (told["path"], told["kind"], told["format"]) == (str(log), "trace", "eucalyptus")
    figures = told["figures"]
    assert figures["instances"] == figures["records"] == 3
    assert (figures["first_start_s"], figures["last_stop_s"], figures["span_s"]) == (0, 9060, 9060)
    assert (figures["peak_cores"], figures["peak_at_s"], figures["capacity_cores"]) == (6, 1800, 5)
    assert figures["core_hours"] == (2 * 3600 + 4 * 5400 + 60) / 3600
    assert figures["sizes"] == [{"cores": c, "instances": 1} for c in (1, 2, 4)]
    assert figures["lifetimes"]["quantiles_s"]["0.5"] == 3600
    assert figures["lifetimes"]["mean_s"] == 3020
    assert figures["begins_at"] is None
    checks = {one["check"]: one["found"] for one in told["quality"]}
    assert (checks["out of order"], checks["overcommit"], checks["quarantined"]) == (1, 1, 0)


def test_inspect_for_people_says_the_same(spotfed: Spotfed, log: Path) -> None:
    done = spotfed("trace", "inspect", log)
    assert done.code == 0
    for said in (
        f"{log}: a trace, Eucalyptus START/STOP log",
        "3 of 3 records, 8 core-hours",
        "1 × 1, 2 × 1, 4 × 1",
        "peak 6, first at day 0.0",
        "hours of the day are not known",
        "the file does not say how many cores there were; --nodes does",
        "Nothing of: mended, cut off, quarantined",
    ):
        assert said in done.out
    assert "\x1b" not in done.out


def test_the_commands_to_use_next_run_as_they_stand(
    spotfed: Spotfed, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prices.csv").write_text(PRICES)
    monkeypatch.chdir(tmp_path)
    shown = [
        command
        for told in json.loads(spotfed("trace", "inspect", log, "prices.csv", "--json").out)["inspected"]
        for command in told["next"]
    ]
    assert [command.split()[1] for command in shown] == [
        "replay", "table", "trace", "trace", "prices", "trace",
    ]  # fmt: skip
    for command in shown:
        name, *arguments = shlex.split(command)
        assert name == "spotfed"
        few = ["--samples", "20"] if arguments[0] in {"replay", "table"} else []
        assert spotfed(*arguments, *few).code == 0
    assert (tmp_path / "my log.parquet").is_file()
    assert (tmp_path / "my log.png").is_file()


def test_inspect_prices(spotfed: Spotfed, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(PRICES)
    (told,) = json.loads(spotfed("trace", "inspect", path, "--json").out)["inspected"]
    figures = told["figures"]
    assert (told["kind"], figures["records"], figures["markets"]) == ("prices", 6, 2)
    assert (figures["starts_at"], figures["ends_at"]) == ("2021-03-02T00:00:00Z", "2021-03-05T00:00:00Z")
    assert (figures["min_usd_per_hour"], figures["max_usd_per_hour"]) == (0.01, 4)
    assert figures["max_in"] == "m1.large a"
    checks = {one["check"]: one["found"] for one in told["quality"]}
    assert (checks["no price"], checks["gaps"], checks["all silent"]) == (1, 1, None)
    shown = spotfed("trace", "inspect", path).out
    assert "spot prices, CSV" in shown
    assert "the longest 71.0 h (m1.large a)" in shown


def test_inspect_a_list_of_on_demand_prices(spotfed: Spotfed, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(PRICE_LIST)
    (told,) = json.loads(spotfed("trace", "inspect", path, "--json").out)["inspected"]
    assert told["kind"] == "on-demand prices"
    assert (told["figures"]["prices"], told["figures"]["max_in"]) == (2, "us-east-1 m1.large")
    assert "2 types in 2 regions" in spotfed("trace", "inspect", path).out


def test_inspect_a_directory(spotfed: Spotfed, log: Path, tmp_path: Path) -> None:
    """What is in it and below it; prices alone in a directory are one history; documents are left aside."""
    (tmp_path / "README.md").write_text(LOG)
    (tmp_path / ".hidden").write_text("x")
    prices = tmp_path / "prices"
    prices.mkdir()
    (prices / "one.csv").write_text(PRICES)
    (prices / "two.csv").write_text(PRICES.replace("m1.", "m3."))
    done = spotfed("trace", "inspect", tmp_path, "--json")
    assert done.code == 0
    result = json.loads(done.out)
    assert [one["path"] for one in result["inspected"]] == [str(log), str(prices)]
    assert result["inspected"][1]["figures"]["markets"] == 4
    assert result["left_aside"] == [str(tmp_path / "README.md")]


def test_what_cannot_be_read_is_named_and_the_rest_is_told(
    spotfed: Spotfed, log: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.md"
    other.write_text("# notes\n")
    done = spotfed("trace", "inspect", other, log, "gone.txt", "--json")
    assert done.code == 2
    assert f"spotfed: {other}:1: is in no known format: its first line is '# notes'; of traces" in done.err
    assert "spotfed: gone.txt: there is no such file" in done.err
    result = json.loads(done.out)
    assert [one["path"] for one in result["inspected"]] == [str(log)]
    assert [one["path"] for one in result["unreadable"]] == [str(other), "gone.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inspect", "gone.txt"), "gone.txt: there is no such file"),
        (("inspect", "{empty}"), "is a directory without data"),
        (("inspect", "{log}", "--nodes", "many"), "--nodes: "),
        (
            ("import", "{log}", "--out", "x.txt"),
            "--out: 'x.txt' does not end in one of .csv, .csv.gz, .parquet",
        ),
        (("import", "{log}", "--out", ".csv"), "--out: '.csv' does not end in"),
        (("import", "{log}", "--out", "{empty}/no/x.csv"), "--out: there is no directory"),
        (("import", "gone.txt", "--out", "{empty}/x.csv"), "gone.txt: there is no such file"),
        (("import", "{prices}", "--out", "{empty}/x.csv"), "holds prices, not a trace"),
        (("convert", "{log}", "x.png"), "OUT: 'x.png' does not end in"),
        (("convert", "{prices}", "{prices}"), "is the file that is read"),
        (("plot", "{log}", "--picture", "x.gif"), "--picture: 'x.gif' does not end in .png"),
        (("plot", "{list}", "--picture", "{empty}/x.png"), "no time to draw them over"),
        (
            ("plot", "{prices}", "--picture", "{empty}/x.png", "--market", "m1.large"),
            "there are 'm1.large a'",
        ),
    ],
)
def test_bad_input_is_named_and_ends_with_2(
    spotfed: Spotfed, log: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    places = {name: tmp_path / f"{name}.csv" for name in ("prices", "list")}
    places["prices"].write_text(PRICES)
    places["list"].write_text(PRICE_LIST)
    (tmp_path / "empty").mkdir()
    filled = [one.format(log=log, empty=tmp_path / "empty", **places) for one in arguments]
    done = spotfed("trace", *filled)
    assert done.code == 2
    assert message in done.err
    assert done.out == ""
    assert list((tmp_path / "empty").iterdir()) == []


def damaged(tmp_path: Path, bad: int) -> Path:
    """300 good rows and some bad ones, the last with a line break's worth of text."""
    rows = [f"i{at},{at},{at + 1},1" for at in range(300)] + [f"bad{at},9,5,1" for at in range(bad - 1)]
    path = tmp_path / "damaged.csv"
    path.write_text("\n".join(["instance,start_s,stop_s,cores", *rows, "x" * 300, ""]))
    return path


def test_import_sets_bad_lines_aside_whole(spotfed: Spotfed, tmp_path: Path) -> None:
    path, out = damaged(tmp_path, 3), tmp_path / "good.csv.gz"
    done = spotfed("trace", "import", path, "--out", out, "--json")
    assert done.code == 0
    result = json.loads(done.out)
    assert result["schema"] == "spotfed.trace-import/1"
    assert (result["records"], result["rows"], result["quarantined"]) == (303, 300, 3)
    assert result["rejected"] == str(tmp_path / "good.rejected.csv")
    with (tmp_path / "good.rejected.csv").open(newline="") as stream:
        rejected = list(csv.DictReader(stream))
    assert rejected[0] == {"line": "302", "reason": "stop_s precedes start_s", "text": "bad0,9,5,1"}
    assert (rejected[2]["line"], rejected[2]["text"]) == ("304", "x" * 300)
    assert len(read(out)[0]) == 300
    assert gzip.decompress(out.read_bytes()).startswith(b"instance,")


def test_an_anonymous_import_names_nobody(spotfed: Spotfed, tmp_path: Path) -> None:
    path, out = tmp_path / "log.csv", tmp_path / "x.csv"
    path.write_text("instance,start_s,stop_s,cores\nalice,0,5,1\nbob,1,5,1\nbob-2,9,5,1\n")
    assert spotfed("trace", "import", path, "--out", out, "--anonymous").code == 0
    assert out.read_text() == "instance,start_s,stop_s,cores\n1,0,5,1\n2,1,5,1\n"
    assert (tmp_path / "x.rejected.csv").read_text() == "line,reason,text\n4,stop_s precedes start_s,\n"


def test_a_bad_record_of_a_document_is_quoted(spotfed: Spotfed, tmp_path: Path) -> None:
    path, out = tmp_path / "log.json", tmp_path / "x.csv"
    good = {"ClusterId": 1, "ProcId": 0, "RequestCpus": 1, "JobStartDate": 5, "CompletionDate": 9}
    path.write_text(json.dumps([good, good, {**good, "RequestCpus": 0}]))
    assert spotfed("trace", "import", path, "--out", out).code == 0
    with (tmp_path / "x.rejected.csv").open(newline="") as stream:
        (bad,) = csv.DictReader(stream)
    assert (bad["line"], json.loads(bad["text"])["RequestCpus"]) == ("3", 0)


def test_columns_and_the_clock_are_named_on_the_command_line(spotfed: Spotfed, tmp_path: Path) -> None:
    path, out = tmp_path / "log.csv", tmp_path / "x.csv"
    path.write_text("who,from,to,n\na,2026-03-29T00:10:00,2026-03-29T03:10:00,4\n")
    options = ("--columns", "instance=who,start=from,end=to,cores=n", "--time-zone", "Europe/Berlin")
    assert spotfed("trace", "import", path, "--out", out, *options).code == 0
    assert out.read_text() == "instance,start_s,stop_s,cores\na,0,7200,4\n"
    for columns, message in (
        ("start", "--columns: write PART=COLUMN"),
        ("start=from,cores=n", "--columns: name the columns of start, cores, and either end or duration"),
        ("start=from,end=till,cores=n", "the header lacks till"),
    ):
        done = spotfed("trace", "import", path, "--out", out, "--columns", columns)
        assert (done.code, message in done.err) == (2, True), done.err


def test_an_error_names_the_option_as_it_is_typed(spotfed: Spotfed, tmp_path: Path) -> None:
    """Where an error below the command line names a parameter of a function."""
    path, out = tmp_path / "log.csv", tmp_path / "x.csv"
    path.write_text("from,to,n\n0,100,4\n")
    columns = ("--columns", "start=from,end=to,cores=n")
    done = spotfed("trace", "import", path, "--out", out, *columns, "--time-zone", "Nowhere/At/All")
    assert (done.code, done.err.startswith("spotfed: --time-zone: 'Nowhere/At/All' is no")) == (2, True)
    assert spotfed("trace", "import", path, "--out", out, *columns).code == 0
    done = spotfed("table", "--trace", out, "--nodes", "1x4", "--seed", str(2**64))
    assert (done.code, done.err.startswith("spotfed: --seed: a seed is 0 to")) == (2, True)


@pytest.mark.parametrize("command", [("inspect",), ("import", "--out", "x.csv")])
def test_standard_input_and_pipes_are_read(log: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    spotfed = [str(Path(sys.executable).with_name("spotfed")), "trace", *command]
    for shell in ('cat "$0" | "$@" -', '"$@" <(cat "$0")'):
        done = subprocess.run(
            ["bash", "-c", shell, str(log), *spotfed],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "3 of 3 records" in done.stdout


def test_import_leaves_no_rejected_lines_of_an_earlier_file(
    spotfed: Spotfed, tmp_path: Path, log: Path
) -> None:
    out, rejected = tmp_path / "x.csv", tmp_path / "x.rejected.csv"
    assert spotfed("trace", "import", log, "--out", out).code == 0
    assert not rejected.exists()
    shown = spotfed("trace", "import", damaged(tmp_path, 2), "--out", out).out
    assert "300 of 302 records" in shown
    assert f"2 lines were set aside in {rejected}." in shown
    assert spotfed("trace", "import", log, "--out", out).code == 0
    assert rejected.read_text() == "line,reason,text\n"


def test_above_the_error_rate_and_with_strict_nothing_is_written(spotfed: Spotfed, tmp_path: Path) -> None:
    out = tmp_path / "x.csv"
    for bad, options, message in (
        (40, (), "40 of 340 lines are bad (limit 1.00%): line 302"),
        (1, ("--strict",), "302: 1 lines are bad, this one: not 4 comma-separated cells"),
    ):
        done = spotfed("trace", "import", damaged(tmp_path, bad), "--out", out, *options)
        assert done.code == 2
        assert message in done.err
        assert [one.name for one in tmp_path.iterdir()] == ["damaged.csv"]


def test_convert_keeps_everything_and_takes_no_file_with_a_bad_line(
    spotfed: Spotfed, tmp_path: Path, log: Path
) -> None:
    pytest.importorskip("pyarrow")
    steps = [log, *(tmp_path / name for name in ("1.csv", "2.parquet", "3.csv.gz", "4.parquet", "5.csv"))]
    for file, out in pairwise(steps):
        assert spotfed("trace", "convert", file, out).code == 0
    assert steps[1].read_bytes() == steps[5].read_bytes()
    assert steps[2].read_bytes() == steps[4].read_bytes()
    path = damaged(tmp_path, 1)
    done = spotfed("trace", "convert", path, tmp_path / "x.csv")
    assert done.code == 2
    assert f"spotfed trace import {path} --out {tmp_path / 'x.csv'} sets them aside" in done.err
    done = spotfed("trace", "convert", steps[2], tmp_path / "x.swf", "--json")
    assert json.loads(done.out)["lost"][0] == "instance ids become job numbers."


def test_a_bad_row_of_parquet_is_set_aside(spotfed: Spotfed, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table({"instance": ["a", "b"], "start_s": [0.0, 9.0], "stop_s": [1.0, 5.0], "cores": [1, 1]})
    parquet.write_table(table, tmp_path / "x.parquet")
    assert spotfed("trace", "import", tmp_path / "x.parquet", "--out", tmp_path / "y.csv").code == 0
    assert (tmp_path / "y.rejected.csv").read_text().splitlines()[
        1
    ] == '2,stop_s precedes start_s,"b,9.0,5.0,1"'


def test_without_pyarrow_it_says_what_to_install(
    spotfed: Spotfed, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "installed", lambda: False)
    done = spotfed("trace", "import", log, "--out", tmp_path / "x.parquet")
    assert done.code == 1
    assert "pip install 'spotfed[parquet]'" in done.err


def test_an_import_that_fails_leaves_no_half_a_file(
    spotfed: Spotfed, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(trace: object, path: Path) -> None:
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    (tmp_path / "x.csv").write_text("before")
    monkeypatch.setattr("broker.cli.trace.convert.write", full)
    monkeypatch.setattr(
        sys, "argv", ["spotfed", "trace", "import", str(log), "--out", str(tmp_path / "x.csv")]
    )
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    assert (tmp_path / "x.csv").read_text() == "before"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["my log.txt", "x.csv"]


@pytest.mark.parametrize(("ending", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_plot(spotfed: Spotfed, log: Path, tmp_path: Path, ending: str, begins: bytes) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "p.csv").write_text(PRICES)
    for file, options, shows in (
        (log, ("--nodes", "1x8"), "3 instances, 6 cores at the peak"),
        (tmp_path / "p.csv", (), "2 of 2 markets"),
        (tmp_path / "p.csv", ("--market", "m1.small b"), "1 of 2 markets"),
    ):
        picture = tmp_path / f"x{ending}"
        done = spotfed("trace", "plot", file, "--picture", picture, *options, "--json")
        assert done.code == 0
        assert json.loads(done.out)["shows"] == shows
        assert picture.read_bytes().startswith(begins)
    assert spotfed("trace", "plot", log, "--picture", tmp_path / f"y{ending}").err.startswith("saved ")


def test_a_price_is_not_drawn_through_a_gap(tmp_path: Path) -> None:
    """The line has a hole from the begin of the gap to its end, and over records without a price."""
    pytest.importorskip("matplotlib")
    import numpy as np

    from cloudsim.plots import PriceLine, price_figure

    line = PriceLine(
        "m", np.array([0.0, 1, 5, 6]), np.array([1.0, 2, np.nan, 3]), 7.0, np.array([[1.5, 5.0]]), 0.5
    )
    (axes,) = price_figure([line], title="x").axes
    at, price = axes.lines[0].get_xdata(), axes.lines[0].get_ydata()
    assert np.asarray(at).tolist() == [0, 1, 1.5, 5, 6, 7]
    assert np.array_equal(np.asarray(price), [1, 2, np.nan, np.nan, 3, 3], equal_nan=True)
    assert np.asarray(axes.lines[1].get_ydata()).tolist() == [0.5, 0.5]
    assert len(axes.patches) == 2
