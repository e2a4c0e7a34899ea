"""Under every line-up the owners, told in JSON, give the report of the replay: resources, labels, groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.model.nodes import NodeGroup, nodes_of, shape_of
from cloudsim.model.requests import Amounts, Spread
from cloudsim.prediction.rule import CAREFUL_RULE
from cloudsim.scheduling.lineups import LINEUPS, LineUp
from cloudsim.traces.trace import Trace
from tests.unit.workers.test_owner_replay import BIRTHS, SEED, drive

FLAVOURS: dict[int, Amounts] = {
    1: (("memory_mb", 2000),),
    2: (("memory_mb", 3000),),
    4: (("gpus", 1), ("memory_mb", 8000)),
}
NORTH = frozenset({("zone", "north")})
SHAPES = {
    "A": (
        NodeGroup(2, 8, (("gpus", 1), ("memory_mb", 16000)), NORTH),
        NodeGroup(1, 4, (("memory_mb", 6000),), frozenset({("zone", "south")}), {"cores": 1.5}),
    ),
    "B": (NodeGroup(2, 4, (("memory_mb", 8000),)),),
}


def load(name: str, seed: int, count: int, mean_s: float = 3600.0) -> Trace:
    random = np.random.default_rng(seed)
    start_s = np.sort(random.uniform(0, 40 * 3600, count))
    return Trace.checked(
        name,
        [f"{name}-{i}" for i in range(count)],
        start_s,
        start_s + random.exponential(mean_s, count),
        random.choice([1, 2, 4], count),
    )


def member(cloud: str, lineup: LineUp, own_load: Trace) -> FederatedCloud:
    cores, details = nodes_of(SHAPES[cloud])
    details = replace(details, flavours=tuple(sorted(FLAVOURS.items())))
    spec = CloudSpec(cloud, cores, details, lineup, prediction=CAREFUL_RULE)
    return FederatedCloud(spec, shape_of(SHAPES[cloud]), own_load)


def federation(lineup: LineUp) -> Federation:
    clouds = (member("A", lineup, load("a", 1, 300)), member("B", lineup, load("b", 2, 120)))
    workloads = (
        Workload("C", load("u", 3, 200), 0.0, 0.9, ("A", "B")),
        Workload("C", load("v", 4, 60), 0.0, 0.5, ("A",), labels=NORTH),
        Workload("C", load("w", 5, 80, 8 * 3600.0), 0.0, None, ("A",), group="web", spread=Spread.APART),
        Workload("C", load("x", 6, 40), 0.0, 0.2, ("A", "B"), group="db", spread=Spread.TOGETHER),
    )
    return Federation(clouds, workloads, flavours=FLAVOURS)


@pytest.mark.parametrize("lineup", LINEUPS, ids=lambda one: one.name)
def test_the_owners_give_the_report_of_the_replay(lineup: LineUp) -> None:
    whole = federation(lineup)
    expected = replay(whole, seed=SEED, births=BIRTHS)
    assert expected["total"]["evicted"] > 0
    refused = expected["clouds"]["A"]["refusals"]
    assert refused["no_such_node"] > 0
    assert refused["no_capacity"] > 0
    assert drive(whole, 200) == expected


def test_line_ups_differ() -> None:
    """Else their reports would be equal for want of a difference."""
    reports = [replay(federation(one), seed=SEED, births=BIRTHS)["clouds"] for one in LINEUPS]
    different = [one for number, one in enumerate(reports) if one not in reports[:number]]
    assert len(different) > 0.75 * len(LINEUPS)
