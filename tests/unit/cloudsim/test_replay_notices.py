"""Replays of clouds that give notice: what is counted, and where overflow goes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.traces.synthesis import lognormal_trace
from tests.unit.cloudsim.test_replay import Row, cloud, run, trace

GRACE_S = 10.0


def noticing(name: str, *rows: Row, overflow: bool = False, grace_s: float = GRACE_S) -> FederatedCloud:
    """One node of 4 cores whose instances are told so long before they must leave."""
    plain = cloud(name, *rows, overflow=overflow)
    return dataclasses.replace(plain, spec=dataclasses.replace(plain.spec, grace_s=grace_s))


def spot(*rows: Row) -> Workload:
    return Workload("o", trace(*rows), 0, None, ("c",))


def counts(report: dict[str, Any]) -> tuple[int, int, int]:
    origin = report["origins"]["o"]
    return origin["admitted"], origin["completed"], origin["evicted"]


def test_who_waits_for_room_is_counted_once_and_lives_as_long_as_asked() -> None:
    report = run(noticing("c", (50, 60, 4)), spot=(spot((0, 100, 4)),))
    assert report["clouds"]["c"]["on_demand"] == {"requests": 2, "admitted": 2}
    assert counts(report) == (1, 0, 1)
    # Spot for 60 s, told at 50; then the own instance for its 10 s; and one core for 0 s at the end.
    assert report["clouds"]["c"]["utilisation"] == pytest.approx(4 * 70 / (4 * 1000), abs=1e-6)
    assert report["origins"]["o"]["spot_core_hours"]["lost"] == pytest.approx(240 / 3600, abs=1e-6)


def test_what_ends_in_its_grace_was_not_evicted() -> None:
    assert counts(run(noticing("c", (50, 60, 4)), spot=(spot((0, 59, 4)),))) == (1, 1, 0)
    assert counts(run(noticing("c", (50, 60, 4)), spot=(spot((0, 60, 4)),))) == (1, 1, 0), "to the second"
    assert counts(run(noticing("c", (50, 60, 4)), spot=(spot((0, 61, 4)),))) == (1, 0, 1)
    assert counts(run(noticing("c", (50, 60, 4), grace_s=0.0), spot=(spot((0, 59, 4)),))) == (1, 0, 1)


def test_the_room_of_who_was_told_goes_to_who_waits_and_to_nobody_else() -> None:
    report = run(noticing("c", (50, 60, 4)), spot=(spot((0, 100, 4), (60, 61, 1), (70, 71, 1)),))
    assert report["origins"]["o"]["refusals"] == {"no_capacity": 1}
    assert counts(report) == (2, 1, 1)


def test_overflow_that_is_told_to_leave_is_offered_again_when_it_has_left() -> None:
    home = cloud("a", (0, 100, 4), (10, 50, 4), overflow=True)
    # Its 40 s begin at 10 on b, which wants the node at 20 and gets it at 30: 20 s are left.
    report = run(home, noticing("b", (20, 60, 4)), cloud("c", (0, 30, 4), (50, 60, 4)))
    overflow = report["overflow"]["a"]
    assert overflow["own_requests"] == {"offered": 1, "completed": 1}
    assert [overflow[key] for key in ("requests", "admitted", "evicted", "completed")] == [2, 2, 1, 1]
    assert report["clouds"]["b"]["on_demand"] == {"requests": 2, "admitted": 2}
    sooner = run(home, cloud("b", (20, 60, 4)), cloud("c", (0, 30, 4), (50, 60, 4)))
    assert sooner["overflow"]["a"]["own_requests"]["completed"] == 0, "without notice c is still busy"


def test_a_whole_federation_with_notices() -> None:
    loads = [lognormal_trace(np.random.default_rng(seed), hours=30, name=f"t{seed}") for seed in range(3)]
    members = tuple(
        dataclasses.replace(
            noticing(name, grace_s=300.0, overflow=True), nodes="4x4", own_load=load,
            spec=dataclasses.replace(cloud(name).spec, node_cores=(4,) * 4, grace_s=300.0),
        )
        for name, load in zip("ab", loads, strict=False)
    )  # fmt: skip
    whole = Federation(members, (Workload("o", loads[2], 0, None, ("a", "b")),))
    report = replay(whole, seed=0, births=10)
    assert report["overflow"]["a"]["evicted"] + report["overflow"]["b"]["evicted"] > 0
    for member in members:
        asked = int((member.own_load.start_s <= whole.ends_s).sum())
        assert report["clouds"][member.spec.id]["on_demand"]["requests"] == asked
    origin = report["origins"]["o"]
    assert origin["admitted"] == origin["completed"] + origin["evicted"] > 0
