"""Make workloads from numbers.

Every function takes its generator; the same generator state gives the same trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from types import MappingProxyType

import numpy as np

from cloudsim.model.arrays import FloatArray, IntArray
from cloudsim.model.errors import SpecError
from cloudsim.traces.trace import Trace


@dataclass(frozen=True)
class SizeProfile:
    """Instances of one size: how many there are, and their lifetimes in seconds."""

    cores: int
    count: int
    median_s: float
    mean_s: float


@dataclass(frozen=True)
class TraceProfile:
    """A recorded trace in numbers, enough to make another like it."""

    name: str
    nodes: int
    cores_per_node: int
    span_s: float
    peak_cores: int
    sizes: tuple[SizeProfile, ...]

    @property
    def instances(self) -> int:
        """Number of instances of all sizes."""
        return sum(size.count for size in self.sizes)

    @property
    def mean_cores(self) -> float:
        """Cores in use, averaged over the span."""
        return sum(size.cores * size.count * size.mean_s for size in self.sizes) / self.span_s


def _sizes_of(*rows: tuple[int, int, float, float]) -> tuple[SizeProfile, ...]:
    return tuple(SizeProfile(*row) for row in rows)


#: The four production traces of P1 and P2. Nodes, spans, sizes, counts and peaks are those of
#: data/eucalyptus/PROVENANCE.md; medians and means of lifetimes were measured on DS2, DS3, DS5 and DS6.
PRODUCTION: Mapping[str, TraceProfile] = MappingProxyType(
    {
        "A": TraceProfile(
            "A",
            nodes=7,
            cores_per_node=12,
            span_s=24_531_071.0,
            peak_cores=83,
            sizes=_sizes_of(
                (1, 296, 4072, 594226),
                (2, 407, 3816, 81482),
                (4, 119, 3604, 127201),
                (8, 27, 166976, 500959),
                (12, 51, 27233, 74105),
            ),
        ),
        "B": TraceProfile(
            "B",
            nodes=7,
            cores_per_node=8,
            span_s=24_176_472.0,
            peak_cores=44,
            sizes=_sizes_of(
                (1, 1430, 879, 44246),
                (2, 842, 1815, 42808),
                (4, 328, 3938, 32017),
            ),
        ),
        "C": TraceProfile(
            "C",
            nodes=31,
            cores_per_node=32,
            span_s=2_886_162.0,
            peak_cores=749,
            sizes=_sizes_of(
                (1, 4375, 1190, 3264),
                (2, 2658, 490, 8493),
                (4, 1325, 1620, 195217),
                (6, 24, 676964, 1347213),
                (12, 21, 6902, 134206),
                (16, 13, 60875, 112438),
                (24, 40, 183091, 298794),
            ),
        ),
        "D": TraceProfile(
            "D",
            nodes=31,
            cores_per_node=32,
            span_s=2_994_952.0,
            peak_cores=816,
            sizes=_sizes_of(
                (1, 969, 1157, 1118),
                (2, 1880, 467, 3553),
                (4, 1175, 679, 109882),
                (6, 3, 1963263, 1686818),
                (12, 35, 40420, 836724),
                (16, 19, 729, 4141),
                (24, 71, 115542, 556839),
                (30, 5, 409158, 351386),
            ),
        ),
    }
)

#: One size for all instances, or sizes and their weights (which need not sum to 1).
Sizes = int | tuple[Sequence[int], Sequence[float]]

_DAY_S = 86_400.0

_DAILY_SHARE = 0.4

_TRIES = 16

_BINS = 4000


def lognormal_trace(
    rng: np.random.Generator,
    *,
    hours: float,
    arrival_mu: float = 3.5,
    arrival_sigma: float = 1.0,
    duration_mu: float = 6.0,
    duration_sigma: float = 1.5,
    cores: Sizes = 1,
    name: str = "lognormal",
) -> Trace:
    """Make a trace with log-normal inter-arrival times and durations in seconds, from 0 until ``hours``.

    The defaults are Table I of P1 as settled in docs/design/prediction.md: mean inter-arrival exp(3.5 + 1/2)
    = 54.6 s, mean duration exp(6 + 1.5²/2) = 1,243 s. Instances that run past the end keep their stop.

    Raises
    ------
    SpecError
        When a parameter is not finite or out of range.
    """
    end_s = _positive("hours", hours) * 3600
    mean_gap_s = math.exp(_finite("arrival_mu", arrival_mu) + _sigma("arrival_sigma", arrival_sigma) ** 2 / 2)
    block = max(int(end_s / mean_gap_s), 16)
    gaps: list[FloatArray] = []
    passed_s = 0.0
    while passed_s <= end_s:
        gaps.append(rng.lognormal(arrival_mu, arrival_sigma, block))
        passed_s += float(gaps[-1].sum())
    start = np.cumsum(np.concatenate(gaps))
    return _finish(rng, name, start[start <= end_s], duration_mu, duration_sigma, cores)


def bursty_trace(
    rng: np.random.Generator,
    *,
    hours: float,
    base_per_minute: float = 60 / math.exp(4),
    ou_sigma: float = 0.5,
    ou_memory_s: float = 7200.0,
    daily: float = 0.3,
    change_points: Sequence[tuple[float, float]] = ((1 / 3, 1.3), (2 / 3, 0.75)),
    batch_share: float = 0.02,
    batch_sizes: tuple[int, int] = (2, 14),
    duration_mu: float = 6.0,
    duration_sigma: float = 1.5,
    cores: Sizes = 1,
    name: str = "bursty",
) -> Trace:
    """Make a trace with bursts and change points (docs/design/prediction.md "Test beds").

    Arrivals of a minute are Poisson with rate base × exp(OU − σ²/2) × (1 + daily · sin(2πt/day)) × change
    points. OU is a stationary Ornstein–Uhlenbeck process of deviation ``ou_sigma`` and memory
    ``ou_memory_s``.

    Parameters
    ----------
    base_per_minute
        Mean arrivals a minute without bursts and change points.
    change_points
        (Share of the time, factor from then on); factors multiply.
    batch_share
        Share of the arrivals that are batches of instances at once, each with a duration of its own.
    batch_sizes
        Smallest and largest batch.

    Raises
    ------
    SpecError
        When a parameter is not finite or out of range.
    """
    end_s = _positive("hours", hours) * 3600
    base = _positive("base_per_minute", base_per_minute)
    sigma = _sigma("ou_sigma", ou_sigma)
    if not 0 <= daily <= 1:
        raise SpecError(f"must be from 0 to 1, not {daily}", field="daily")
    if not 0 <= batch_share <= 1:
        raise SpecError(f"must be from 0 to 1, not {batch_share}", field="batch_share")
    if not 1 <= batch_sizes[0] <= batch_sizes[1]:
        raise SpecError(f"must be two sizes, from and to, not {batch_sizes}", field="batch_sizes")
    minutes = math.ceil(end_s / 60)
    at_s = 60.0 * np.arange(minutes)
    rate = base * np.exp(_ornstein_uhlenbeck(rng, minutes, sigma, ou_memory_s) - sigma**2 / 2)
    rate *= 1 + daily * np.sin(2 * np.pi * at_s / _DAY_S)
    for share, factor in change_points:
        rate[at_s >= share * end_s] *= _positive("change_points", factor)
    arrivals = np.repeat(at_s, rng.poisson(rate))
    arrivals = np.sort(arrivals + rng.uniform(0, 60, len(arrivals)))
    batched = rng.random(len(arrivals)) < batch_share
    many = rng.integers(batch_sizes[0], batch_sizes[1], len(arrivals), endpoint=True)
    start = np.repeat(arrivals, np.where(batched, many, 1))
    return _finish(rng, name, start[start <= end_s], duration_mu, duration_sigma, cores)


def arrival_mu_for_load(
    load: float,
    capacity_cores: int,
    *,
    duration_mu: float,
    duration_sigma: float,
    cores: Sizes = 1,
    arrival_sigma: float = 1.0,
) -> float:
    """Return ``arrival_mu`` at which ``lognormal_trace`` offers ``load`` × ``capacity_cores`` on average.

    It follows from Little's law.
    """
    sizes, weights = _sizes(cores)
    mean_core_seconds = float(sizes @ weights) * math.exp(duration_mu + duration_sigma**2 / 2)
    mean_gap_s = mean_core_seconds / (_positive("load", load) * _positive("capacity_cores", capacity_cores))
    return math.log(mean_gap_s) - arrival_sigma**2 / 2


def production_like(rng: np.random.Generator, which: str, days: float | None = None) -> Trace:
    """Make a stand-in for production trace A, B, C or D, for machines without the data; see ``modelled_on``.

    Raises
    ------
    SpecError
        When there is no trace of that letter, or ``days`` is not above 0.
    """
    if which not in PRODUCTION:
        raise SpecError(f"{which!r} is not one of {', '.join(PRODUCTION)}", field="which")
    return modelled_on(rng, PRODUCTION[which], days=days)


def modelled_on(rng: np.random.Generator, profile: TraceProfile, *, days: float | None = None) -> Trace:
    """Make a trace with a profile's statistics, in whole seconds, by default as long as the profile.

    Alike are the count of each size, and the median and mean lifetime of each size, hence the mean cores in
    use. The peak stays at or below the profile's (as a rule: it is a placement that looks for room, not a
    proof). In a shorter trace the counts lie between the mean number running (days → 0) and the profile's, so
    that the mean cores stay. Not alike are batches of equal instances, idle weeks, drop-outs, a peak that is
    reached, the shape of lifetimes beyond median and mean (log-normal, cut at the trace's length), and which
    instances come together. Starts follow a mild daily cycle.

    Raises
    ------
    SpecError
        When ``days`` is not above 0.
    """
    span_s = profile.span_s if days is None else _positive("days", days) * _DAY_S
    cores, lifetimes = [], []
    for size in profile.sizes:
        running = size.count * size.mean_s / profile.span_s
        count = round(running + (size.count - running) * span_s / profile.span_s)
        if count:
            cores.append(np.full(count, size.cores))
            lifetimes.append(_lifetimes(rng, count, size.median_s, running * span_s / count, span_s))
    if not cores:
        raise SpecError(f"{days} days of {profile.name} hold no instance", field="days")
    return _place_starts(rng, profile, np.concatenate(cores), np.concatenate(lifetimes), span_s)


def _lifetimes(
    rng: np.random.Generator, count: int, median_s: float, mean_s: float, longest_s: float
) -> FloatArray:
    """Draw log-normal lifetimes of a median, cut at the longest, with the deviation that gives the mean.

    One lifetime is drawn in each of ``count`` equally likely strata, as a few long ones carry most of the
    mean.
    """
    probabilities = (np.arange(count) + rng.uniform(0.01, 0.99, count)) / count
    normal = np.array([NormalDist().inv_cdf(p) for p in probabilities.tolist()])

    def cut(sigma: float, shift: float) -> FloatArray:
        lifetimes: FloatArray = np.minimum(np.exp(math.log(median_s) + shift + sigma * normal), longest_s)
        return lifetimes

    sigma = _bisect(lambda sigma: float(cut(sigma, 0.0).mean()), 0.0, 12.0, mean_s)
    # Where no deviation reaches the mean (it is below the median, or near the longest), the median gives way.
    return cut(sigma, _bisect(lambda shift: float(cut(sigma, shift).mean()), -30.0, 100.0, mean_s))


def _bisect(rising: Callable[[float], float], low: float, high: float, target: float) -> float:
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return high


def _place_starts(
    rng: np.random.Generator, profile: TraceProfile, cores: IntArray, lifetimes: FloatArray, span_s: float
) -> Trace:
    """Choose the starts, largest work first, so that the peak of the profile is kept."""
    bin_s = max(span_s / _BINS, 60.0)
    used = np.zeros(math.ceil(span_s / bin_s) + 2, dtype=np.int64)
    stop_limit = max(math.floor(span_s), 1)
    lifetimes = np.clip(np.rint(lifetimes), 1, stop_limit)
    start = np.zeros(len(cores))
    for row in np.argsort(-cores * lifetimes, kind="stable"):
        length = float(lifetimes[row])
        # Those that reach over an edge are pushed inside: they run at the first or at the last second.
        tries = rng.uniform(-length / 2, span_s - length / 2, _TRIES)
        # This map makes the density 1 / (1 + share · cos(2πt/day)), which is largest at noon.
        tries += _DAILY_SHARE * _DAY_S / (2 * np.pi) * np.sin(2 * np.pi * tries / _DAY_S)
        tries = np.floor(np.clip(tries, 0, stop_limit - length))
        best, lowest = 0.0, math.inf
        for at in tries.tolist():
            peak = used[int(at // bin_s) : int((at + length) // bin_s) + 1].max()
            if peak < lowest:
                best, lowest = at, peak
            if peak + cores[row] <= profile.peak_cores:
                best = at
                break
        used[int(best // bin_s) : int((best + length) // bin_s) + 1] += cores[row]
        start[row] = best
    order = np.argsort(start, kind="stable")
    ids = [f"{profile.name}-{i}" for i in range(len(cores))]
    return Trace.checked(profile.name, ids, start[order], (start + lifetimes)[order], cores[order])


def _finish(
    rng: np.random.Generator,
    name: str,
    start: FloatArray,
    duration_mu: float,
    duration_sigma: float,
    cores: Sizes,
) -> Trace:
    duration = rng.lognormal(
        _finite("duration_mu", duration_mu), _sigma("duration_sigma", duration_sigma), len(start)
    )
    sizes, weights = _sizes(cores)
    chosen = rng.choice(sizes, len(start), p=weights) if len(sizes) > 1 else np.full(len(start), sizes[0])
    return Trace.checked(name, [f"{name}-{i}" for i in range(len(start))], start, start + duration, chosen)


def _ornstein_uhlenbeck(rng: np.random.Generator, minutes: int, sigma: float, memory_s: float) -> FloatArray:
    """Draw the stationary process once a minute, float64[minutes]."""
    keep = math.exp(-60 / _positive("ou_memory_s", memory_s))
    noise = rng.normal(0.0, sigma, minutes)
    noise[1:] *= math.sqrt(1 - keep**2)
    level = 0.0
    for minute, step in enumerate(noise.tolist()):
        level = keep * level + step
        noise[minute] = level
    return noise


def _sizes(cores: Sizes) -> tuple[IntArray, FloatArray]:
    """Return sizes and their probabilities."""
    sizes, weights = ([cores], [1.0]) if isinstance(cores, int) else cores
    chances = np.array(weights, dtype=np.float64)
    counts = np.array(sizes, dtype=np.int64)
    if counts.shape != chances.shape or not len(counts) or counts.min() < 1 or not (chances >= 0).all():
        raise SpecError(f"must be a size, or sizes and as many weights, not {cores!r}", field="cores")
    if not 0 < chances.sum() < math.inf:
        raise SpecError("the weights must have a positive, finite sum", field="cores")
    return counts, chances / chances.sum()


def _finite(field: str, value: float) -> float:
    if not math.isfinite(value):
        raise SpecError(f"must be finite, not {value}", field=field)
    return value


def _sigma(field: str, value: float) -> float:
    if not 0 <= value < math.inf:
        raise SpecError(f"must be finite and at least 0, not {value}", field=field)
    return value


def _positive(field: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise SpecError(f"must be finite and above 0, not {value}", field=field)
    return value
