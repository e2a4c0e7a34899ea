"""Read instance_events of the Google traces of May 2019 (ClusterData2019).

JSON lines as they are published, or a table that was exported from BigQuery as CSV or Parquet, with the
columns ``time,type,collection_id,instance_index`` and ``resource_request.cpus``. Times are microseconds, and
600 s when the trace begins; what was before has the time 0, what was after the largest one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from cloudsim.model.errors import TraceError
from cloudsim.traces.formats.accounting_records import AccountingRecord, build_trace, load_json
from cloudsim.traces.formats.columns import read_columns
from cloudsim.traces.formats.parse_result import BadValueError, NeverRanError, Parsed, parse_parts
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat
from cloudsim.traces.report import QuarantinedLine

REQUIRED = ("time", "type", "collection_id", "instance_index")
#: Columns that may hold the cpus, where the request is no object.
_CPUS = ("resource_request.cpus", "resource_request_cpus", "cpus")
#: Cores that the largest machine of the cell is taken to have: cpus are shares of it.
MACHINE_CORES = 64

_SCHEDULE, _ENDS, _LOST = 3, range(4, 9), 8
_BEFORE, _AFTER = 0, 2**63 - 1
_BEGINS_S = 600.0


class _Event(NamedTuple):
    time_us: int
    type: int
    #: Collection and index of the instance.
    of: str
    cpus: float
    is_in_alloc: bool


def parse(source: Source) -> Parsed:
    """Read one instance for each time that a task or an alloc instance was scheduled.

    It holds the cpus of its SCHEDULE event until it is evicted, fails, finishes or is killed. What is lost,
    or scheduled anew without an end, was seen until then. Tasks inside an alloc hold no cores of their own.

    Raises
    ------
    TraceError
        When the events are not those of instances.
    """
    events: list[_Event] = []
    quarantined: list[QuarantinedLine] = []
    for line, entry in _entries(source):
        try:
            events.append(_event(entry))
        except BadValueError as reason:
            text = entry if isinstance(entry, str) else json.dumps(entry)
            quarantined.append(QuarantinedLine.of(line, text, str(reason)))
    runs = [*_runs(sorted(events, key=lambda event: event.time_us))]
    last_us = max((event.time_us for event in events if event.time_us != _AFTER), default=0)
    parsed = build_trace(
        source, enumerate(runs, start=1), lambda run, _: _checked(run), observed_at=_seconds(last_us)
    )
    return replace(
        parsed,
        lines=len(events) + len(quarantined),
        records=parsed.records + len(quarantined),
        lost=parsed.lost + len(quarantined),
        quarantined=tuple(quarantined),
        warnings=(
            f"cpus are shares of the largest machine; they were read as cores of one with {MACHINE_CORES}.",
            *parsed.warnings,
        ),
        out_of_order=sum(later.time_us < earlier.time_us for earlier, later in pairwise(events)),
        has_origin=True,
    )


def _entries(source: Source) -> Iterator[tuple[int, Any]]:
    """Yield line number and event: a mapping, or the text of a line that is none."""
    first = source.lines[0].lstrip()
    if first.startswith("["):
        yield from enumerate(load_json(source), start=1)
    elif first.startswith("{"):
        for line, text in enumerate(source.lines, start=1):
            if text.strip():
                try:
                    yield line, json.loads(text)
                except ValueError:
                    yield line, text
    else:
        columns = read_columns(source, REQUIRED)
        if not any(name in columns.cells for name in _CPUS):
            raise TraceError(f"the header lacks {_CPUS[0]}", file=source.file, line=1)
        for bad in columns.malformed:
            yield bad.line, bad.text
        rows = zip(*columns.cells.values(), strict=True)
        yield from zip(
            columns.line, (dict(zip(columns.cells, row, strict=True)) for row in rows), strict=True
        )


def _event(entry: Any) -> _Event:
    if not isinstance(entry, Mapping):
        raise BadValueError("is no JSON object, or has more or fewer cells than the header")
    request = entry.get("resource_request") or {}
    if not isinstance(request, Mapping):
        raise BadValueError("resource_request is no object with cpus")
    cpus = request.get("cpus") or next((entry[name] for name in _CPUS if entry.get(name)), 0)
    time_us, kind, collection, index = (_whole(entry, name) for name in REQUIRED)
    share = parse_parts(str(cpus), "cpus", 1.0)
    is_in_alloc = bool(entry.get("alloc_collection_id")) and _whole(entry, "alloc_collection_id") != 0
    return _Event(time_us, kind, f"{collection}-{index}", share * MACHINE_CORES, is_in_alloc)


def _whole(entry: Mapping[str, Any], name: str) -> int:
    try:
        return int(entry[name])
    except (KeyError, TypeError, ValueError):
        raise BadValueError(f"{name} {entry.get(name)!r} is not a whole number") from None


def _runs(events: list[_Event]) -> Iterator[AccountingRecord | str]:
    """Yield each run, or the reason for which an instance has none."""
    running: dict[str, _Event] = {}
    without: dict[str, str] = {}
    for event in events:
        before = running.get(event.of)
        if event.is_in_alloc:
            without[event.of] = "a task inside an alloc, which holds its cores"
        elif event.type == _SCHEDULE and event.time_us != _AFTER:
            if before is not None:
                yield _run(before, event, is_cut=True)
            running[event.of] = event
            without[event.of] = ""
        elif event.type in _ENDS and before is not None:
            yield _run(running.pop(event.of), event, is_cut=event.type == _LOST)
        else:
            without.setdefault(event.of, "it was never scheduled")
    for event in running.values():
        yield _run(event, None)
    yield from filter(None, without.values())


def _run(start: _Event, end: _Event | None, *, is_cut: bool = False) -> AccountingRecord:
    return AccountingRecord(
        start.of,
        _seconds(start.time_us),
        None if end is None or end.time_us == _AFTER else _seconds(end.time_us),
        start.cpus,
        left_truncated=start.time_us == _BEFORE,
        cut=is_cut,
    )


def _seconds(time_us: int) -> float:
    """Return a time in seconds since the trace began."""
    return max(time_us / 1e6 - _BEGINS_S, 0.0)


def _checked(run: AccountingRecord | str) -> AccountingRecord:
    if isinstance(run, str):
        raise NeverRanError(run)
    return run


FORMAT = TraceFormat(
    "instance_events of the Google 2019 traces", parse, columns=REQUIRED, marker='"instance_index"'
)
