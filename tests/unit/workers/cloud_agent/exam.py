"""The exam that every instance driver sits: what a cloud agent relies on, whatever cloud it is."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

import pytest

from broker.contract.launch import Launch
from broker.doctor.check import State
from cloudsim.model.flavours import CloudFlavour, find_flavour
from tests.support.wait import wait_until
from tests.unit.broker.contract.public_key import PUBLIC_KEY
from workers.cloud_agent.check import check_cloud, list_faults
from workers.cloud_agent.drivers.base import (
    CloudInstance,
    DesiredInstance,
    InstanceDriver,
    InstanceError,
    InstanceState,
    NoRoomError,
    RefusedError,
)

#: Every character that an id of a lease may hold.
ODD = "aZ0._:@/-~x"
LONG = (ODD * 30)[:250]


#: What always runs before the user data of holders. ``$OUT`` is where a job of Slurm tells what it did.
PREFIX = "#!/bin/sh\nexport OUT={directory}/$SLURM_JOB_ID\n"
_SCRIPT = """#!/bin/sh
cat "$0" > "${OUT:-/dev/null}.data"
env | grep ^SPOTFED_ > "${OUT:-/dev/null}"
echo ready >> "${OUT:-/dev/null}"
exec sleep 1000 # it's its holder's, and no one else's "$HOME" \\ %
"""
LAUNCH = json.dumps({"image": "debian-12", "key": PUBLIC_KEY, "user_data": _SCRIPT})
GENEROUS = {"images": {"debian-*": "{image}"}, "keys": True, "user_data": True, "prefix": "prefix.sh"}


class Fault(StrEnum):
    """What the cloud's API may do instead of answering."""

    FAILS = "500, and a page for people"
    FAILS_WITHOUT_A_WORD = "503, and nothing"
    ANOTHER_PAGE = "200, and a page for people"
    GARBAGE = "200, and bytes that are no text"
    CUT = "an answer that ends before its end"
    CLOSES = "closes the connection"
    HANGS = "says nothing"
    TRICKLES = "a byte now and then, without end"
    ELSEWHERE = "sends the caller to another address"


class Scene(Protocol):
    """A cloud in a test, and what others do there."""

    def driver(self, **changes: Any) -> InstanceDriver:
        """A new driver of the cloud "A"; changes: fields of its table, `cloud`, and the `secret`."""

    def foreign(self, cores: int, marks: dict[str, str] | None = None) -> str:
        """Another user starts an instance, and marks it so; its id."""

    def copy(self, name: str) -> str:
        """A user of the same account starts an instance that carries all that this one does; its id."""

    def settle(self) -> None:
        """The cloud ends what it began: what is starting runs, or has failed, and what is ending is gone."""

    def take_back(self, name: str) -> None:
        """The cloud, or its operator, terminates the instance of that id."""

    def fill(self) -> None:
        """From now on there is no room for another instance."""

    def break_down(self, fault: Fault) -> None:
        """From now on its API does that alone."""

    def go_away(self) -> None:
        """From now on nothing listens where the API was."""

    def user_data(self, name: str) -> str:
        """What the instance of that id was given."""

    def marks(self, name: str) -> dict[str, str]:
        """What the instance of that id can read about itself."""

    def equipped(self) -> tuple[InstanceDriver, dict[str, int], dict[str, str]]:
        """A driver that may start instances of 4 cores with a GPU, and amounts and labels that they have."""

    def generous(self) -> InstanceDriver:
        """A driver that lets holders choose the image "debian-12", keys and user data, after ``PREFIX``."""

    def chosen(self, name: str) -> tuple[str, str]:
        """The image of the instance of that id in the cloud's own words, and the key that may log in."""

    def own_image(self) -> str:
        """What the cloud calls the image "debian-12"."""

    def keys(self) -> list[str]:
        """The names of the keys that the cloud keeps."""

    def has_all(self, name: str, amounts: dict[str, int]) -> bool:
        """Whether the instance of that id has these amounts, in the cloud's own words."""


def wanted(lease: str = "q-1.1", cores: int = 1, **more: Any) -> DesiredInstance:
    """user_data: of the launch; other fields are those of a DesiredInstance."""
    if "user_data" in more:
        more["launch"] = Launch(user_data=more.pop("user_data"))
    return DesiredInstance(lease, cores, more.pop("origin", "B"), **more)


