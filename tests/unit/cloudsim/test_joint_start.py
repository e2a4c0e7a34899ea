from __future__ import annotations

import pytest

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.joint_start import start_all
from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.changes import Booked, Ended, Noticed, Started, TurnedAway
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request, Spread


def on_demand(name: str, cores: int, **more: object) -> Request:
    return Request(name, Kind.ON_DEMAND, cores, 100.0, **more)  # type: ignore[arg-type]


def spot(name: str, cores: int) -> Request:
    return Request(name, Kind.SPOT, cores, 100.0)


def running(cloud: Cloud) -> set[str]:
    return {instance.id for instance in cloud.inventory}


def full_of_spot(grace_s: float = 0.0) -> Cloud:
    cloud = Cloud(CloudSpec("a", (4, 4), grace_s=grace_s))
    for number in range(4):
        assert not isinstance(cloud.admit(spot(f"s{number}", 2), float(number)), Refusal)
    return cloud


def test_all_are_placed_each_meeting_those_before_it() -> None:
    cloud = full_of_spot()
    changes = start_all(cloud, [on_demand("x", 4), on_demand("y", 4)], 10.0)
    assert running(cloud) == {"x", "y"}
    assert [type(change) for change in changes] == [Ended, Ended, Started, Ended, Ended, Started]
    cloud.inventory.validate()


def test_if_one_finds_no_place_nobody_is_evicted_and_all_are_turned_away() -> None:
    cloud = full_of_spot()
    before = running(cloud)
    changes = start_all(cloud, [on_demand("x", 4), on_demand("y", 3), on_demand("z", 2)], 10.0)
    assert running(cloud) == before
    assert [(type(change), change.request.id) for change in changes if isinstance(change, TurnedAway)] == [
        (TurnedAway, "x"), (TurnedAway, "y"), (TurnedAway, "z"),
    ]  # fmt: skip
    assert len(changes) == 3
    refusal = changes[0].refusal  # type: ignore[union-attr]
    assert refusal.reason is RefusalReason.NO_CAPACITY
    assert refusal.removed == (("room", 2),)
    cloud.inventory.validate()


def test_apart_needs_a_node_for_each() -> None:
    cloud = Cloud(CloudSpec("a", (4, 4)))
    group = {"group": "g", "spread": Spread.APART}
    two = [on_demand("x", 1, **group), on_demand("y", 1, **group)]
    start_all(cloud, two, 0.0)
    assert {instance.node for instance in cloud.inventory} == {0, 1}
    changes = start_all(cloud, [on_demand("z", 1, **group)], 1.0)
    assert isinstance(changes[0], TurnedAway)
    assert changes[0].refusal.reason is RefusalReason.NO_SUCH_NODE
    assert changes[0].refusal.removed == (("anti_affinity", 2),)


@pytest.mark.parametrize("cores", [1, 2])
def test_with_grace_all_are_booked(cores: int) -> None:
    cloud = full_of_spot(grace_s=30.0)
    changes = start_all(cloud, [on_demand("x", cores), on_demand("y", cores)], 10.0)
    noticed = [change for change in changes if isinstance(change, Noticed)]
    booked = [change for change in changes if isinstance(change, Booked)]
    # Two of one core share the room of one instance that was given notice.
    assert len(noticed) == cores
    assert len(booked) == 2
    cloud.inventory.validate()
    cloud.advance(40.0)
    assert {"x", "y"} <= running(cloud)
    cloud.inventory.validate()
