"""Read servers of OpenStack as ``openstack server list -f csv`` prints them with their times and cores."""

from __future__ import annotations

from datetime import UTC

from cloudsim.traces.formats.accounting_records import AccountingRecord, WallClock, build_columns, read_run
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat

REQUIRED = ("ID", "Launched At", "Terminated At", "Flavor: VCPUs")


def parse(source: Source) -> Parsed:
    """Read one server a row; a server that was never launched held no cores. Nova's times are UTC."""
    return build_columns(source, REQUIRED, _read, zone=UTC)


def _read(row: dict[str, str], clock: WallClock) -> AccountingRecord:
    return read_run(row, clock, id="ID", start="Launched At", end="Terminated At", cores="Flavor: VCPUs")


FORMAT = TraceFormat("servers of OpenStack (server list)", parse, columns=REQUIRED)
