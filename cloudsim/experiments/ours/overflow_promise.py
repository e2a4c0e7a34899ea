"""Measure whether promises are kept that are asked for because a cloud is full.

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
from cloudsim.experiments.drawing import Dot, Figure, dots_by_group, evicted_axis, legend_below, panels
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, distinct, ratio, total, where
from cloudsim.experiments.jobs.figure_2 import LOGS
from cloudsim.experiments.promise.pairs import TRACES, shape
from cloudsim.federation.model import FederatedCloud, Federation
from cloudsim.federation.replay import replay
from cloudsim.plots import GREY
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.traces.formats import read
from cloudsim.traces.synthesis import bursty_trace
from cloudsim.traces.trace import Trace

SLAS = (0.01, 0.05)
#: The seeds of the full experiment; those of the synthetic clouds from 1 to 10 chose the rule.
SEEDS = 40
#: Column rule → ``AdmissionRule.overflow_peaks``.
BEFORE, AFTER = "as any other", "one peak more"
RULES = {BEFORE: 0.0, AFTER: 1.0}
#: The share of seeds in which a promise should hold, and of the admissions that should be left where it did.
ENOUGH, LEFT = 0.95, 0.9

_DAY_S = 86_400.0
_BIRTHS, _QUICK_BIRTHS = 1000, 50
_REDUCED = {"A": 4, "B": 4, "C": 16, "D": 16}
_REDUCED_S, _LOGS_S = 34 * _DAY_S, 60 * _DAY_S
#: Nodes that a log's jobs do not fill on most days, and turn some away on others.
_LOG_NODES = {"KTH SP2": "5x16", "SDSC SP2": "6x16", "NASA iPSC": "6x16"}
_CYCLE_NODES, _CYCLE_CLOUDS, _CYCLE_DAYS, _CYCLE_LOAD = "8x4", 3, 60, 0.6
_DURATION_MU, _DURATION_SIGMA = 8.0, 1.5
_APART_H = (0, 3, 6, 12)

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
    "batch logs": _logs,
    **{f"{hours} h apart": partial(_cycle, apart_h=hours) for hours in _APART_H},
}
_NEEDS = {
    "A to D, reduced": tuple(TRACES[cloud][0] for cloud in _REDUCED),
    "batch logs": tuple(LOGS[log] for log in _LOG_NODES),
}


def run(
    data: Path | None, *, bed: str, seed: int, slas: Sequence[float], births: int, days: float
) -> list[Row]:
    """Replay one seed of a bed at some SLAs under both rules.

    Columns: bed, seed, sla, rule; offers (requests that overflowed, counted again when offered again),
    admitted, evicted, and core_hours_completed of them.
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
                    "core_hours_completed": sum(cloud["spot_core_hours"]["completed"] for cloud in told),
                }
            )
    return rows


def _cases(quick: bool) -> list[Case]:
    beds = ["12 h apart"] if quick else list(BEDS)
    return [
        Case(
            f"{bed}, seed {seed}", run,
            {
                "bed": bed, "seed": seed, "slas": SLAS[-1:] if quick else SLAS,
                "births": _QUICK_BIRTHS if quick else _BIRTHS, "days": 1.5 if quick else _CYCLE_DAYS,
            },
            _NEEDS.get(bed, ()),
        )
        for bed in beds
        # Of the synthetic clouds none that chose the rule.
        for seed in (range(1) if quick else range(SEEDS) if bed in _NEEDS else range(101, 101 + SEEDS))
    ]  # fmt: skip


def _kept(rows: Sequence[Row]) -> int:
    return sum(row["evicted"] <= row["sla"] * row["admitted"] for row in rows)


def interval(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the 95 % interval of evicted ÷ admitted by a bootstrap over seeds.

    Evictions come in peaks, but those of one seed tell nothing of another's.
    """
    evicted, admitted = (np.array([row[column] for row in rows]) for column in ("evicted", "admitted"))
    drawn = np.random.default_rng(0).integers(0, len(rows), (2000, len(rows)))
    shares = evicted[drawn].sum(axis=1) / np.maximum(admitted[drawn].sum(axis=1), 1)
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(low), float(high)


def _describe(rows: Sequence[Row]) -> str:
    low, high = interval(rows)
    return (
        f"{total(rows, 'evicted'):.0f} of {total(rows, 'admitted'):.0f} evicted "
        f"({ratio(rows, 'evicted', 'admitted'):.4f}, 95 % by seeds {low:.4f} to {high:.4f}), "
        f"{_kept(rows)} of {len(rows)} seeds keep it"
    )


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts, short = [], []
    for bed in distinct(rows, "bed"):
        for sla in distinct(where(rows, bed=bed), "sla"):
            before, after = (where(rows, bed=bed, sla=sla, rule=rule) for rule in RULES)
            left = total(after, "admitted") / max(total(before, "admitted"), 1)
            texts.append(
                f"{bed}, SLA {sla:g}: overflow as any other request: {_describe(before)}; with one peak "
                f"more: {_describe(after)}, with {left:.3f} of the admissions."
            )
            if _kept(after) < ENOUGH * len(after):
                short.append(f"{bed} at {sla:g} ({_kept(after)} of {len(after)} seeds)")
            elif _kept(before) >= ENOUGH * len(before) and left < LEFT:
                short.append(f"{bed} at {sla:g} ({left:.3f} of the admissions, where it held before)")
    bar = f"kept in {ENOUGH:.0%} of the seeds, with {LEFT:g} of the admissions where it was kept before"
    return [
        *texts,
        f"The bar ({bar}) is missed by {', '.join(short)}." if short else f"All meet the bar ({bar}).",
    ]


def _draw(rows: Sequence[Row]) -> Figure:
    slas, beds = distinct(rows, "sla"), distinct(rows, "bed")
    with panels("Promises to requests that overflow", 1, len(slas), size=(9.5, 4.2)) as (figure, axes):
        for sla, panel in zip(slas, axes[0], strict=True):
            series = {}
            for rule in RULES:
                parts = {bed: where(rows, bed=bed, sla=sla, rule=rule) for bed in beds}
                series[rule] = {
                    bed: Dot(ratio(part, "evicted", "admitted"), *interval(part))
                    for bed, part in parts.items()
                    if part
                }
            dots_by_group(panel, beds, series)
            panel.axhline(sla, ls=":", color=GREY, lw=1.4, zorder=0, label="the promise")
            evicted_axis(panel, 2.5 * sla)
            panel.set_title(f"SLA {sla:g}", loc="left")
            panel.tick_params(axis="x", rotation=30)
        legend_below(figure, axes[0, 0])
    return figure


EXPERIMENT = Experiment(
    name="overflow-promise",
    title="Overflow: promises to requests that come because clouds are full",
    source="our own question",
    cases=_cases,
    pictures=(
        Picture(
            "overflow-promise",
            "Share of the placed overflow that is evicted, with a 95 % interval by seeds: taken for any "
            "other request, and with room for one peak more than the history has shown. Synthetic clouds "
            "have one daily cycle, some hours apart.",
            _draw,
        ),
    ),
    sentences=_sentences,
)
