"""Read observed lifetimes of preemptible VMs as converted in data/preemptions-gcp-2019.

CSV with ``vm,machine_type,start_time,time_in_sec,outcome``; other columns are not used. The cores are the
number at the end of the machine type, as Google names them (n1-highcpu-16).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from math import nan

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.arrays import BoolArray, FloatArray
from cloudsim.traces.formats.columns import Columns, bad_cores, bad_ids, read_columns
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat
from cloudsim.traces.report import QuarantinedLine, refuse_damaged
from cloudsim.traces.trace import Trace

REQUIRED = ("vm", "machine_type", "start_time", "time_in_sec", "outcome")

_ZONE = "zone"
_PREEMPTED, _STOPPED = "preempted", "stopped"
_MAX_ERROR_RATE = 0.01
_CORES = re.compile(r".*-(\d{1,9})", re.ASCII)
_DAY_S = 86400.0


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of the file, and which of them can be used, as columns of shape (rows,)."""

    columns: Columns
    at_s: FloatArray
    lifetime_s: FloatArray
    cores: FloatArray
    preempted: BoolArray
    keep: BoolArray
    quarantined: tuple[QuarantinedLine, ...]

    @property
    def records(self) -> int:
        return len(self.keep) + len(self.columns.malformed)


def parse(source: Source) -> Parsed:
    """Read one VM a row: stop = start + time_in_sec; times count from midnight UTC before the first start.

    The observers started VMs in campaigns, so silence is no drop-out. A VM that its owner stopped is
    right-censored: it would have lived on. Quarantined are malformed rows, times that are invalid or have no
    zone, lifetimes that are negative or not finite, machine types without a number of cores, and outcomes
    other than preempted and stopped.
    """
    rows = _rows(source, REQUIRED)
    keep, vms = rows.keep, rows.columns.cells["vm"]
    at_s = rows.at_s[keep]
    begins_at_s = float(at_s.min() // _DAY_S * _DAY_S) if len(at_s) else 0.0
    start_s = at_s - begins_at_s
    trace = Trace.checked(
        source.name,
        [vm for vm, kept in zip(vms, keep.tolist(), strict=True) if kept],
        start_s,
        start_s + rows.lifetime_s[keep],
        rows.cores[keep],
        right_censored=~rows.preempted[keep],
    )
    return Parsed(
        trace,
        lines=rows.records,
        records=rows.records,
        lost=len(rows.quarantined),
        quarantined=rows.quarantined,
        repaired=rows.columns.repaired,
        out_of_order=int(np.count_nonzero(np.diff(at_s) < 0)),
        begins_at_s=begins_at_s,
        continuous=False,
    )


@dataclass(frozen=True, eq=False)
class ObservedLifetimes:
    """Lifetimes of n VMs, as columns of shape (n,); one that was not ``preempted`` would have lived on.

    Attributes
    ----------
    market
        "TYPE/ZONE" of each.
    lifetime_s
        Seconds.
    quarantined
        Number of rows of the file that could not be used.
    """

    market: NDArray[np.object_]
    lifetime_s: FloatArray
    preempted: BoolArray
    quarantined: int


def read_lifetimes(source: Source) -> ObservedLifetimes:
    """Read the lifetimes of a file that has the column ``zone`` as well.

    Raises
    ------
    TraceError
        When it is no such file, or more than a hundredth of its rows are bad.
    """
    rows = _rows(source, (*REQUIRED, _ZONE))
    refuse_damaged(source.file, rows.records, rows.quarantined, _MAX_ERROR_RATE)
    cells = rows.columns.cells
    market = np.array(
        [f"{kind}/{zone}" for kind, zone in zip(cells["machine_type"], cells[_ZONE], strict=True)],
        dtype=object,
    )
    keep = rows.keep
    return ObservedLifetimes(market[keep], rows.lifetime_s[keep], rows.preempted[keep], len(rows.quarantined))


def _rows(source: Source, needed: tuple[str, ...]) -> _Rows:
    columns = read_columns(source, needed)
    cells = columns.cells
    at_s = np.array([_unix_s(text) for text in cells["start_time"]], dtype=np.float64)
    lifetime_s = columns.numbers("time_in_sec")
    matches = (_CORES.fullmatch(kind) for kind in cells["machine_type"])
    cores = np.array([float(match[1]) if match else nan for match in matches], dtype=np.float64)
    outcome = np.array(cells["outcome"], dtype=object)
    keep, quarantined = columns.sift(
        (
            (bad_ids(cells["vm"]), "the vm id is empty or not printable"),
            (np.isnan(at_s), "start_time is not an ISO 8601 time with its offset from UTC"),
            (~(np.isfinite(lifetime_s) & (lifetime_s >= 0)), "time_in_sec is not a number of 0 or more"),
            (bad_cores(cores), "machine_type does not end in a number of cores"),
            (~np.isin(outcome, (_PREEMPTED, _STOPPED)), f"outcome is not {_PREEMPTED} or {_STOPPED}"),
        )
    )
    return _Rows(columns, at_s, lifetime_s, cores, outcome == _PREEMPTED, keep, quarantined)


def _unix_s(text: str) -> float:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return nan
    return at.timestamp() if at.tzinfo else nan


FORMAT = TraceFormat("observed lifetimes of preemptible VMs", parse, columns=REQUIRED)
