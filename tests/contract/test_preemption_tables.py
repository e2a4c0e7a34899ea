"""Tables 3 to 6 of the preemption paper (P5 §4.4) through a live cloud: its instances come over HTTP in the
order of their age, each to its host, then the request that finds no room."""

import httpx
import pytest

from cloudsim.experiments.preemption.tables import CORES, MEMORY, MEMORY_MB, SIZES, TESTS
from cloudsim.model.nodes import NodeGroup, nodes_of
from cloudsim.scheduling.lineups import PARTIAL_HOUR
from tests.contract.harness import Federation

NOW_S = 600 * 60.0


@pytest.mark.parametrize("table", TESTS)
def test_the_paper_s_victims_leave(federation: Federation, api: httpx.Client, table: str) -> None:
    test = TESTS[table]
    cores, details = nodes_of(
        [NodeGroup(1, CORES, ((MEMORY, MEMORY_MB),), frozenset({("host", host)})) for host in test.hosts]
    )
    clock = [0.0]
    owner = federation.join("testbed", cores, details=details, lineup=PARTIAL_HOUR, clock=lambda: clock[0])
    instances = sorted(
        (-float(minutes), host, name, size)
        for host, printed in test.hosts.items()
        for name, minutes, size in (one.split() for one in printed.split(", "))
    )
    for minutes, host, name, size in instances:
        clock[0] = NOW_S + 60.0 * minutes
        needs = {"cores": SIZES[size][0], "resources": {MEMORY: SIZES[size][1]}, "labels": {"host": host}}
        if name[1] == "P":
            answer = api.post("/v1/requests", json={"id": name, "lifetime_s": 1e6, **needs})
        else:
            answer = api.post("/v1/clouds/testbed/on-demand", json={"id": name, **needs})
        assert answer.status_code == 201, answer.text
    clock[0] = NOW_S
    cores_wanted, memory_mb = SIZES[test.size]
    wish = {"id": "new", "cores": cores_wanted, "resources": {MEMORY: memory_mb}}
    assert api.post("/v1/clouds/testbed/on-demand", json=wish).status_code == 201
    leases = api.get("/v1/leases", params={"state": "evicted"}).json()["leases"]
    assert sorted(one["request"] for one in leases) == sorted(test.victims)
    owner.owner.validate()
