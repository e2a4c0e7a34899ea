"""Two clouds that speak OpenStack lend each other room: all processes real."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker.client import Client, GrantedRequest
from broker.contract import Launch, OnDemandRequest
from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList, wall_time
from broker.schemas.api_keys import KeyWish
from broker.schemas.members import MemberWish
from tests.integration.test_local import free_port
from tests.support.wait import wait_until
from tests.unit.broker.contract.public_key import PUBLIC_KEY
from tests.unit.workers.cloud_agent.faults import Broken, served
from tests.unit.workers.cloud_agent.nova_server import (
    IMAGE,
    NAMED_IMAGE,
    PROJECT,
    SECRET,
    USER,
    NovaServer,
)

pytestmark = pytest.mark.xdist_group("federation")

INSTANCES = """
[cloud.instances]
driver = "openstack"
endpoint = "{url}/identity/v3"
region = "here"
interface = "internal"
project = "{project}"
image = "{image}"
sizes = {{ 1 = "m1.small", 4 = "m1.large" }}
all_users = true
poll = "0.5s"
"""
HOME = f"""
[[cloud]]
id = "home"
nodes = "1x4"
overflow = true
spot_usd_per_core_hour = 0.01
on_demand_usd_per_core_hour = 0.05
{INSTANCES}
[cloud.instances.overflow]
images = {{{{ "Debian 12" = "debian-12" }}}}
lifetime = "6h"
resources = ["gpus"]
"""
AWAY = f"""
[[cloud]]
id = "away"
nodes = "2x4"
spot_usd_per_core_hour = 0.01
on_demand_usd_per_core_hour = 0.05
sells_on_demand = true
{INSTANCES}
on_demand_project = "sold"

[cloud.instances.allow]
images = {{{{ "debian-*" = "Debian 12" }}}}
keys = true
user_data = true
"""
SCRIPT = "#!/bin/sh\necho s3cret\n"


@dataclass
class World:
    """A federation of both clouds."""

    client: Client
    url: str
    home: NovaServer
    away: NovaServer

    def servers(self) -> list[dict[str, Any]]:
        """What runs away, once all that was begun there has happened."""
        self.away.settle()
        return [server for server in self.away.servers.values() if server["status"] == "ACTIVE"]


@pytest.fixture
def world(tmp_path: Path, redis_url: str) -> Iterator[World]:
    home, away = NovaServer(), NovaServer()
    with served(Broken(home)) as (home_url, _), served(Broken(away)) as (away_url, _):
        file = tmp_path / "federation.toml"
        parts = ((HOME, home_url), (AWAY, away_url))
        file.write_text("".join(part.format(url=url, project=PROJECT, image=IMAGE) for part, url in parts))
        options = wall_time(speed=1, history="1h", samples=10, seed=0)
        clouds = ("home", "away")
        port = free_port()
        layout = ProcessList(file, clouds, options, 0, port=port, instanced=clouds)
        told = {"SPOTFED_CLOUD_USER": USER, "SPOTFED_CLOUD_SECRET": SECRET}
        prefix = f"v{os.getpid()}:"
        local = LocalFederation(layout, tmp_path / "state", redis_url, prefix, forget=True, environment=told)
        with local, local.client() as client:
            yield World(client, f"http://127.0.0.1:{port}", home, away)


def test_what_home_has_no_room_for_runs_away_until_its_user_deletes_it(world: World) -> None:
    home, asked = world.home, {"name": "vm", "flavorRef": "4", "imageRef": NAMED_IMAGE}
    home.add("others", asked)
    home.settle()
    wait_until(lambda: _own_cores(world.client, "home") == 4, "the own user is counted")
    home.full, home.keys["mine"] = True, PUBLIC_KEY
    user_data = base64.b64encode(SCRIPT.encode()).decode()
    failed = home.add("others", asked | {"key_name": "mine", "user_data": user_data})
    home.settle()
    (server,) = wait_until(world.servers, "it runs away")
    assert server["_image"] == NAMED_IMAGE
    assert world.away.user_data(server["id"]) == SCRIPT
    assert world.away.keys[server["key_name"]] == PUBLIC_KEY
    lease = server["metadata"]["spotfed:lease"]
    told = f"[spotfed] runs on away as lease {lease}"
    wait_until(lambda: home.servers[failed]["description"] == told, "its user is told")
    assert world.client.leases.get(lease).origin == "home"
    with home._lock:
        del home.servers[failed]
    wait_until(lambda: not world.servers(), "it is ended")
    assert world.client.leases.get(lease).state == "cancelled"


def test_what_a_member_buys_runs_until_it_stops_it(world: World) -> None:
    wait_until(lambda: world.client.clouds.get("away").advert, "the cloud is there")
    world.client.members.add(MemberWish(name="buyer"))
    key = world.client.api_keys.create(KeyWish(principal="buyer")).key
    wish = OnDemandRequest(id="mine", cores=4, launch=Launch(image="debian-12", user_data=SCRIPT))
    with Client(world.url, key) as buyer:

        def bought() -> bool:
            """Once the agent has described the cloud's sizes to its owner."""
            return isinstance(buyer.on_demand.start("away", wish), GrantedRequest)

        wait_until(bought, "it is sold")
        (server,) = wait_until(world.servers, "it runs")
        assert (server["tenant_id"], server["metadata"]["spotfed:lease"]) == ("sold", "buyer:mine")
        assert world.away.user_data(server["id"]) == SCRIPT
        wait_until(
            lambda: buyer.on_demand.get_instance("away", "buyer:mine").addresses, "its address is shown"
        )
        assert _own_cores(world.client, "away") == 4
        buyer.on_demand.stop("away", "buyer:mine")
        wait_until(lambda: not world.servers(), "it is ended")


def _own_cores(client: Client, cloud: str) -> int | None:
    advert = client.clouds.get(cloud).advert
    return None if advert is None else advert.on_demand_cores
