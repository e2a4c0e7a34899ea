"""Trace files: ``read`` recognises the format by content, ``write`` goes by the ending of the file's name.

eucalyptus     START and STOP lines of the UCSB/Eucalyptus private clouds
swf            Standard Workload Format of the Parallel Workloads Archive
gwf            Grid Workload Format of the Grid Workloads Archive
azure, azure_vmtable
               the Azure traces of VMs, as converted and as published
google_events  instance_events of the Google 2019 traces
alibaba_batch, alibaba_pods
               tables of the Alibaba 2018 and 2023 traces
preemptions    CSV of observed lifetimes of preemptible VMs
sacct, htcondor, openstack_servers, openstack_usage, ec2_instances, kubernetes_pods
               accounting of schedulers and clouds
accounting_records
               what those formats share
table          our own CSV, and the rows that it shares with Parquet
arrow          Parquet, and large files of our own CSV (pyarrow)
columns        CSV with a header, read by column
named_columns  any CSV, whose columns the caller names
source         a file as lines of text, plain or gzip
parse_result   result of every reader
outliers       odd rows, which no table should see
trace_format   what a module declares of its format

A format is a module here with a ``FORMAT`` (``trace_format``); it is found by itself. The error rate and the
report, which all formats share, are here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from zoneinfo import ZoneInfo

from cloudsim.model.errors import SpecError, TraceError
from cloudsim.model.plugins import TRACE_FORMATS, load_plugins
from cloudsim.traces import statistics
from cloudsim.traces.formats import arrow, named_columns
from cloudsim.traces.formats.accounting_records import find_zone
from cloudsim.traces.formats.columns import read_header
from cloudsim.traces.formats.outliers import tell_outliers
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source, decode_source, load_bytes
from cloudsim.traces.formats.trace_format import TraceFormat
from cloudsim.traces.report import ImportReport, refuse_damaged
from cloudsim.traces.trace import Trace

__all__ = ["ACCEPTED", "FORMATS", "TITLES", "WRITERS", "read", "write"]


def _collect() -> dict[str, TraceFormat]:
    modules = {module.name: import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)}
    ours = {name: module.FORMAT for name, module in modules.items() if hasattr(module, "FORMAT")}
    return load_plugins(TRACE_FORMATS, TraceFormat) | ours


#: All text formats by name, also those that installed packages add. Parquet is recognised beside them.
FORMATS = _collect()

#: Name of a CSV format -> the columns that its header has at least.
HEADERS = {name: form.columns for name, form in FORMATS.items() if form.columns}

#: Name of a format -> its name for people.
TITLES = {name: form.title for name, form in FORMATS.items()} | {"parquet": "Parquet of our own"}

#: Ending of a file's name -> its writer.
WRITERS = dict(
    sorted([*(pair for form in FORMATS.values() for pair in form.writers.items()), (".parquet", arrow.write)])
)

#: Sentence on the accepted files, for errors.
ACCEPTED = (
    f"accepted are, plain or gzip: {', '.join(form.title for form in FORMATS.values() if not form.columns)}, "
    f"CSV with {' or '.join(','.join(columns) for columns in HEADERS.values())}, and Parquet with "
    "the columns of one of them"
)

_PARQUET = "parquet"
#: Of files that are read by the names of their columns.
_NAMED = "columns"
_RECOGNISE_LINES = 200
_DAY_S = 86_400.0
#: Starts from here on are Unix time, in seconds until the year 5138, or in milliseconds.
_UNIX_S, _UNIX_MS = 1e8, 1e11


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    max_error_rate: float = 0.01,
    capacity_cores: int | None = None,
    time_zone: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> tuple[Trace, ImportReport]:
    """Read a trace file and report what was found in it.

    The format is recognised by content, gzip by its magic bytes. The trace is named after the file.

    Parameters
    ----------
    format
        One of ``FORMATS``, instead of recognition.
    max_error_rate
        Largest share of bad lines. In a short file up to half of the lines may always be bad, unless the rate
        is 0.
    capacity_cores
        Cores of the machine, by default SWF's MaxProcs; the report then states how long usage exceeds it.
    time_zone
        Zone of the site's clock, such as Europe/Berlin, where a file has wall-clock times without one.
    columns
        For a CSV file in no known format: the names of its columns by ``named_columns.PARTS``.

    Raises
    ------
    TraceError
        When it is not a trace, holds no instance, or more than ``max_error_rate`` of its lines are bad.
    SpecError
        When the format, the zone or a part is unknown, the rate is outside 0..1, or the capacity is below 1.
    """
    if format is not None and format not in FORMATS:
        raise SpecError(f"{format!r} is not one of {', '.join(FORMATS)}", field="format")
    if not 0 <= max_error_rate <= 1:
        raise SpecError(f"must be from 0 to 1, not {max_error_rate}", field="max_error_rate")
    if capacity_cores is not None and capacity_cores < 1:
        raise SpecError(f"must be at least 1, not {capacity_cores}", field="capacity_cores")
    file = os.fspath(path)
    zone = None if time_zone is None else find_zone(time_zone)
    kind, parsed = _parsed(file, load_bytes(path, accepted=ACCEPTED), format, zone, columns)
    parsed = _count_from_first_start(file, tell_outliers(parsed))
    refuse_damaged(file, parsed.lines, parsed.quarantined, max_error_rate)
    if not len(parsed.trace):
        raise TraceError(f"holds no instance; {ACCEPTED}", file=file)
    return parsed.trace, _report(file, kind, parsed, capacity_cores)


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace in the format that the ending of ``path`` names; CSV and Parquet keep all of it.

    Raises
    ------
    SpecError
        When the ending is unknown.
    TraceError
        When Parquet is named and pyarrow is not installed.
    """
    name = os.fspath(path).lower()
    for ending, writer in WRITERS.items():
        if name.endswith(ending):
            writer(trace, path)
            return
    raise SpecError(f"{os.fspath(path)!r} does not end in one of {', '.join(WRITERS)}", field="path")


