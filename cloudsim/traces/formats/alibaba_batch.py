"""Read batch_task and batch_instance of the Alibaba 2018 trace as they are published (cluster-trace-v2018).

Times are seconds since the 8 days began; 0 stands for a time before or after them.
"""

from __future__ import annotations

from dataclasses import replace

from cloudsim.traces.formats.accounting_records import AccountingRecord, WallClock, build_rows, read_run
from cloudsim.traces.formats.parse_result import NeverRanError, Parsed, parse_cores
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat

_SHARED = ("job_name", "task_type", "status", "start_time", "end_time")
#: The cells of a row of each table; there is no header.
TASK = ("task_name", "instance_num", *_SHARED, "plan_cpu", "plan_mem")
INSTANCE = (
    *("instance_name", "task_name", *_SHARED),
    *("machine_id", "seq_no", "total_seq_no", "cpu_avg", "cpu_max", "mem_avg", "mem_max"),
)
_STATUS, _START, _END = (TASK.index(name) for name in _SHARED[2:])
#: A processor is 100 in plan_cpu, cpu_avg and cpu_max.
_PER_CORE = 100.0


def parse(source: Source) -> Parsed:
    """Read one task or one instance a row.

    A task is a parallel job, as wide as all its instances on the processors that were planned. An instance of
    a task holds the processors that it used at most, because the table has no others.
    """
    return build_rows(source, {len(TASK): TASK, len(INSTANCE): INSTANCE}, _read)


def _read(row: dict[str, str], clock: WallClock) -> AccountingRecord:
    began_before = row["start_time"] == "0" and row["end_time"] != "0"
    row["end_time"] = row["end_time"] if row["end_time"] != "0" else ""
    if row["start_time"] == "0" and not began_before:
        raise NeverRanError("it began before or after the 8 days, or never")
    cores = "plan_cpu" if "plan_cpu" in row else "cpu_max"
    if not row[cores]:
        raise NeverRanError(f"its {cores} is not known")
    parts = ("job_name", "task_name", "instance_name")
    row["id"] = "/".join(row[part] for part in parts if part in row)
    record = read_run(
        row, clock, id="id", start="start_time", end="end_time", cores=cores, per_core=_PER_CORE
    )
    width = parse_cores(row["instance_num"]) if "instance_num" in row else 1
    return replace(record, cores=record.cores * width, left_truncated=began_before, parallel=width > 1)


def _is_record(words: list[str]) -> bool:
    cells = " ".join(words).split(",")
    return (
        len(cells) in (len(TASK), len(INSTANCE))
        and cells[_STATUS].isalpha()
        and cells[_START].isdecimal()
        and cells[_END].isdecimal()
    )


FORMAT = TraceFormat("batch_task or batch_instance of the Alibaba 2018 trace", parse, is_record=_is_record)
