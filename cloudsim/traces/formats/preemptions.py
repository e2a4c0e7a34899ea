"""Reader of observed lifetimes of preemptible VMs as converted in data/preemptions-gcp-2019.

CSV with ``vm,machine_type,start_time,time_in_sec,outcome``; other columns are not used. The cores are the
number at the end of the machine type, as Google names them (n1-highcpu-16).
"""

from __future__ import annotations

import re
from datetime import datetime
from math import nan

import numpy as np

from cloudsim.traces.formats.columns import bad_cores, bad_ids, read_columns
from cloudsim.traces.formats.parsed import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.trace import Trace

REQUIRED = ("vm", "machine_type", "start_time", "time_in_sec", "outcome")

_PREEMPTED, _STOPPED = "preempted", "stopped"
_CORES = re.compile(r".*-(\d{1,9})", re.ASCII)
_DAY_S = 86400.0


def parse(source: Source) -> Parsed:
    """Read one VM a row: stop = start + time_in_sec. Times count from midnight UTC before the first start.

    The observers started VMs in campaigns, so silence is no drop-out. A VM that its owner stopped is
    right-censored: it would have lived on. Quarantined are malformed rows, times that are none or name no
    zone, lifetimes that are negative or not finite, machine types without a number of cores, and outcomes
    other than preempted and stopped.
    """
    columns = read_columns(source, REQUIRED)
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
    at_s = at_s[keep]
    begins_at_s = float(at_s.min() // _DAY_S * _DAY_S) if len(at_s) else 0.0
    start_s = at_s - begins_at_s
    trace = Trace.checked(
        source.name,
        [vm for vm, kept in zip(cells["vm"], keep.tolist(), strict=True) if kept],
        start_s,
        start_s + lifetime_s[keep],
        cores[keep],
        right_censored=outcome[keep] == _STOPPED,
    )
    records = len(keep) + len(columns.malformed)
    return Parsed(
        trace,
        lines=records,
        records=records,
        lost=len(quarantined),
        quarantined=quarantined,
        repaired=columns.repaired,
        out_of_order=int(np.count_nonzero(np.diff(at_s) < 0)),
        begins_at_s=begins_at_s,
        continuous=False,
    )


def _unix_s(text: str) -> float:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return nan
    return at.timestamp() if at.tzinfo else nan
