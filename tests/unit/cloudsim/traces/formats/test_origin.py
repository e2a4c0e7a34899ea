"""The times of a log need an origin and a unit (case 16)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cloudsim.model.errors import TraceError
from cloudsim.traces.formats import read, write

DAY_S = 86_400


def log(path: Path, *starts: float, header: str = "") -> Path:
    """Write a batch log in which jobs of 100 s start at these times."""
    jobs = [
        f"{number} {start} 0 100 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1" for number, start in enumerate(starts)
    ]
    path.write_text("\n".join([header, *jobs, ""]))
    return path


def table(path: Path, *starts: float) -> Path:
    rows = [f"i{number},{start},{start + 100},1" for number, start in enumerate(starts)]
    path.write_text("\n".join(["instance,start_s,stop_s,cores", *rows, ""]))
    return path


@pytest.mark.parametrize("make", [log, table])
def test_unix_time_counts_from_the_first_start(tmp_path: Path, make: Callable[..., Path]) -> None:
    trace, report = read(make(tmp_path / "unix", 1_700_000_000, 1_700_003_600))
    same, plain = read(make(tmp_path / "zero", 0, 3600))
    assert trace.start_s.tolist() == same.start_s.tolist()
    assert trace.stop_s.tolist() == same.stop_s.tolist()
    assert report.begins_at_s == 1_700_000_000
    assert any("first start, which is 1700000000" in sentence for sentence in report.warnings)
    assert plain.begins_at_s is None
    assert not any("first start" in sentence for sentence in plain.warnings)


@pytest.mark.parametrize(("factor", "unit"), [(1000, "milliseconds"), (1_000_000, "microseconds")])
def test_other_units_are_refused_by_name(tmp_path: Path, factor: int, unit: str) -> None:
    with pytest.raises(TraceError, match=f"Unix time in {unit}"):
        read(log(tmp_path / "x.swf", 1_700_000_000 * factor))


def test_a_log_that_starts_on_its_fifth_day_was_not_idle_before(tmp_path: Path) -> None:
    trace, report = read(log(tmp_path / "x.swf", 5 * DAY_S, 5 * DAY_S + 10))
    assert trace.start_s.tolist() == [0, 10]
    assert report.begins_at_s is None
    assert any("is 432000 on the log's own clock (seconds)" in sentence for sentence in report.warnings)


@pytest.mark.parametrize("header", ["; UnixStartTime: 1700000000", "; UnixStartTime: 1136070024.000"])
def test_but_it_was_if_its_header_says_when_it_began(tmp_path: Path, header: str) -> None:
    trace, report = read(log(tmp_path / "x.swf", 5 * DAY_S, header=header))
    assert trace.start_s.tolist() == [5 * DAY_S]
    assert report.begins_at_s == float(header.rsplit(maxsplit=1)[-1].partition(".")[0])


@pytest.mark.parametrize("file", ["x.swf", "x.csv", "x.parquet"])
def test_what_we_write_keeps_its_beginning(tmp_path: Path, file: str) -> None:
    if file.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    trace, _ = read(table(tmp_path / "table", 5 * DAY_S))
    assert trace.start_s.tolist() == [5 * DAY_S]
    write(trace, tmp_path / file)
    assert read(tmp_path / file)[0].start_s.tolist() == [5 * DAY_S]
