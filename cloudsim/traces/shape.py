"""How a trace runs over time: load, arrivals and lifetimes, in few enough numbers to print or to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cloudsim.model.errors import SpecError
from cloudsim.traces import statistics
from cloudsim.traces.statistics import DropOut
from cloudsim.traces.trace import FloatArray, IntArray, Trace

_HOUR_S = 3600.0


@dataclass(frozen=True)
class Arrivals:
    """When instances start. Variation is the standard deviation of the gaps between starts by their mean:
    1 of independent arrivals, more of bursts; None of fewer than three instances.
    """

    per_day: float
    mean_gap_s: float | None
    variation: float | None
    #: The hour from the begin of the trace in which most start, and how many do.
    busiest_hour_s: float
    most_an_hour: int

    @classmethod
    def of(cls, trace: Trace) -> Arrivals:
        """The arrivals of a trace that is not empty; those before its begin count at its begin."""
        gaps = np.diff(trace.start_s)
        mean_s = float(gaps.mean()) if len(gaps) else None
        hours, counts = np.unique(trace.start_s // _HOUR_S, return_counts=True)
        most = int(np.argmax(counts))
        span_s = statistics.span_s(trace)
        return cls(
            per_day=len(trace) * 86400.0 / span_s if span_s else float(len(trace)),
            mean_gap_s=mean_s,
            variation=float(gaps.std()) / mean_s if mean_s and len(gaps) > 1 else None,
            busiest_hour_s=float(hours[most] * _HOUR_S),
            most_an_hour=int(counts[most]),
        )


def peak_at_s(trace: Trace) -> float:
    """When most cores are in use for the first time, seconds; of a trace that is not empty."""
    times, cores = statistics.usage(trace)
    return float(times[int(np.argmax(cores))])


@dataclass(frozen=True)
class Load:
    """A span in n equal stretches: their n + 1 edges, and for each the mean and the most cores in use, and
    how many instances start in it; the end belongs to the last.
    """

    edges_s: FloatArray
    mean_cores: FloatArray
    peak_cores: IntArray
    starts: IntArray


def load_over_time(trace: Trace, stretches: int) -> Load:
    """The load of a trace that is not empty, from its first start to its last stop, or for a second.

    Raises:
        SpecError: stretches < 1.
    """
    if stretches < 1:
        raise SpecError(f"must be at least 1, not {stretches}", field="stretches")
    times, cores = statistics.usage(trace)
    begin_s = float(times[0])
    edges = np.linspace(begin_s, max(float(times[-1]), begin_s + 1.0), stretches + 1)
    widths = np.diff(edges)
    lengths = np.diff(times)
    area = np.concatenate([[0.0], np.cumsum(cores[:-1] * lengths)])
    held = np.maximum(np.searchsorted(times, edges, side="right") - 1, 0)
    until = area[held] + cores[held] * (edges - times[held])
    # What a stretch begins with counts in it, and so does every change inside it.
    at = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, stretches - 1)
    peak = cores[held[:-1]].copy()
    np.maximum.at(peak, at, cores)
    starts = np.histogram(trace.start_s, bins=edges)[0]
    # Of times so late that stretches have no width there is no mean.
    mean = np.divide(np.diff(until), widths, out=np.zeros(stretches), where=widths > 0)
    return Load(edges, mean, peak, starts.astype(np.int64))


def lifetime_shares(
    trace: Trace, drop_outs: Sequence[DropOut], points: int = 400
) -> tuple[FloatArray, FloatArray]:
    """Lifetimes seen whole, seconds ascending, and the share no longer than each; up to ``points``."""
    lives = np.sort(trace.lifetime_s[statistics.seen_whole(trace, drop_outs)])
    if not len(lives):
        return lives, lives
    ranks = np.unique(np.linspace(0, len(lives) - 1, min(points, len(lives))).round().astype(np.int64))
    shares: FloatArray = (ranks + 1) / len(lives)
    return lives[ranks], shares
