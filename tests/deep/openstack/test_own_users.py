"""Own users of a real OpenStack come first: Nova refuses them, spot leaves, and their next try runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog

from broker.client import Client, GrantedRequest
from broker.contract import SpotRequest
from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList, wall_time
from tests.conftest import PROJECT_ROOT
from tests.deep.openstack.real_openstack import PASSWORD, SIZES, RealOpenStack, real_openstack
from tests.support.ports import free_port
from tests.support.wait import wait_until

OPENSTACK = PROJECT_ROOT / "deploy" / "openstack"

log = structlog.get_logger(__name__)

pytestmark = [pytest.mark.xdist_group("openstack"), pytest.mark.timeout(1200)]

FEDERATION = """
[[cloud]]
id = "real"
nodes = [
    {{ count = 1, cores = 8, labels = {{ host = "fake-1" }} }},
    {{ count = 1, cores = 8, labels = {{ host = "fake-2" }} }},
]

[cloud.instances]
driver = "openstack"
endpoint = "{keystone}"
project = "admin"
image = "{image}"
sizes = {{ {sizes} }}
all_users = true
poll = "{poll}"
"""


@dataclass
class World:
    """A federation of one real cloud."""

    client: Client
    nova: RealOpenStack

    def lease(self, cores: int) -> str:
        answer = self.client.requests.submit(SpotRequest(origin="guest", cores=cores, lifetime_s=3600))
        assert isinstance(answer, GrantedRequest), answer
        return answer.lease.id

    def hosts(self) -> dict[str, str]:
        """The hosts on which instances of leases run, by lease."""
        return {
            server["metadata"]["spotfed:lease"]: server["OS-EXT-SRV-ATTR:host"]
            for server in self.nova.servers()
            if server["status"] == "ACTIVE" and "spotfed:lease" in server["metadata"]
        }

    def fill(self, *cores: int) -> list[str]:
        """Leases that run as instances."""
        leases = [self.lease(each) for each in cores]
        wait_until(lambda: set(self.hosts()) == set(leases), "all leases have instances", limit_s=180)
        return leases

    def own_cores(self) -> int | None:
        """Cores that the owner counts for own users and what was freed for them."""
        advert = self.client.clouds.get("real").advert
        return None if advert is None else advert.on_demand_cores

    def state(self, lease: str) -> str:
        return str(self.client.leases.get(lease).state.value)


@pytest.fixture(scope="module")
def nova() -> Iterator[RealOpenStack]:
    with real_openstack() as cloud:
        yield cloud


@contextmanager
def federation(
    nova: RealOpenStack, directory: Path, redis_url: str, poll: str, *, notified: bool
) -> Iterator[World]:
    nova.clear()
    sizes = ", ".join(f'{cores} = "{name}"' for cores, name in SIZES.items())
    file = directory / "federation.toml"
    file.write_text(FEDERATION.format(keystone=nova.keystone, image=nova.image, sizes=sizes, poll=poll))
    options = wall_time(speed=1, history="1h", samples=10, seed=0)
    layout = ProcessList(file, ("real",), options, 0, port=free_port(), instanced=("real",))
    told = {"SPOTFED_CLOUD_USER": "admin", "SPOTFED_CLOUD_SECRET": PASSWORD}
    if notified:
        told["SPOTFED_CLOUD_NOTIFICATIONS"] = nova.notifications
    prefix = f"o{os.getpid()}{'n' if notified else ''}:"
    local = LocalFederation(layout, directory / "state", redis_url, prefix, forget=True, environment=told)
    with local, local.client() as client:
        yield World(client, nova)
    nova.clear()


@pytest.mark.parametrize(("poll", "notified"), [("60s", True), ("2s", False)])
def test_an_own_user_who_was_refused_finds_room(
    nova: RealOpenStack, tmp_path: Path, redis_url: str, poll: str, notified: bool
) -> None:
    with federation(nova, tmp_path, redis_url, poll, notified=notified) as world:
        leases = world.fill(4, 4, 4, 2)
        hosts = world.hosts()
        assert sorted(hosts.values()).count("fake-1") == 2, "an instance runs on the host of its lease's node"
        assert nova.empty_host() is None
        failed = nova.create("large")
        assert failed["status"] == "ERROR"
        failed_s = time.monotonic()
        host = wait_until(nova.empty_host, "there is room on a host")
        log.info("room", after_s=round(time.monotonic() - failed_s, 1), notified=notified, poll=poll)
        server = nova.create("large")
        assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", host)
        evicted = [lease for lease in leases if world.state(lease) == "evicted"]
        assert evicted == [lease for lease in leases if hosts[lease] == host], "one host was cleared, once"
        # It is counted where it runs, and leaves room when it goes.
        wait_until(lambda: world.own_cores() == 8, "it is counted")
        wait_until(lambda: set(world.hosts()) == set(leases) - set(evicted), "the others run on")


def test_with_filter_and_weigher_the_request_itself_runs(
    nova: RealOpenStack, tmp_path: Path, redis_url: str
) -> None:
    readme = (OPENSTACK / "README.md").read_text()
    configuration = "\n".join(line.strip() for line in readme.partition("```ini")[2].splitlines())
    configuration = configuration.partition("```")[0].replace(
        "ID-OF-THE-PROJECT-THAT-HOLDS-INSTANCES-OF-LEASES", nova.project
    )
    with (
        nova.scheduler_with(configuration, OPENSTACK),
        federation(nova, tmp_path, redis_url, "60s", notified=True) as world,
    ):
        leases = world.fill(4, 4, 4, 2)
        hosts = world.hosts()
        begun_s = time.monotonic()
        server = nova.create("large")
        assert server["status"] == "ACTIVE", server.get("fault")
        log.info("it runs, no failure seen", after_s=round(time.monotonic() - begun_s, 1))
        host = server["OS-EXT-SRV-ATTR:host"]
        assert host == hosts[leases[-1]], "the host where the fewest cores have to leave"
        there = [lease for lease in leases if hosts[lease] == host]
        wait_until(lambda: set(world.hosts()) == set(leases) - set(there), "the host is its own")
        log.info("the host is its own", after_s=round(time.monotonic() - begun_s, 1))
        assert [lease for lease in leases if world.state(lease) == "evicted"] == there
        # The other host still holds spot, which leaves for the next one; then the cloud is really full.
        assert nova.create("large")["status"] == "ACTIVE"
        wait_until(lambda: not world.hosts(), "all spot has left")
        assert nova.create("large")["status"] == "ERROR"


def test_a_server_that_found_no_host_can_only_be_made_anew(nova: RealOpenStack) -> None:
    nova.clear()
    servers = [nova.create("large") for _ in range(3)]
    assert [server["status"] for server in servers] == ["ACTIVE", "ACTIVE", "ERROR"]
    rebuilt = nova.call("POST", f"/servers/{servers[-1]['id']}/action", {"rebuild": {"imageRef": nova.image}})
    assert rebuilt.status_code == 409, rebuilt.text
    nova.clear()
