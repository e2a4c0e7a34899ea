"""Leases as instances of a cloud that speaks EC2, whose own users call it directly: all processes real."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker.client import Client, GrantedRequest, NotFoundError, RefusedRequest
from broker.contract import RefusalView, SpotRequest
from broker.contract.instances import InstanceRecord
from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList, wall_time
from broker.storage.connections import connect
from tests.support.ports import free_port
from tests.support.wait import wait_until
from tests.unit.workers.cloud_agent.ec2_server import IMAGE, REGION, Ec2Scene, ec2_scene, error

pytestmark = pytest.mark.xdist_group("federation")

FEDERATION = """
[[cloud]]
id = "real"
nodes = "2x4"

[cloud.instances]
driver = "ec2"
endpoint = "{url}"
region = "{region}"
image = "{image}"
sizes = {{ 1 = "t2.micro", 4 = "m5.xlarge" }}
poll = "0.5s"
"""


@dataclass
class World:
    """A federation of one real cloud."""

    local: LocalFederation
    client: Client
    ec2: Ec2Scene

    def lease(self, name: str, cores: int = 4) -> str:
        answer = self.client.requests.submit(
            SpotRequest(id=name, origin="guest", cores=cores, lifetime_s=3600)
        )
        assert isinstance(answer, GrantedRequest), answer
        return answer.lease.id

    def listed(self, state: str = "running") -> dict[str, dict[str, Any]]:
        """The cloud's instances in that state, by their ids."""
        found = [
            one for part in self.ec2.ec2.describe_instances()["Reservations"] for one in part["Instances"]
        ]
        return {one["InstanceId"]: one for one in found if one["State"]["Name"] == state}

    def running(self, lease: str) -> InstanceRecord | None:
        """What is shown of a lease's instance, once it runs."""
        try:
            record = self.client.leases.get_instance(lease)
        except NotFoundError:
            return None
        return record if record.state == "running" else None

    def runs(self, lease: str) -> InstanceRecord:
        found = wait_until(lambda: self.running(lease), f"{lease} has an instance")
        assert isinstance(found, InstanceRecord)
        return found

    def state(self, lease: str) -> str:
        return str(self.client.leases.get(lease).state.value)


