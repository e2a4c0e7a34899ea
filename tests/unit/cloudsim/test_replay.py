from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import cloudsim.federation.replay
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.model.changes import Change
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Request
from cloudsim.traces.synthesis import lognormal_trace
from cloudsim.traces.trace import Trace

Row = tuple[float, float, int]  # start, stop, cores


def trace(*rows: Row, requested_s: list[float] | None = None) -> Trace:
    start_s, stop_s, cores = zip(*rows, strict=True)
    return Trace.checked(
        "t", [f"i{n}" for n in range(len(rows))], start_s, stop_s, cores, requested_s=requested_s
    )


def cloud(name: str, *rows: Row, overflow: bool = False, sla: float | None = None) -> FederatedCloud:
    """One node of 4 cores, and a small instance at 1000 s that keeps the federation going until then."""
    load = trace(*rows, (1000, 1000, 1))
    return FederatedCloud(CloudSpec(name, (4,)), "1x4", load, overflow, sla)


def run(*clouds: FederatedCloud, spot: tuple[Workload, ...] = ()) -> dict[str, Any]:
    return replay(Federation(clouds, spot), seed=0, births=10)


# -- users who stop early --------------------------------------------------------------------------------


def test_who_stops_early_leaves_the_room_to_others_at_once() -> None:
    spot = trace((0, 100, 4), (100, 150, 4), (120, 130, 1), requested_s=[500, np.nan, 20])
    report = run(cloud("c"), spot=(Workload("o", spot, 0, None, ("c",), asks_requested=True),))
    origin = report["origins"]["o"]
    assert [origin[key] for key in ("requests", "admitted", "completed", "evicted")] == [3, 2, 2, 0]
    assert origin["refusals"] == {"no_capacity": 1}
    hours = origin["spot_core_hours"]
    assert (hours["requested"], hours["completed"]) == pytest.approx((2220 / 3600, 600 / 3600), abs=1e-6)
    exact = run(cloud("c"), spot=(Workload("o", spot, 0, None, ("c",)),))["origins"]["o"]
    assert exact["spot_core_hours"]["requested"] == pytest.approx(610 / 3600, abs=1e-6)
    assert exact["admitted"] == 2


def test_who_asks_for_too_little_is_stopped_then() -> None:
    spot = trace((0, 100, 4), (60, 70, 4), requested_s=[60, np.nan])
    report = run(cloud("c"), spot=(Workload("o", spot, 0, None, ("c",), asks_requested=True),))
    assert report["origins"]["o"]["completed"] == 2


def test_an_evicted_instance_is_not_stopped_again() -> None:
    spot = trace((0, 100, 4), requested_s=[500])
    report = run(cloud("c", (50, 60, 4)), spot=(Workload("o", spot, 0, None, ("c",), asks_requested=True),))
    origin = report["origins"]["o"]
    assert (origin["completed"], origin["evicted"]) == (0, 1)
    assert origin["spot_core_hours"]["lost"] == pytest.approx(200 / 3600, abs=1e-6)


def test_tables_are_made_from_actual_ends() -> None:
    loads = [lognormal_trace(np.random.default_rng(seed), hours=48, name=f"t{seed}") for seed in (1, 2)]
    spot = dataclasses.replace(loads[1], requested_s=loads[1].lifetime_s * 4 + 1)
    member = FederatedCloud(CloudSpec("c", (4,) * 8), "8x4", loads[0])
    whole = Federation((member,), (Workload("o", spot, 0, 0.25, ("c",), asks_requested=True),))
    origin = replay(whole, seed=0, births=200)["origins"]["o"]
    assert origin["admitted"] > 100
    assert origin["admitted"] == origin["completed"] + origin["evicted"]


# -- overflow --------------------------------------------------------------------------------------------


def test_overflow_meets_the_others_as_they_are_at_that_instant() -> None:
    # b's own instance ends at 10, when a must turn its second away: the room is there just then.
    home = cloud("a", (0, 100, 4), (10, 50, 4), overflow=True)
    report = run(home, cloud("b", (5, 10, 4), (50, 60, 4)))
    assert report["clouds"]["a"]["on_demand"] == {"requests": 3, "admitted": 2}
    assert report["overflow"]["a"]["own_requests"] == {"offered": 1, "completed": 1}
    assert report["clouds"]["b"]["spot"]["completed"] == 1
    later = run(home, cloud("b", (5, 11, 4)))  # a second too late
    assert later["overflow"]["a"]["own_requests"] == {"offered": 1, "completed": 0}
    assert later["clouds"]["b"]["refusals"] == {"no_capacity": 1}
    sooner = run(home, cloud("b", (5, 9, 4), (10, 11, 4)))  # on-demand of the same instant goes first
    assert sooner["clouds"]["b"]["refusals"] == {"no_capacity": 1}