def _parsed(
    file: str, data: bytes, kind: str | None, zone: ZoneInfo | None, columns: Mapping[str, str] | None
) -> tuple[str, Parsed]:
    if kind is None and arrow.is_parquet(data):
        content = arrow.parse_parquet(file, data, accepted=ACCEPTED, is_ours=columns is None)
        if isinstance(content, Parsed):
            return _PARQUET, content
        data = content
    if columns is None and kind in (None, "table") and (parsed := arrow.parse_csv(file, data)) is not None:
        return "table", parsed
    source = replace(decode_source(data, file, accepted=ACCEPTED), time_zone=zone)
    if columns is None:
        kind = kind or recognise_format(source)
        parsed = FORMATS[kind].parse(source)
    else:
        kind, parsed = _NAMED, named_columns.parse(source, columns)
    return kind, replace(parsed, repaired=(*source.repaired, *parsed.repaired), ends_open=source.ends_open)


def _count_from_first_start(file: str, parsed: Parsed) -> Parsed:
    """Return a log whose times count from its first start, if they counted from 1970 or from long before it.

    Raises
    ------
    TraceError
        When times are thousandths or millionths of seconds.
    """
    if parsed.begins_at_s is not None or not len(parsed.trace):
        return parsed
    first_s = float(parsed.trace.start_s[0])
    if first_s >= _UNIX_MS:
        unit = "milliseconds" if first_s < 1000 * _UNIX_MS else "microseconds"
        raise TraceError(f"the first start, {first_s:.0f}, is Unix time in {unit}: write seconds", file=file)
    is_unix = first_s >= _UNIX_S
    if not is_unix and (parsed.has_origin or first_s < _DAY_S):
        return parsed
    clock = "Unix time" if is_unix else "seconds"
    note = f"times count from the first start, which is {first_s:.0f} on the log's own clock ({clock})."
    return replace(
        parsed,
        trace=parsed.trace.delayed(-first_s),
        begins_at_s=first_s if is_unix else None,
        warnings=(*parsed.warnings, note),
    )


