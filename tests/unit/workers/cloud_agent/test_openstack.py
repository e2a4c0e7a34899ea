"""The driver of OpenStack, against a server of ours that speaks Keystone's and Nova's API over HTTP."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from broker.contract.launch import Launch
from cloudsim.model.errors import SpecError
from cloudsim.model.nodes import NodeGroup, nodes_of
from tests.unit.broker.contract.public_key import PUBLIC_KEY
from tests.unit.workers.cloud_agent.exam import GENEROUS, PREFIX, Fault, InstanceDriverExam, alive, wanted
from tests.unit.workers.cloud_agent.faults import Broken, served
from tests.unit.workers.cloud_agent.nova_server import (
    APPLICATION_CREDENTIAL,
    FLAVORS,
    IMAGE,
    NAMED_IMAGE,
    PROJECT,
    SECRET,
    USER,
    NovaServer,
)
from workers.cloud_agent.check import check_cloud, list_faults
from workers.cloud_agent.drivers import make_driver, read_options
from workers.cloud_agent.drivers.base import (
    CloudHost,
    InstanceDriver,
    InstanceState,
    NoRoomError,
    RefusedError,
)
from workers.cloud_agent.drivers.openstack import OpenStackDriver

_SIZES = {cores: name for name, (_, cores) in FLAVORS.items()}


class NovaScene:
    """A cloud "A" whose leases are servers of one project; other users have other projects."""

    def __init__(
        self, nova: NovaServer, broken: Broken, url: str, go_away: Callable[[], None], directory: Path
    ):
        self.nova = nova
        self.url = url
        self.go_away = go_away
        self.settle = nova.settle
        self.user_data = nova.user_data
        self._broken = broken
        self._directory = directory
        (directory / "start.sh").write_text("#!/bin/sh\necho from the file\n")
        (directory / "prefix.sh").write_text(PREFIX.format(directory=directory))

    def driver(self, **changes: Any) -> InstanceDriver:
        cloud, secret, user = (
            changes.pop("cloud", "A"),
            changes.pop("secret", SECRET),
            changes.pop("user", USER),
        )
        table = {
            "driver": "openstack", "endpoint": f"{self.url}/identity/v3", "region": "here",
            "interface": "internal", "project": PROJECT, "image": IMAGE, "all_users": True,
            "sizes": {str(cores): name for cores, name in _SIZES.items()}, "user_data": "start.sh",
            "allow": {"user_data": True}, **changes,
        }  # fmt: skip
        told = {name: value for name, value in table.items() if value is not None}
        return make_driver(read_options(told, "cloud[0].instances", self._directory), cloud, user, secret)

    def foreign(self, cores: int, marks: dict[str, str] | None = None) -> str:
        flavor = FLAVORS[_SIZES[cores]][0]
        return self.nova.add(
            "others", {"name": "vm", "flavorRef": flavor, "imageRef": IMAGE, "metadata": marks or {}}
        )

    def copy(self, name: str) -> str:
        server = self.nova.servers[name]
        flavor = FLAVORS[server["flavor"]["original_name"]][0]
        asked = {
            "name": server["name"],
            "flavorRef": flavor,
            "imageRef": IMAGE,
            "metadata": server["metadata"],
        }
        return self.nova.add(PROJECT, asked)

    def take_back(self, name: str) -> None:
        del self.nova.servers[name]

    def equipped(self) -> tuple[InstanceDriver, dict[str, int], dict[str, str]]:
        amounts = {"disk_gb": 100, "fpga": 2, "gpus": 2, "memory_mb": 64_000}
        labels = {"zone": "north", "HW_CPU_X86_AVX2": "required"}
        return self.driver(allow={"sizes": ["g*.large"]}), amounts, labels

    def generous(self) -> InstanceDriver:
        return self.driver(allow={**GENEROUS, "images": {"debian-*": "Debian 12"}})

    def chosen(self, name: str) -> tuple[str, str]:
        server = self.nova.servers[name]
        return server["_image"], self.nova.keys[server["key_name"]]

    def own_image(self) -> str:
        return NAMED_IMAGE

    def keys(self) -> list[str]:
        return list(self.nova.keys)

    def has_all(self, name: str, amounts: dict[str, int]) -> bool:
        return bool(self.nova.servers[name]["flavor"]["original_name"] == "g1.large")

    def fill(self) -> None:
        self.nova.full = True

    def break_down(self, fault: Fault) -> None:
        self._broken.fault = fault

    def marks(self, name: str) -> dict[str, str]:
        return dict(self.nova.servers[name]["metadata"])


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[NovaScene]:
    nova = NovaServer()
    broken = Broken(nova)
    with served(broken) as (url, go_away):
        yield NovaScene(nova, broken, url, go_away, tmp_path)


@pytest.fixture
def driver(scene: NovaScene) -> InstanceDriver:
    return scene.driver()


class TestExam(InstanceDriverExam):
    @pytest.fixture
    def scene(self, scene: NovaScene) -> NovaScene:
        return scene


def test_a_token_that_has_expired_is_renewed(scene: NovaScene, driver: InstanceDriver) -> None:
    driver.start(wanted())
    before = set(scene.nova.tokens)
    for token in before:
        scene.nova.tokens[token] = (PROJECT, 0.0)
    assert len(alive(driver)) == 1
    assert len(set(scene.nova.tokens) - before) == 1


def test_one_token_serves_many_calls(scene: NovaScene, driver: InstanceDriver) -> None:
    for _ in range(5):
        driver.list_instances()
    assert len(scene.nova.tokens) == 1


def test_an_application_credential_is_of_its_project(scene: NovaScene) -> None:
    driver = scene.driver(application_credential=True, project=None, user=APPLICATION_CREDENTIAL)
    driver.start(wanted())
    assert [server["tenant_id"] for server in scene.nova.servers.values()] == [PROJECT]


def test_servers_of_all_projects_are_an_administrators(scene: NovaScene) -> None:
    scene.nova.admins = set()
    scene.foreign(1)
    with pytest.raises(RefusedError, match="get_all_tenants"):
        scene.driver().list_instances()
    assert scene.driver(all_users=False).list_instances() == []


def test_a_region_that_the_catalog_does_not_have(scene: NovaScene) -> None:
    with pytest.raises(RefusedError, match="no internal endpoint of the service compute in nowhere"):
        scene.driver(region="nowhere").list_instances()


def test_a_quota_is_a_refusal_and_free_cores_are_what_it_leaves(
    scene: NovaScene, driver: InstanceDriver
) -> None:
    assert driver.free_cores() == 200
    for number in range(50):
        scene.nova.add(PROJECT, {"name": f"vm{number}", "flavorRef": "4", "imageRef": IMAGE})
    assert driver.free_cores() == 0
    with pytest.raises(RefusedError, match="Quota exceeded for cores"):
        driver.start(wanted())


def test_room_that_was_freed_is_taken_by_the_next_start(scene: NovaScene, driver: InstanceDriver) -> None:
    scene.fill()
    driver.start(wanted())
    scene.settle()
    (failed,) = driver.list_instances()
    assert failed.why == "No valid host was found. There are not enough hosts available."
    with pytest.raises(NoRoomError, match="No valid host"):
        driver.start(wanted())
    scene.nova.full = False
    driver.start(wanted())
    scene.settle()
    assert len(alive(driver)) == 1


@pytest.mark.parametrize(
    ("status", "launched", "of_a_lease", "foreign"),
    [
        ("SHUTOFF", True, InstanceState.ENDED, InstanceState.RUNNING),
        ("ERROR", True, InstanceState.ENDED, InstanceState.RUNNING),
        ("ERROR", False, InstanceState.ENDED, InstanceState.ENDED),
        ("PAUSED", True, InstanceState.ENDED, InstanceState.RUNNING),
        ("VERIFY_RESIZE", True, InstanceState.RUNNING, InstanceState.RUNNING),
        ("SHELVED_OFFLOADED", True, InstanceState.ENDED, InstanceState.ENDED),
        ("SOFT_DELETED", True, InstanceState.ENDING, InstanceState.ENDING),
    ],
)
def test_what_holds_cores_counts_and_what_does_not_run_is_no_instance_of_a_lease(
    scene: NovaScene,
    driver: InstanceDriver,
    status: str,
    launched: bool,
    of_a_lease: InstanceState,
    foreign: InstanceState,
) -> None:
    driver.start(wanted())
    scene.foreign(1)
    scene.settle()
    for server in scene.nova.servers.values():
        server["status"] = status
        server["OS-SRV-USG:launched_at"] = "2026-07-01T12:00:00.000000" if launched else None
    assert {one.lease: one.state for one in driver.list_instances()} == {"q-1.1": of_a_lease, None: foreign}
    driver.end("q-1.1")
    scene.settle()
    assert [one.lease for one in driver.list_instances()] == [None]


def test_of_servers_that_were_made_at_once_the_eldest_stays(scene: NovaScene, driver: InstanceDriver) -> None:
    """Both looked before the other one's was there."""
    together = threading.Barrier(2)
    add = scene.nova.add

    def late(project: str, asked: dict[str, Any]) -> str:
        scene.nova._lock.release()
        together.wait(60)
        scene.nova._lock.acquire()
        return add(project, asked)

    scene.nova.add = late  # type: ignore[method-assign]
    threads = [threading.Thread(target=scene.driver().start, args=(wanted(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    scene.settle()
    assert len(alive(driver)) == 1


@pytest.mark.parametrize(("image", "found"), [("none", 0), ("twice", 2)])
def test_an_image_of_no_name_or_of_two_is_refused(scene: NovaScene, image: str, found: int) -> None:
    with pytest.raises(RefusedError, match=f"the cloud has {found} images called '{image}'"):
        scene.driver(image=image).start(wanted())


def test_where_an_instance_goes(scene: NovaScene) -> None:
    driver = scene.driver(allow={"networks": {"lab": "1f3b"}, "security_groups": ["ssh-*"], "tags": True})
    launch = Launch(networks=("lab",), security_groups=("ssh-x",), tags={"team": "x"})
    driver.start(wanted(launch=launch))
    (server,) = scene.nova.servers.values()
    assert server["_asked"]["networks"] == [{"uuid": "1f3b"}]
    assert server["_asked"]["security_groups"] == [{"name": "ssh-x"}]
    assert server["metadata"].items() >= {"team": "x", "spotfed:lease": "q-1.1"}.items()


def test_what_a_check_finds_missing(scene: NovaScene) -> None:
    assert list(list_faults(scene.driver())) == []
    scene.nova.networks, scene.nova.image_status = ["1f3b", "2c4d"], "KILLED"
    driver = scene.driver(key_name="me", security_groups=["ssh"])
    *others, key = list_faults(driver)
    assert others == [
        f"image: {IMAGE} is killed",
        "network: the project sees 2 networks",
        "network: there is no security group ssh",
    ]
    assert key.endswith("Keypair me not found for user spotfed")
    assert list(list_faults(scene.driver(networks=["none"])))[1:] == [
        "network: the project sees no network none"
    ]
    options = vars(scene.driver(sizes={"1": "m1.small", "2": "m1.none"}, all_users=False))["_options"]
    results = check_cloud(options, scene.driver(sizes={"1": "m1.small", "2": "m1.none"}), (500,))
    found = {result.name: (result.state, result.found) for result in results if result.state != "ok"}
    assert found["flavours"] == ("failure", "the cloud has no m1.none")
    assert found["own load"][0] == "warning"
    assert found["room"] == ("warning", "the cloud gives 200 cores more, and the file has nodes of 500")


NODES = [NodeGroup(1, 8, (("disk_gb", 90), ("memory_mb", 15_000)), frozenset({("host", "n1")}))]


@pytest.mark.parametrize(
    ("nodes", "faults"),
    [
        (NODES, []),
        (
            [replace(NODES[0], labels=frozenset({("host", "n3")}))],
            ["no host that takes servers is called n3"],
        ),
        (
            [replace(NODES[0], cores=17, amounts=(("gpus", 1), ("memory_mb", 15_001)))],
            [
                "n1 has 16 of the 17 cores of its node",
                "n1 has 0 of the 1 gpus of its node",
                "n1 has 15000 of the 15001 memory_mb of its node",
                "nodes have no disk_gb: room is freed for own users without it",
            ],
        ),
        (
            [NodeGroup(2, 8)],
            [
                "nodes name no host: room for own users may be freed on several of them",
                "nodes have no memory_mb: room is freed for own users without it",
                "nodes have no disk_gb: room is freed for own users without it",
            ],
        ),
    ],
)
def test_nodes_are_compared_with_what_placement_gives_away(
    scene: NovaScene, nodes: list[NodeGroup], faults: list[str]
) -> None:
    def inventory(total: int, reserved: int, ratio: float) -> dict[str, Any]:
        return {"total": total, "reserved": reserved, "allocation_ratio": ratio}

    scene.nova.hypervisors["n1"] = {
        "VCPU": inventory(4, 0, 4.0),
        "MEMORY_MB": inventory(16_000, 6_000, 1.5),
        "DISK_GB": inventory(100, 10, 1.0),
    }
    scene.nova.hypervisors["n2"] = {}
    scene.nova.disabled.add("n2")
    assert scene.driver(all_users=False).list_hosts() == []
    amounts = (("disk_gb", 90), ("memory_mb", 15_000))
    assert scene.driver().list_hosts() == [CloudHost("n1", 16, amounts)]
    found = list(list_faults(scene.driver(), *nodes_of(nodes)))
    assert found == ([f"hosts: {'; '.join(faults)}"] if faults else [])


def test_a_foreign_server_tells_what_it_takes_and_where_it_may_be(scene: NovaScene) -> None:
    name = scene.foreign(4)
    flavor = scene.nova.servers[name]["flavor"]
    flavor |= {"ram": 8192, "ephemeral": 60, "extra_specs": {"aggregate_instance_extra_specs:zone": "north"}}
    scene.nova.servers[name]["OS-EXT-AZ:availability_zone"] = "az-1"
    (found,) = scene.driver().list_instances()
    assert found.amounts == (("disk_gb", 80), ("memory_mb", 8192))
    assert found.labels == {("zone", "north"), ("availability_zone", "az-1")}


def test_an_own_user_for_whom_there_was_no_host_is_told_with_the_time(
    scene: NovaScene, driver: InstanceDriver
) -> None:
    """A list of servers does not say why one failed; each is asked once."""
    scene.fill()
    name = scene.foreign(4)
    scene.settle()
    before = time.time()
    for _ in range(3):
        (found,) = driver.list_instances()
        assert (found.id, found.state, found.cores) == (name, InstanceState.ENDED, 4)
        assert found.no_room_at is not None
        assert abs(found.no_room_at - before) < 60
        assert found.account == "others"
    assert scene.nova.shown == 1
    scene.nova.servers[name]["fault"] = {"code": 500, "created": "2026-01-01T00:00:00Z", "message": "Broken"}
    (found,) = scene.driver().list_instances()
    assert (found.no_room_at, found.why) == (None, "Broken")


def test_an_instance_starts_on_the_host_that_it_must_run_on(scene: NovaScene, driver: InstanceDriver) -> None:
    driver.start(wanted(host="n1"))
    scene.driver(zone="north").start(wanted("q-2.1", host="n2"))
    scene.driver(zone="north").start(wanted("q-3.1"))
    zones = {server["metadata"]["spotfed:lease"]: server["_zone"] for server in scene.nova.servers.values()}
    assert zones == {"q-1.1": ":n1", "q-2.1": "north:n2", "q-3.1": "north"}
    scene.settle()
    assert {one.lease: one.host for one in driver.list_instances()}["q-2.1"] == "n2"


def test_a_copy_that_is_made_before_the_instance_is_marked_is_not_marked(
    scene: NovaScene, driver: InstanceDriver
) -> None:
    driver.start(wanted())
    (ours,) = scene.nova.servers
    scene.nova.servers[ours]["created"] = "2026-01-01T00:00:00Z"
    copy = scene.copy(ours)
    scene.settle()
    driver.list_instances()
    assert scene.marks(ours)["spotfed:instance"] == ours
    assert "spotfed:instance" not in scene.marks(copy)


OVERFLOW = {"lifetime": "6h", "images": {IMAGE: "debian-12"}}


def fail(scene: NovaScene, **asked: Any) -> str:
    """A server of another project that finds no host."""
    scene.fill()
    server = {"name": "vm", "flavorRef": FLAVORS["m1.large"][0], "imageRef": IMAGE, **asked}
    name = scene.nova.add("others", server)
    scene.settle()
    return name


def overflow_driver(scene: NovaScene, **changes: Any) -> OpenStackDriver:
    driver = scene.driver(overflow={**OVERFLOW, **changes})
    assert isinstance(driver, OpenStackDriver)
    return driver


def test_what_a_failed_server_asks_of_other_clouds(scene: NovaScene) -> None:
    scene.nova.keys["theirs"] = PUBLIC_KEY
    script = "#!/bin/sh\necho s3cret\n"
    name = fail(scene, key_name="theirs", user_data=base64.b64encode(script.encode()).decode())
    terms = overflow_driver(scene).read_overflow(name)
    assert terms is not None
    assert (terms.lifetime_s, terms.resources) == (6 * 3600.0, {"memory_mb": 2048, "disk_gb": 20})
    assert terms.launch == Launch(image="debian-12", key=PUBLIC_KEY, user_data=SecretStr(script))
    plain = overflow_driver(scene, resources=["gpus"], images={"Debian 12": "debian-12"})
    named = plain.read_overflow(fail(scene, imageRef=NAMED_IMAGE, flavorRef="9"))
    assert named is not None
    assert (named.resources, named.launch) == ({"gpus": 2}, Launch(image="debian-12"))


def test_a_user_says_for_how_long_or_that_it_stays(scene: NovaScene) -> None:
    def lifetime_s(driver: OpenStackDriver, **metadata: str) -> float | None:
        terms = driver.read_overflow(fail(scene, metadata=metadata))
        return None if terms is None else terms.lifetime_s

    driver = overflow_driver(scene)
    assert lifetime_s(driver, **{"spotfed:overflow": "90m"}) == 5400.0
    assert lifetime_s(driver, **{"spotfed:overflow": "no"}) is None
    with pytest.raises(RefusedError, match="its metadata"):
        lifetime_s(driver, **{"spotfed:overflow": "soon"})
    asked_only = overflow_driver(scene, lifetime=None)
    assert lifetime_s(asked_only) is None
    assert lifetime_s(asked_only, **{"spotfed:overflow": "2h"}) == 7200.0


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"imageRef": NAMED_IMAGE}, "images has no word for"),
        ({"imageRef": ""}, "images has no word for a volume"),
        ({"user_data": "H4sIAAAAAAAA/w=="}, "its user data are no text"),
        ({"user_data": base64.b64encode(b"x" * 13_000).decode()}, "user_data: should be text of at most"),
    ],
)
def test_what_other_clouds_would_not_understand_stays(
    scene: NovaScene, asked: dict[str, str], why: str
) -> None:
    name = fail(scene)
    scene.nova.servers[name]["_image"] = asked.get("imageRef", IMAGE)
    scene.nova.servers[name]["_user_data"] = asked.get("user_data", "")
    with pytest.raises(RefusedError, match=why) as raised:
        overflow_driver(scene).read_overflow(name)
    assert "xxx" not in str(raised.value)


