"""``spotfed trace inspect`` on all recorded data: what it says is held against counting lines, and against
the figures that each PROVENANCE.md gives.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker import cli

DAY_S = 86400.0
DOCUMENTS = {"PROVENANCE.md", "LICENSE"}


def spotfed(capsys: pytest.CaptureFixture[str], *arguments: object) -> SimpleNamespace:
    before = sys.argv
    sys.argv = ["spotfed", *map(str, arguments)]
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        sys.argv = before
    output = capsys.readouterr()
    return SimpleNamespace(code=ended.value.code or 0, out=output.out, err=output.err)


@cache
def lines(path: Path) -> list[str]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.name.endswith(".gz") else data).decode("latin-1").splitlines()


def provenance(folder: Path, name: str) -> list[str]:
    """The cells of a row of a table in PROVENANCE.md."""
    for line in (folder / "PROVENANCE.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == name:
            return cells
    raise AssertionError(f"{folder}/PROVENANCE.md has no row {name}")


def inspected(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> dict[str, Any]:
    """What is said of one file, figures and checks by name."""
    if not path.exists():
        pytest.skip(f"no {path}")
    done = spotfed(capsys, "trace", "inspect", path, "--json", *options)
    assert done.code == 0, done.err
    (told,) = json.loads(done.out)["inspected"]
    return {**told, "checks": {one["check"]: one for one in told["quality"]}}


def test_everything_is_told_at_once(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file is said by itself or with its history; only documents are left aside."""
    done = spotfed(capsys, "trace", "inspect", data_dir, "--json")
    assert (done.code, done.err) == (0, "")
    result = json.loads(done.out)
    covered = set()
    for told in result["inspected"]:
        path = Path(told["path"])
        files = {one for one in path.iterdir() if one.name not in DOCUMENTS} if path.is_dir() else {path}
        assert len(files - {path / "markets.csv"}) == told["figures"].get("files", 1)
        covered |= files
    aside = {Path(one) for one in result["left_aside"]}
    assert covered | aside == {one for one in data_dir.rglob("*") if one.is_file()}
    assert {one.name for one in aside} <= DOCUMENTS


