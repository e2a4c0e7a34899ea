"""START/STOP lines and their faults: case 1, 2, 3."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.traces.formats import read
from cloudsim.traces.formats.eucalyptus import parse
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.trace import Trace


def parsed(*lines: str) -> Parsed:
    return parse(Source("x", "x", list(lines)))


def rows(trace: Trace) -> list[tuple[str, float, float, int]]:
    columns = (trace.instance.tolist(), trace.start_s.tolist(), trace.stop_s.tolist(), trace.cores.tolist())
    return list(zip(*columns, strict=True))


def test_plain_lines() -> None:
    found = parsed("START 0 a N0 2", "", "# a comment", "START 7 b N1 4", "  STOP 9.5 a", "STOP 12 b ")
    assert rows(found.trace) == [("a", 0, 9.5, 2), ("b", 7, 12, 4)]
    assert (found.records, found.lines, found.lost, found.quarantined) == (2, 4, 0, ())


@given(before_s=st.integers(1, 10**7), stop_s=st.integers(1, 10**6), cores=st.integers(1, 64))
def test_a_start_before_the_trace_is_left_truncated(before_s: int, stop_s: int, cores: int) -> None:
    """Case 1: -7157 in the original."""
    found = parsed(
        f"START {-before_s} vm-1 node0 {cores}", "START 5 b n 1", f"STOP {stop_s} vm-1", "STOP 6 b"
    )
    assert rows(found.trace)[0] == ("vm-1", 0, stop_s, cores)
    assert found.trace.left_truncated.tolist() == [True, False]
    assert found.quarantined == ()


def test_what_ended_before_the_trace_is_no_part_of_it() -> None:
    found = parsed("START -50 a n 1", "STOP -20 a", "START 1 b n 1", "STOP 2 b")
    assert rows(found.trace) == [("b", 1, 2, 1)]
    assert [(q.line, q.reason) for q in found.quarantined] == [
        (2, "a stops before the trace begins (-50 on line 1)")
    ]


def test_times_off_the_grid_are_taken_as_they_are(tmp_path: Path) -> None:
    """Case 2: 27 VMs at 2556100 → 2557600 in a 300 s trace."""
    lines = [f"START {300 * i} g{i} n 1\nSTOP {300 * i + 600} g{i}" for i in range(1, 200)]
    lines += [f"START 2556100 o{i} n 1" for i in range(27)] + [f"STOP 2557600 o{i}" for i in range(27)]
    path = tmp_path / "x"
    path.write_text("\n".join(lines))
    trace, report = read(path)
    assert (report.grid_s, report.off_grid) == (300, 54)
    assert [w for w in report.warnings if "grid" in w] == [
        "54 times of 27 instances are off the 300 s grid; they are taken as they are."
    ]
    off = trace.select(trace.start_s == 2556100)
    assert off.stop_s.tolist() == [2557600] * 27


@pytest.mark.parametrize(
    "lines",
    [
        ["START 500 a n 2", "START 600 b n 1", "STOP 900 b"],
        ["START 500 a n 2", "STOP 0 a", "START 600 b n 1", "STOP 900 b"],
        ["STOP 0 a", "START 500 a n 2", "START 600 b n 1", "STOP 900 b"],
        ["START 500 a n 2", "START 600 b n 1", "STOP 900 b", "STOP 0 a"],
        ["START 500 a n 2", "STOP 0 a", "STOP 0 a", "START 600 b n 1", "STOP 900 b"],
    ],
)
def test_no_end_is_running_until_the_last_timestamp(lines: Sequence[str]) -> None:
    """Case 3, missing or zero."""
    found = parsed(*lines)
    assert rows(found.trace) == [("a", 500, 900, 2), ("b", 600, 900, 1)]
    assert found.trace.right_censored.tolist() == [True, False]
    assert found.quarantined == ()


def test_the_last_timestamp_may_be_a_start() -> None:
    assert rows(parsed("START 500 a n 2", "START 800 b n 1").trace) == [
        ("a", 500, 800, 2),
        ("b", 800, 800, 1),
    ]


def test_a_stop_after_a_stop_at_zero_is_the_end() -> None:
    found = parsed("START 500 a n 2", "STOP 0 a", "STOP 700 a")
    assert rows(found.trace) == [("a", 500, 700, 2)]
    assert not found.trace.right_censored.any()


@pytest.mark.parametrize("lines", [["START 500 a n 2", "STOP 400 a"], ["STOP 400 a", "START 500 a n 2"]])
def test_an_end_before_the_start_quarantines_the_instance(lines: Sequence[str]) -> None:
    """Case 3, in both orders of the lines."""
    found = parsed("START 1 b n 1", "STOP 2 b", *lines)
    assert rows(found.trace) == [("b", 1, 2, 1)]
    (bad,) = found.quarantined
    assert bad.line == 3 + lines.index("STOP 400 a")
    assert bad.text == "STOP 400 a"
    assert bad.reason == f"a stops before its START (500 on line {3 + lines.index('START 500 a n 2')})"
    assert (found.records, found.lost) == (2, 1)


def test_a_stop_in_the_instant_of_its_start_is_kept_in_any_order() -> None:
    for lines in (["START 5 a n 1", "STOP 5 a"], ["STOP 5 a", "START 5 a n 1"]):
        found = parsed(*lines)
        assert rows(found.trace) == [("a", 5, 5, 1)]
        assert not found.trace.right_censored.any()


def test_an_id_may_be_used_again_once_it_has_stopped() -> None:
    found = parsed("START 1 a n 1", "STOP 2 a", "START 2 a n 4", "STOP 9 a")
    assert rows(found.trace) == [("a", 1, 2, 1), ("a", 2, 9, 4)]


@pytest.mark.parametrize(
    ("line", "reason", "lost"),
    [
        ("STOP 5 zz", "STOP of an unknown instance", 0),
        ("STOP 0 zz", "STOP of an unknown instance", 0),
        ("STOP 7 done", "STOP of an unknown instance", 0),
        ("START 5 a n 2", "second START of an instance that is running since line 1", 1),
        ("START 5 c n", "not START", 1),
        ("START 5 c n 1 9", "not START", 1),
        ("STOP 5", "not START", 0),
        ("STOP 5 a b", "not START", 0),
        ("START nan c n 1", "not a finite number", 1),
        ("START inf c n 1", "not a finite number", 1),
        ("START 1e400 c n 1", "not a finite number", 1),
        ("START 1_0 c n 1", "not a finite number", 1),
        ("START x c n 1", "not a finite number", 1),
        ("STOP nan zz", "not a finite number", 0),
        ("START 5 c n 1.5", "not a whole number", 1),
        ("START 5 c n 0", "not a whole number", 1),
        ("START 5 c n -2", "not a whole number", 1),
        ("START 5 c n nan", "not a finite number", 1),
        ("START 5 c n two", "not a finite number", 1),
        ("START 5 c n 9223372036854775808", "not a whole number", 1),
        ("START 5 c\x07 n 1", "unprintable", 1),
        ("PAUSE 5 a", "unknown keyword 'PAUSE'", 0),
        ("start 5 c n 1", "unknown keyword 'start'", 0),
        ("garbage", "unknown keyword", 0),
    ],
)
def test_a_bad_line_is_quarantined_alone(line: str, reason: str, lost: int) -> None:
    good = ["START 0 a n 2", "START 1 done n 1", "STOP 2 done", "STOP 9 a"]
    found = parsed(*good[:3], line, good[3])
    (bad,) = found.quarantined
    assert (bad.line, bad.text) == (4, line)
    assert reason in bad.reason
    assert found.lost == lost
    assert rows(found.trace) == rows(parsed(*good).trace)


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("START"), st.integers(-5, 30), st.sampled_from("abcd"), st.integers(-1, 3)),
        st.tuples(st.just("STOP"), st.integers(-5, 30), st.sampled_from("abcd"), st.just(0)),
    ),
    max_size=40,
)


@given(EVENTS)
def test_nothing_is_lost_silently(events: list[tuple[str, int, str, int]]) -> None:
    """Whatever the mess: each START is a row or quarantined, each row is lawful, no line is blamed twice."""
    lines = [f"{w} {t} {i} n {c}" if w == "START" else f"{w} {t} {i}" for w, t, i, c in events]
    found = parsed(*lines)
    starts = sum(w == "START" for w, *_ in events)
    assert found.records == starts == len(found.trace) + found.lost
    assert found.lines == len(lines)
    blamed = [q.line for q in found.quarantined]
    assert blamed == sorted(set(blamed))
    stops = len(lines) - starts
    at_zero = sum(w == "STOP" and t == 0 for w, t, *_ in events)
    ended = int((~found.trace.right_censored).sum())
    bad_stops = sum(q.text.startswith("STOP") for q in found.quarantined)
    assert stops - at_zero <= ended + bad_stops <= stops


def test_edges_of_the_log_are_told() -> None:
    told = parsed(
        "START 0 a n 1", "START 0 b n 1", "START 3 c n 1", "STOP 5 a", "STOP 9 b", "STOP 9 c"
    ).warnings
    assert [sentence.split(",")[0] for sentence in told] == [
        "2 instances start at 0",
        "2 instances stop at the last timestamp",
    ]
    assert parsed("START 0 a n 1", "STOP 5 a").warnings == ()
