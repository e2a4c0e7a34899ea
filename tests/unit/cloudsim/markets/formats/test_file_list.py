"""Directories, and lists of files with what each is about."""

from pathlib import Path

import pytest

from cloudsim.markets.formats import read
from cloudsim.model.errors import TraceError
from cloudsim.traces.formats.source import decode_source

PRICES = "timestamp,price_usd_per_hour\n2021-03-02T00:00:00Z,0.10\n"
LIST = "file,instance_type,availability_zone,ondemand_usd_per_hour\n"


def put(directory: Path, **files: str) -> Path:
    for name, content in files.items():
        (directory / f"{name}.csv").write_text(content)
    return directory


def test_a_list_says_what_its_files_are_about(tmp_path: Path) -> None:
    listing = LIST + "a.csv,m1.large,us-east-1a,0.25\nb.csv,c3.xlarge,us-east-1b,\ngone.csv,c3.xlarge,x,1\n"
    put(tmp_path, a=PRICES, b=PRICES, other="not,prices\n", markets=listing)
    for given in (tmp_path, tmp_path / "markets.csv"):
        series, report = read(given)
        assert [(one.name, one.on_demand_usd_per_hour) for one in series] == [
            ("c3.xlarge us-east-1b", None),
            ("m1.large us-east-1a", 0.25),
        ]
        assert list(report.warnings) == ["1 files of the list are not there, first gone.csv."]


def test_a_directory_without_a_list_is_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("nothing of interest")
    (tmp_path / "deeper.csv").mkdir()
    for zone in "ab":
        (tmp_path / f"{zone}_m1.large.csv").write_text(PRICES)
    assert [one.zone for one in read(tmp_path)[0]] == ["a", "b"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("gone.csv,m1.large,us-east-1a,1\n", "no file of the list is there"),
        ("", "no file of the list is there"),
        ("../a.csv,m1.large,us-east-1a,1\n", r":2: file: '\.\./a\.csv' is no file beside the list"),
        ("/etc/passwd,m1.large,us-east-1a,1\n", ":2: file: '/etc/passwd' is no file beside the list"),
        (",m1.large,us-east-1a,1\n", ":2: file: '' is no file beside the list"),
        ("a.csv,m1.large\n", ":2: not 4 comma-separated cells"),
    ],
)
def test_a_bad_list_is_refused(tmp_path: Path, rows: str, message: str) -> None:
    put(tmp_path, a=PRICES, markets=LIST + rows)
    with pytest.raises(TraceError, match=message):
        read(tmp_path)


def test_a_list_without_a_place_is_refused() -> None:
    with pytest.raises(TraceError, match="standard input: is a list of files: give its path"):
        read(decode_source(f"{LIST}a.csv,m1.large,us-east-1a,1\n".encode(), "standard input", accepted=""))


def test_a_price_on_demand_that_is_none_is_not_known(tmp_path: Path) -> None:
    for text in ("0", "-1", "inf", "nan", "much"):
        series, _ = read(put(tmp_path, a=PRICES, markets=f"{LIST}a.csv,m1.large,us-east-1a,{text}\n"))
        assert series[0].on_demand_usd_per_hour is None


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="prices: there is no such file; accepted are"):
        read(tmp_path / "prices")
    with pytest.raises(TraceError, match="is a directory without CSV or JSON files; accepted are"):
        read(tmp_path)
