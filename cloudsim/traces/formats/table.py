"""Our own CSV: ``instance,start_s,stop_s,cores[,requested_s][,left_truncated][,right_censored]``.

What ``write`` writes, ``read`` reads back bit for bit: numbers are written as the shortest text that gives
them again, an unknown requested time as an empty cell, flags as 0 and 1. Columns that hold nothing are left
out.
"""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from cloudsim.traces.formats.columns import read_columns
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.rows import OPTIONAL, REQUIRED, Rows
from cloudsim.traces.formats.source import Source
from cloudsim.traces.trace import BoolArray, FloatArray, Trace

#: Longer numbers are written with an exponent.
_LONG = 1e15


def parse(source: Source) -> Parsed:
    """Read one instance a row.

    A start before 0 is left-truncated. An empty stop is right-censored: running until the last timestamp.
    Quarantined are malformed rows, values that are not finite numbers, and stops before the start or before
    0.
    """
    columns = read_columns(source, REQUIRED)
    n = len(columns.line)
    start, stop, cores = (columns.numbers(c) for c in REQUIRED[1:])
    asked = "requested_s" in columns.cells
    truncated, censored = (
        columns.numbers(c) if c in columns.cells else np.zeros(n)
        for c in ("left_truncated", "right_censored")
    )
    rows = Rows(
        columns.cells["instance"],
        start,
        stop,
        _empty(columns.cells["stop_s"]),
        cores,
        columns.numbers("requested_s") if asked else np.full(n, np.nan),
        _empty(columns.cells["requested_s"]) if asked else np.ones(n, dtype=np.bool_),
        truncated,
        censored,
    )
    keep, quarantined = columns.sift(rows.faults())
    records = n + len(columns.malformed)
    return Parsed(
        rows.trace(source.name, keep),
        lines=records,
        records=records,
        lost=len(quarantined),
        quarantined=quarantined,
        warnings=unused(columns.cells),
        repaired=columns.repaired,
        out_of_order=rows.out_of_order(keep),
    )


def unused(columns: Iterable[str]) -> tuple[str, ...]:
    """A warning for each column that is not of the one table."""
    return tuple(f"column {c!r} is not used." for c in columns if c not in (*REQUIRED, *OPTIONAL))


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace as CSV, gzip if the path ends with ``.gz``. Its name is the file's, and not in it."""
    ids = trace.instance.tolist()
    columns: dict[str, list[str]] = {
        "instance": [_quoted(i) for i in ids] if any(mark in "".join(ids) for mark in ',"') else ids,
        "start_s": _texts(trace.start_s),
        "stop_s": _texts(trace.stop_s),
        "cores": [str(c) for c in trace.cores.tolist()],
    }
    if not np.isnan(trace.requested_s).all():
        columns["requested_s"] = _texts(trace.requested_s)
    for flag in ("left_truncated", "right_censored"):
        values: BoolArray = getattr(trace, flag)
        if values.any():
            columns[flag] = [str(int(v)) for v in values.tolist()]
    lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True)), ""]
    data = "\n".join(lines).encode()
    # mtime=0: the same trace gives the same bytes.
    Path(path).write_bytes(gzip.compress(data, mtime=0) if os.fspath(path).lower().endswith(".gz") else data)


def _empty(cells: list[str]) -> BoolArray:
    if all(cells) and not any(map(str.isspace, cells)):
        return np.zeros(len(cells), dtype=np.bool_)
    return np.fromiter((not cell.strip() for cell in cells), np.bool_, len(cells))


def _texts(values: FloatArray) -> list[str]:
    with np.errstate(invalid="ignore"):
        whole = (values == np.floor(values)) & (np.abs(values) < _LONG) & ~np.signbit(values)
    if whole.all():
        return list(map(str, values.astype(np.int64).tolist()))
    return ["" if math.isnan(v) else repr(v).removesuffix(".0") for v in values.tolist()]


def _quoted(text: str) -> str:
    if "," not in text and '"' not in text:
        return text
    return '"' + text.replace('"', '""') + '"'
