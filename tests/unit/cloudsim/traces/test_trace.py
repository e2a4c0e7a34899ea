"""The one table: order, rules, and the operations on it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.model.errors import SpecError, TraceError
from cloudsim.traces.trace import MAX_CORES, Trace

TIMES = st.integers(0, 50).map(float)
ROWS = st.lists(st.tuples(TIMES, st.integers(0, 20).map(float), st.integers(1, 8)), max_size=30)


def make(rows: list[tuple[float, float, int]], name: str = "t") -> Trace:
    start = [row[0] for row in rows]
    stop = [row[0] + row[1] for row in rows]
    return Trace.checked(name, [f"i{i}" for i in range(len(rows))], start, stop, [row[2] for row in rows])


@given(ROWS)
def test_sorted_by_start_then_file_order(rows: list[tuple[float, float, int]]) -> None:
    trace = make(rows)
    expected = sorted(range(len(rows)), key=lambda i: (rows[i][0], i))
    assert list(trace.instance) == [f"i{i}" for i in expected]
    assert trace.lifetime_s.tolist() == [rows[i][1] for i in expected]
    assert trace.last_stop_s == max((row[0] + row[1] for row in rows), default=0.0)


@given(ROWS, st.floats(0, 1e6))
def test_delayed_moves_starts_and_stops_alike(rows: list[tuple[float, float, int]], by_s: float) -> None:
    trace = make(rows)
    late = trace.delayed(by_s)
    assert late.start_s.tolist() == [start + by_s for start in trace.start_s.tolist()]
    assert late.stop_s.tolist() == [stop + by_s for stop in trace.stop_s.tolist()]
    assert list(late.instance) == list(trace.instance)


@given(ROWS, TIMES)
def test_until_keeps_what_starts_by_then_with_its_stop(
    rows: list[tuple[float, float, int]], end_s: float
) -> None:
    trace = make(rows)
    kept = trace.until(end_s)
    assert list(kept.instance) == [
        i for i, s in zip(trace.instance, trace.start_s, strict=True) if s <= end_s
    ]
    assert set(kept.stop_s) <= set(trace.stop_s)


@pytest.mark.parametrize("n", [-1, 0, 1, 2, 5])
def test_head(n: int) -> None:
    assert list(make([(3, 1, 1), (1, 1, 1)]).head(n).instance) == ["i1", "i0"][: max(n, 0)]


def test_zero_length_instances_are_legal_and_stay() -> None:
    assert len(make([(5, 0, 1), (5, 0, 2)])) == 2


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("start_s", -1.0),
        ("start_s", np.nan),
        ("start_s", np.inf),
        ("start_s", "soon"),
        ("stop_s", 4.0),
        ("stop_s", np.nan),
        ("stop_s", np.inf),
        ("cores", 0),
        ("cores", -2),
        ("cores", 1.5),
        ("cores", np.nan),
        ("cores", MAX_CORES + 1),
        ("requested_s", 0.0),
        ("requested_s", -1.0),
        ("requested_s", np.inf),
        ("instance", ""),
        ("instance", "a\nb"),
        ("instance", 7),
    ],
)
def test_a_bad_value_is_refused_by_name(column: str, value: object) -> None:
    columns: dict[str, list[object]] = {
        "instance": ["a", "b"],
        "start_s": [0.0, 5.0],
        "stop_s": [9.0, 9.0],
        "cores": [1, 2],
        "requested_s": [np.nan, 60.0],
    }
    assert len(Trace.checked("t", **columns)) == 2  # type: ignore[arg-type]
    columns[column][1] = value
    with pytest.raises(TraceError) as error:
        Trace.checked("t", **columns)  # type: ignore[arg-type]
    # A start beyond its stop may be told of either.
    assert error.value.field in ({column, "stop_s"} if column == "start_s" else {column})


@pytest.mark.parametrize("column", ["start_s", "stop_s", "cores", "requested_s", "left_truncated"])
def test_a_column_of_another_length_is_refused(column: str) -> None:
    columns: dict[str, list[float]] = {"start_s": [0, 1], "stop_s": [2, 3], "cores": [1, 1]}
    columns[column] = [1, 1, 1]
    with pytest.raises(TraceError) as error:
        Trace.checked("t", ["a", "b"], **columns)
    assert error.value.field == column


def test_the_constructor_checks_order_and_types() -> None:
    good = make([(0, 1, 1), (2, 1, 1)])
    columns = {c: getattr(good, c) for c in ("instance", "start_s", "stop_s", "cores", "requested_s")}
    flags = {c: getattr(good, c) for c in ("left_truncated", "right_censored")}
    assert Trace("t", **columns, **flags).equals(good)
    with pytest.raises(TraceError, match="must not decrease"):
        Trace("t", **columns | {"start_s": good.start_s[::-1], "stop_s": good.stop_s + 9}, **flags)
    with pytest.raises(TraceError, match="cores"):
        Trace("t", **columns | {"cores": good.cores.astype(float)}, **flags)


def test_columns_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        make([(0, 1, 1)]).cores[0] = 5


@pytest.mark.parametrize("by_s", [-0.5, np.nan, np.inf])
def test_no_delay_into_the_past_or_nowhere(by_s: float) -> None:
    with pytest.raises(SpecError, match="by_s"):
        make([(0.25, 1, 1)]).delayed(by_s)


def test_a_negative_delay_may_reach_zero() -> None:
    assert make([(3, 1, 1)]).delayed(-3).start_s.tolist() == [0.0]


def test_equals_sees_every_column_and_the_name() -> None:
    trace = Trace.checked("t", ["a"], [0], [1], [1], requested_s=[5])
    assert trace.equals(Trace.checked("t", ["a"], [0], [1], [1], requested_s=[5]))
    others = [
        Trace.checked("u", ["a"], [0], [1], [1], requested_s=[5]),
        Trace.checked("t", ["b"], [0], [1], [1], requested_s=[5]),
        Trace.checked("t", ["a"], [0], [2], [1], requested_s=[5]),
        Trace.checked("t", ["a"], [0], [1], [2], requested_s=[5]),
        Trace.checked("t", ["a"], [0], [1], [1]),
        Trace.checked("t", ["a"], [0], [1], [1], requested_s=[5], left_truncated=[True]),
        Trace.checked("t", ["a"], [0], [1], [1], requested_s=[5], right_censored=[True]),
    ]
    assert not any(trace.equals(other) for other in others)


def test_to_frame_has_the_columns() -> None:
    frame = make([(0, 1, 2), (1, 1, 3)]).to_frame()
    assert frame["cores"].tolist() == [2, 3]
    assert frame["instance"].tolist() == ["i0", "i1"]


def test_reading_needs_no_pandas() -> None:
    code = "import sys, json, cloudsim.traces.formats; print(json.dumps('pandas' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False