def test_only_an_administrator_sees_what_a_request_asked_for(scene: NovaScene) -> None:
    name = fail(scene)
    driver = overflow_driver(scene)
    scene.nova.admins = set()
    scene.nova.servers[name]["tenant_id"] = PROJECT
    with pytest.raises(RefusedError, match="administrator"):
        driver.read_overflow(name)


def test_a_user_is_told_in_the_description_of_the_failed_server(scene: NovaScene) -> None:
    driver = overflow_driver(scene)
    own, none, long = (
        fail(scene, description="my web server"),
        fail(scene),
        fail(scene, description="x" * 255),
    )
    for name in (own, none, long, "gone"):
        for text in ("offered to other clouds", "runs on B as lease L"):
            driver.tell_user(name, text)
    told = [scene.nova.servers[name]["description"] for name in (own, none, long)]
    assert told[:2] == ["my web server [spotfed] runs on B as lease L", "[spotfed] runs on B as lease L"]
    assert told[2].endswith("xxx [spotfed] runs on B as lease L")


def test_a_check_looks_at_the_images_that_other_clouds_have(scene: NovaScene) -> None:
    driver = overflow_driver(scene, images={"Debian 13": "debian-13"})
    assert list(list_faults(driver)) == ["image: the cloud has 0 images called 'Debian 13'"]


def test_what_is_sold_on_demand_is_in_a_project_of_its_own(scene: NovaScene) -> None:
    """Nova's filter takes instances of leases for spot by their project."""
    driver = scene.driver(on_demand_project="sold")
    driver.start(wanted())
    for _ in range(2):
        driver.start(wanted("B:vm-1", is_preemptible=False))
    scene.settle()
    projects = {one["metadata"]["spotfed:lease"]: one["tenant_id"] for one in scene.nova.servers.values()}
    assert projects == {"q-1.1": PROJECT, "B:vm-1": "sold"}
    for listing in (driver, scene.driver(on_demand_project="sold", all_users=False)):
        assert sorted(one.lease or "" for one in listing.list_instances()) == ["B:vm-1", "q-1.1"]
    assert all(scene.marks(name)["spotfed:instance"] == name for name in scene.nova.servers)
    driver.end("B:vm-1")
    scene.settle()
    assert [one.lease for one in driver.list_instances()] == ["q-1.1"]


def test_an_application_credential_is_of_one_project_alone(scene: NovaScene) -> None:
    with pytest.raises(SpecError, match="application credential") as raised:
        scene.driver(application_credential=True, project=None, on_demand_project="sold")
    assert raised.value.field == "cloud[0].instances.application_credential"
