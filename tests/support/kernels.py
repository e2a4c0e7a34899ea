"""Compiles every kernel into numba's cache: ``python -m tests.support.kernels``.

Test processes that start with an empty cache would each compile them, at the same time, for a minute. With a
full cache this takes three seconds. Two processes share the work: what one kernel needs of another is small.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import numpy as np

from cloudsim.history.event_log import START_ON_DEMAND, EventLog
from cloudsim.prediction.ages import Forecast, OnDemandRuns
from cloudsim.prediction.samplers.line_up import LineUpSampler
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.prediction.samplers.uniform import UniformSampler
from cloudsim.scheduling.lineups import LINEUPS
from cloudsim.scheduling.pipeline import warm_up as warm_up_scheduling
from cloudsim.volatile.managers import RevocationPolicy, count_intervals
from workers.montecarlo.worker import warm_up as warm_up_prediction

_DAY_S = 86_400.0
_EVENTS = 256


def compile_scheduling() -> None:
    """Call the kernels of all line-ups once, with the types that the product calls them with."""
    for lineup in LINEUPS:
        warm_up_scheduling(lineup)


def compile_prediction() -> None:
    """Call the kernels of samplers, forecasts and studies once, with those types."""
    warm_up_prediction()
    starts = EventLog(
        np.linspace(0.9 * _DAY_S, _DAY_S - 1, _EVENTS),
        np.full(_EVENTS, START_ON_DEMAND, np.int8),
        np.arange(_EVENTS),
        np.ones(_EVENTS, np.int64),
    )
    for always_youngest in (False, True):
        spec = SamplerSpec((2, 2), seed=0, births=2, always_youngest=always_youngest)
        LineUpSampler(spec, 1).feed(starts, _DAY_S)
        UniformSampler(spec, 1).feed(starts, _DAY_S)
    runs = OnDemandRuns(np.array([0.0, 0.0]), np.array([_DAY_S / 2, np.inf]))
    Forecast(runs, _DAY_S, (_DAY_S / 4,)).level((1,), (_DAY_S / 8,))
    for policy in RevocationPolicy:
        count_intervals(np.array([3, 1, 2]), policy, np.random.default_rng(0))


def compile_kernels() -> None:
    """Compile all kernels, in two processes."""
    with ProcessPoolExecutor(2) as processes:
        for part in [processes.submit(compile_prediction), processes.submit(compile_scheduling)]:
            part.result()


if __name__ == "__main__":
    compile_kernels()
