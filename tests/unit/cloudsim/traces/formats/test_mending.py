"""Files as spreadsheets and other systems leave them: what is mended is told, what is odd is counted."""

import gzip
from pathlib import Path

import pytest

from cloudsim.markets.formats import read as read_prices
from cloudsim.model.errors import SpecError
from cloudsim.traces.formats import read, write
from cloudsim.traces.formats.swf import list_losses
from cloudsim.traces.trace import Trace

SEMICOLONS = "cells are separated by semicolons, not by commas."
TABS = "cells are separated by tabs, not by commas."
MARK = "a byte order mark was passed over."
RETURNS = "lines end with carriage returns, as on other systems."


def put(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("instance;start_s;stop_s;cores\na;0,5;7,25;2\nb;3;9;1\n", (SEMICOLONS,)),
        ("instance\tstart_s\tstop_s\tcores\na\t0.5\t7.25\t2\nb\t3\t9\t1\n", (TABS,)),
        ("\ufeffinstance,start_s,stop_s,cores\r\na,0.5,7.25,2\r\nb,3,9,1\r\n", (MARK, RETURNS)),
        ('instance;start_s;stop_s;cores\n"a";"0,5";7,25;2\nb;3;9;1\n', (SEMICOLONS,)),
        ("vm;start_s;duration_s;cores\na;0,5;6,75;2\nb;3;6;1\n", (SEMICOLONS,)),
        ("instance,start_s,stop_s,cores\na,0.5,7.25,2\nb,3,9,1\n", ()),
    ],
)
def test_spreadsheets_are_read_and_what_was_mended_is_told(
    tmp_path: Path, text: str, repaired: tuple[str, ...]
) -> None:
    trace, report = read(put(tmp_path / "x.csv", text), max_error_rate=0)
    assert (trace.start_s.tolist(), trace.stop_s.tolist()) == ([0.5, 3], [7.25, 9])
    assert trace.cores.tolist() == [2, 1]
    assert (report.repaired, report.ends_open) == (repaired, False)


def test_points_between_decimal_commas_are_not_guessed_at(tmp_path: Path) -> None:
    """Is 1.234 a thousand or one? Where commas are decimal nobody can tell."""
    path = put(tmp_path / "x.csv", "instance;start_s;stop_s;cores\na;0,5;1,5;1\nb;1.234;9,5;1\nc;1;2.5;1\n")
    trace, report = read(path, max_error_rate=1)
    assert trace.instance.tolist() == ["a"]
    assert [(q.line, q.text) for q in report.quarantined] == [(3, "b;1.234;9,5;1"), (4, "c;1;2.5;1")]


def test_prices_with_semicolons_keep_their_decimals(tmp_path: Path) -> None:
    text = (
        "timestamp;instance_type;availability_zone;price_usd_per_hour\n2021-03-02T00:00:00Z;m1.large;a;0,0175"
    )
    (series,), report = read_prices(put(tmp_path / "x.csv", text))
    assert series.price_text[0] == "0.0175"
    assert (report.files[0].repaired, report.files[0].ends_open) == ((SEMICOLONS,), True)


@pytest.mark.parametrize(
    ("text", "out_of_order"),
    [
        ("START 5 a n 1\nSTOP 9 a\nSTART 6 b n 1\nSTOP 0 b\nSTART 7 c n 1\n", 1),
        ("START 0 a n 1\nSTART 6 b n 1\nSTOP 0 b\nSTOP 9 a\n", 0),
        ("instance,start_s,stop_s,cores\na,5,6,1\nb,4,6,1\nc,4,6,1\nd,3,6,1\n", 2),
        ("vm,start_s,duration_s,cores\na,5,6,1\nb,4,6,1\n", 1),
        ("1 9 5 1 1 -1 -1 1 9 -1 1 1 1 -1 -1 -1 -1 -1\n2 8 9 1 1 -1 -1 1 9 -1 1 1 1 -1 -1 -1 -1 -1\n", 1),
        ("1 8 9 1 1 -1 -1 1 9 -1 1 1 1 -1 -1 -1 -1 -1\n2 9 5 1 1 -1 -1 1 9 -1 1 1 1 -1 -1 -1 -1 -1\n", 0),
    ],
)
def test_records_out_of_order_are_counted(tmp_path: Path, text: str, out_of_order: int) -> None:
    assert read(put(tmp_path / "x", text), max_error_rate=0)[1].out_of_order == out_of_order


def test_a_log_says_when_it_begins_and_where(tmp_path: Path) -> None:
    head = "; UnixStartTime: 843480031\n; TimeZoneString: Europe/Stockholm\n"
    path = put(tmp_path / "x.swf", head + "1 0 5 100 4 -1 -1 4 200 -1 1 1 1 -1 -1 -1 -1 -1")
    _, report = read(path)
    assert (report.begins_at_s, report.time_zone, report.ends_open) == (843480031, "Europe/Stockholm", True)


@pytest.mark.parametrize("file", ["x.swf", "x.swf.gz"])
def test_swf_keeps_what_it_has_fields_for_and_says_what_not(tmp_path: Path, file: str) -> None:
    trace = Trace.checked(
        "x", ["a", "b", "c"], [0, 2.5, 4], [1, 3600, 4], [4, 1, 2], requested_s=[60, float("nan"), 1]
    )
    write(trace, tmp_path / file)
    data = (tmp_path / file).read_bytes()
    text = (gzip.decompress(data) if file.endswith("gz") else data).decode()
    assert text.startswith("; Computer: x\n; MaxRecords: 3\n; UnixStartTime: 0\n1 0 0 1 4")
    again, report = read(tmp_path / file)
    assert again.instance.tolist() == ["1", "2"]
    assert again.start_s.tolist() == [0, 2.5]
    assert again.lifetime_s.tolist() == [1, 3597.5]
    assert again.cores.tolist() == [4, 1]
    assert again.parallel.tolist() == [True, False]
    assert again.requested_s[0] == 60
    assert again.requested_s[1] != again.requested_s[1]
    assert dict(report.skipped) == {"run time is not positive: the job never ran": 1}
    assert list_losses(trace) == (
        "instance ids become job numbers.",
        "2 instances on one node are read as jobs that may be on several.",
        "1 instances of no length are read as jobs that never ran.",
    )


def test_an_ending_that_nobody_writes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"\.parquet"):
        write(Trace.checked("x", ["a"], [0], [1], [1]), tmp_path / "x.txt")
