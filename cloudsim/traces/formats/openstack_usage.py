"""Read the detailed usage of OpenStack's projects, JSON of Nova's API os-simple-tenant-usage."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import Any

from cloudsim.model.errors import TraceError
from cloudsim.traces.formats.accounting_records import (
    AccountingRecord,
    WallClock,
    build_trace,
    load_json,
    read_run,
)
from cloudsim.traces.formats.parse_result import BadValueError, Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat


def parse(source: Source) -> Parsed:
    """Read one server a usage, of one project or of all.

    A server without an end ran until the window of the report ended. Nova's times are UTC.

    Raises
    ------
    TraceError
        When it is no such document, or its window has no end.
    """
    document = load_json(source)
    usages = list(_usages(document, source.file))
    try:
        ends = [WallClock(UTC).read_time(usage.get("stop"), "stop") for usage in usages]
    except BadValueError as error:
        raise TraceError(str(error), file=source.file) from None
    servers = [server for usage in usages for server in usage.get("server_usages", ())]
    observed_at = max((end for end in ends if end is not None), default=None)
    return build_trace(source, enumerate(servers, start=1), _read, zone=UTC, observed_at=observed_at)


def _usages(document: Any, file: str) -> Iterator[dict[str, Any]]:
    """Yield the usage of each project."""
    if isinstance(document, dict):
        several = document.get("tenant_usages", [document.get("tenant_usage")])
        if isinstance(several, list) and all(isinstance(usage, dict) for usage in several):
            yield from several
            return
    raise TraceError("is no document of tenant_usage or tenant_usages", file=file)


def _read(server: dict[str, Any], clock: WallClock) -> AccountingRecord:
    return read_run(server, clock, id="instance_id", start="started_at", end="ended_at", cores="vcpus")


FORMAT = TraceFormat("usage of OpenStack's projects, JSON", parse, marker='"server_usages"')
