"""A federation of one real cloud: an OpenStack, its owner, its agent and a client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import structlog

from broker.client import Client, GrantedRequest
from broker.contract import SpotRequest
from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList, wall_time
from tests.deep.openstack.real_openstack import PASSWORD, SIZES, RealOpenStack, wait_for_nova
from tests.support.ports import free_port
from tests.support.wait import wait_until

CREDENTIALS = {"SPOTFED_CLOUD_USER": "admin", "SPOTFED_CLOUD_SECRET": PASSWORD}

log = structlog.get_logger(__name__)

#: Hosts as Placement gives them away.
NODES = """[
    { count = 1, cores = 10, memory_mb = 8192, disk_gb = 1028, labels = { host = "fake-1" } },
    { count = 1, cores = 10, memory_mb = 8192, disk_gb = 1028, labels = { host = "fake-2" } },
]"""

FEDERATION = """
[[cloud]]
id = "real"
nodes = {nodes}
overflow = {overflow}

[cloud.instances]
driver = "openstack"
endpoint = "{keystone}"
project = "admin"
image = "{image}"
sizes = {{ {sizes} }}
all_users = true
poll = "{poll}"
{more}
"""


@dataclass
class World:
    """A federation of one real cloud.

    directory: the state directory of its processes. environment: what the command line needs to reach it.
    """

    client: Client
    nova: RealOpenStack
    directory: Path
    environment: dict[str, str]

    def is_described(self) -> bool:
        """Whether the owner knows the cloud's flavours, without which it promises nothing."""
        request = SpotRequest(origin="guest", cores=1, lifetime_s=60)
        return bool(self.client.requests.quote(request).quotes)

    def lease(self, cores: int) -> str:
        answer = self.client.requests.submit(
            SpotRequest(origin="guest", cores=cores, lifetime_s=3600, targets=("real",))
        )
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
        wait_for_nova(lambda: set(self.hosts()) == set(leases), "all leases have instances")
        return leases

    def own_cores(self) -> int | None:
        """Cores that the owner counts for own users and what was freed for them."""
        advert = self.client.clouds.get("real").advert
        return None if advert is None else advert.on_demand_cores

    def state(self, lease: str) -> str:
        return str(self.client.leases.get(lease).state.value)

    def logged_at(self, name: str, *events: str) -> float:
        """When the agent first logged one of these events of an instance or a lease: seconds since 1970."""
        lines = (self.directory / "logs" / "instances-real.log").read_text().splitlines()
        for line in lines:
            entry = json.loads(line)
            logged = any(event in entry["event"] for event in events)
            if logged and name in (entry.get("instance"), entry.get("lease")):
                return datetime.fromisoformat(entry["timestamp"]).timestamp()
        raise AssertionError(f"the agent did not log {' or '.join(events)} about {name}")


def write_file(
    nova: RealOpenStack, directory: Path, poll: str = "5s", nodes: str = NODES, more: str = ""
) -> Path:
    """A federation file. ``more``: further options of the cloud's instances, and further clouds."""
    sizes = ", ".join(f'{cores} = "{name}"' for cores, name in SIZES.items())
    file = directory / "federation.toml"
    file.write_text(
        FEDERATION.format(
            nodes=nodes,
            overflow=str("instances.overflow" in more).lower(),
            keystone=nova.keystone,
            image=nova.image,
            sizes=sizes,
            poll=poll,
            more=more,
        )
    )
    return file


def run_command(*arguments: str | Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run ``spotfed`` and show what it says."""
    program = Path(sys.executable).parent / "spotfed"
    done = subprocess.run(
        [str(program), *map(str, arguments)], env=os.environ | environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    log.info("$ spotfed", arguments=[str(each) for each in arguments], code=done.returncode)
    log.info(done.stdout + done.stderr)
    return done


@contextmanager
def federation(
    nova: RealOpenStack,
    directory: Path,
    redis_url: str,
    poll: str = "5s",
    *,
    notified: bool,
    more: str = "",
    partners: tuple[str, ...] = (),
) -> Iterator[World]:
    """A federation of that cloud. ``partners``: the other clouds in ``more``, which are real ones, too."""
    nova.clear()
    clouds = ("real", *partners)
    file = write_file(nova, directory, poll, more=more)
    options = wall_time(speed=1, history="1h", samples=10, seed=0)
    layout = ProcessList(file, clouds, options, 0, port=free_port(), instanced=clouds)
    told = dict(CREDENTIALS)
    if notified:
        told["SPOTFED_CLOUD_NOTIFICATIONS"] = nova.notifications
    prefix = f"o{os.getpid()}-{directory.name}:"
    local = LocalFederation(layout, directory / "state", redis_url, prefix, forget=True, environment=told)
    with local, local.client() as client:
        environment = {"SPOTFED_URL": layout.url, "SPOTFED_API_KEY": local.api_key}
        world = World(client, nova, directory / "state", environment)
        wait_until(world.is_described, "the agent has described the cloud's flavours")
        yield world
    nova.clear()
