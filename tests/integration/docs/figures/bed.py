"""The load that figures with data share: a small busy cloud whose own users come and go."""

from __future__ import annotations

from functools import cache

import numpy as np

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.history.event_log import PHASE_STOP, EventLog
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.traces.synthesis import lognormal_trace
from cloudsim.traces.trace import Trace

NODES = parse_nodes("8x4")
HOURS = 240.0
UNTIL_S = HOURS * 3600


@cache
def load() -> Trace:
    """Ten days of the papers' synthetic load (``synthetic = "table-1"``)."""
    return lognormal_trace(np.random.default_rng(7), hours=HOURS)


@cache
def history() -> EventLog:
    """It on 8 nodes of 4 cores."""
    cloud = Cloud(CloudSpec("cloud", NODES), load(), UNTIL_S)
    cloud.advance(UNTIL_S, PHASE_STOP)
    return cloud.history.cut(UNTIL_S)


@cache
def table() -> QuantileTable:
    """What this history says of spot instances of one core."""
    return LocalPredictor(SamplerSpec(NODES, seed=7), (1,)).table(history(), UNTIL_S)