def alive(driver: InstanceDriver, lease: str | None = "q-1.1") -> list[CloudInstance]:
    return [
        one
        for one in driver.list_instances()
        if one.lease == lease and one.state in (InstanceState.STARTING, InstanceState.RUNNING)
    ]


def needs_of(value: dict[str, Any]) -> Any:
    """Amounts, or labels, as a request has them."""
    numbers = all(isinstance(part, int) for part in value.values())
    return tuple(value.items()) if numbers else frozenset(value.items())


def in_threads(calls: list[Callable[[], None]]) -> None:
    """All at once; the first error of one is raised."""
    errors: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class InstanceDriverExam:
    """Subclasses say what the cloud is, by the fixture ``scene``."""

    @pytest.fixture
    def scene(self) -> Scene:
        raise NotImplementedError

    @pytest.fixture
    def driver(self, scene: Scene) -> InstanceDriver:
        return scene.driver()

    def test_an_empty_cloud(self, driver: InstanceDriver) -> None:
        assert driver.list_instances() == []
        driver.end("q-1.1")
        assert driver.give_notice("q-1.1", time.time() + 60) is False

    def test_an_instance_starts_runs_and_ends(self, scene: Scene, driver: InstanceDriver) -> None:
        driver.start(wanted(cores=4))
        scene.settle()
        (found,) = driver.list_instances()
        assert (found.lease, found.state, found.cores) == ("q-1.1", InstanceState.RUNNING, 4)
        assert found.addresses
        assert found.why is None
        driver.end("q-1.1")
        scene.settle()
        assert alive(driver) == []
        assert all(one.state is InstanceState.ENDED and one.why for one in driver.list_instances())
        driver.end("q-1.1")

    def test_started_again_and_again_it_is_one(self, scene: Scene, driver: InstanceDriver) -> None:
        driver.start(wanted())
        driver.start(wanted())
        scene.driver().start(wanted())
        scene.settle()
        scene.driver().start(wanted())
        assert len(alive(driver)) == 1

    def test_started_from_many_threads_it_is_one(self, scene: Scene, driver: InstanceDriver) -> None:
        another = scene.driver()
        in_threads([partial(one.start, wanted()) for one in (driver, another) * 4])
        scene.settle()
        assert len(alive(driver)) == 1

    def test_started_again_by_an_agent_whose_file_was_changed_it_is_one(
        self, scene: Scene, driver: InstanceDriver
    ) -> None:
        driver.start(wanted())
        scene.driver(user_data=None, foreign_sizes={"other": 8}).start(wanted(user_data="other"))
        assert len(alive(driver)) == 1

    def test_what_has_ended_does_not_start_again(self, scene: Scene, driver: InstanceDriver) -> None:
        """Where the cloud still shows that the lease had its instance."""
        driver.start(wanted())
        scene.settle()
        driver.end("q-1.1")
        scene.settle()
        shown = driver.list_instances()
        if shown:
            driver.start(wanted())
            assert driver.list_instances() == shown

    def test_leases_do_not_mix(self, scene: Scene, driver: InstanceDriver) -> None:
        leases = ["q-1.1", "q-1.10", "q-1", "Q-1.1", "q-1/1", ODD]
        in_threads([partial(driver.start, wanted(lease)) for lease in leases])
        scene.settle()
        driver.end("q-1.1")
        scene.settle()
        left = [one.lease for one in driver.list_instances() if one.state is InstanceState.RUNNING]
        assert sorted(map(str, left)) == sorted(leases[1:])
        driver.end(ODD)
        scene.settle()
        assert alive(driver, ODD) == []

    def test_long_names_and_names_that_are_too_long(self, scene: Scene, driver: InstanceDriver) -> None:
        others = LONG[:-1] + "y"
        driver.start(wanted(LONG))
        driver.start(wanted(others))
        driver.start(wanted(LONG))
        scene.settle()
        assert sorted(str(one.lease) for one in driver.list_instances()) == sorted([LONG, others])
        driver.end(others)
        scene.settle()
        assert len(alive(driver, LONG)) == 1
        with pytest.raises(RefusedError, match="255"):
            driver.start(wanted("x" * 256))

    def test_foreign_instances_are_counted_and_survive(self, scene: Scene, driver: InstanceDriver) -> None:
        names = {
            scene.foreign(4): 4,
            scene.foreign(1, {"spotfed:lease": "q-1.1"}): 1,  # of no cloud
            scene.foreign(1, {"spotfed:lease": "q-1.1", "spotfed:cloud": "B"}): 1,
            scene.foreign(1, {"other:lease": "q-1.1", "other:cloud": "A"}): 1,
        }
        driver.start(wanted())
        scene.settle()
        driver.give_notice("q-1.1", time.time() + 60)
        driver.end("q-1.1")
        scene.driver(cloud="C").end("q-1.1")
        scene.driver(prefix="more").end("q-1.1")
        scene.settle()
        found = {one.id: one for one in driver.list_instances() if one.state is InstanceState.RUNNING}
        assert {name: one.cores for name, one in found.items()} == names
        assert [one.lease for one in found.values()] == [None] * 4

    def test_a_copy_of_an_instance_is_foreign_and_survives(
        self, scene: Scene, driver: InstanceDriver
    ) -> None:
        driver.start(wanted())
        scene.settle()
        (ours,) = driver.list_instances()
        copy = scene.copy(ours.id)
        scene.settle()
        driver.start(wanted())
        assert {one.id: one.lease for one in driver.list_instances()} == {ours.id: "q-1.1", copy: None}
        driver.end("q-1.1")
        scene.driver().end("q-1.1")
        scene.settle()
        (left,) = (one for one in driver.list_instances() if one.state is not InstanceState.ENDED)
        assert (left.id, left.lease, left.cores) == (copy, None, 1)

    def test_another_federation_and_another_cloud_in_the_same_account(
        self, scene: Scene, driver: InstanceDriver
    ) -> None:
        others = [scene.driver(prefix="more"), scene.driver(cloud="C")]
        for one in (driver, *others):
            one.start(wanted())
        scene.settle()
        for one in (driver, *others):
            assert len(alive(one)) == 1
            assert len(alive(one, None)) == 2
        driver.end("q-1.1")
        scene.settle()
        assert [len(alive(one)) for one in (driver, *others)] == [0, 1, 1]

    def test_what_the_cloud_took_back_is_not_there(self, scene: Scene, driver: InstanceDriver) -> None:
        driver.start(wanted())
        driver.start(wanted("q-2.1"))
        scene.settle()
        (mine,) = alive(driver)
        scene.take_back(mine.id)
        scene.settle()
        wait_until(lambda: not alive(driver), "it is gone")
        assert len(alive(driver, "q-2.1")) == 1
        driver.end("q-1.1")

    def test_no_room(self, scene: Scene, driver: InstanceDriver) -> None:
        """Some clouds say so at once, some show an instance that has failed and say so when asked again."""
        driver.start(wanted())
        scene.settle()
        scene.fill()

        def ask() -> None:
            driver.start(wanted("q-2.1"))
            scene.settle()
            (failed,) = (one for one in driver.list_instances() if one.lease == "q-2.1")
            assert failed.state is InstanceState.ENDED
            assert failed.why
            driver.start(wanted("q-2.1"))

        with pytest.raises(NoRoomError):
            ask()
        assert [one.lease for one in driver.list_instances()] == ["q-1.1"]

    def test_an_unknown_image_is_refused(self, scene: Scene) -> None:
        with pytest.raises(RefusedError):
            scene.driver(image="ami-00000000000000bad").start(wanted())
        assert scene.driver().list_instances() == []

    def test_an_unknown_size_is_refused(self, scene: Scene, driver: InstanceDriver) -> None:
        with pytest.raises(RefusedError):
            scene.driver(sizes={"1": "none.such"}).start(wanted())
        with pytest.raises(RefusedError, match="no instance of 3 cores"):
            driver.start(wanted(cores=3))
        assert driver.list_instances() == []

    def test_what_no_flavour_has_is_refused(self, scene: Scene, driver: InstanceDriver) -> None:
        described = driver.list_flavours()
        for needs in (
            {"amounts": {"gpus": 9, "memory_mb": 64_000}},
            {"amounts": {"memory_mb": 900_000_000}},
            {"amounts": {"disk_gb": 900_000_000}},
            {"amounts": {"unicorns": 1}},
            {"labels": {"zone": "nowhere"}},
        ):
            with pytest.raises(RefusedError, match=r"no flavour of 1 cores has all of this: .* lacks .*="):
                driver.start(wanted(**needs))
            missing = find_flavour(described, 1, **{name: needs_of(value) for name, value in needs.items()})
            assert isinstance(missing, str), "its owner can tell that, too"
        assert driver.list_instances() == []

    def test_resources_choose_the_flavour(self, scene: Scene) -> None:
        driver, amounts, labels = scene.equipped()
        flavour = find_flavour(driver.list_flavours(), 4, tuple(amounts.items()), frozenset(labels.items()))
        assert isinstance(flavour, CloudFlavour)
        driver.start(wanted(cores=4, amounts=amounts, labels=labels))
        driver.start(wanted("q-2.1", cores=4))
        scene.settle()
        by_lease = {one.lease: one for one in driver.list_instances()}
        assert scene.has_all(by_lease["q-1.1"].id, amounts)
        assert not scene.has_all(by_lease["q-2.1"].id, amounts)

    def test_wrong_credentials_are_refused(self, scene: Scene, driver: InstanceDriver) -> None:
        driver.start(wanted())
        wrong = scene.driver(secret="wrong")
        for call in (wrong.list_instances, lambda: wrong.start(wanted("q-2.1")), lambda: wrong.end("q-1.1")):
            with pytest.raises(RefusedError):
                call()
        assert len(alive(driver)) == 1

    @pytest.mark.parametrize("fault", list(Fault))
    def test_a_broken_api_is_told_and_nothing_is_believed(
        self, scene: Scene, driver: InstanceDriver, fault: Fault
    ) -> None:
        driver.start(wanted())
        if fault in (Fault.HANGS, Fault.TRICKLES):
            driver = scene.driver(timeout=0.5)
        scene.break_down(fault)
        for call in (
            driver.list_instances,
            lambda: driver.start(wanted("q-2.1")),
            lambda: driver.end("q-1.1"),
            lambda: driver.give_notice("q-1.1", time.time()),
        ):
            with pytest.raises(InstanceError) as told:
                call()
            assert not isinstance(told.value, NoRoomError | RefusedError)
            assert len(str(told.value)) < 500

    def test_a_cloud_that_is_away_is_told(self, scene: Scene, driver: InstanceDriver) -> None:
        driver.start(wanted())
        scene.go_away()
        for call in (
            driver.list_instances,
            lambda: driver.start(wanted("q-2.1")),
            lambda: driver.end("q-1.1"),
        ):
            with pytest.raises(InstanceError) as told:
                call()
            assert not isinstance(told.value, NoRoomError | RefusedError)

    def test_user_data_arrives(self, scene: Scene, driver: InstanceDriver) -> None:
        driver.start(wanted())
        text = "#cloud-config\n# 'ünïcode & <tags> + %20'\n" + "#" * 10_000  # Slurm would run a script
        driver.start(wanted("q-2.1", user_data=text))
        scene.settle()
        by_lease = {one.lease: one.id for one in driver.list_instances()}
        assert scene.user_data(by_lease["q-1.1"]) == "#!/bin/sh\necho from the file\n"
        assert scene.user_data(by_lease["q-2.1"]) == text

    def test_what_its_holder_has_chosen_runs(self, scene: Scene) -> None:
        """The same text of a request on every cloud; without it all is as the operator has it."""
        driver, launch = scene.generous(), Launch.model_validate_json(LAUNCH)
        assert list(driver.rules.find_faults(launch)) == []
        driver.start(wanted(launch=launch))
        driver.start(wanted("q-2.1"))
        driver.start(wanted(launch=launch))
        scene.settle()
        by_lease = {one.lease: one.id for one in driver.list_instances()}
        assert scene.chosen(by_lease["q-1.1"]) == (scene.own_image(), PUBLIC_KEY)
        assert launch.carried["user_data"] in scene.user_data(by_lease["q-1.1"])
        assert "echo from the file" in scene.user_data(by_lease["q-2.1"])
        assert len(scene.keys()) <= 1
        for lease in ("q-1.1", "q-2.1"):
            driver.end(lease)
        scene.settle()
        assert scene.keys() == []

    def test_what_the_operator_does_not_allow_is_refused(self, scene: Scene, driver: InstanceDriver) -> None:
        for chosen in (
            {"image": "debian-12"},
            {"key": PUBLIC_KEY},
            {"tags": {"a": "b"}},
            {"networks": ("n",)},
        ):
            launch = Launch.model_validate(chosen)
            assert list(driver.rules.find_faults(launch))
            with pytest.raises(RefusedError, match="does not allow"):
                driver.start(wanted(launch=launch))
        with pytest.raises(RefusedError, match="no instance of the flavour huge"):
            driver.start(wanted(launch=Launch(instance_type="huge")))
        assert driver.list_instances() == []
        assert scene.keys() == []

    def test_a_cloud_that_is_ready_passes_its_check(self, scene: Scene, driver: InstanceDriver) -> None:
        scene.foreign(4)
        scene.settle()
        before = driver.list_instances()
        results = list(check_cloud(vars(driver)["_options"], driver, (8, 8)))
        assert [result for result in results if result.state is not State.OK] == []
        assert {"access", "own load", "flavours"} <= {result.name for result in results}
        assert "1 instances of 4 cores" in next(one.found for one in results if one.name == "own load")
        assert {one.id for one in driver.list_instances()} == {one.id for one in before}

    def test_wrong_credentials_fail_the_check(self, scene: Scene) -> None:
        driver = scene.driver(secret="wrong")
        (result,) = check_cloud(vars(driver)["_options"], driver, (8, 8))
        assert (result.name, result.state) == ("access", State.FAILURE)
        assert "wrong" not in result.found

    def test_an_unknown_image_fails_the_check(self, scene: Scene) -> None:
        driver = scene.driver(image="ami-00000000000000bad")
        assert any(text.startswith("image: ") for text in list_faults(driver))

    def test_notice_reaches_the_instance(self, scene: Scene, driver: InstanceDriver) -> None:
        driver.start(wanted())
        driver.start(wanted("q-2.1"))
        scene.settle()
        by_lease = {one.lease: one.id for one in driver.list_instances()}
        assert driver.give_notice("q-1.1", 1_782_907_200.0) is True
        assert scene.marks(by_lease["q-1.1"])["spotfed:leaves-at"] == "2026-07-01T12:00:00Z"
        assert "spotfed:leaves-at" not in scene.marks(by_lease["q-2.1"])
        assert driver.give_notice("q-3.1", 1_782_907_200.0) is False
        assert len(alive(driver)) == 1

    def test_an_instance_tells_whose_it_is(self, scene: Scene, driver: InstanceDriver) -> None:
        driver.start(wanted(origin="other-cloud"))
        scene.settle()
        (found,) = driver.list_instances()
        marks = scene.marks(found.id)
        assert marks["spotfed:lease"] == "q-1.1"
        assert marks["spotfed:cloud"] == "A"
        assert marks["spotfed:origin"] == "other-cloud"

    def test_many_instances(self, scene: Scene, driver: InstanceDriver) -> None:
        leases = [f"q-{number}.1" for number in range(30)]
        for lease in leases:
            driver.start(wanted(lease))
        foreign = [scene.foreign(1) for _ in range(10)]
        scene.settle()
        found = driver.list_instances()
        assert sorted(str(one.lease) for one in found if one.lease) == sorted(leases)
        assert sorted(one.id for one in found if one.lease is None) == sorted(foreign)

    def test_many_threads_on_one_driver(self, scene: Scene, driver: InstanceDriver) -> None:
        leases = [f"q-{number}.1" for number in range(8)]

        def live(lease: str) -> None:
            driver.start(wanted(lease))
            assert lease in {one.lease for one in driver.list_instances()}
            driver.end(lease)

        in_threads([partial(live, lease) for lease in leases])
        scene.settle()
        assert [one for one in driver.list_instances() if one.state is not InstanceState.ENDED] == []
