"""A federation in trace time: over HTTP and Redis it admits and refuses what the replay does."""

from collections.abc import Iterable

import httpx
import numpy as np
import pytest

from broker.client import Client, InputRefusedError
from broker.contract import Event, SpotRequest
from broker.journal.journal import Journal
from broker.local.trace_driver import drive
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.model import FederatedCloud, Workload
from cloudsim.federation.model import Federation as SimulatedFederation
from cloudsim.federation.replay import replay
from cloudsim.traces.trace import Trace
from tests.contract.harness import KEY, Federation
from tests.contract.test_requests import problem


def load(name: str, seed: int, count: int, largest: int) -> Trace:
    random = np.random.default_rng(seed)
    start_s = np.sort(random.integers(0, 4000, count)).astype(float)
    stop_s = start_s + random.integers(0, 900, count)
    return Trace.checked(
        name, [f"{name}-{i}" for i in range(count)], start_s, stop_s, random.integers(1, largest, count)
    )


@pytest.fixture
def simulated() -> SimulatedFederation:
    shapes = {"a": (8, 8), "b": (8, 4), "c": (16,)}
    clouds = tuple(
        FederatedCloud(CloudSpec(cloud, nodes), ",".join(map(str, nodes)), load(cloud, seed, 60, 7))
        for seed, (cloud, nodes) in enumerate(shapes.items())
    )
    workloads = (
        Workload("a", load("wa", 7, 80, 20), 100.0, None, ("b", "c")),
        Workload("c", load("wc", 8, 60, 6), 50.0, None, ("a", "b")),
    )
    return SimulatedFederation(clouds, workloads)


def test_it_equals_the_replay(federation: Federation, simulated: SimulatedFederation) -> None:
    for member in simulated.clouds:
        federation.join(
            member.spec.id,
            member.spec.node_cores,
            trace_time=True,
            own_load=member.own_load,
            own_load_until_s=simulated.ends_s,
        )

    def journal(cloud: str) -> Iterable[Event]:
        with federation.redis as client:
            return [event for _, event in Journal(client, federation.keys, cloud).read()]

    with Client(federation.url, KEY) as client:
        live = drive(simulated, client, journal)
    expected = replay(simulated, seed=1, births=10)
    for cloud in live["clouds"]:
        live["clouds"][cloud]["nodes"] = expected["clouds"][cloud]["nodes"]
    assert live == expected
    assert expected["total"]["evicted"] > 0
    assert expected["origins"]["a"]["refusals"]["too_large"] > 0


def test_a_silent_owner_is_waited_for(federation: Federation, api: httpx.Client) -> None:
    federation.join("a", (8,), trace_time=True)
    b = federation.join("b", (4,), trace_time=True)
    b.go_deaf()
    wish = {"id": "w", "cores": 1, "lifetime_s": 0, "at_s": 5}
    assert "b" in problem(api.post("/v1/requests", json=wish), "owner-silent")["detail"]
    problem(api.post("/v1/requests", json=wish), "in-flight")
    b.hear()
    with Client(federation.url, KEY) as client:
        granted = client.requests.submit(SpotRequest(**wish))
    assert granted.lease.cloud == "b"  # type: ignore[union-attr]


def test_the_time_must_be_told(federation: Federation) -> None:
    federation.join("a", (8,), trace_time=True)
    with Client(federation.url, KEY) as client:
        with pytest.raises(InputRefusedError, match="at_s"):
            client.requests.submit(SpotRequest(cores=1, lifetime_s=5))
        assert client.clouds.finish("a").found
