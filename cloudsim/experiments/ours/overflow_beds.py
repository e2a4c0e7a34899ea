"""The federations on which ``promise_map`` measures promises that are asked for because a cloud is full.

Requests that overflow come when clouds are full together, while a table speaks for a birth at any time. Each
federation is replayed with overflow taken for any other request (``overflow_peaks`` 0), and with room for one
peak more than the history has shown (1, the rule; ``cloudsim.admission.population.risk_of_peaks``).
All spot is overflow. A seed draws the window of the recorded traces, or the synthetic clouds.

The rule was chosen on other data: 30 days of synthetic clouds, and ten windows of A and B beside C and D.
Tried there beside it: a factor on the risk (refuses much, and keeps little more); a longer history for a
lifetime alone (50 to 500 at .01; keeps less where risks are near the SLA); tables of births near the times at
which requests overflowed before (evictions hardly fell).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from cloudsim.admission.rule import AdmissionRule
from cloudsim.cloud.spec import CloudSpec
from cloudsim.experiments.experiment import Row, total
from cloudsim.experiments.jobs.figure_2 import LOGS
from cloudsim.experiments.promise.pairs import TRACES, shape
from cloudsim.federation.model import FederatedCloud, Federation
from cloudsim.federation.replay import replay
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.traces.formats import read
from cloudsim.traces.synthesis import bursty_trace
from cloudsim.traces.trace import Trace

#: Of the synthetic clouds the seeds from 1 to 10 chose the rule: ``promise_map`` begins after them.
FIRST_SEED = 101
#: Column rule → ``AdmissionRule.overflow_peaks``.
BEFORE, AFTER = "as any other", "one peak more"
RULES = {BEFORE: 0.0, AFTER: 1.0}

_DAY_S = 86_400.0
_REDUCED = {"A": 4, "B": 4, "C": 16, "D": 16}
_REDUCED_S, _LOGS_S = 34 * _DAY_S, 60 * _DAY_S
#: Nodes that a log's jobs do not fill on most days, and turn some away on others.
_LOG_NODES = {"KTH SP2": "5x16", "SDSC SP2": "6x16", "NASA iPSC": "6x16"}
#: Days of a seed of the synthetic clouds.
DAYS = 60.0
_CYCLE_NODES, _CYCLE_CLOUDS, _CYCLE_LOAD = "8x4", 3, 0.6
_DURATION_MU, _DURATION_SIGMA = 8.0, 1.5
APART_H = (0, 3, 6, 12)

#: A cloud of a bed: its name, its nodes, its own load.
_Member = tuple[str, str, Trace]


def window(trace: Trace, begins_s: float, length_s: float) -> Trace:
    """Return the instances that run or start in a window, with times from its beginning."""
    runs = (trace.start_s < begins_s) & (trace.stop_s > begins_s)
    starts = (trace.start_s >= begins_s) & (trace.start_s < begins_s + length_s)
    inside = trace.select(runs | starts)
    return replace(inside, start_s=np.maximum(inside.start_s, begins_s)).delayed(-begins_s)


def _draw_window(rng: np.random.Generator, trace: Trace, length_s: float) -> Trace:
    return window(trace, rng.uniform(0, max(trace.last_stop_s - 1.5 * length_s, 0)), length_s)


def _recorded(data: Path | None, seed: int, _days: float) -> list[_Member]:
    """Clouds A to D, reduced. C and D are as long as a window, so that a seed changes A and B only."""
    assert data is not None
    rng, members = np.random.default_rng([seed, 1]), []
    for cloud, nodes in _REDUCED.items():
        trace, _ = read(data / TRACES[cloud][0])
        members.append((cloud, shape(cloud, nodes), _draw_window(rng, trace, _REDUCED_S)))
    return members


def _logs(data: Path | None, seed: int, _days: float) -> list[_Member]:
    """Three batch logs on nodes of 16 cores."""
    assert data is not None
    rng, members = np.random.default_rng([seed, 2]), []
    for log, nodes in _LOG_NODES.items():
        trace, _ = read(data / LOGS[log])
        members.append((log.split()[0], nodes, _draw_window(rng, trace, _LOGS_S)))
    return members


def _cycle(_data: Path | None, seed: int, days: float, *, apart_h: float) -> list[_Member]:
    """Clouds with one daily cycle, each ``apart_h`` hours before the next; bursts are their own."""
    mean_s = np.exp(_DURATION_MU + _DURATION_SIGMA**2 / 2)
    per_minute = 60 * _CYCLE_LOAD * sum(parse_nodes(_CYCLE_NODES)) / mean_s / (1 + 0.02 * 7)  # batches of 8
    members = []
    for number in range(_CYCLE_CLOUDS):
        ahead_s = number * apart_h * 3600 % _DAY_S
        trace = bursty_trace(
            np.random.default_rng([seed, 3, number]), hours=days * 24 + ahead_s / 3600, daily=0.5,
            base_per_minute=float(per_minute), change_points=(), duration_mu=_DURATION_MU,
            duration_sigma=_DURATION_SIGMA,
        )  # fmt: skip
        later = trace.select(trace.start_s >= ahead_s).delayed(-ahead_s)
        members.append((f"cloud-{number}", _CYCLE_NODES, later))
    return members


#: Name → the clouds of a seed, for a data directory and a number of days (of the synthetic ones).
BEDS: dict[str, Callable[[Path | None, int, float], list[_Member]]] = {
    "A to D, reduced": _recorded,
    "KTH, SDSC, NASA": _logs,
    **{f"common cycle, {hours} h apart": partial(_cycle, apart_h=hours) for hours in APART_H},
}
NEEDS = {
    "A to D, reduced": tuple(TRACES[cloud][0] for cloud in _REDUCED),
    "KTH, SDSC, NASA": tuple(LOGS[log] for log in _LOG_NODES),
}


def run(
    data: Path | None, *, bed: str, seed: int, slas: Sequence[float], births: int, days: float
) -> list[Row]:
    """Replay one seed of a bed at some SLAs under both rules.

    Columns: bed, seed, sla, rule; offers (requests that overflowed, counted again when offered again),
    admitted, evicted, core_hours_requested and core_hours_completed of them.
    """
    members = BEDS[bed](data, seed, days)
    rows: list[Row] = []
    for sla in slas:
        for rule, peaks in RULES.items():
            clouds = tuple(
                FederatedCloud(
                    CloudSpec(name, parse_nodes(nodes), admission=AdmissionRule(overflow_peaks=peaks)), nodes,
                    load, overflow=True, overflow_sla=sla,
                )
                for name, nodes, load in members
            )  # fmt: skip
            told = list(replay(Federation(clouds, ()), seed=seed, births=births)["overflow"].values())
            rows.append(
                {
                    "bed": bed,
                    "seed": seed,
                    "sla": sla,
                    "rule": rule,
                    "offers": int(total(told, "requests")),
                    "admitted": int(total(told, "admitted")),
                    "evicted": int(total(told, "evicted")),
                    **{
                        f"core_hours_{what}": sum(cloud["spot_core_hours"][what] for cloud in told)
                        for what in ("requested", "completed")
                    },
                }
            )
    return rows
