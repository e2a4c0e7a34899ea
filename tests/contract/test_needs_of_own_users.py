"""Needs beside cores of a cloud's own users, of what overflows, and of a whole federation in trace time."""

from collections.abc import Iterable
from dataclasses import replace

import httpx
import numpy as np

from broker.client import Client
from broker.contract import Event
from broker.journal.journal import Journal
from broker.local.trace_driver import drive
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.model import FederatedCloud, Workload
from cloudsim.federation.model import Federation as SimulatedFederation
from cloudsim.federation.replay import replay
from cloudsim.model.nodes import NodeGroup, nodes_of
from cloudsim.model.requests import Amounts, Spread
from cloudsim.traces.trace import Trace
from tests.contract.harness import KEY, Federation
from tests.contract.test_needs import NORTH, refusals
from tests.contract.test_requests import problem
from tests.support.wait import wait_until

MEMORY: dict[int, Amounts] = {1: (("memory_mb", 2000),), 2: (("memory_mb", 3000),), 4: (("memory_mb", 9000),)}


def test_own_users_evict_for_memory(federation: Federation, api: httpx.Client) -> None:
    cores, details = nodes_of([NodeGroup(1, 8, (("memory_mb", 8000),), NORTH), NodeGroup(1, 8)])
    federation.join("home", cores, details=details)
    wait_until(lambda: api.get("/v1/clouds/home").json()["reachable"])
    wish = {"cores": 1, "lifetime_s": 60, "resources": {"memory_mb": 5000}}
    spot = api.post("/v1/requests", json=wish).json()["lease"]
    own = wish | {"id": "mine", "labels": {"zone": "north"}, "group": "db", "spread": "together"}
    started = api.post("/v1/clouds/home/on-demand", json=own)
    assert (started.status_code, started.json()["lease"]["node"]) == (201, 0)
    assert started.json()["lease"]["amounts"] == {"memory_mb": 5000}
    assert api.get(f"/v1/leases/{spot['id']}").json()["state"] == "evicted"
    assert api.post("/v1/clouds/home/on-demand", json=own).json() == started.json()
    problem(api.post("/v1/clouds/home/on-demand", json=own | {"resources": {"memory_mb": 1}}), "key-reused")
    refused = refusals(api.post("/v1/clouds/home/on-demand", json=wish))["home"]
    assert (refused["reason"], refused["removed"]) == ("no_capacity", {"room": 2})
    assert not refused["eviction_would_help"]
    bad = problem(api.post("/v1/clouds/home/on-demand", json=wish | {"resources": {"m b": 1}}), "invalid")
    assert "memory_mb" in bad["errors"][0]["accepted"]


def test_what_overflows_needs_the_same_elsewhere(federation: Federation, api: httpx.Client) -> None:
    small = nodes_of([NodeGroup(1, 8, (("memory_mb", 4000),))])
    federation.join("home", small[0], details=small[1], overflow=True)
    federation.join("plain", (64,))
    large = nodes_of([NodeGroup(1, 8, (("memory_mb", 16000),))])
    there = federation.join("there", large[0], details=large[1])
    wait_until(lambda: api.get("/v1/clouds/there").json()["reachable"])
    wish = {"cores": 1, "lifetime_s": 600, "resources": {"memory_mb": 3000}}
    assert api.post("/v1/clouds/home/on-demand", json=wish).status_code == 201
    refusals(api.post("/v1/clouds/home/on-demand", json=wish | {"id": "over"}))
    wait_until(lambda: there.running() == ["overflow/home/over/1.1"])
    wait_until(lambda: len(api.get("/v1/leases").json()["leases"]) == 1)
    (lease,) = api.get("/v1/leases").json()["leases"]
    assert (lease["cloud"], lease["amounts"]) == ("there", {"memory_mb": 3000})


def load(name: str, seed: int, count: int) -> Trace:
    random = np.random.default_rng(seed)
    start_s = np.sort(random.integers(0, 4000, count)).astype(float)
    stop_s = start_s + random.integers(0, 900, count)
    cores = random.choice([1, 2, 4], count)
    return Trace.checked(name, [f"{name}-{i}" for i in range(count)], start_s, stop_s, cores)


def test_a_federation_in_trace_time_equals_its_replay(federation: Federation) -> None:
    groups = {
        "a": [NodeGroup(2, 8, (("memory_mb", 16000),), NORTH)],
        "b": [NodeGroup(1, 8, (("memory_mb", 16000),)), NodeGroup(1, 16)],
    }
    clouds = []
    for seed, (cloud, of_nodes) in enumerate(groups.items()):
        cores, details = nodes_of(of_nodes)
        details = replace(details, flavours=tuple(sorted(MEMORY.items())))
        clouds.append(FederatedCloud(CloudSpec(cloud, cores, details), cloud, load(cloud, seed, 80)))
    workloads = (
        Workload("a", load("wa", 7, 60), 100.0, None, ("b",), group="web", spread=Spread.APART),
        Workload("b", load("wb", 8, 60), 50.0, None, ("a", "b"), labels=NORTH),
    )
    simulated = SimulatedFederation(tuple(clouds), workloads, flavours=MEMORY)
    for member in simulated.clouds:
        federation.join(
            member.spec.id, member.spec.node_cores, details=member.spec.details, trace_time=True,
            own_load=member.own_load, own_load_until_s=simulated.ends_s,
        )  # fmt: skip

    def journal(cloud: str) -> Iterable[Event]:
        with federation.redis as client:
            return [event for _, event in Journal(client, federation.keys, cloud).read()]

    with Client(federation.url, KEY) as client:
        live = drive(simulated, client, journal)
    expected = replay(simulated, seed=1, births=10)
    assert live == expected
    assert expected["total"]["evicted"] > 0
    assert expected["clouds"]["b"]["refusals"]["no_such_node"] > 0
    assert expected["clouds"]["a"]["on_demand"]["admitted"] < expected["clouds"]["a"]["on_demand"]["requests"]
