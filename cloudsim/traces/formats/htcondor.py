"""Read jobs of HTCondor, JSON as ``condor_history -json`` and ``condor_q -json`` print them."""

from __future__ import annotations

from typing import Any

from cloudsim.model.errors import TraceError
from cloudsim.traces.formats.accounting_records import (
    AccountingRecord,
    WallClock,
    build_trace,
    load_json,
    read_run,
)
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat


def parse(source: Source) -> Parsed:
    """Read one job a record: from its latest start to its completion, on the cores that it requested.

    Raises
    ------
    TraceError
        When it is no list of jobs.
    """
    document = load_json(source)
    if not isinstance(document, list) or not all(isinstance(job, dict) for job in document):
        raise TraceError("is no list of jobs", file=source.file)
    return build_trace(source, enumerate(document, start=1), _read)


def _read(job: dict[str, Any], clock: WallClock) -> AccountingRecord:
    flat = {
        "id": f"{job.get('ClusterId', '')}.{job.get('ProcId', '')}",
        "start": job.get("JobCurrentStartDate") or job.get("JobStartDate"),
        "end": job.get("CompletionDate") or None,  # 0 while it runs
        "cores": job.get("RequestCpus", 1),
    }
    return read_run(flat, clock, id="id", start="start", end="end", cores="cores")


FORMAT = TraceFormat("jobs of HTCondor, JSON", parse, marker='"ClusterId"')