def recognise_format(source: Source) -> str:
    """Return which of ``FORMATS`` the lines are in.

    Raises
    ------
    TraceError
        When they are in none.
    """
    names = read_header(source)
    for kind, required in HEADERS.items():
        if set(required) <= set(names):
            return kind
    if "".join(source.lines[:_RECOGNISE_LINES]).lstrip().startswith(("{", "[")):
        for kind, form in FORMATS.items():
            if form.marker and any(form.marker in text for text in source.lines[:_RECOGNISE_LINES]):
                return kind
    for text in source.lines[:_RECOGNISE_LINES]:
        words = text.split()
        for kind, form in FORMATS.items():
            if form.is_record(words):
                return kind
    raise TraceError(f"is not a trace in a known format; {ACCEPTED}", file=source.file)


def _report(file: str, kind: str, parsed: Parsed, capacity_cores: int | None) -> ImportReport:
    trace = parsed.trace
    assert len(trace) + parsed.lost + sum(n for _, n in parsed.skipped) == parsed.records
    capacity = capacity_cores if capacity_cores is not None else parsed.capacity_cores
    over = statistics.overcommit(trace, capacity) if capacity is not None else None
    grid = statistics.find_grid(trace)
    drop_outs = statistics.find_drop_outs(trace) if parsed.continuous else ()
    return ImportReport(
        file=file,
        format=kind,
        records=parsed.records,
        rows=len(trace),
        quarantined_records=parsed.lost,
        quarantined=parsed.quarantined,
        skipped=parsed.skipped,
        left_truncated=int(trace.left_truncated.sum()),
        right_censored=int(trace.right_censored.sum()),
        grid_s=grid.step_s if grid else None,
        off_grid=grid.off_times if grid else 0,
        drop_outs=drop_outs,
        continuous=parsed.continuous,
        out_of_order=parsed.out_of_order,
        repaired=parsed.repaired,
        ends_open=parsed.ends_open,
        begins_at_s=parsed.begins_at_s,
        time_zone=parsed.time_zone,
        peak_cores=statistics.peak_cores(trace),
        capacity_cores=capacity,
        overcommitted_s=over.seconds if over else 0.0,
        warnings=tuple(_warnings(parsed, grid, drop_outs, over)),
    )


def _warnings(
    parsed: Parsed,
    grid: statistics.Grid | None,
    drop_outs: tuple[statistics.DropOut, ...],
    over: statistics.Overcommit | None,
) -> list[str]:
    """Return one sentence for each kind of finding."""
    trace = parsed.trace
    sentences = []
    if parsed.quarantined:
        first = parsed.quarantined[0]
        sentences.append(
            f"{len(parsed.quarantined)} lines were quarantined, first line {first.line}: {first.reason}."
        )
    sentences += [f"{count} records were skipped: {reason}." for reason, count in parsed.skipped]
    if truncated := int(trace.left_truncated.sum()):
        sentences.append(
            f"{truncated} instances started before the trace; they count from 0 and their age is unknown."
        )
    if censored := int(trace.right_censored.sum()):
        sentences.append(f"{censored} instances have no known end; they run until the trace ends.")
    if grid and grid.off_times:
        sentences.append(
            f"{grid.off_times} times of {grid.off_instances} instances are off the {grid.step_s:g} s grid; "
            "they are taken as they are."
        )
    if drop_outs:
        longest = max(d.end_s - d.start_s for d in drop_outs)
        sentences.append(
            f"{len(drop_outs)} drop-outs of the log were found, the longest {longest / 86400:.1f} days."
        )
    if over and over.seconds > 0:
        sentences.append(
            f"{over.peak_cores} cores are in use on {over.capacity_cores} at the peak; "
            f"usage exceeds them for {over.seconds:g} s."
        )
    return [*sentences, *parsed.warnings]
