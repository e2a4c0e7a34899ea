"""Own users of a real OpenStack come first: Nova refuses them, spot leaves, and their next try runs."""

from __future__ import annotations

import time
from operator import itemgetter
from pathlib import Path

import pytest
import structlog

from tests.conftest import PROJECT_ROOT
from tests.deep.openstack.real_openstack import RealOpenStack, wait_for_nova
from tests.deep.openstack.world import World, federation
from tests.support.wait import wait_until

OPENSTACK = PROJECT_ROOT / "deploy" / "openstack"

log = structlog.get_logger(__name__)

pytestmark = [pytest.mark.xdist_group("openstack"), pytest.mark.timeout(1200)]


def print_parts(world: World, refused: str, evicted: list[str]) -> None:
    """Where the seconds went, from Nova's "no valid host" to the end of the last allocation."""
    nova = world.nova
    servers = [world.client.leases.get_instance(lease).own_id for lease in evicted]
    order_s = max(world.logged_at(lease, "ending an instance") for lease in evicted)
    moments = {
        # A server that was listed while it was built has evicted spot before it failed.
        "agent": world.logged_at(refused, "freeing room", "a foreign instance"),
        "owner": order_s,
        "call": max(
            nova.logged_at("nova-api", "wsgi.server", f"DELETE /v2.1/servers/{server}") for server in servers
        ),
        "delete": max(
            nova.logged_at("placement", "requestlog", f"DELETE /allocations/{server}") for server in servers
        ),
    }
    last_s = first_s = nova.logged_at("nova-conductor", "Setting instance to ERROR", refused)
    parts = {}
    for name, at_s in sorted(moments.items(), key=itemgetter(1)):
        parts[name], last_s = round(at_s - last_s, 2), at_s
    log.info("seconds from the failed request to room", **parts, all=round(last_s - first_s, 2))


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
        host = wait_for_nova(nova.empty_host, "there is room on a host")
        log.info("room", after_s=round(time.monotonic() - failed_s, 1), notified=notified, poll=poll)
        server = nova.create("large")
        assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", host)
        evicted = [lease for lease in leases if world.state(lease) == "evicted"]
        assert evicted == [lease for lease in leases if hosts[lease] == host], "one host was cleared, once"
        print_parts(world, failed["id"], evicted)
        # It is counted where it runs, and leaves room when it goes.
        wait_until(lambda: world.own_cores() == 8, "it is counted")
        wait_for_nova(lambda: set(world.hosts()) == set(leases) - set(evicted), "the others run on")


def test_memory_is_freed_too_where_it_is_short(nova: RealOpenStack, tmp_path: Path, redis_url: str) -> None:
    nova.make_flavor("heavy", cores=1, memory_mb=6144)
    with federation(nova, tmp_path, redis_url, "60s", notified=True) as world:
        leases = world.fill(4, 4, 4, 2)
        hosts = world.hosts()
        # Each host has cores left, and none has the memory.
        failed = nova.create("heavy")
        assert failed["status"] == "ERROR"
        host = wait_for_nova(lambda: nova.host_with(6144), "there is memory on a host")
        server = nova.create("heavy")
        assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", host)
        evicted = [lease for lease in leases if world.state(lease) == "evicted"]
        assert evicted
        assert {hosts[lease] for lease in evicted} == {host}


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
        wait_for_nova(lambda: set(world.hosts()) == set(leases) - set(there), "the host is its own")
        log.info("the host is its own", after_s=round(time.monotonic() - begun_s, 1))
        assert [lease for lease in leases if world.state(lease) == "evicted"] == there
        # The other host still holds spot, which leaves for the next one; then the cloud is really full.
        assert nova.create("large")["status"] == "ACTIVE"
        wait_for_nova(lambda: not world.hosts(), "all spot has left")
        assert nova.create("large")["status"] == "ERROR"


def test_a_server_that_found_no_host_can_only_be_made_anew(nova: RealOpenStack) -> None:
    nova.clear()
    servers = [nova.create("large") for _ in range(3)]
    assert [server["status"] for server in servers] == ["ACTIVE", "ACTIVE", "ERROR"]
    rebuilt = nova.call("POST", f"/servers/{servers[-1]['id']}/action", {"rebuild": {"imageRef": nova.image}})
    assert rebuilt.status_code == 409, rebuilt.text
    nova.clear()
