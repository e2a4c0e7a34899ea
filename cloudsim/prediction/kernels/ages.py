"""Forecasts by ages for all births of a history, compiled (``cloudsim.prediction.ages``)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.jit import compiled
from cloudsim.prediction.ages import AGE_BINS, BINS_A_DOUBLING, FIRST_AGE_S, LEVELS, LEVELS_A_FACTOR


@compiled
def levels(
    at_s: NDArray[np.float64],
    room: NDArray[np.int64],
    start_s: NDArray[np.float64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    ending: NDArray[np.float64],
    arriving: NDArray[np.float64],
) -> NDArray[np.int32]:
    """Return the level of each time and horizon, int32[times, horizons]; see ``Forecast.levels``.

    Parameters
    ----------
    at_s
        float64[times], seconds.
    room
        int64[times, horizons], free slots once spot instances have left.
    start_s
        float64[instances], starts of on-demand instances in seconds.
    first, last
        int64[instances]; instance i runs at the times ``first[i]`` to ``last[i] - 1``.
    ending
        float64[AGE_BINS, horizons], probability to end within the horizon.
    arriving
        float64[horizons], expected further instances at its end.
    """
    rows, horizons = room.shape
    ends, variance = np.zeros((rows, horizons)), np.zeros((rows, horizons))
    for instance in range(len(start_s)):
        for row in range(first[instance], last[instance]):
            doublings = math.log2(1.0 + (at_s[row] - start_s[instance]) / FIRST_AGE_S)
            age = min(int(doublings * BINS_A_DOUBLING), AGE_BINS - 1)
            for horizon in range(horizons):
                share = ending[age, horizon]
                ends[row, horizon] += share
                variance[row, horizon] += share * (1.0 - share)
    result = np.empty((rows, horizons), np.int32)
    for row in range(rows):
        short = 0.0
        for horizon in range(horizons):
            spare = room[row, horizon] + ends[row, horizon] - arriving[horizon] - 0.5
            spread = max(math.sqrt(variance[row, horizon] + arriving[horizon]), 1e-9)
            short += 0.5 * math.erfc(spare / spread / math.sqrt(2.0))
            mean = max(short / (horizon + 1), 1e-300)
            result[row, horizon] = 1 + int(min(-LEVELS_A_FACTOR * math.log(mean), LEVELS - 1.0))
    return result
