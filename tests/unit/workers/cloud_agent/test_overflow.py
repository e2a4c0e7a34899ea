"""What a cloud has no room for goes to the federation, and its user sees where it went and may end it."""

from __future__ import annotations

from typing import Any

import pytest

from broker.contract import EventKind, Launch, LeaseState, Overflow, OverflowTerms
from tests.unit.workers.cloud_agent.test_agent import Scene
from tests.unit.workers.owners import NOW, command_id

TERMS = OverflowTerms(lifetime_s=3600.0, resources={"memory_mb": 8192}, launch=Launch(image="debian-12"))


@pytest.fixture
def scene() -> Scene:
    """A cloud that its own users have filled."""
    scene = full_scene()
    for _ in range(2):
        scene.cloud.arrive(4)
    scene.later(6)
    return scene


def full_scene() -> Scene:
    scene = Scene(overflow=True)
    scene.live.take(scene.live.owner.open(scene.now_s, NOW))
    return scene


def refuse(scene: Scene, terms: OverflowTerms | None = TERMS) -> str:
    own_id = scene.cloud.refuse(2)
    scene.cloud.overflow[own_id] = terms
    scene.later(11)
    return own_id


def states(scene: Scene) -> list[str]:
    return [event.overflow.state for event in scene.live.events if event.overflow is not None]


def report(scene: Scene, own_id: str, outcome: str, **more: Any) -> None:
    news = {"instance": f"A/freed-{own_id}.offered", "outcome": outcome, **more}
    scene.live.tell(Overflow.model_validate(command_id() | news), scene.now_s)
    scene.later(6)


def test_it_is_offered_with_what_it_runs_placed_told_and_over(scene: Scene) -> None:
    own_id = refuse(scene)
    (offer,) = scene.live.owner.state.offers.open()
    assert (offer.instance, offer.state, offer.cores) == (f"A/freed-{own_id}.offered", "offered", 2)
    assert (offer.remaining_s, offer.resources, offer.launch) == (3600.0, {"memory_mb": 8192}, TERMS.launch)
    (entry,) = scene.live.offers
    assert entry["launch"] == {"image": "debian-12"}
    assert entry["resources"] == {"memory_mb": 8192}
    assert scene.cloud.told == {own_id: "offered to other clouds"}
    report(scene, own_id, "placed", lease="L", cloud="B")
    assert scene.cloud.told == {own_id: "runs on B as lease L"}
    assert scene.leases.kept[offer.instance].why == "runs on B as lease L"
    scene.live.crash()
    report(scene, own_id, "completed")
    assert scene.cloud.told == {own_id: "no other cloud has it any more"}
    assert offer.instance not in scene.leases.kept
    scene.later(60)
    assert states(scene) == ["offered", "placed", "completed"]


def test_what_was_evicted_elsewhere_is_offered_again_with_what_it_runs(scene: Scene) -> None:
    own_id = refuse(scene)
    report(scene, own_id, "placed", lease="L", cloud="B")
    report(scene, own_id, "evicted", cloud="B")
    (offer,) = scene.live.owner.state.offers.open()
    assert (offer.attempt, offer.avoid, offer.launch) == (2, "B", TERMS.launch)
    assert scene.cloud.told == {own_id: "offered to other clouds"}


def test_what_the_federation_has_no_room_for_is_told_and_not_offered_again(scene: Scene) -> None:
    own_id = refuse(scene)
    report(scene, own_id, "refused")
    scene.later(60)
    assert scene.cloud.told == {own_id: "no other cloud takes it"}
    assert states(scene) == ["offered", "refused"]


def test_its_user_ends_it_by_deleting_the_failed_server(scene: Scene) -> None:
    own_id = refuse(scene)
    report(scene, own_id, "placed", lease="L", cloud="B")
    scene.cloud.forget(own_id)
    scene.later(9)
    assert states(scene)[-1] == "placed", "one listing proves little"
    scene.later(12)
    assert states(scene)[-1] == "stopped"
    assert scene.live.offers[-1]["stop"] is True
    assert scene.live.offers[-1]["lease"] == "L"


@pytest.mark.parametrize("silent", [False, True])
def test_another_agent_goes_on(scene: Scene, *, silent: bool) -> None:
    scene.owner_silent = silent
    own_id = scene.cloud.refuse(2)
    scene.cloud.overflow[own_id] = TERMS
    scene.later(6)
    scene.begin()
    scene.owner_silent = False
    scene.later(11)
    assert states(scene) == ["offered"]
    scene.begin()
    report(scene, own_id, "placed", lease="L", cloud="B")
    assert scene.cloud.told == {own_id: "runs on B as lease L"}
    scene.begin()
    scene.cloud.forget(own_id)
    scene.later(21)
    assert states(scene) == ["offered", "placed", "stopped"]


def test_an_agent_that_was_killed_before_its_owner_heard_offers_it_again(scene: Scene) -> None:
    own_id = scene.cloud.refuse(2)
    scene.cloud.overflow[own_id] = TERMS
    heard = scene.line.ask

    def lose_offers(commands: Any, deadline_s: float) -> Any:
        return {} if getattr(commands[0], "overflow", None) else heard(commands, deadline_s)

    scene.line.ask = lose_offers  # type: ignore[method-assign]
    scene.later(11)
    assert f"A/freed-{own_id}.offered" in scene.leases.kept
    scene.line.ask = heard  # type: ignore[method-assign]
    scene.begin()
    scene.later(21)
    assert states(scene) == ["offered"]


def test_spot_leaves_first_and_nothing_is_offered() -> None:
    scene = full_scene()
    scene.lease("a.1", 4)
    scene.lease("b.1", 4)
    scene.later(6)
    refuse(scene)
    assert scene.state("b.1") is LeaseState.EVICTED
    assert states(scene) == []
    assert scene.cloud.told == {}


@pytest.mark.parametrize("fault", ["no", "image", "off"])
def test_what_may_not_leave_is_not_offered(scene: Scene, fault: str) -> None:
    scene.overflow = fault != "off"
    scene.begin()
    if fault == "image":
        scene.cloud.refuse(2)
        scene.later(30)
    else:
        refuse(scene, None)
    assert scene.cloud.count("overflow", "i-2") == (fault != "off")
    assert states(scene) == []


def test_what_runs_at_the_cloud_and_what_is_kept_free_is_not_offered(scene: Scene) -> None:
    scene.cloud.arrive(2)  # more than the owner's books hold
    scene.later(60)
    assert any(event.kind is EventKind.TURNED_AWAY for event in scene.live.events)
    assert states(scene) == []
