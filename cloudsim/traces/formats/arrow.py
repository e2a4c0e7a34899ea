"""Read and write traces as Parquet, and read our own CSV a column at a time, with pyarrow.

pyarrow is imported here and not before (``pip install 'spotfed[parquet]'``). A Parquet file has the columns
of the CSV (``table``): instance string, times double, cores int64, requested_s double or null, flags boolean.
"""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

from cloudsim.model.arrays import BoolArray, FloatArray
from cloudsim.model.errors import TraceError
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import BOM, list_repairs, trace_name
from cloudsim.traces.formats.table import FLAGS, OPTIONAL, REQUIRED, Rows, warn_of_unused
from cloudsim.traces.report import QuarantinedLine
from cloudsim.traces.trace import Trace

INSTALL = "Parquet needs pyarrow: pip install 'spotfed[parquet]'"

_MAGIC = b"PAR1"
#: Of a smaller file the exact reader is done before pyarrow is imported.
_WORTH_IT_BYTES = 1 << 20


def installed() -> bool:
    """Return True if pyarrow is installed."""
    return find_spec("pyarrow") is not None


def is_parquet(data: bytes) -> bool:
    """Return True if the data begin with Parquet's magic bytes."""
    return data.startswith(_MAGIC)


def parse_csv(file: str, data: bytes, *, at_least_bytes: int = _WORTH_IT_BYTES) -> Parsed | None:
    """Read our own CSV as ``table.parse`` does, several times as fast; None unless all of it is in order.

    A file is in order if it has no quotes and no row that would be quarantined. All others are left to the
    exact reader, which knows their lines. Both give the same numbers: those nearest to what is written.
    """
    names = _header(data)
    if len(data) < at_least_bytes or names is None or b'"' in data or not installed():
        return None
    if b"\0" in data or (b"\r" in data and data.count(b"\r") != data.count(b"\r\n")):
        return None
    import pyarrow as pa
    from pyarrow import csv

    known = [name for name in names if name in (*REQUIRED, *OPTIONAL)]
    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(use_threads=False, skip_rows=1, column_names=names),
            convert_options=csv.ConvertOptions(
                column_types={name: pa.string() if name == "instance" else pa.float64() for name in known},
                include_columns=known,
                null_values=[""],
            ),
        )
    except pa.ArrowInvalid:
        return None
    rows = _rows(table)
    if any(fault.any() for fault, _ in rows.faults()):
        return None
    parsed = _parsed(trace_name(file), rows, np.ones(len(table), dtype=np.bool_), names)
    return replace(parsed, repaired=list_repairs(data), ends_open=not data.endswith((b"\n", b"\r")))


def _header(data: bytes) -> list[str] | None:
    """Return the column names, if the file is our own CSV with commas."""
    first, _, _ = data.removeprefix(BOM).partition(b"\n")
    try:
        names = [name.strip() for name in first.decode().split(",")]
    except UnicodeDecodeError:
        return None
    return names if set(REQUIRED) <= set(names) and len(set(names)) == len(names) else None


def parse_parquet(file: str, data: bytes, *, accepted: str, is_ours: bool = True) -> Parsed | bytes:
    """Read a Parquet file; a null stop is right-censored, and quarantined rows are numbered from 1.

    A table with other columns is returned as the bytes of a CSV file, for the format with that header; parts
    of a column are columns of their own (``resource_request.cpus``), and lists are left out.

    Parameters
    ----------
    accepted
        Sentence on the accepted files, for errors.
    is_ours
        False to return the bytes of a CSV file in any case.

    Raises
    ------
    TraceError
        When pyarrow is not installed, the file is damaged, or a column holds no numbers.
    """
    if not installed():
        raise TraceError(INSTALL, file=file)
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(pa.BufferReader(data)) as file_reader:
            names = file_reader.schema_arrow.names
            if not is_ours or not set(REQUIRED) <= set(names):
                return _as_csv(file_reader.read(use_threads=False))
            table = file_reader.read(
                [name for name in (*REQUIRED, *OPTIONAL) if name in names], use_threads=False
            )
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"is a damaged Parquet file ({error}); {accepted}", file=file) from None
    try:
        rows = _rows(table)
    except pa.ArrowException as error:
        raise TraceError(f"a column holds something that is no number ({error})", file=file) from None
    keep = np.ones(len(table), dtype=np.bool_)
    bad = []
    for fault, reason in rows.faults():
        for row in np.flatnonzero(fault & keep).tolist():
            text = ",".join(
                "" if cell is None else str(cell) for cell in table.slice(row, 1).to_pylist()[0].values()
            )
            bad.append(QuarantinedLine.of(row + 1, text, reason))
        keep &= ~fault
    return _parsed(trace_name(file), rows, keep, names, tuple(sorted(bad, key=lambda q: q.line)))


