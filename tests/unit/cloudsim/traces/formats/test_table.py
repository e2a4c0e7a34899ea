"""Our own CSV: what is written is read back bit for bit."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.traces.formats import read, write
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.table import parse
from cloudsim.traces.trace import MAX_CORES, Trace

#: All that is printable.
IDS = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), min_size=1, max_size=12)
SECONDS = st.floats(0, 9e7)  # from 1e8 on, a first start is Unix time
ROW = st.tuples(
    IDS,
    SECONDS,
    SECONDS,
    st.integers(1, MAX_CORES),
    st.one_of(st.just(math.nan), st.floats(1e-9, 1e12)),
    st.booleans(),
    st.booleans(),
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    rows = draw(st.lists(ROW, min_size=1, max_size=20))
    ids, one, other, cores, requested, truncated, censored = zip(*rows, strict=True)
    return Trace.checked(
        "round",
        ids,
        [min(a, b) for a, b in zip(one, other, strict=True)],
        [max(a, b) for a, b in zip(one, other, strict=True)],
        cores,
        requested_s=requested if draw(st.booleans()) else None,
        left_truncated=truncated if draw(st.booleans()) else None,
        right_censored=censored if draw(st.booleans()) else None,
    )


@given(traces(), st.sampled_from(["round.csv", "round.csv.gz"]))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, trace: Trace, file: str) -> None:
    path = tmp_path_factory.mktemp("table") / file
    write(trace, path)
    again, report = read(path)
    assert again.equals(trace)
    assert (report.format, report.rows, report.quarantined) == ("table", len(trace), ())
    first = path.read_bytes()
    write(again, path)
    assert path.read_bytes() == first


def test_a_plain_trace_is_a_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    write(Trace.checked("x", ["a,b", "c"], [0, 2.5], [1, 3600], [4, 1]), path)
    assert path.read_text() == 'instance,start_s,stop_s,cores\n"a,b",0,1,4\nc,2.5,3600,1\n'


def parsed(*lines: str, header: str = "instance,start_s,stop_s,cores,requested_s") -> Parsed:
    return parse(Source("x", "x", [header, *lines]))


def test_an_empty_stop_is_running_until_the_last_timestamp() -> None:
    found = parsed("a,0,,1,", "b,5,9,1,60")
    assert found.trace.stop_s.tolist() == [9, 9]
    assert found.trace.right_censored.tolist() == [True, False]


def test_a_start_before_the_trace_is_left_truncated() -> None:
    trace = parsed("a,-10,5,1,").trace
    assert (trace.start_s[0], trace.left_truncated[0]) == (0, True)


def test_other_columns_are_told() -> None:
    found = parsed("a,0,1,1,red", header="instance,start_s,stop_s,cores,colour")
    assert len(found.trace) == 1
    assert found.warnings == ("column 'colour' is not used.",)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("b,0,1,1", "comma-separated"),
        ('"b,0,1,1,', "comma-separated"),
        (",0,1,1,", "instance id"),
        ("b,x,1,1,", "start_s"),
        ("b,0,nan,1,", "stop_s"),
        ("b,5,4,1,", "precedes"),
        ("b,-5,-4,1,", "before the trace"),
        ("b,0,1,0,", "cores"),
        ("b,0,1,1.5,", "cores"),
        ("b,0,1,1,0", "requested_s"),
        ("b,0,1,1,nan", "requested_s"),
    ],
)
def test_a_bad_row_is_quarantined_alone(line: str, reason: str) -> None:
    found = parsed("a,0,1,1,", line, "c,0,1,1,9")
    (bad,) = found.quarantined
    assert (bad.line, bad.text) == (3, line)
    assert reason in bad.reason
    assert found.trace.instance.tolist() == ["a", "c"]
    assert (found.records, found.lost) == (3, 1)


@pytest.mark.parametrize("flag", ["left_truncated", "right_censored"])
def test_a_flag_is_0_or_1(flag: str) -> None:
    found = parsed("a,0,1,1,1", "b,0,1,1,yes", "c,0,1,1,", header=f"instance,start_s,stop_s,cores,{flag}")
    assert getattr(found.trace, flag).tolist() == [True]
    assert [q.line for q in found.quarantined] == [3, 4]
