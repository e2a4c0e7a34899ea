"""Parquet, and our own CSV by column: the same numbers as the exact reader, and nothing lost in silence."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.model.errors import TraceError
from cloudsim.traces.formats import arrow, read, table, write
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import decode_source
from cloudsim.traces.trace import Trace
from tests.unit.cloudsim.traces.formats.test_table import traces

pa = pytest.importorskip("pyarrow")
HEADER = "instance,start_s,stop_s,cores,requested_s,left_truncated,right_censored"


def quick(text: str | bytes) -> Parsed | None:
    data = text.encode() if isinstance(text, str) else text
    return arrow.parse_csv("x.csv", data, at_least_bytes=0)


@given(traces())
def test_parquet_round_trip(tmp_path_factory: pytest.TempPathFactory, trace: Trace) -> None:
    path = tmp_path_factory.mktemp("arrow") / "round.parquet"
    write(trace, path)
    again, report = read(path)
    assert again.equals(trace)
    assert (report.format, report.rows, report.quarantined) == ("parquet", len(trace), ())
    first = path.read_bytes()
    write(again, path)
    assert path.read_bytes() == first


@given(traces())
def test_csv_to_parquet_and_back_is_the_same_file(
    tmp_path_factory: pytest.TempPathFactory, trace: Trace
) -> None:
    folder = tmp_path_factory.mktemp("arrow")
    write(trace, folder / "round.csv")
    write(read(folder / "round.csv")[0], folder / "round.parquet")
    write(read(folder / "round.parquet")[0], folder / "again.csv")
    assert (folder / "again.csv").read_bytes() == (folder / "round.csv").read_bytes()


@given(traces())
def test_what_is_written_is_read_quickly_and_the_same(
    tmp_path_factory: pytest.TempPathFactory, trace: Trace
) -> None:
    path = tmp_path_factory.mktemp("arrow") / "x.csv"
    write(trace, path)
    data = path.read_bytes()
    found = quick(data)
    assert (found is None) == (b'"' in data)
    if found is not None:
        exact = table.parse(decode_source(data, "x.csv", accepted=""))
        assert found.trace.equals(exact.trace)
        assert (found.records, found.lines, found.lost) == (exact.records, exact.lines, 0)


CELL = st.one_of(
    st.sampled_from(
        ["", " ", "0", "1", "-1", "7", "nan", "inf", "1_0", "+3", "0x1", "1e3", ".5", "2.", "é", "١"]
    ),
    st.floats(0, 1e20).map(repr),
    st.text(alphabet="0123456789.eE-+ ", max_size=8),
)


@given(
    st.lists(st.lists(CELL, min_size=6, max_size=8).map(",".join), min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.booleans(),
)
def test_whatever_is_read_quickly_the_exact_reader_reads_alike(
    lines: list[str], end: str, ends_open: bool, mark: bool
) -> None:
    text = end.join([HEADER, "a,0,1,1,5,0,0", *lines]) + ("" if ends_open else end)
    data = (b"\xef\xbb\xbf" if mark else b"") + text.encode()
    found = quick(data)
    if found is None:
        return
    source = decode_source(data, "x.csv", accepted="")
    exact = table.parse(source)
    assert found.trace.equals(exact.trace)
    assert exact.quarantined == ()
    assert (found.records, found.out_of_order) == (exact.records, exact.out_of_order)
    assert (found.repaired, found.ends_open) == (source.repaired, source.ends_open)


def test_a_file_in_order_is_read_quickly() -> None:
    found = quick(f"{HEADER},colour\nb,5,,1,,0,0,red\na,-1,9,2,60,0,0,blue\n")
    assert found is not None
    assert found.trace.instance.tolist() == ["a", "b"]
    assert (found.trace.stop_s.tolist(), found.trace.requested_s[0]) == ([9, 9], 60)
    assert (found.trace.left_truncated.tolist(), found.trace.right_censored.tolist()) == (
        [True, False],
        [False, True],
    )
    assert (found.out_of_order, found.warnings) == (1, ("column 'colour' is not used.",))


@pytest.mark.parametrize(
    "text",
    [
        "instance;start_s;stop_s;cores\na;0;1;1\n",
        "vm,start_s,duration_s,cores\na,0,1,1\n",
        "instance,start_s,stop_s,cores,cores\na,0,1,1,1\n",
        "instance,start_s,stop_s,cores\na,0,1\n",
        "instance,start_s,stop_s,cores\na,0,1,1\nb,0,1,1,1\n",
        "instance,start_s,stop_s,cores\na,0,1,1.5\n",
        'instance,start_s,stop_s,cores\n"a",0,1,1\n',
        "instance,start_s,stop_s,cores\na\0,0,1,1\n",
        b"instance,start_s,stop_s,cores\n\xe4,0,1,1\n",
        b"\xe4",
        "",
    ],
)
def test_all_else_is_for_the_exact_reader(text: str | bytes) -> None:
    assert quick(text) is None


def test_a_large_file_is_read_quickly_and_a_bad_line_in_it_keeps_its_number(tmp_path: Path) -> None:
    rows = [f"instance-{at},{at},{at + 9.5},1" for at in range(40_000)]
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["instance,start_s,stop_s,cores", *rows, ""]))
    assert arrow.parse_csv("x.csv", path.read_bytes()) is not None
    good = read(path)[0]
    rows[30_000] = "broken"
    path.write_text("\n".join(["instance,start_s,stop_s,cores", *rows, ""]))
    trace, report = read(path)
    assert [(q.line, q.text) for q in report.quarantined] == [(30_002, "broken")]
    assert np.array_equal(trace.start_s, np.delete(good.start_s, 30_000))


def parquet(path: Path, **columns: object) -> Path:
    from pyarrow import parquet as writer

    writer.write_table(pa.table(columns), path)
    return path


def test_types_of_others_are_taken(tmp_path: Path) -> None:
    path = parquet(
        tmp_path / "x.parquet",
        instance=pa.array([7, 8]),
        start_s=pa.array([0, 1], pa.int32()),
        stop_s=pa.array([5, None], pa.float32()),
        cores=pa.array([1, 2], pa.uint8()),
        zone=pa.array(["a", "b"]),
    )
    trace, report = read(path)
    assert trace.instance.tolist() == ["7", "8"]
    assert (trace.stop_s.tolist(), trace.right_censored.tolist()) == ([5, 5], [False, True])
    assert "column 'zone' is not used." in report.warnings


def test_bad_rows_of_parquet_are_quarantined_by_number(tmp_path: Path) -> None:
    path = parquet(
        tmp_path / "x.parquet",
        instance=["a", "b", None, "dé", "e"],
        start_s=[0.0, 5.0, 1.0, 2.0, None],
        stop_s=[9.0, 4.0, 2.0, 3.0, 4.0],
        cores=[1, 1, 1, 0, 1],
    )
    trace, report = read(path, max_error_rate=1.0)
    assert trace.instance.tolist() == ["a"]
    assert [(q.line, q.text) for q in report.quarantined] == [
        (2, "b,5.0,4.0,1"),
        (3, ",1.0,2.0,1"),
        (4, "dé,2.0,3.0,0"),
        (5, "e,,4.0,1"),
    ]


def test_chunks_and_text_that_is_not_ascii(tmp_path: Path) -> None:
    from pyarrow import parquet as writer

    path = tmp_path / "x.parquet"
    parts = pa.table({"instance": ["ä", "b"], "start_s": [0.0, 1.0], "stop_s": [2.0, 3.0], "cores": [1, 2]})
    writer.write_table(pa.concat_tables([parts, parts.slice(1)]), path, row_group_size=1)
    assert read(path)[0].instance.tolist() == ["ä", "b", "b"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"instance": ["a"], "start_s": [0.0]}, "is not a trace in a known format; accepted are"),
        ({"instance": ["a"], "start_s": ["soon"], "stop_s": [1.0], "cores": [1]}, "no number"),
        ({"instance": [], "start_s": [], "stop_s": [], "cores": []}, "holds no instance"),
    ],
)
def test_other_parquet_is_refused(tmp_path: Path, columns: dict[str, list[object]], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read(parquet(tmp_path / "x.parquet", **columns))


def test_damaged_parquet_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path / "x.parquet", instance=["a"], start_s=[0.0], stop_s=[1.0], cores=[1])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TraceError, match="is a damaged Parquet file"):
        read(path)


def test_without_pyarrow_csv_is_read_and_parquet_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace.checked("x", ["a"], [0], [1], [1])
    write(trace, tmp_path / "x.parquet")
    write(trace, tmp_path / "x.csv")
    monkeypatch.setattr(arrow, "find_spec", lambda name: None)
    assert arrow.parse_csv("x.csv", (tmp_path / "x.csv").read_bytes(), at_least_bytes=0) is None
    assert read(tmp_path / "x.csv")[0].equals(trace)
    for use in (lambda: read(tmp_path / "x.parquet"), lambda: write(trace, tmp_path / "y.parquet")):
        with pytest.raises(TraceError, match=r"pip install 'spotfed\[parquet\]'"):
            use()
