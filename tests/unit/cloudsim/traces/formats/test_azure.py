"""The Azure 2017 CSV."""

import pytest

from cloudsim.model.errors import TraceError
from cloudsim.traces.formats.azure import parse
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source

HEADER = "vm,start_s,duration_s,cores,memory_gb,censored"


def parsed(*lines: str, header: str = HEADER) -> Parsed:
    return parse(Source("x", "x", [header, *lines]))


def test_rows() -> None:
    trace = parsed("a,300,600,2,3.5,0", "b,0,300,1,,1", "c,0,0,4,1,0").trace
    assert trace.instance.tolist() == ["b", "c", "a"]
    assert trace.stop_s.tolist() == [300, 0, 900]
    assert trace.cores.tolist() == [1, 4, 2]
    assert trace.right_censored.tolist() == [True, False, False]


def test_columns_are_found_by_name() -> None:
    trace = parsed("4,0,a,60", header="cores,start_s,vm,duration_s").trace
    assert (trace.instance[0], trace.stop_s[0], trace.cores[0], trace.right_censored[0]) == (
        "a",
        60,
        4,
        False,
    )


def test_a_start_before_the_trace_is_left_truncated() -> None:
    trace = parsed("a,-300,900,1,1,0").trace
    assert (trace.start_s[0], trace.stop_s[0], trace.left_truncated[0]) == (0, 600, True)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("b,0,300,1,1", "6 comma-separated"),
        ("b,0,300,1,1,0,9", "6 comma-separated"),
        ('b,0,"300,1,1,0', "6 comma-separated"),
        (",0,300,1,1,0", "vm id"),
        ("b,,300,1,1,0", "start_s"),
        ("b,nan,300,1,1,0", "start_s"),
        ("b,0,inf,1,1,0", "duration_s"),
        ("b,0,3_0,1,1,0", "duration_s"),
        ("b,0,-300,1,1,0", "precedes"),
        ("b,-900,300,1,1,0", "before the trace"),
        ("b,0,300,0,1,0", "cores"),
        ("b,0,300,1.5,1,0", "cores"),
        ("b,0,300,-1,1,0", "cores"),
        ("b,0,300,,1,0", "cores"),
        ("b,0,300,1e300,1,0", "cores"),
        ("b,0,300,1,1,2", "censored"),
        ("b,0,300,1,1,", "censored"),
        ("a,600,300,1,1,0", "there already"),
    ],
)
def test_a_bad_row_is_quarantined_alone(line: str, reason: str) -> None:
    found = parsed("a,0,300,1,1,0", "", line, "c,0,300,1,1,0")
    (bad,) = found.quarantined
    assert (bad.line, bad.text) == (4, line)
    assert reason in bad.reason
    assert found.trace.instance.tolist() == ["a", "c"]
    assert (found.records, found.lines, found.lost) == (3, 3, 1)


@pytest.mark.parametrize("header", ["vm,start_s,cores", "vm,start_s,duration_s,cores,cores"])
def test_a_wrong_header_is_refused(header: str) -> None:
    with pytest.raises(TraceError, match="header"):
        parsed("a,0,1", header=header)
