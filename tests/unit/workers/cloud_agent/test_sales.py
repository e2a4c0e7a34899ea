"""On-demand that is sold to other members runs as an instance that is never evicted."""

from __future__ import annotations

from typing import Any

import pytest

from broker.contract import LeaseGranted, LeasesGranted, LeaseState, ListSold, RefusalView, StopOnDemand
from broker.contract.instances import InstanceCatalogue
from broker.contract.launch import Launch, LaunchRules
from cloudsim.model.flavours import CloudFlavour
from tests.unit.workers.cloud_agent.test_agent import Scene
from tests.unit.workers.owners import FOREVER_S, Live, command_id, spec, start, stop

SOLD = "B:vm-1"


@pytest.fixture
def scene() -> Scene:
    """A cloud of 8 cores that sells on-demand, of which 4 are lent to "a.1"."""
    scene = Scene()
    scene.sells = True
    scene.begin()
    scene.lease("a.1", 4)
    scene.later(6)
    return scene


def buy(scene: Scene, cores: int = 2, instance: str = SOLD, **more: Any) -> Any:
    command = start(instance, cores, 3600.0).model_copy(update={"origin": "B", **more})
    return scene.live.tell(command, scene.now_s)


def state_of(scene: Scene, instance: str = SOLD) -> LeaseState:
    answer = scene.live.owner.state.answer_log.get(instance)
    state = getattr(answer, "state", None)
    assert isinstance(state, LeaseState)
    return state


def test_it_runs_without_the_mark_of_spot_counts_once_and_ends_when_it_is_stopped(
    scene: Scene,
) -> None:
    assert isinstance(buy(scene), LeaseGranted)
    scene.later(3)
    (instance,) = scene.cloud.of(SOLD)
    assert scene.cloud.preemptible == {"a.1": True, SOLD: False}
    assert scene.own_users() == [SOLD]
    assert scene.leases.kept[SOLD].own_id == instance.id
    scene.live.tell(stop(SOLD), scene.now_s)
    scene.later(3)
    assert scene.cloud.of(SOLD) == []
    scene.later(30)
    assert SOLD not in scene.leases.kept
    assert scene.own_users() == []


def test_it_evicts_spot_where_it_must_and_is_not_evicted(scene: Scene) -> None:
    buy(scene, 4)
    scene.later(3)
    assert scene.state("a.1") is LeaseState.RUNNING
    assert isinstance(buy(scene, 4, "B:vm-2"), LeaseGranted)
    scene.later(3)
    assert scene.state("a.1") is LeaseState.EVICTED
    assert scene.cloud.of("a.1") == []
    assert isinstance(buy(scene, 4, "B:vm-3"), RefusalView)
    scene.cloud.refuse(4)  # an own user finds no room either
    scene.later(60)
    assert [len(scene.cloud.of(name)) for name in (SOLD, "B:vm-2")] == [1, 1]


def test_another_agent_ends_nothing_of_it_while_the_owner_is_silent(scene: Scene) -> None:
    buy(scene)
    scene.later(6)
    scene.sells = False  # no more is sold
    scene.owner_silent = True
    scene.begin()
    scene.later(90)
    assert len(scene.cloud.of(SOLD)) == 1
    scene.owner_silent = False
    scene.later(90)
    assert len(scene.cloud.of(SOLD)) == 1
    assert scene.cloud.count("start", SOLD) == 1
    scene.live.tell(stop(SOLD), scene.now_s)
    scene.later(4)
    assert scene.cloud.of(SOLD) == []


def test_what_was_stopped_while_no_agent_ran_is_ended_by_the_next(scene: Scene) -> None:
    buy(scene)
    scene.later(6)
    scene.live.tell(stop(SOLD), scene.now_s)
    scene.begin()
    scene.later(40)
    assert scene.cloud.of(SOLD) == []


def test_one_that_its_cloud_loses_has_failed_and_is_no_evidence_of_take_backs(scene: Scene) -> None:
    buy(scene)
    scene.later(6)
    (instance,) = scene.cloud.of(SOLD)
    scene.cloud.take(instance.id, "Server.InternalError")
    scene.later(6)
    assert state_of(scene) is LeaseState.FAILED
    assert scene.live.owner.state.evicted == 0
    assert scene.own_users() == []
    scene.live.crash()
    assert state_of(scene) is LeaseState.FAILED


@pytest.mark.parametrize(("room", "state"), [(5, LeaseState.RUNNING), (1, LeaseState.FAILED)])
def test_spot_leaves_for_it_where_the_cloud_has_less_room_than_its_owner_thinks(
    scene: Scene, room: int, state: LeaseState
) -> None:
    scene.cloud.room = room
    buy(scene)
    scene.later(140)
    assert (scene.state("a.1"), state_of(scene)) == (LeaseState.EVICTED, state)
    assert len(scene.cloud.of(SOLD)) == (state is LeaseState.RUNNING)


def test_its_launch_is_judged_before_it_is_sold() -> None:
    catalogue = InstanceCatalogue(
        cloud="A", flavours=(CloudFlavour("m1.small", 2),), rules=LaunchRules(images={"debian-*": ""})
    )
    live = Live(spec((4,), catalogue=lambda: catalogue))

    def buy(cores: int, launch: Launch | None = None) -> Any:
        command = start(f"B:{cores}-{launch and launch.image}", cores)
        return live.tell(command.model_copy(update={"origin": "B", "launch": launch}))

    assert buy(3).reason == "no_such_flavour"
    assert buy(2, Launch(image="windows")).reason == "not_allowed"
    granted = buy(2, Launch(image="debian-12"))
    assert granted.lease.launch == Launch(image="debian-12")
    assert live.tell(start("own", 1)).answer == "lease", "the cloud's own users run there already"
    assert live.tell(ListSold(**command_id())) == LeasesGranted(leases=(granted.lease,))
    live.crash()
    assert live.tell(ListSold(**command_id())) == LeasesGranted(leases=(granted.lease,))
    live.tell(StopOnDemand(**command_id(), instance=granted.lease.id), FOREVER_S)
    assert live.tell(ListSold(**command_id()), FOREVER_S) == LeasesGranted(leases=())
    simulated = Live(spec((4,)))
    bought = start("B:1", 1).model_copy(update={"origin": "B", "launch": Launch(image="debian-12")})
    assert simulated.tell(bought).reason == "not_allowed"