@pytest.fixture
def world(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    cloud = tmp_path / "cloud"
    cloud.mkdir()
    with ec2_scene(cloud, monkeypatch) as ec2:
        file = tmp_path / "federation.toml"
        file.write_text(FEDERATION.format(url=ec2.url, region=REGION, image=IMAGE))
        options = wall_time(speed=60, history="48h", samples=10, seed=0)
        layout = ProcessList(file, ("real",), options, 0, port=free_port(), instanced=("real",))
        told = {"SPOTFED_CLOUD_USER": ec2.user, "SPOTFED_CLOUD_SECRET": ec2.secret}
        local = LocalFederation(
            layout, tmp_path / "state", redis_url, f"i{os.getpid()}:", forget=True, environment=told
        )
        with local, local.client() as client:
            yield World(local, client, ec2)


def test_a_lease_has_an_instance_and_a_foreign_one_evicts_it(world: World) -> None:
    first, second = world.lease("first"), world.lease("second")
    kept, record = world.runs(first), world.runs(second)
    assert record.own_id is not None
    instance = world.listed()[record.own_id]
    assert instance["PrivateIpAddress"] in record.addresses
    assert (instance["InstanceType"], record.cores) == ("m5.xlarge", 4)
    foreign = world.ec2.foreign(4)
    wait_until(lambda: world.state(second) == "evicted", "the younger one is evicted")
    wait_until(lambda: record.own_id not in world.listed(), "its instance is terminated")
    assert set(world.listed()) == {kept.own_id, foreign}
    lease = world.client.leases.get(second)
    assert (lease.cause, world.state(first)) == (f"real/direct-{foreign}", "running")
    told = [(one.event.kind.value, one.event.lease) for one in world.client.events.stream(follow=False)]
    assert told[-1] == ("evicted", lease)
    cloud = world.client.clouds.get("real")
    assert (cloud.info.instances, cloud.info.speed) == ("ec2", 1.0)
    assert cloud.advert is not None
    assert cloud.advert.on_demand_cores == 4
    # It leaves, and its room is sold again.
    world.ec2.take_back(foreign)
    third = wait_until(lambda: _granted(world), "there is room again")
    world.runs(third)
    world.client.leases.cancel(third)
    wait_until(lambda: set(world.listed()) == {kept.own_id}, "a cancelled lease's instance is terminated")


def _granted(world: World) -> str | None:
    answer = world.client.requests.submit(SpotRequest(origin="guest", cores=4, lifetime_s=3600))
    return answer.lease.id if isinstance(answer, GrantedRequest) else None


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_that_ends_doubles_and_loses_nothing(world: World, how: signal.Signals) -> None:
    first = world.lease("first", 1)
    record = world.runs(first)
    foreign = world.ec2.foreign(1)
    before = world.local.pids["instances-real"]
    os.kill(before, how)
    second, leaving = world.lease("second", 1), world.ec2.foreign(1)
    world.ec2.take_back(leaving)
    wait_until(lambda: world.local.pids.get("instances-real", before) != before, "another agent")
    after = world.runs(second)
    assert set(world.listed()) == {record.own_id, after.own_id, foreign}
    # What the cloud takes by itself is evicted, in its own words.
    assert record.own_id is not None
    world.ec2.take_back(record.own_id)
    wait_until(lambda: world.state(first) == "evicted", "the lease is evicted")
    assert (world.client.leases.get(first).cause or "").startswith("taken back: ")
    assert world.state(second) == "running"
    assert set(world.listed()) == {after.own_id, foreign}


def test_nothing_of_others_is_touched_and_an_api_that_is_away_ends_nothing(world: World) -> None:
    lease = world.lease("mine", 1)
    record = world.runs(lease)
    marked = world.ec2.foreign(1, {"other:lease": lease, "Name": lease, "spotfed:cloud": "elsewhere"})
    others = {world.ec2.foreign(1), marked}
    with connect(str(world.local.redis_url)) as client:
        key = world.local.keys.instances("real")
        wait_until(lambda: client.hlen(key) == 3, "they are counted")
        world.ec2.front.given["DescribeInstances"] = error("InternalError", "try again", 500)
        refused = len(world.ec2.front.seen)
        wait_until(lambda: len(world.ec2.front.seen) >= refused + 3, "the agent has asked some times")
        assert world.state(lease) == "running"
        world.ec2.front.given.clear()
        world.client.leases.cancel(lease)
        wait_until(lambda: record.own_id not in world.listed(), "its instance is terminated")
        wait_until(lambda: client.hlen(key) == 2, "and forgotten")
    assert set(world.listed()) == others


def test_what_the_cloud_refuses_fails_with_its_words(world: World) -> None:
    world.ec2.front.given["RunInstances"] = error("InvalidKeyPair.NotFound", "no key pair 'k'", 400)
    refusing = world.lease("odd", 1)
    wait_until(lambda: world.state(refusing) == "failed", "the lease fails")
    assert "no key pair 'k'" in (world.client.leases.get(refusing).cause or "")
    assert world.listed() == {}


def test_what_no_size_has_is_refused_before_it_is_promised(world: World) -> None:
    numbers = itertools.count()

    def ask() -> RefusalView | None:
        """The refusal, once the agent has described the cloud's sizes to its owner."""
        wish = SpotRequest(id=f"odd-{next(numbers)}", origin="guest", cores=2, lifetime_s=3600)
        answer = world.client.requests.submit(wish)
        refusals = answer.refusals if isinstance(answer, RefusedRequest) else []
        return next((refusal for refusal in refusals if refusal.reason == "no_such_flavour"), None)

    refusal = wait_until(ask, "there is no such size")
    assert refusal is not None
    assert refusal.counter_offers.cores == 1
