"""One odd row of a log moves no table; what is set aside or censored is told with its share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cloudsim.traces.formats import read
from cloudsim.traces.report import ImportReport
from cloudsim.traces.trace import Trace

DAY_S = 86_400.0


def log_of(count: int, seed: int = 0) -> list[tuple[float, float, int]]:
    generator = np.random.default_rng(seed)
    start_s = np.sort(generator.integers(0, int(8 * DAY_S), count))
    start_s[0] = 0
    rows = zip(start_s.tolist(), generator.integers(60, 7200, count).tolist(), strict=True)
    return [(start, start + lasts, 2) for start, lasts in rows]


def read_rows(tmp_path: Path, rows: list[tuple[float, float, int]]) -> tuple[Trace, ImportReport]:
    path = tmp_path / "x.csv"
    lines = [f"i{number},{start},{stop},{cores}" for number, (start, stop, cores) in enumerate(rows)]
    path.write_text("\n".join(["instance,start_s,stop_s,cores", *lines, ""]))
    return read(path)


@pytest.mark.parametrize("count", [20, 150, 400])
@pytest.mark.parametrize("odd_s", [3e8, 1.7e9])
def test_a_row_far_behind_all_others_is_set_aside(tmp_path: Path, count: int, odd_s: float) -> None:
    rows = log_of(count)
    plain, _ = read_rows(tmp_path, rows)
    trace, report = read_rows(tmp_path, [*rows, (odd_s, odd_s + 60, 1)])
    assert trace.equals(plain)
    ((reason, skipped),) = report.skipped
    assert (reason, skipped) == ("the start is far from all others (0.0% of the core-hours)", 1)
    assert any(reason in warning for warning in report.warnings)


def test_a_row_before_the_clock_was_set_is_set_aside_and_unix_time_is_told(tmp_path: Path) -> None:
    rows = log_of(150)
    plain, _ = read_rows(tmp_path, rows)
    trace, report = read_rows(tmp_path, [(0, 60, 1), *((a + 1.7e9, b + 1.7e9, c) for a, b, c in rows)])
    assert np.array_equal(trace.start_s, plain.start_s)
    assert np.array_equal(trace.stop_s, plain.stop_s)
    assert report.begins_at_s == 1.7e9
    assert dict(report.skipped) == {"the start is far from all others (0.0% of the core-hours)": 1}


def test_odd_rows_at_both_ends_do_not_hide_each_other(tmp_path: Path) -> None:
    rows = log_of(400)
    odd = [(0.0, 60.0, 1), *((a + 1.7e9, b + 1.7e9, c) for a, b, c in rows), (2.4e9, 2.4e9 + 60, 1)]
    trace, report = read_rows(tmp_path, odd)
    assert len(trace) == 400
    assert trace.last_stop_s < 9 * DAY_S
    assert sum(count for _, count in report.skipped) == 2


def test_an_end_far_behind_all_others_is_censored(tmp_path: Path) -> None:
    rows = log_of(150)
    plain, _ = read_rows(tmp_path, rows)
    start, _, cores = rows[70]
    trace, report = read_rows(tmp_path, [*rows[:70], (start, 4e9, cores), *rows[71:]])
    assert trace.last_stop_s == plain.last_stop_s
    assert np.flatnonzero(trace.right_censored).tolist() == [70]
    assert any("1 ends far behind all others are not believed" in warning for warning in report.warnings)


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 100, 1), (1000, 2000, 1), (100 * DAY_S, 100 * DAY_S + 10, 1)],  # few rows: none is odd
        [*log_of(150), (60 * DAY_S, 60 * DAY_S + 10, 1)],  # not that far
        [*log_of(150), *((900 * DAY_S + number, 901 * DAY_S, 1) for number in range(10))],  # not that few
        [(0, 40 * DAY_S, 1), *log_of(150)],  # a long instance
    ],
)
def test_others_stay(tmp_path: Path, rows: list[tuple[float, float, int]]) -> None:
    trace, report = read_rows(tmp_path, rows)
    assert len(trace) == len(rows)
    assert trace.last_stop_s == max(stop for _, stop, _ in rows)
    assert not report.skipped
    assert not trace.right_censored.any()