def _as_csv(table: Any) -> bytes:
    import pyarrow as pa
    from pyarrow import csv

    table, stream = table.flatten(), pa.BufferOutputStream()
    kept = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    csv.write_csv(table.select(kept), stream, csv.WriteOptions(quoting_style="needed"))
    data: bytes = stream.getvalue().to_pybytes()
    return data


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace as Parquet; its name becomes the file's, and is not in the file.

    Raises
    ------
    TraceError
        When pyarrow is not installed.
    """
    if not installed():
        raise TraceError(INSTALL, file=os.fspath(path))
    import pyarrow as pa
    from pyarrow import parquet

    columns = {
        "instance": pa.array(trace.instance, pa.string()),
        **{name: pa.array(getattr(trace, name)) for name in REQUIRED[1:]},
        "requested_s": pa.array(trace.requested_s, mask=np.isnan(trace.requested_s)),
        **{
            name: pa.array(getattr(trace, name))
            for name in FLAGS
            if name != "parallel" or trace.parallel.any()
        },
    }
    parquet.write_table(pa.table(columns), os.fspath(path))


def _rows(table: Any) -> Rows:
    """Return the columns of an Arrow table; a flag that is missing is 0 everywhere.

    Raises
    ------
    ArrowInvalid
        When a column holds no numbers.
    """
    start, stop, cores = (_floats(table, name, np.nan) for name in REQUIRED[1:])
    return Rows(
        _texts(table, "instance"),
        start,
        stop,
        _nulls(table, "stop_s"),
        cores,
        _floats(table, "requested_s", np.nan),
        _nulls(table, "requested_s"),
        *(_floats(table, flag, 0.0) for flag in FLAGS),
    )


# Arrow's own conversions to NumPy import pandas, which takes half as long as a million rows. These functions
# look at its memory instead.


def _floats(table: Any, name: str, missing: float) -> FloatArray:
    """Return a column of numbers, NaN where it is null; all ``missing`` if there is no column."""
    import pyarrow as pa

    if name not in table.column_names:
        return np.full(len(table), missing)
    values: FloatArray = _memory(_combine_chunks(table[name].cast(pa.float64())), 1, np.float64, len(table))
    return np.where(_nulls(table, name), np.nan, values) if table[name].null_count else values


def _nulls(table: Any, name: str) -> BoolArray:
    """Mark where a column is null; everywhere if there is no column."""
    import pyarrow as pa

    if name not in table.column_names:
        return np.ones(len(table), dtype=np.bool_)
    if not table[name].null_count:
        return np.zeros(len(table), dtype=np.bool_)
    empty: BoolArray = (
        _memory(_combine_chunks(table[name].is_null().cast(pa.uint8())), 1, np.uint8, len(table)) == 1
    )
    return empty


def _texts(table: Any, name: str) -> list[str]:
    """Return a column of text, empty where it is null."""
    import pyarrow as pa

    column = _combine_chunks(table[name].cast(pa.large_string()))
    if column.null_count:
        return [text or "" for text in column.to_pylist()]
    ends = _memory(column, 1, np.int64, len(table) + 1)
    data = column.buffers()[2]
    text = b"" if data is None else data.to_pybytes()
    if not text.isascii():  # offsets count bytes, not characters
        texts: list[str] = column.to_pylist()
        return texts
    letters = text.decode()
    return [letters[begin:end] for begin, end in pairwise(ends.tolist())]


def _combine_chunks(column: Any) -> Any:
    """Return a column of several chunks as one array."""
    import pyarrow as pa

    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _memory(array: Any, buffer: int, dtype: type[np.generic], count: int) -> Any:
    memory = array.buffers()[buffer]
    if memory is None:
        return np.zeros(count, dtype=dtype)
    size = np.dtype(dtype).itemsize
    return np.frombuffer(memory, dtype=dtype, count=count, offset=array.offset * size)


def _parsed(
    name: str, rows: Rows, keep: BoolArray, columns: list[str], quarantined: tuple[QuarantinedLine, ...] = ()
) -> Parsed:
    return Parsed(
        rows.trace(name, keep),
        lines=len(keep),
        records=len(keep),
        lost=len(quarantined),
        has_origin=True,
        quarantined=quarantined,
        warnings=warn_of_unused(columns),
        out_of_order=rows.out_of_order(keep),
    )
