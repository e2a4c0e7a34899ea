"""Read and write our own CSV.

Its columns are ``instance,start_s,stop_s,cores[,requested_s][,left_truncated][,right_censored][,parallel]``.
What ``write`` writes, ``parse`` reads back bit for bit: numbers are written as the shortest text that gives
them again, an unknown requested time as an empty cell, flags as 0 and 1. Columns that hold nothing are left
out.
"""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cloudsim.model.arrays import BoolArray, FloatArray
from cloudsim.traces.formats.columns import bad_cores, bad_ids, read_columns
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat
from cloudsim.traces.trace import Trace

REQUIRED = ("instance", "start_s", "stop_s", "cores")

FLAGS = ("left_truncated", "right_censored", "parallel")
OPTIONAL = ("requested_s", *FLAGS)


@dataclass(frozen=True)
class Rows:
    """Rows of a file before they are judged, as columns of shape (n,); NaN where a cell holds no number.

    CSV and Parquet share them. An empty stop is right-censored: running until the last timestamp. A start
    before 0 is left-truncated.
    """

    ids: Sequence[str]
    start_s: FloatArray
    stop_s: FloatArray
    #: Rows whose stop is empty.
    no_stop: BoolArray
    cores: FloatArray
    requested_s: FloatArray
    #: Rows whose requested time is empty.
    no_request: BoolArray
    #: 0 or 1.
    left_truncated: FloatArray
    right_censored: FloatArray
    parallel: FloatArray

    def faults(self) -> tuple[tuple[BoolArray, str], ...]:
        """Return masks of the rows that cannot be used, each with its reason; a row has the first fault."""
        start, stop, requested = self.start_s, self.stop_s, self.requested_s
        with np.errstate(invalid="ignore"):
            return (
                (bad_ids(self.ids), "the instance id is empty or not printable"),
                (~np.isfinite(start), "start_s is not a finite number"),
                (~np.isfinite(stop) & ~self.no_stop, "stop_s is not a finite number"),
                (stop < start, "stop_s precedes start_s"),
                (stop < 0, "the instance ends before the trace begins"),
                (bad_cores(self.cores), "cores is not a positive whole number"),
                (
                    ~self.no_request & ~(np.isfinite(requested) & (requested > 0)),
                    "requested_s is not a positive number",
                ),
                (_no_flag(self.left_truncated), "left_truncated is not 0 or 1"),
                (_no_flag(self.right_censored), "right_censored is not 0 or 1"),
                (_no_flag(self.parallel), "parallel is not 0 or 1"),
            )

    def out_of_order(self, keep: BoolArray) -> int:
        """Count rows that start before the row above them."""
        return int(np.count_nonzero(np.diff(self.start_s[keep]) < 0))

    def trace(self, name: str, keep: BoolArray) -> Trace:
        """Return the trace of the rows of a mask, none of which has a fault."""
        instance = np.empty(len(self.ids), dtype=object)
        instance[:] = self.ids
        whole = bool(keep.all())
        start = np.maximum(self.start_s, 0.0)
        stop = self.stop_s
        if self.no_stop.any():
            stop = np.where(self.no_stop, _last(start, stop, keep), stop)
        columns = {
            "instance": instance,
            "start_s": start,
            "stop_s": stop,
            "cores": self.cores,
            "requested_s": self.requested_s,
            "left_truncated": (self.start_s < 0) | (self.left_truncated == 1),
            "right_censored": self.no_stop | (self.right_censored == 1),
            "parallel": self.parallel == 1,
        }
        return Trace.checked(name, **{c: v if whole else v[keep] for c, v in columns.items()})


def _no_flag(values: FloatArray) -> BoolArray:
    no_flag: BoolArray = (values != 0) & (values != 1)
    return no_flag


def _last(start: FloatArray, stop: FloatArray, keep: BoolArray) -> float:
    times = np.concatenate([start[keep], stop[keep]])
    return float(np.nanmax(times)) if len(times) else 0.0


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
    has_requested = "requested_s" in columns.cells
    flags = (columns.numbers(c) if c in columns.cells else np.zeros(n) for c in FLAGS)
    rows = Rows(
        columns.cells["instance"],
        start,
        stop,
        _empty(columns.cells["stop_s"]),
        cores,
        columns.numbers("requested_s") if has_requested else np.full(n, np.nan),
        _empty(columns.cells["requested_s"]) if has_requested else np.ones(n, dtype=np.bool_),
        *flags,
    )
    keep, quarantined = columns.sift(rows.faults())
    records = n + len(columns.malformed)
    return Parsed(
        rows.trace(source.name, keep),
        lines=records,
        records=records,
        lost=len(quarantined),
        has_origin=True,
        quarantined=quarantined,
        warnings=warn_of_unused(columns.cells),
        repaired=columns.repaired,
        out_of_order=rows.out_of_order(keep),
    )


def warn_of_unused(columns: Iterable[str]) -> tuple[str, ...]:
    """Return a warning for each column that is not of the one table."""
    return tuple(f"column {c!r} is not used." for c in columns if c not in (*REQUIRED, *OPTIONAL))


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace as CSV, gzip if the path ends with ``.gz``; its name becomes the file's."""
    ids = trace.instance.tolist()
    columns: dict[str, list[str]] = {
        "instance": [_quoted(i) for i in ids] if any(mark in "".join(ids) for mark in ',"') else ids,
        "start_s": _texts(trace.start_s),
        "stop_s": _texts(trace.stop_s),
        "cores": [str(c) for c in trace.cores.tolist()],
    }
    if not np.isnan(trace.requested_s).all():
        columns["requested_s"] = _texts(trace.requested_s)
    for flag in FLAGS:
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


FORMAT = TraceFormat("CSV of our own", parse, columns=REQUIRED, writers={".csv": write, ".csv.gz": write})
