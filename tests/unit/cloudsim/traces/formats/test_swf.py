"""Standard Workload Format: which fields mean what, and what is skipped."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.swf import parse


def job(number: int = 1, **fields: object) -> str:
    values = {
        "submit": 100,
        "wait": 10,
        "run": 50,
        "used": 4,
        "asked": 8,
        "requested": 60,
        "status": 1,
    } | fields
    return (
        f"{number} {values['submit']} {values['wait']} {values['run']} {values['used']} -1 -1 "
        f"{values['asked']} {values['requested']} -1 {values['status']} 1 1 -1 -1 -1 -1 -1"
    )


def parsed(*lines: str) -> Parsed:
    return parse(Source("x", "x", list(lines)))


@given(
    submit=st.integers(0, 10**8),
    wait=st.integers(0, 10**6),
    run=st.integers(1, 10**6),
    used=st.integers(-1, 999),
    asked=st.integers(1, 999),
    requested=st.integers(-1, 10**6),
)
def test_fields(submit: int, wait: int, run: int, used: int, asked: int, requested: int) -> None:
    line = job(7, submit=submit, wait=wait, run=run, used=used, asked=asked, requested=requested)
    trace = parsed(line).trace
    assert trace.instance[0] == "7"
    assert (trace.start_s[0], trace.stop_s[0]) == (submit + wait, submit + wait + run)
    assert trace.cores[0] == (used if used > 0 else asked)
    assert trace.requested_s[0] == requested if requested > 0 else math.isnan(trace.requested_s[0])
    assert not trace.left_truncated[0]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"run": 0}, "never ran"),
        ({"run": -1}, "never ran"),
        ({"used": -1, "asked": -1}, "processors"),
        ({"used": 0, "asked": 0}, "processors"),
        ({"status": 2}, "part of a job"),
        ({"status": 3}, "part of a job"),
        ({"status": 4}, "part of a job"),
    ],
)
def test_what_held_no_core_is_skipped_and_counted(fields: dict[str, int], reason: str) -> None:
    found = parsed(job(1), job(2, **fields), job(3, **fields))
    ((text, count),) = found.skipped
    assert reason in text
    assert (count, len(found.trace), found.records, found.quarantined) == (2, 1, 3, ())


@pytest.mark.parametrize(
    "line",
    [
        "1 2 3",
        job(2) + " 5",
        job(2, run="x"),
        job(2, submit="nan"),
        job(2, wait="inf"),
        job(2, used=1.5),
        job(2, used=2**40),
        job(2, requested="soon"),
        job(2, submit=-500),
        "START 5 a n 1",
    ],
)
def test_a_bad_line_is_quarantined(line: str) -> None:
    found = parsed("; header", job(1), "", line)
    (bad,) = found.quarantined
    assert (bad.line, bad.text) == (4, line)
    assert (len(found.trace), found.records, found.lost) == (1, 2, 1)


def test_an_unknown_wait_is_none_and_told() -> None:
    found = parsed(job(1, wait=-1), job(2, wait=0))
    assert found.trace.start_s.tolist() == [100, 100]
    assert found.warnings == ("1 jobs have no known wait; they start when they were submitted.",)


def test_a_start_before_the_log_is_left_truncated() -> None:
    trace = parsed(job(1, submit=-30)).trace
    assert (trace.start_s[0], trace.stop_s[0], trace.left_truncated[0]) == (0, 30, True)


def test_jobs_are_ordered_by_start_not_by_submission() -> None:
    assert parsed(job(1, wait=500), job(2, submit=200)).trace.instance.tolist() == ["2", "1"]


@pytest.mark.parametrize(
    ("header", "capacity"),
    [
        ("; MaxProcs: 128", 128),
        (";MaxProcs:  5 (of 6)", 5),
        ("; MaxProcs: 1,152", 1152),
        ("; MaxProcs: 1'152'000", 1_152_000),
        ("; MaxProcs: 1,15", None),
        ("; MaxProcs: 2.5", None),
        ("; MaxProcs: -1", None),
        (";", None),
    ],
)
def test_the_header_knows_the_machine(header: str, capacity: int | None) -> None:
    assert parsed(header, job(1)).capacity_cores == capacity
