"""Read the jobs of a Slurm cluster as ``sacct --parsable2`` prints them.

``--format`` must name JobID, AllocCPUS, Start, End and State at least. Slurm writes times on the clock of the
cluster, without its zone.
"""

from __future__ import annotations

from dataclasses import replace

from cloudsim.traces.formats.accounting_records import (
    AccountingRecord,
    WallClock,
    build_columns,
    read_run,
)
from cloudsim.traces.formats.parse_result import NeverRanError, Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat

REQUIRED = ("JobID", "AllocCPUS", "Start", "End", "State")


def parse(source: Source) -> Parsed:
    """Read one job a row, without the steps of jobs. Jobs that wait, or were cancelled before, never ran."""
    parsed = build_columns(source, REQUIRED, _read)
    return replace(parsed, trace=replace(parsed.trace, parallel=parsed.trace.cores > 1))


def _read(row: dict[str, str], clock: WallClock) -> AccountingRecord:
    if "." in row["JobID"]:
        raise NeverRanError("a step of a job, whose cores are the job's")
    return read_run(row, clock, id="JobID", start="Start", end="End", cores="AllocCPUS")


FORMAT = TraceFormat("jobs of Slurm (sacct)", parse, columns=REQUIRED)
