"""Read and write the Standard Workload Format of the Parallel Workloads Archive (Feitelson et al.).

A job is 18 blank-separated fields: 1 number, 2 submit s, 3 wait s, 4 run s, 5 processors, 8 requested
processors, 9 requested time s, 11 status; -1 is "unknown". Lines that begin with ``;`` are the header.
"""

from __future__ import annotations

import gzip
import math
import os
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from cloudsim.traces.formats.parse_result import (
    BadValueError,
    NeverRanError,
    Parsed,
    parse_cores,
    parse_number,
)
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat
from cloudsim.traces.report import QuarantinedLine
from cloudsim.traces.trace import MAX_CORES, Trace

FIELDS = 18

_NEVER_RAN = "run time is not positive: the job never ran"
_NO_CORES = "neither processors used nor requested are known"
_PARTIAL = "part of a job that is there as a whole (status 2, 3 or 4)"
_UNIX_START = re.compile(r";\s*UnixStartTime:\s*(\d{1,11})(?:\.\d*)?(?!\S)")
_ZONE = re.compile(r";\s*TimeZoneString:\s*([\w/+-]+)")
_MAX_PROCS = re.compile(r";\s*MaxProcs:\s*(\d{1,3}(?:[,']\d{3})+|\d+)(?![\w,.'])")


def parse(source: Source, *, fields: Sequence[int] = (FIELDS,), comment: str = ";") -> Parsed:
    """Read jobs as instances: start = submit + wait, stop = start + run, cores = field 5, else 8.

    A job of several processors is parallel. Jobs that never ran or have no cores are skipped and counted,
    malformed lines quarantined. An unknown wait counts as none, with one warning.

    Parameters
    ----------
    fields
        Numbers of fields that a job may have.
    comment
        Mark with which the lines of the header begin.
    """
    rows: list[tuple[str, float, float, int, float]] = []
    submitted: list[float] = []
    quarantined: list[QuarantinedLine] = []
    skipped: Counter[str] = Counter()
    lines = no_wait = 0
    capacity: int | None = None
    begins_at_s: float | None = None
    has_origin = False
    zone = ""
    for line, text in enumerate(source.lines, start=1):
        if text.lstrip().startswith(comment):
            if match := _MAX_PROCS.match(text.strip()):
                capacity = int(re.sub("[,']", "", match[1])) or None
            elif match := _UNIX_START.match(text.strip()):
                begins_at_s, has_origin = float(match[1]) or None, True
            elif match := _ZONE.match(text.strip()):
                zone = match[1]
            continue
        words = text.split()
        if not words:
            continue
        lines += 1
        try:
            row, wait_known = _job(words, fields)
        except NeverRanError as reason:
            skipped[str(reason)] += 1
            continue
        except BadValueError as reason:
            quarantined.append(QuarantinedLine.of(line, text, str(reason)))
            continue
        rows.append(row)
        submitted.append(float(words[1]))
        no_wait += not wait_known
    warnings = (
        (f"{no_wait} jobs have no known wait; they start when they were submitted.",) if no_wait else ()
    )
    return Parsed(
        trace=_trace(source.name, rows),
        lines=lines,
        records=lines,
        lost=len(quarantined),
        quarantined=tuple(quarantined),
        skipped=tuple(sorted(skipped.items())),
        warnings=warnings,
        begins_at_s=begins_at_s,
        has_origin=has_origin,
        time_zone=zone,
        out_of_order=sum(later < earlier for earlier, later in pairwise(submitted)),
        capacity_cores=capacity if capacity is not None and capacity <= MAX_CORES else None,
    )


def _job(words: list[str], fields: Sequence[int]) -> tuple[tuple[str, float, float, int, float], bool]:
    """Return ((id, start, stop, cores, requested), wait known) of one job line."""
    if len(words) not in fields:
        wanted = " or ".join(map(str, fields))
        raise BadValueError(f"a job has {wanted} fields, this line {len(words)}")
    if not words[0].isprintable():
        raise BadValueError("the job number has unprintable characters")
    submit, wait, run = (
        parse_number(words[i], what) for i, what in ((1, "submit time"), (2, "wait"), (3, "run time"))
    )
    used, requested_cores, requested = (
        parse_number(words[i], what) for i, what in ((4, "cores"), (7, "cores"), (8, "requested time"))
    )
    if words[10] in ("2", "3", "4"):
        raise NeverRanError(_PARTIAL)
    if run <= 0:
        raise NeverRanError(_NEVER_RAN)
    if used <= 0 and requested_cores <= 0:
        raise NeverRanError(_NO_CORES)
    cores = parse_cores(words[4] if used > 0 else words[7])
    start = submit + max(wait, 0.0)
    if start + run < 0:
        raise BadValueError("the job ends before the log begins")
    return (words[0], start, start + run, cores, requested if requested > 0 else math.nan), wait >= 0


def _trace(name: str, rows: list[tuple[str, float, float, int, float]]) -> Trace:
    ids, starts, stops, cores, requested = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return Trace.checked(
        name,
        ids,
        [max(start, 0.0) for start in starts],
        stops,
        cores,
        requested_s=requested,
        left_truncated=[start < 0 for start in starts],
        parallel=[count > 1 for count in cores],
    )


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace as SWF, gzip if the path ends with ``.gz``.

    ``list_losses`` says what the file cannot hold. Jobs are numbered from 1, submitted when they start, and
    do not wait.
    """
    # A start time of 0 is not known, and yet says that submit times count from the beginning of the log.
    lines = [f"; Computer: {trace.name}", f"; MaxRecords: {len(trace)}", "; UnixStartTime: 0"]
    columns = (trace.start_s, trace.lifetime_s, trace.cores, trace.requested_s)
    for at, row in enumerate(zip(*(column.tolist() for column in columns), strict=True), start=1):
        start, run, cores, requested = (repr(value).removesuffix(".0") for value in row)
        requested = "-1" if requested == "nan" else requested
        lines.append(f"{at} {start} 0 {run} {cores} -1 -1 {cores} {requested} -1 1 -1 -1 -1 -1 -1 -1 -1")
    data = ("\n".join(lines) + "\n").encode()
    Path(path).write_bytes(gzip.compress(data, mtime=0) if os.fspath(path).lower().endswith(".gz") else data)


def list_losses(trace: Trace) -> tuple[str, ...]:
    """Return what a trace loses when it is written as SWF, a sentence each."""
    flags = int((trace.left_truncated | trace.right_censored).sum())
    empty = int((trace.lifetime_s == 0).sum())
    alone = int(((trace.cores > 1) & ~trace.parallel).sum())
    losses = (
        (len(trace), "instance ids become job numbers."),
        (flags, f"{flags} lifetimes are no longer marked as cut at the begin or end of the trace."),
        (alone, f"{alone} instances on one node are read as jobs that may be on several."),
        (empty, f"{empty} instances of no length are read as jobs that never ran."),
    )
    return tuple(sentence for count, sentence in losses if count)


def _is_record(words: list[str]) -> bool:
    if words and words[0].startswith(";"):
        return True
    return len(words) == FIELDS and all(is_number(word) for word in words)


def is_number(text: str) -> bool:
    """Return True if a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


FORMAT = TraceFormat(
    "batch log in the Standard Workload Format (SWF)",
    parse,
    is_record=_is_record,
    writers={".swf": write, ".swf.gz": write},
)
