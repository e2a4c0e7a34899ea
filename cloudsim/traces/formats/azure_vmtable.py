"""Read vmtable of the Azure traces of VMs as it is published (AzurePublicDatasetV1 and V2).

Times are seconds since the trace began, in steps of 300.
"""

from __future__ import annotations

from dataclasses import replace

from cloudsim.traces.formats.accounting_records import AccountingRecord, WallClock, build_rows, read_run
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat

#: The cells of a row; there is no header.
NAMES = (
    *("vm", "subscription", "deployment", "created", "deleted", "max_cpu", "mean_cpu", "p95_cpu"),
    *("category", "cores", "memory"),
)
_CATEGORIES = ("Delay-insensitive", "Interactive", "Unknown")
#: The last reading of the 30 days. A VM with this end was still there.
_LAST_READING_S = 2_591_700.0


def parse(source: Source) -> Parsed:
    """Read one VM a row; one whose end is the last reading is right-censored."""
    return build_rows(source, {len(NAMES): NAMES}, _read, observed_at=_LAST_READING_S)


def _read(row: dict[str, str], clock: WallClock) -> AccountingRecord:
    row["cores"] = row["cores"].removeprefix(">")
    record = read_run(row, clock, id="vm", start="created", end="deleted", cores="cores")
    return replace(record, ended_at=None) if record.ended_at == _LAST_READING_S else record


def _is_record(words: list[str]) -> bool:
    cells = " ".join(words).split(",")
    return len(cells) == len(NAMES) and cells[NAMES.index("category")].strip() in _CATEGORIES


FORMAT = TraceFormat("vmtable of an Azure trace", parse, is_record=_is_record)
