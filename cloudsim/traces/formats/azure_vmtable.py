"""Read vmtable of the Azure 2017 VM trace as it is published (AzurePublicDatasetV1).

A row without a header: VM, subscription, deployment, created s, deleted s, three readings of its processor,
category, cores, memory. Times are seconds since the trace began, in steps of 300.
"""

from __future__ import annotations

from dataclasses import replace

from cloudsim.traces.formats.accounting_records import AccountingRecord, WallClock, build_trace, read_run
from cloudsim.traces.formats.parse_result import BadValueError, Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat

_CELLS = 11
_CATEGORIES = ("Delay-insensitive", "Interactive", "Unknown")
#: The last reading of the 30 days. A VM with this end was still there.
_LAST_READING_S = 2_591_700.0


def parse(source: Source) -> Parsed:
    """Read one VM a row; one whose end is the last reading is right-censored."""
    rows = ((line, text) for line, text in enumerate(source.lines, start=1) if text.strip())
    return replace(build_trace(source, rows, _read, observed_at=_LAST_READING_S), has_origin=True)


def _read(text: str, clock: WallClock) -> AccountingRecord:
    cells = [cell.strip() for cell in text.split(",")]
    if len(cells) != _CELLS:
        raise BadValueError(f"not {_CELLS} comma-separated cells")
    row = {"vm": cells[0], "created": cells[3], "deleted": cells[4], "cores": cells[9].removeprefix(">")}
    record = read_run(row, clock, id="vm", start="created", end="deleted", cores="cores")
    return replace(record, ended_at=None) if record.ended_at == _LAST_READING_S else record


def _is_record(words: list[str]) -> bool:
    cells = " ".join(words).split(",")
    return len(cells) == _CELLS and cells[8].strip() in _CATEGORIES


FORMAT = TraceFormat("vmtable of the Azure 2017 VM trace", parse, is_record=_is_record)