def test_what_is_evicted_elsewhere_is_offered_again_for_the_rest() -> None:
    home = cloud("a", (0, 100, 4), (10, 50, 4), overflow=True)
    busy = cloud("b", (20, 60, 4))
    assert run(home, busy)["overflow"]["a"]["evicted"] == 1  # the others had no room either
    report = run(home, busy, cloud("c", (0, 20, 4)))
    overflow = report["overflow"]["a"]
    assert overflow["own_requests"] == {"offered": 1, "completed": 1}
    assert [overflow[key] for key in ("requests", "admitted", "evicted", "completed")] == [2, 2, 1, 1]
    hours = overflow["spot_core_hours"]
    assert (hours["lost"], hours["completed"]) == pytest.approx((40 / 3600, 120 / 3600), abs=1e-6)
    assert report["clouds"]["c"]["spot"]["completed"] == 1


def test_nobody_but_the_evictor_and_home_are_asked_when_there_is_nobody_else() -> None:
    home = cloud("a", (0, 15, 4), (10, 50, 4), overflow=True)
    report = run(home, cloud("b", (20, 30, 4)))  # home has room again by 20
    assert report["clouds"]["a"]["spot"]["completed"] == 1
    assert report["overflow"]["a"]["own_requests"]["completed"] == 1


def test_what_fits_nowhere_or_takes_no_time_is_not_offered() -> None:
    home = cloud("a", (0, 100, 4), (10, 20, 5), (30, 30, 4), overflow=True)
    report = run(home, cloud("b"))
    assert report["clouds"]["a"]["on_demand"] == {"requests": 4, "admitted": 2}
    assert report["overflow"]["a"]["own_requests"]["offered"] == 0


def test_a_promise_is_asked_for_when_the_file_says_so() -> None:
    home = cloud("a", (0, 100, 4), (10, 50, 2), overflow=True, sla=0.1)
    whole = Federation((home, cloud("b")), ())
    assert whole.spot_sizes(whole.clouds[1]) == (1, 2, 4)
    report = replay(whole, seed=0, births=10)
    assert report["overflow"]["a"]["refusals"] == {"no_table": 1}
    assert [row["sla"] for row in report["overflow"]["a"]["by_sla"]] == [0.1]


def two_that_overflow(overflow: bool) -> Federation:
    loads = [lognormal_trace(np.random.default_rng(seed), hours=30, name=f"t{seed}") for seed in range(3)]
    clouds = [
        FederatedCloud(CloudSpec(name, (4,) * nodes), f"{nodes}x4", load, overflow, sla)
        for name, nodes, load, sla in zip("ab", (4, 5), loads, (0.5, None), strict=False)
    ]
    return Federation(tuple(clouds), (Workload("o", loads[2], 3600, 0.6, ("a", "b")),))


def test_nothing_is_decided_after_another_cloud_has_moved_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clouds: list[Watched] = []
    admissions = 0

    class Watched(Cloud):
        def __init__(self, *arguments: Any):
            super().__init__(*arguments)
            clouds.append(self)

        def admit(self, request: Request, now_s: float, quote: Quote | None = None) -> list[Change] | Refusal:
            nonlocal admissions
            admissions += 1
            assert all(other.now_s <= now_s for other in clouds)
            # Others that overflow have done all that comes before a spot request of this instant.
            assert all(other.next_event() > (now_s, 1) for other in clouds)
            return super().admit(request, now_s, quote)

    monkeypatch.setattr(cloudsim.federation.replay, "Cloud", Watched)
    report = replay(two_that_overflow(True), seed=0, births=100)
    assert admissions == sum(member["spot"]["admitted"] for member in report["clouds"].values())
    for home in "ab":
        overflow = report["overflow"][home]
        assert overflow["admitted"] == overflow["evicted"] + overflow["completed"] > 10
        assert overflow["own_requests"]["completed"] == overflow["completed"]
        turned_away = report["clouds"][home]["on_demand"]
        assert overflow["own_requests"]["offered"] == turned_away["requests"] - turned_away["admitted"]
    assert report["overflow"]["a"]["requests"] > report["overflow"]["a"]["own_requests"]["offered"]


def test_going_from_event_to_event_changes_nothing_by_itself() -> None:
    whole = two_that_overflow(False)
    alone = [
        Federation((member,), (dataclasses.replace(whole.workloads[0], targets=(member.spec.id,)),))
        for member in whole.clouds
    ]
    for federation in alone:
        (member,) = federation.clouds
        stepping = dataclasses.replace(federation, clouds=(dataclasses.replace(member, overflow=True),))
        expected = replay(federation, seed=0, births=100)
        report = replay(stepping, seed=0, births=100)
        assert report.pop("overflow")[member.spec.id]["admitted"] == 0
        assert report == expected
        assert expected["total"]["evicted"] > 0
