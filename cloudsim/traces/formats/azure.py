"""Read the Azure 2017 VM trace as converted in data/azure-2017 (AzurePublicDatasetV1).

CSV with ``vm,start_s,duration_s,cores`` and, if known, ``censored`` (1: running at the end of the window);
other columns, such as ``memory_gb``, are not used.
"""

from __future__ import annotations

import numpy as np

from cloudsim.model.arrays import BoolArray
from cloudsim.traces.formats.columns import bad_cores, bad_ids, read_columns
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat
from cloudsim.traces.trace import Trace

REQUIRED = ("vm", "start_s", "duration_s", "cores")


def parse(source: Source) -> Parsed:
    """Read one VM a row: stop = start + duration.

    ``censored`` rows are right-censored. A start before 0 is left-truncated. Quarantined are malformed rows,
    values that are not finite numbers, negative durations, VMs that end before 0, and further rows of a VM.
    """
    columns = read_columns(source, REQUIRED)
    ids = columns.cells["vm"]
    start, duration, cores = (columns.numbers(c) for c in REQUIRED[1:])
    censored = columns.numbers("censored") if "censored" in columns.cells else np.zeros(len(ids))
    with np.errstate(invalid="ignore"):
        keep, quarantined = columns.sift(
            (
                (bad_ids(ids), "the vm id is empty or not printable"),
                (~np.isfinite(start), "start_s is not a finite number"),
                (~np.isfinite(start + duration), "duration_s is not a finite number"),
                (duration < 0, "duration_s is negative: the end precedes the start"),
                (start + duration < 0, "the VM ends before the trace begins"),
                (bad_cores(cores), "cores is not a positive whole number"),
                (~np.isin(censored, (0.0, 1.0)), "censored is not 0 or 1"),
                (_repeated(ids), "a second row of a VM that is there already"),
            )
        )
    names = np.empty(len(ids), dtype=object)
    names[:] = ids
    trace = Trace.checked(
        source.name,
        names[keep],
        np.maximum(start, 0.0)[keep],
        (start + duration)[keep],
        cores[keep],
        left_truncated=(start < 0)[keep],
        right_censored=(censored == 1)[keep],
    )
    records = len(ids) + len(columns.malformed)
    return Parsed(
        trace,
        lines=records,
        records=records,
        lost=len(quarantined),
        has_origin=True,
        quarantined=quarantined,
        repaired=columns.repaired,
        out_of_order=int(np.count_nonzero(np.diff(start[keep]) < 0)),
    )


def _repeated(ids: list[str]) -> BoolArray:
    repeated = np.zeros(len(ids), dtype=np.bool_)
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        for row, vm in enumerate(ids):
            repeated[row] = vm in seen
            seen.add(vm)
    return repeated


FORMAT = TraceFormat("Azure 2017 CSV", parse, columns=REQUIRED)
