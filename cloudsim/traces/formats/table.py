"""Our own CSV: ``instance,start_s,stop_s,cores[,requested_s][,left_truncated][,right_censored]``.

What ``write`` writes, ``read`` reads back bit for bit: numbers are written as the shortest text that gives
them again, an unknown requested time as an empty cell, flags as 0 and 1. Columns that hold nothing are left
out.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
from pathlib import Path

import numpy as np

from cloudsim.traces.formats.columns import bad_cores, bad_ids, read_columns
from cloudsim.traces.formats.parsed import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.trace import BoolArray, FloatArray, Trace

REQUIRED = ("instance", "start_s", "stop_s", "cores")

_NOT_USED = "column {!r} is not used."
_OPTIONAL = ("requested_s", "left_truncated", "right_censored")


def parse(source: Source) -> Parsed:
    """Read one instance a row.

    A start before 0 is left-truncated. An empty stop is right-censored: running until the last timestamp.
    Quarantined are malformed rows, values that are not finite numbers, and stops before the start or before
    0.
    """
    columns = read_columns(source, REQUIRED)
    ids = columns.cells["instance"]
    n = len(ids)
    start, stop, cores = (columns.numbers(c) for c in REQUIRED[1:])
    requested = columns.numbers("requested_s") if "requested_s" in columns.cells else np.full(n, np.nan)
    no_request = (
        _empty(columns.cells["requested_s"]) if "requested_s" in columns.cells else np.ones(n, dtype=np.bool_)
    )
    truncated, censored = (
        columns.numbers(c) if c in columns.cells else np.zeros(n)
        for c in ("left_truncated", "right_censored")
    )
    no_stop = _empty(columns.cells["stop_s"])
    with np.errstate(invalid="ignore"):
        keep, quarantined = columns.sift(
            (
                (bad_ids(ids), "the instance id is empty or not printable"),
                (~np.isfinite(start), "start_s is not a finite number"),
                (~np.isfinite(stop) & ~no_stop, "stop_s is not a finite number"),
                (stop < start, "stop_s precedes start_s"),
                (stop < 0, "the instance ends before the trace begins"),
                (bad_cores(cores), "cores is not a positive whole number"),
                (
                    ~no_request & ~(np.isfinite(requested) & (requested > 0)),
                    "requested_s is not a positive number",
                ),
                (~np.isin(truncated, (0.0, 1.0)), "left_truncated is not 0 or 1"),
                (~np.isin(censored, (0.0, 1.0)), "right_censored is not 0 or 1"),
            )
        )
    begun = np.maximum(start, 0.0)
    trace = _trace(
        source.name,
        ids,
        keep,
        start_s=begun,
        stop_s=np.where(no_stop, _last(begun, stop, keep), stop),
        cores=cores,
        requested_s=requested,
        left_truncated=(start < 0) | (truncated == 1),
        right_censored=no_stop | (censored == 1),
    )
    records = n + len(columns.malformed)
    unused = tuple(_NOT_USED.format(c) for c in columns.cells if c not in (*REQUIRED, *_OPTIONAL))
    return Parsed(
        trace, lines=records, records=records, lost=len(quarantined), quarantined=quarantined, warnings=unused
    )


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace as CSV, gzip if the path ends with ``.gz``. Its name is the file's, and not in it."""
    columns: dict[str, list[str]] = {
        "instance": list(trace.instance),
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
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    data = text.getvalue().encode()
    # mtime=0: the same trace gives the same bytes.
    Path(path).write_bytes(gzip.compress(data, mtime=0) if os.fspath(path).lower().endswith(".gz") else data)


def _trace(name: str, ids: list[str], keep: BoolArray, **columns: FloatArray | BoolArray) -> Trace:
    instance = np.empty(len(ids), dtype=object)
    instance[:] = ids
    return Trace.checked(name, instance[keep], **{column: values[keep] for column, values in columns.items()})


def _empty(cells: list[str]) -> BoolArray:
    return np.fromiter((not cell.strip() for cell in cells), np.bool_, len(cells))


def _last(start: FloatArray, stop: FloatArray, keep: BoolArray) -> float:
    times = np.concatenate([start[keep], stop[keep]])
    return float(np.nanmax(times)) if len(times) else 0.0


def _texts(values: FloatArray) -> list[str]:
    return ["" if math.isnan(v) else repr(v).removesuffix(".0") for v in values.tolist()]
