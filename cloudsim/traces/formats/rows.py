"""Rows of the one table before they are judged: what CSV and Parquet of ours have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cloudsim.traces.formats.columns import bad_cores, bad_ids
from cloudsim.traces.trace import BoolArray, FloatArray, Trace

REQUIRED = ("instance", "start_s", "stop_s", "cores")
OPTIONAL = ("requested_s", "left_truncated", "right_censored")


@dataclass(frozen=True)
class Rows:
    """The n rows of a file as columns of shape (n,); NaN where a cell holds no number.

    An empty stop is right-censored: running until the last timestamp. A start before 0 is left-truncated.
    """

    ids: Sequence[str]
    start_s: FloatArray
    stop_s: FloatArray
    #: Where the cell of the stop is empty.
    no_stop: BoolArray
    cores: FloatArray
    requested_s: FloatArray
    #: Where the cell of the requested time is empty.
    no_request: BoolArray
    #: 0 or 1.
    left_truncated: FloatArray
    right_censored: FloatArray

    def faults(self) -> tuple[tuple[BoolArray, str], ...]:
        """(mask of the rows, why they cannot be taken); of several the first holds."""
        start, stop, requested = self.start_s, self.stop_s, self.requested_s
        with np.errstate(invalid="ignore"):
            return (
                (bad_ids(self.ids), "the instance id is empty or not printable"),
                (~np.isfinite(start), "start_s is not a finite number"),
                (~np.isfinite(stop) & ~self.no_stop, "stop_s is not a finite number"),
                (stop < start, "stop_s precedes start_s"),
                (stop < 0, "the instance ends before the trace begins"),
                (bad_cores(self.cores), "cores is not a positive whole number"),
                (
                    ~self.no_request & ~(np.isfinite(requested) & (requested > 0)),
                    "requested_s is not a positive number",
                ),
                (_no_flag(self.left_truncated), "left_truncated is not 0 or 1"),
                (_no_flag(self.right_censored), "right_censored is not 0 or 1"),
            )

    def out_of_order(self, keep: BoolArray) -> int:
        """Rows that start before the row above them."""
        return int(np.count_nonzero(np.diff(self.start_s[keep]) < 0))

    def trace(self, name: str, keep: BoolArray) -> Trace:
        """The trace of the rows of a mask, none of which has a fault."""
        instance = np.empty(len(self.ids), dtype=object)
        instance[:] = self.ids
        whole = bool(keep.all())
        start = np.maximum(self.start_s, 0.0)
        stop = self.stop_s
        if self.no_stop.any():
            stop = np.where(self.no_stop, _last(start, stop, keep), stop)
        columns = {
            "instance": instance,
            "start_s": start,
            "stop_s": stop,
            "cores": self.cores,
            "requested_s": self.requested_s,
            "left_truncated": (self.start_s < 0) | (self.left_truncated == 1),
            "right_censored": self.no_stop | (self.right_censored == 1),
        }
        return Trace.checked(name, **{c: v if whole else v[keep] for c, v in columns.items()})


def _no_flag(values: FloatArray) -> BoolArray:
    no_flag: BoolArray = (values != 0) & (values != 1)
    return no_flag


def _last(start: FloatArray, stop: FloatArray, keep: BoolArray) -> float:
    times = np.concatenate([start[keep], stop[keep]])
    return float(np.nanmax(times)) if len(times) else 0.0
