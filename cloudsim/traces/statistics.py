"""Describe a trace: sizes, load over time, lifetimes, and oddities such as drop-outs and overcommit.

Nothing here changes a trace. Replay takes it as written; statistics leave out lifetimes that were not seen
whole, and say how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.arrays import BoolArray, FloatArray, IntArray
from cloudsim.model.errors import SpecError
from cloudsim.traces.trace import Trace

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)

# A drop-out is a gap of 40 usual gaps, and no shorter than a day: a quiet night is not one. Measured on
# DS2: the drop-out of day 40 is 53 usual gaps; quiet times with as many stops before and starts after reach
# 31 (DS3).
_GAP_TIMES_USUAL = 40.0

_GAP_AT_LEAST_S = 86_400.0

_SEVERAL = 2

#: The rules of ``find_silences`` and ``find_drop_outs`` in a sentence.
SILENCE_RULE = "nothing starts or stops for a day and for 40 times the mean of all shorter gaps"

DROP_OUT_RULE = f"{SILENCE_RULE}, and at least two stop at its begin and two start at its end"

# Stops are "at" the start of a gap within this share of its length (three hours of twelve days).
_EDGE_SHARE = 0.01

_GRIDS_S = (3600.0, 1800.0, 900.0, 600.0, 300.0, 60.0)

_GRID_EVIDENCE = 20


@dataclass(frozen=True)
class DropOut:
    """A time without records: instances were closed at its start and (re)opened at its end."""

    start_s: float
    end_s: float
    #: Instances with a stop at its start.
    closed: int
    #: Instances with a start at its end.
    reopened: int

    @property
    def edge_s(self) -> float:
        """Seconds from its ends within which a stop or start still belongs to it."""
        return _EDGE_SHARE * (self.end_s - self.start_s)


def core_seconds(trace: Trace) -> float:
    """Return the sum of cores x lifetime."""
    return float(trace.cores @ trace.lifetime_s)


def peak_cores(trace: Trace) -> int:
    """Return the most cores in use at once.

    At one instant come stops, then starts, then stops of zero-length instances.
    """
    if not len(trace):
        return 0
    empty = trace.stop_s == trace.start_s
    times = np.concatenate([trace.stop_s[~empty], trace.start_s, trace.stop_s[empty]])
    steps = np.concatenate([-trace.cores[~empty], trace.cores, -trace.cores[empty]])
    return int(np.cumsum(steps[np.argsort(times, kind="stable")]).max())


@dataclass(frozen=True)
class Overcommit:
    """Amount by which the recorded usage exceeds a capacity."""

    capacity_cores: int
    peak_cores: int
    #: Time spent above capacity, seconds, and its share of the trace's span.
    seconds: float
    share: float
    #: Integral of (usage - capacity) over that time.
    core_seconds: float
    #: When usage first exceeded it, seconds; None if never.
    first_s: float | None


@dataclass(frozen=True)
class Grid:
    """Raster that most times of a trace lie on, and the exceptions."""

    step_s: float
    off_times: int
    off_instances: int


def mean_cores(trace: Trace) -> float:
    """Return the cores in use, averaged over the span; 0 for an empty span."""
    span = span_s(trace)
    return core_seconds(trace) / span if span > 0 else 0.0


def span_s(trace: Trace) -> float:
    """Return the seconds from the first start to the last stop; 0 for an empty trace."""
    return trace.last_stop_s - float(trace.start_s[0]) if len(trace) else 0.0


@dataclass(frozen=True)
class Summary:
    """Summary of a trace in numbers.

    Cores are averaged over the span, from the first start to the last stop.
    """

    name: str
    instances: int
    first_start_s: float
    last_stop_s: float
    span_s: float
    mean_cores: float
    peak_cores: int
    core_seconds: float
    #: (cores, instances), ascending.
    sizes: tuple[tuple[int, int], ...]
    #: (probability, seconds) over the lifetimes that were seen whole.
    lifetime_quantiles_s: tuple[tuple[float, float], ...]
    lifetimes_counted: int
    drop_outs: tuple[DropOut, ...]


def usage(trace: Trace) -> tuple[FloatArray, IntArray]:
    """Return the cores in use as a step function: ``cores[i]`` from ``times[i]`` until the next time.

    Instances of zero length are invisible here, but not in ``peak_cores``. Returns times in seconds,
    float64[times], ascending, and cores, int64[times].
    """
    times = np.concatenate([trace.start_s, trace.stop_s])
    steps = np.concatenate([trace.cores, -trace.cores])
    distinct, where = np.unique(times, return_inverse=True)
    change = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(change, where, steps)
    return distinct, np.cumsum(change)


def find_drop_outs(trace: Trace) -> tuple[DropOut, ...]:
    """Find gaps that look like a logger that was off, by time.

    A gap between two neighbouring event times is one if it lasts a day and 40 times the mean of all shorter
    gaps, and at least two instances stop at its start and two start at its end ("at": within 1 % of its
    length; in a busy log any silence of that length qualifies). Ends that were never recorded
    (``right_censored``) and starts before the trace (``left_truncated``) are no events.
    """
    return tuple(gap for gap in find_silences(trace) if gap.closed >= _SEVERAL and gap.reopened >= _SEVERAL)


def find_silences(trace: Trace) -> tuple[DropOut, ...]:
    """Find all gaps of a day and 40 times the mean of all shorter ones, by time.

    Gaps at which nothing was closed or reopened count too: they may as well be holidays.
    """
    starts = trace.start_s[~trace.left_truncated]
    stops = np.sort(trace.stop_s[~trace.right_censored])
    times = np.unique(np.concatenate([starts, stops]))
    gaps = np.diff(times)
    ascending = np.sort(gaps)
    before = np.concatenate([[0.0], np.cumsum(ascending)])
    long = np.flatnonzero(gaps >= _GAP_AT_LEAST_S)
    shorter = np.searchsorted(ascending, gaps[long], side="left")
    usual = before[shorter] / np.maximum(shorter, 1)
    silences = []
    for i in long[(shorter > 0) & (gaps[long] >= _GAP_TIMES_USUAL * usual)]:
        begin, end = float(times[i]), float(times[i + 1])
        edge = DropOut(begin, end, 0, 0).edge_s
        closed = np.searchsorted(stops, begin, "right") - np.searchsorted(stops, begin - edge, "left")
        reopened = np.searchsorted(starts, end + edge, "right") - np.searchsorted(starts, end, "left")
        silences.append(DropOut(begin, end, int(closed), int(reopened)))
    return tuple(silences)


def cut_by(trace: Trace, drop_outs: Sequence[DropOut]) -> BoolArray:
    """Mark the instances whose lifetime a drop-out cut, bool[instances].

    Those are closed at its start or opened at its end.
    """
    cut = np.zeros(len(trace), dtype=np.bool_)
    for gap in drop_outs:
        cut |= (trace.stop_s >= gap.start_s - gap.edge_s) & (trace.stop_s <= gap.start_s)
        cut |= (trace.start_s >= gap.end_s) & (trace.start_s <= gap.end_s + gap.edge_s)
    return cut


def seen_whole(trace: Trace, drop_outs: Sequence[DropOut]) -> BoolArray:
    """Mark the instances whose lifetime is known, bool[instances].

    It is unknown if the instance is left-truncated, right-censored or cut by a drop-out.
    """
    return ~(trace.left_truncated | trace.right_censored | cut_by(trace, drop_outs))


def overcommit(trace: Trace, capacity_cores: int) -> Overcommit:
    """Compute how long and by how much recorded usage exceeds ``capacity_cores``.

    Raises
    ------
    SpecError
        When ``capacity_cores`` is below 1.
    """
    if capacity_cores < 1:
        raise SpecError(f"must be at least 1, not {capacity_cores}", field="capacity_cores")
    times, cores = usage(trace)
    excess = np.maximum(cores[:-1] - capacity_cores, 0)
    lengths = np.diff(times)
    above = excess > 0
    seconds = float(lengths[above].sum())
    span = span_s(trace)
    return Overcommit(
        capacity_cores=capacity_cores,
        peak_cores=peak_cores(trace),
        seconds=seconds,
        share=seconds / span if span > 0 else 0.0,
        core_seconds=float(excess @ lengths),
        first_s=float(times[:-1][above][0]) if above.any() else None,
    )


def find_grid(trace: Trace) -> Grid | None:
    """Find the raster of a trace's times, if one is evident.

    It is the coarsest of 1 h to 1 min that 90 % of the times lie on, else the coarsest that more than half
    do. None with fewer than 20 recorded times other than 0.
    """
    start_known, stop_known = ~trace.left_truncated, ~trace.right_censored
    times = np.concatenate([trace.start_s[start_known], trace.stop_s[stop_known]])
    times = times[times != 0]
    if len(times) < _GRID_EVIDENCE:
        return None
    if np.mean(times % _GRIDS_S[-1] == 0) <= 0.5:  # all other grids lie on the finest
        return None
    shares = [(step, float(np.mean(times % step == 0))) for step in _GRIDS_S]
    evident = [s for s, share in shares if share >= 0.9] or [s for s, share in shares if share > 0.5]
    if not evident:
        return None
    step = evident[0]
    off = (start_known & (trace.start_s % step != 0)) | (stop_known & (trace.stop_s % step != 0))
    return Grid(step, int(np.count_nonzero(times % step)), int(np.count_nonzero(off)))


def summarise(
    trace: Trace, *, quantiles: Sequence[float] = QUANTILES, drop_outs: tuple[DropOut, ...] | None = None
) -> Summary:
    """Summarise a trace in numbers.

    Lifetimes leave out those left-truncated, right-censored or cut by a drop-out. ``drop_outs`` are searched
    for unless they are given.
    """
    drop_outs = find_drop_outs(trace) if drop_outs is None else drop_outs
    whole: NDArray[Any] = trace.lifetime_s[seen_whole(trace, drop_outs)]
    sizes, counts = np.unique(trace.cores, return_counts=True)
    return Summary(
        name=trace.name,
        instances=len(trace),
        first_start_s=float(trace.start_s[0]) if len(trace) else 0.0,
        last_stop_s=trace.last_stop_s,
        span_s=span_s(trace),
        mean_cores=mean_cores(trace),
        peak_cores=peak_cores(trace),
        core_seconds=core_seconds(trace),
        sizes=tuple(zip(sizes.tolist(), counts.tolist(), strict=True)),
        lifetime_quantiles_s=tuple((q, float(np.quantile(whole, q))) for q in quantiles)
        if len(whole)
        else (),
        lifetimes_counted=len(whole),
        drop_outs=drop_outs,
    )


_HOUR_S = 3600.0


@dataclass(frozen=True)
class Arrivals:
    """Arrivals of a trace.

    Attributes
    ----------
    per_day
        Instances that start per day.
    mean_gap_s
        Mean seconds between two starts.
    variation
        Standard deviation of the gaps between starts over their mean: 1 for independent arrivals, more for
        bursts; None for fewer than three instances.
    busiest_hour_s
        Begin of the hour in which most start, in seconds of the trace.
    most_an_hour
        Instances that start in that hour.
    """

    per_day: float
    mean_gap_s: float | None
    variation: float | None
    busiest_hour_s: float
    most_an_hour: int

    @classmethod
    def of(cls, trace: Trace) -> Arrivals:
        """Describe the arrivals of a trace that is not empty; those before its begin count at its begin."""
        gaps = np.diff(trace.start_s)
        mean_s = float(gaps.mean()) if len(gaps) else None
        hours, counts = np.unique(trace.start_s // _HOUR_S, return_counts=True)
        most = int(np.argmax(counts))
        span = span_s(trace)
        return cls(
            per_day=len(trace) * 86400.0 / span if span else float(len(trace)),
            mean_gap_s=mean_s,
            variation=float(gaps.std()) / mean_s if mean_s and len(gaps) > 1 else None,
            busiest_hour_s=float(hours[most] * _HOUR_S),
            most_an_hour=int(counts[most]),
        )


def peak_at_s(trace: Trace) -> float:
    """Return when most cores are in use for the first time, in seconds; the trace is not empty."""
    times, cores = usage(trace)
    return float(times[int(np.argmax(cores))])


@dataclass(frozen=True)
class Load:
    """Load over a span in n equal stretches.

    Attributes
    ----------
    edges_s
        float64[n + 1], edges of the stretches in seconds.
    mean_cores
        float64[n], mean cores in use.
    peak_cores
        int64[n], most cores in use.
    starts
        int64[n], instances that start in each; the end belongs to the last.
    """

    edges_s: FloatArray
    mean_cores: FloatArray
    peak_cores: IntArray
    starts: IntArray


def load_over_time(trace: Trace, stretches: int) -> Load:
    """Compute the load of a trace that is not empty, from its first start to its last stop, or for a second.

    Raises
    ------
    SpecError
        When ``stretches`` is below 1.
    """
    if stretches < 1:
        raise SpecError(f"must be at least 1, not {stretches}", field="stretches")
    times, cores = usage(trace)
    begin_s = float(times[0])
    edges = np.linspace(begin_s, max(float(times[-1]), begin_s + 1.0), stretches + 1)
    widths = np.diff(edges)
    lengths = np.diff(times)
    area = np.concatenate([[0.0], np.cumsum(cores[:-1] * lengths)])
    step = np.maximum(np.searchsorted(times, edges, side="right") - 1, 0)
    until = area[step] + cores[step] * (edges - times[step])
    # What a stretch begins with counts in it, and so does every change inside it.
    at = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, stretches - 1)
    peak = cores[step[:-1]].copy()
    np.maximum.at(peak, at, cores)
    starts = np.histogram(trace.start_s, bins=edges)[0]
    # Of times so late that stretches have no width there is no mean.
    mean = np.divide(np.diff(until), widths, out=np.zeros(stretches), where=widths > 0)
    return Load(edges, mean, peak, starts.astype(np.int64))


def lifetime_shares(
    trace: Trace, drop_outs: Sequence[DropOut], points: int = 400
) -> tuple[FloatArray, FloatArray]:
    """Return lifetimes seen whole, in seconds ascending, and the share no longer than each.

    Parameters
    ----------
    points
        At most this many lifetimes are returned.
    """
    lives = np.sort(trace.lifetime_s[seen_whole(trace, drop_outs)])
    if not len(lives):
        return lives, lives
    ranks = np.unique(np.linspace(0, len(lives) - 1, min(points, len(lives))).round().astype(np.int64))
    shares: FloatArray = (ranks + 1) / len(lives)
    return lives[ranks], shares
