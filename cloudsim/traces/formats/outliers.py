"""Odd rows of a log: times so far from all others that a table would see years without any load.

A clock that was not set yet writes such rows, or a job that was never closed. A row that starts there is set
aside; an end there is not known, and is censored at the last time of the others. Both are told with their
share of the core-hours.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cloudsim.model.arrays import BoolArray, FloatArray
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.trace import Trace

#: At most one row in so many is odd, and a single one in shorter logs; in very short ones none.
ONE_IN, FEWEST = 100, 20
#: Odd rows are this many times as far from the others as those reach, and at least this far.
FACTOR = 10.0
LEAST_S = 30 * 86_400.0


def tell_outliers(parsed: Parsed) -> Parsed:
    """Return a log without the rows that start far from all others, and without ends far behind them."""
    trace = parsed.trace
    if len(trace) < FEWEST:
        return parsed
    most = max(len(trace) // ONE_IN, 1)
    skipped, warnings = parsed.skipped, parsed.warnings
    odd = _far_starts(trace.start_s, most)
    if odd.any():
        reason = f"the start is far from all others ({_share(trace, odd)} of the core-hours)"
        skipped = tuple(sorted((*skipped, (reason, int(odd.sum())))))
        trace = trace.select(~odd)
    last_s = _last_s(trace, most)
    endless = trace.stop_s > last_s
    if endless.any():
        censored = replace(
            trace,
            stop_s=np.minimum(trace.stop_s, last_s),
            right_censored=trace.right_censored | endless,
        )
        told = (
            f"{int(endless.sum())} ends far behind all others are not believed: they are censored at the "
            f"last time of the others ({_share(censored, endless)} of the core-hours)."
        )
        warnings = (*warnings, told)
        trace = censored
    return replace(parsed, trace=trace, skipped=skipped, warnings=warnings)


def _far_starts(start_s: FloatArray, most: int) -> BoolArray:
    """Mark at most ``most`` starts at either end that a gap parts from all others."""
    far_s = max(FACTOR * (start_s[-1 - most] - start_s[most]), LEAST_S)
    gaps = np.diff(start_s) > far_s
    odd = np.zeros(len(start_s), np.bool_)
    early, late = np.flatnonzero(gaps[:most]), np.flatnonzero(gaps[-most:])
    if len(early):
        odd[: early[-1] + 1] = True
    if len(late):
        odd[len(odd) - most + late[0] :] = True
    return odd


def _last_s(trace: Trace, most: int) -> float:
    """Return the latest time that is believed: no more than ``most`` stops are far behind it."""
    stops_s = np.sort(trace.stop_s)
    for kept in range(len(stops_s) - most - 1, len(stops_s) - 1):
        last_s = max(float(stops_s[kept]), float(trace.start_s[-1]))
        if stops_s[kept + 1] - last_s > max(FACTOR * (last_s - trace.start_s[0]), LEAST_S):
            return last_s
    return float(stops_s[-1])


def _share(trace: Trace, which: BoolArray) -> str:
    core_s = trace.cores * trace.lifetime_s
    return f"{core_s[which].sum() / core_s.sum() if core_s.any() else 0.0:.1%}"
