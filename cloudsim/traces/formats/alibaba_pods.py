"""Read pods of the Alibaba 2023 GPU trace as they are published (openb_pod_list of cluster-trace-gpu-v2023).

Times are seconds since the log began. GPUs and memory are not read.
"""

from __future__ import annotations

from dataclasses import replace

from cloudsim.traces.formats.accounting_records import AccountingRecord, WallClock, build_columns, read_run
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat

REQUIRED = ("name", "cpu_milli", "num_gpu", "pod_phase", "scheduled_time", "deletion_time")


def parse(source: Source) -> Parsed:
    """Read one pod a row, from its scheduling to its deletion; those deleted last outlived the log."""
    parsed = build_columns(source, REQUIRED, _read)
    trace = parsed.trace
    last = trace.stop_s == trace.stop_s.max(initial=0.0)
    return replace(parsed, trace=replace(trace, right_censored=trace.right_censored | last), has_origin=True)


def _read(row: dict[str, str], clock: WallClock) -> AccountingRecord:
    return read_run(
        row, clock, id="name", start="scheduled_time", end="deletion_time", cores="cpu_milli", per_core=1000
    )


FORMAT = TraceFormat("pods of the Alibaba 2023 GPU trace (openb)", parse, columns=REQUIRED)
