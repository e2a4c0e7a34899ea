"""The run that most experiments consist of: one cloud, its on-demand load, and spot requests with one SLA."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from cloudsim.admission.rule import STRICT_RULE, AdmissionRule
from cloudsim.cloud.spec import HOUR_S, CloudSpec
from cloudsim.experiments.experiment import Row, ratio
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import MakePredictor, complete_without_promise, replay
from cloudsim.federation.report import work_shares
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.rule import OUR_RULE, PredictionRule
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.scheduling.lineups import YOUNGEST_JOB_FIRST, LineUp
from cloudsim.traces.trace import Trace

CLOUD, SPOT = "cloud", "spot"

#: Spot requests come a day after the first on-demand request (P2 §3.1).
SPOT_DELAY_S = 86_400.0


@lru_cache(maxsize=16)
def _without_spot(nodes: str, on_demand: Trace, lineup: LineUp) -> Mapping[str, Any]:
    """Return the cloud's part of the report when only its own load runs, for whatever SLA and rule."""
    cloud = FederatedCloud(CloudSpec(CLOUD, parse_nodes(nodes), lineup=lineup), nodes, on_demand)
    report: Mapping[str, Any] = replay(Federation((cloud,), ()), seed=0, births=1)["clouds"][CLOUD]
    return report


@lru_cache(maxsize=16)
def _baseline(
    nodes: str, on_demand: Trace, spot: Trace, spot_delay_s: float, lineup: LineUp, asks_requested: bool
) -> float:
    """Return the spot core-hours that complete when nothing is promised, for whatever SLA and rule."""
    cloud = FederatedCloud(CloudSpec(CLOUD, parse_nodes(nodes), lineup=lineup), nodes, on_demand)
    workload = Workload(SPOT, spot, spot_delay_s, None, (CLOUD,), asks_requested)
    return complete_without_promise(Federation((cloud,), (workload,)))[SPOT]


def share_of_work(*rows: Row) -> str:
    """Write the completed shares of the spot core-hours that all rows requested, and of the baseline's.

    The baseline admits all that fits and promises nothing.
    """
    completed = "spot_core_hours_completed"
    of_requested = f"{ratio(rows, completed, 'spot_core_hours_requested'):.3f}".removeprefix("0")
    of_baseline = f"{ratio(rows, completed, 'spot_core_hours_baseline'):.3f}".removeprefix("0")
    return f"work {of_requested} ({of_baseline} of the baseline's)"


def single_cloud_row(
    *,
    pair: str,
    nodes: str,
    on_demand: Trace,
    spot: Trace,
    sla: float | None,
    spot_delay_s: float = SPOT_DELAY_S,
    admission: AdmissionRule = STRICT_RULE,
    prediction: PredictionRule = OUR_RULE,
    lineup: LineUp = YOUNGEST_JOB_FIRST,
    births: int = 10_000,
    seed: int = 0,
    bursts: bool = False,
    asks_requested: bool = False,
    least_s: float | None = None,
    refresh_s: float = 6 * HOUR_S,
    predictor: MakePredictor = LocalPredictor,
) -> Row:
    """Replay the cloud with its spot requests and once more without, and return the outcome as one row.

    Columns: pair, nodes, sla, mode, lineup, seed, bursts; spot_requests, spot_admitted, spot_completed,
    evicted, evicted_share (None: nothing admitted) with its exact 95 % interval evicted_low and evicted_high;
    on_demand_requests, on_demand_admitted, on_demand_admitted_without_spot; spot_core_hours_requested,
    spot_core_hours_completed, core_hours_lost (to evictions), spot_core_hours_baseline (completed when all
    that fits is admitted without an SLA), completed_of_requested and completed_of_baseline (of core-hours;
    None: none); utilisation and utilisation_without_spot (of the cores until the end of the federation,
    instances of both kinds); refusals {reason: count}; by_size, a list of {cores, requests, admitted,
    evicted, core_hours_requested, core_hours_completed}; with ``least_s`` also promises and not_renewed.

    Parameters
    ----------
    pair, bursts
        Labels of the row.
    nodes
        Shape of the cloud, for example "8x4".
    sla
        The promised largest probability of eviction; None asks for no guarantee.
    births, seed
        Number of Monte-Carlo births a size, and their seed.
    asks_requested
        Users ask for the lifetime that they requested in the trace and stop at the actual one
        (see ``Workload``).
    least_s
        Least seconds that renewable requests begin with; None: they are not renewable.
    refresh_s, predictor
        Seconds between two tables, and what makes them.

    Raises
    ------
    SpecError
        When the shape cannot be read.
    """
    spec = CloudSpec(
        CLOUD, parse_nodes(nodes), lineup=lineup, admission=admission, prediction=prediction,
        refresh_s=refresh_s,
    )  # fmt: skip
    cloud = FederatedCloud(spec, nodes, on_demand)
    workload = Workload(SPOT, spot, spot_delay_s, sla, (CLOUD,), asks_requested, least_s=least_s)
    report = replay(Federation((cloud,), (workload,)), seed=seed, births=births, predictor=predictor)
    without = _without_spot(nodes, on_demand, lineup)
    own, asked = report["clouds"][CLOUD], report["origins"][SPOT]
    hours = asked["spot_core_hours"]
    promises = asked.get("promises")
    baseline = hours["completed"]
    if sla is not None:
        baseline = _baseline(nodes, on_demand, spot, spot_delay_s, lineup, asks_requested)
    return {
        "pair": pair,
        "nodes": nodes,
        "sla": sla,
        "mode": admission.mode.value,
        "lineup": lineup.name,
        "seed": seed,
        "bursts": bursts,
        "spot_requests": asked["requests"],
        "spot_admitted": asked["admitted"],
        "spot_completed": asked["completed"],
        "evicted": asked["evicted"],
        **{key: asked[key] for key in ("evicted_share", "evicted_low", "evicted_high")},
        "on_demand_requests": own["on_demand"]["requests"],
        "on_demand_admitted": own["on_demand"]["admitted"],
        "on_demand_admitted_without_spot": without["on_demand"]["admitted"],
        "spot_core_hours_requested": hours["requested"],
        "spot_core_hours_completed": hours["completed"],
        "core_hours_lost": hours["lost"],
        "spot_core_hours_baseline": baseline,
        **work_shares(hours, baseline),
        "utilisation": own["utilisation"],
        "utilisation_without_spot": without["utilisation"],
        "refusals": asked["refusals"],
        "by_size": [_size_row(part) for part in asked["by_size"]],
        **({"promises": promises["made"], "not_renewed": promises["not_renewed"]} if promises else {}),
    }


def _size_row(part: dict[str, Any]) -> Row:
    return {
        **{key: part[key] for key in ("cores", "requests", "admitted", "evicted")},
        "core_hours_requested": part["spot_core_hours"]["requested"],
        "core_hours_completed": part["spot_core_hours"]["completed"],
    }