def test_every_file_is_told_by_itself_and_documents_are_refused(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = {"eucalyptus": "trace", "swf": "trace", "azure-2017": "trace", "preemptions-gcp-2019": "trace"}
    for path in sorted(one for one in data_dir.rglob("*") if one.is_file()):
        done = spotfed(capsys, "trace", "inspect", path, "--json")
        if path.name in DOCUMENTS:
            assert (done.code, done.out) == (2, "")
            assert done.err.startswith(f"spotfed: {path}:")
            continue
        assert (done.code, done.err) == (0, ""), path
        (told,) = json.loads(done.out)["inspected"]
        prices = "on-demand prices" if "ondemand" in path.parent.name else "prices"
        assert told["kind"] == kinds.get(path.parent.name, prices)
        assert any(command.startswith("spotfed ") for command in told["next"])
        if path.name != "markets.csv":
            assert told["figures"]["records"] == records(path)


def records(path: Path) -> int:
    """By counting lines."""
    if path.parent.name == "eucalyptus":
        return sum(line.startswith("START ") for line in lines(path))
    if path.parent.name == "swf":
        return sum(bool(line.strip()) and not line.lstrip().startswith(";") for line in lines(path))
    return len(lines(path)) - 1


@pytest.mark.parametrize(
    ("name", "nodes", "silence_days"),
    [("DS2", "7x12", "13.0"), ("DS3", "7x8", "3.8"), ("DS5", "31x32", "0.1"), ("DS6", "31x32", "0.1")],
)
def test_eucalyptus(
    data_dir: Path, capsys: pytest.CaptureFixture[str], name: str, nodes: str, silence_days: str
) -> None:
    path = data_dir / "eucalyptus" / f"{name}-trace.txt"
    told = inspected(capsys, path, "--nodes", nodes)
    _, events, vms, days, mean, peak, capacity, sizes = provenance(path.parent, name)
    figures, checks = told["figures"], told["checks"]
    assert figures["instances"] == int(vms) == int(events) / 2
    assert round(figures["span_s"] / DAY_S, 1) == float(days)
    assert round(figures["mean_cores"], 1) == float(mean)
    assert (figures["peak_cores"], figures["capacity_cores"]) == (int(peak), int(capacity))
    of_size = dict(pair.split(":") for pair in sizes.split())
    assert {str(one["cores"]): str(one["instances"]) for one in figures["sizes"]} == of_size
    assert (checks["overcommit"]["found"], checks["quarantined"]["found"]) == (0, 0)
    at_0 = re.search(rf"\b{name} (\d+)", line_with(path.parent, "left-censored"))
    assert at_0 is not None
    assert checks["cut at the begin"]["says"].startswith(f"but {at_0[1]} start at the very first time")
    said = checks["drop-outs"]["says"] or checks["silences"]["says"]
    found = re.search(r"([\d.]+) (days|hours)", said)
    assert found is not None
    assert round(float(found[1]) / (1 if found[2] == "days" else 24), 1) == float(silence_days)
    assert checks["drop-outs"]["found"] == (1 if name == "DS2" else 0)
    assert "spotfed experiment scaling" in told["next"]


def line_with(folder: Path, text: str) -> str:
    return next(line for line in (folder / "PROVENANCE.md").read_text().splitlines() if text in line)


@pytest.mark.parametrize("name", ["KTH-SP2-1996", "SDSC-SP2-1998", "NASA-iPSC-1993"])
def test_batch_logs(data_dir: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    folder = data_dir / "swf"
    path = next(folder.glob(f"{name}-*.swf.gz"), folder / name)
    told = inspected(capsys, path)
    _, jobs, days, mean, peak, procs, _ = provenance(folder, name)
    figures, checks = told["figures"], told["checks"]
    assert (figures["instances"], checks["skipped"]["found"]) == (int(jobs), records(path) - int(jobs))
    assert round(figures["span_s"] / DAY_S, 1) == float(days)
    assert round(figures["mean_cores"], 1) == float(mean)
    assert (figures["peak_cores"], figures["capacity_cores"]) == (int(peak), int(procs))
    assert checks["overcommit"]["found"] == 1
    header = "\n".join(line for line in lines(path) if line.startswith(";"))
    zone = re.search(r"TimeZoneString: (\S+)", header)
    assert zone is not None
    assert figures["time_zone"] == zone[1]
    year = re.search(r"StartTime: .* (\d{4})$", header, re.MULTILINE)
    assert year is not None
    assert figures["begins_at"].startswith(year[1])
    assert "spotfed experiment jobs-logs" in told["next"]


def test_azure(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """VMs alive before the first row are absent, and those that run at the end are marked."""
    path = data_dir / "azure-2017" / "vms_dev.csv.gz"
    told = inspected(capsys, path)
    checks = told["checks"]
    assert told["figures"]["instances"] == 259_159
    assert [one["cores"] for one in told["figures"]["sizes"]] == [1, 2, 4, 8, 16]
    assert checks["cut at the end"]["found"] == sum(line.endswith(",1") for line in lines(path))
    assert checks["cut at the begin"]["says"] == "none that ran before is there: use grows from nothing"
    assert checks["off the grid"] == {
        "check": "off the grid",
        "found": 0,
        "says": "times lie on a grid of 300 s",
        "rule": "",
    }


def test_preemptible_vms(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """717 were preempted, and their lifetimes are known; 725 were stopped by their owner."""
    told = inspected(capsys, data_dir / "preemptions-gcp-2019" / "preemptions.csv")
    lifetimes = told["figures"]["lifetimes"]
    assert (lifetimes["counted"], lifetimes["left_out"]) == (717, 725)
    assert [round(lifetimes["quantiles_s"][q] / 3600, 2) for q in ("0.1", "0.5", "0.9")] == pytest.approx(
        [0.12, 21.5, 24.5], abs=0.06
    )
    assert told["figures"]["begins_at"] == "2019-02-18T00:00:00Z"
    assert told["checks"]["drop-outs"]["found"] is None


def test_prices_of_2015(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All markets were silent for 56 h and for 13 h; the list says what they cost on demand."""
    folder = data_dir / "spot-prices-2015"
    told = inspected(capsys, folder)
    figures, checks = told["figures"], told["checks"]
    files = [one for one in folder.iterdir() if one.name not in {*DOCUMENTS, "markets.csv"}]
    listed = [line.split(",") for line in lines(folder / "markets.csv")[1:]]
    here = [row for row in listed if (folder / row[0]).is_file()]
    assert figures["markets"] == figures["on_demand_prices_known"] == len(files) == len(here)
    assert figures["records"] == sum(records(one) for one in files) == sum(int(row[4]) for row in here)
    assert figures["starts_at"] == min(row[5] for row in here)
    assert figures["ends_at"] == max(row[6] for row in here)
    assert checks["all silent"]["found"] == 2
    assert checks["all silent"]["says"] == "the longest 56.4 h"
    assert checks["not there"]["found"] == len(listed) - len(here)
    assert "spotfed experiment volatile-policies" in told["next"]


def test_prices_of_2013_and_2021(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = inspected(capsys, data_dir / "spot-prices-2013")
    assert (told["figures"]["records"], told["figures"]["zones"]) == (10_430, 4)
    assert told["figures"]["starts_at"].startswith("2012-12-31")
    assert told["checks"]["all silent"]["found"] == 1
    told = inspected(capsys, data_dir / "spot-prices-2021")
    figures = told["figures"]
    assert (figures["records"], figures["markets"]) == (268_519, 1_246)
    assert (figures["instance_types"], figures["zones"], figures["products"]) == (255, 6, ["Linux/UNIX"])
    assert (told["checks"]["gaps"]["found"], told["checks"]["no price"]["found"]) == (0, 0)
    assert {"spotfed experiment volatile-markets", "spotfed experiment jobs-figure-1"} <= set(told["next"])


def test_on_demand_prices(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = data_dir / "ondemand-prices-2015"
    path = next(folder.glob("*.csv"), folder / "prices.csv")
    told = inspected(capsys, path)
    rows = [line.split(",") for line in lines(path)[1:]]
    assert told["figures"]["prices"] == len(rows)
    assert told["figures"]["regions"] == len({row[0] for row in rows})
    assert told["figures"]["max_usd_per_hour"] == max(float(row[2]) for row in rows)
