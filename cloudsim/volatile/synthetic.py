"""Make pools in the shapes of the paper's four exemplars, and the profile of its Section 3.3.

The prices of the exemplars cannot be had any more. The shapes are tuned so that their pools have the
volatility that the paper prints (Table 2's standard deviation over its dynamic range), the unit hours and
numbers of intervals of Table 3, and about the share of the Oracle's value that §5.3 gives for full
information under LIFO. Of periodicity there is only a picture (Figure 8): here the periodic pool is far more
daily than the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from cloudsim.model.arrays import FloatArray
from cloudsim.model.errors import SpecError
from cloudsim.volatile.availability import DAY_S, MAX_UNITS, STEP_S, STUDY_SAMPLES, Availability

_STEPS_A_DAY = DAY_S // STEP_S
#: How irregular the held levels are: the shape of a gamma distribution, skewed towards deep dips.
_DIP_SHAPE = 2.4
#: How irregular spikes are in length: gamma, too.
_SPIKE_SHAPE = 4.0


@dataclass(frozen=True)
class Shape:
    """Shape of a pool as shares of its units: a level that dips, swings daily, and is cut by spikes."""

    #: The share that is idle without dips, swing and spikes.
    level: float
    #: Mean depth of the dips below the level; each is held until the next change.
    dip: float
    changes_per_day: float
    #: Half the difference between day and night.
    daily_swing: float
    #: Spikes of demand: how many, their mean length, and the bounds of their depth.
    spikes_per_day: float
    spike_hours: float
    spike_depth: tuple[float, float]
    #: Spikes come in bursts: mean number in a burst, and its length.
    spikes_per_burst: float
    burst_hours: float


@dataclass(frozen=True)
class PublishedExemplar:
    """Figures that the paper prints of an exemplar."""

    #: Table 2: standard deviation over dynamic range.
    volatility: float
    #: Table 3: hours, and intervals with random, FIFO and LIFO.
    total_volatile_hours: float
    intervals: tuple[int, int, int]


PUBLISHED: Mapping[str, PublishedExemplar] = MappingProxyType(
    {
        "stable-1": PublishedExemplar(0.674 / 13.798, 1.05e7, (366_720, 347_529, 414_713)),
        "stable-2": PublishedExemplar(0.038 / 0.436, 9.74e6, (387_225, 360_889, 451_394)),
        "periodic": PublishedExemplar(0.005 / 0.043, 6.38e6, (416_876, 390_007, 485_364)),
        "unstable": PublishedExemplar(17.836 / 42.135, 7.46e6, (723_939, 722_159, 732_563)),
    }
)

EXEMPLARS: Mapping[str, Shape] = MappingProxyType(
    {
        "stable-1": Shape(1.0, 0.009, 56, 0.002, 0.31, 0.14, (0.99, 0.99), 5.9, 13),
        "stable-2": Shape(1.0, 0.083, 11, 0.008, 0.79, 0.41, (0.175, 1.0), 45, 22),
        "periodic": Shape(0.7, 0.074, 21, 0.144, 0.066, 1.6, (0.32, 0.65), 5.3, 16),
        "unstable": Shape(1.0, 0.055, 7.7, 0.01, 4.4, 2.5, (0.99, 1.0), 39, 117),
    }
)


def make_exemplar(name: str, rng: np.random.Generator, samples: int = STUDY_SAMPLES) -> Availability:
    """Make a pool like one of the paper's exemplars: ``stable-1``, ``stable-2``, ``periodic``, ``unstable``.

    Raises
    ------
    SpecError
        When there is no such exemplar, or there are not at least two samples.
    """
    if name not in EXEMPLARS:
        raise SpecError(f"{name!r} is not one of {', '.join(EXEMPLARS)}", field="name")
    return make_pool(name, EXEMPLARS[name], rng, samples)


def make_pool(
    name: str, shape: Shape, rng: np.random.Generator, samples: int = STUDY_SAMPLES
) -> Availability:
    """Make a pool of a shape; as in pools made from prices, units range from nothing to everything.

    Raises
    ------
    SpecError
        When there are not at least two samples.
    """
    if samples < 2:
        raise SpecError(f"must be at least 2, not {samples}", field="samples")
    days = np.arange(samples) / _STEPS_A_DAY
    phase = rng.uniform(0, 2 * np.pi)
    changes = rng.random(samples) < shape.changes_per_day / _STEPS_A_DAY
    dips = rng.gamma(_DIP_SHAPE, shape.dip / _DIP_SHAPE, size=int(changes.sum()) + 1)
    share = shape.level - dips[np.cumsum(changes)] + shape.daily_swing * np.sin(2 * np.pi * days + phase)
    share = np.clip(share - _spikes(shape, rng, samples), 0, 1)
    lowest, highest = rng.choice(samples, 2, replace=False)
    share[lowest], share[highest] = 0, 1
    return Availability.of(name, np.floor(share * MAX_UNITS).astype(np.int32))


def _spikes(shape: Shape, rng: np.random.Generator, samples: int) -> FloatArray:
    """Return how much spikes take, float64[samples]; where some overlap the deepest counts."""
    taken = np.zeros(samples)
    count = round(shape.spikes_per_day * samples / _STEPS_A_DAY)
    bursts = rng.integers(0, samples, size=max(round(count / shape.spikes_per_burst), 1))
    after = rng.integers(0, round(shape.burst_hours * 3600 / STEP_S), size=count, endpoint=True)
    starts = bursts[rng.integers(0, len(bursts), size=count)] + after
    mean_samples = shape.spike_hours * 3600 / STEP_S
    lengths = np.ceil(rng.gamma(_SPIKE_SHAPE, mean_samples / _SPIKE_SHAPE, size=count)).astype(np.int64)
    depths = rng.uniform(*shape.spike_depth, size=count)
    for start, length, depth in zip(starts.tolist(), lengths.tolist(), depths.tolist(), strict=True):
        taken[start : start + length] = np.maximum(taken[start : start + length], depth)
    return taken


def make_daily_ramp(days: int = 90) -> Availability:
    """Make Section 3.3's profile: from half of all units to all within 6 h, back within 6 h, 12 h at half.

    Units leave in the order and the portions in which they came.

    Raises
    ------
    SpecError
        When ``days`` is below 1.
    """
    if days < 1:
        raise SpecError(f"must be at least 1, not {days}", field="days")
    bottom = MAX_UNITS // 2
    quarter = _STEPS_A_DAY // 4
    ramp = (MAX_UNITS - bottom) * np.arange(quarter) // quarter
    day = np.concatenate([bottom + ramp, MAX_UNITS - ramp, np.full(2 * quarter, bottom)])
    return Availability.of("daily ramp", np.tile(day, days))
