"""What is told of the instances of a real cloud, and what its own users cannot ask for here."""

from __future__ import annotations

import httpx
import pytest

from broker.client import Client, NotFoundError
from broker.contract import SpotRequest
from broker.contract.instances import InstanceRecord
from tests.contract.harness import KEY, Federation, Run
from tests.contract.test_requests import problem


def test_a_holder_finds_the_instance_of_its_lease(federation: Federation) -> None:
    federation.join("east").tell(instances="ec2")
    with Client(federation.url, KEY) as client:
        lease = client.requests.submit(SpotRequest(cores=1, lifetime_s=60)).lease.id  # type: ignore[union-attr]
        with pytest.raises(NotFoundError, match="there is no such instance"):
            client.leases.get_instance(lease)
        record = InstanceRecord(
            lease=lease, own_id="i-1", state="running", since=1.0, addresses=("192.0.2.1", "10.0.0.1")
        )
        federation.redis.hset(federation.keys.instances("east"), lease, record.model_dump_json())
        assert client.leases.get_instance(lease) == record
        with pytest.raises(NotFoundError, match="there is no such lease"):
            client.leases.get_instance("nobody.1")


def test_so_does_the_command_line(federation: Federation, api: httpx.Client, spotfed: Run) -> None:
    federation.join("east").tell(instances="ec2")
    lease = api.post("/v1/requests", json={"id": "r", "cores": 1, "lifetime_s": 60}).json()["lease"]["id"]
    code, _, err = spotfed("instance", lease)
    assert (code, "there is no such instance" in err) == (2, True)
    record = InstanceRecord(lease=lease, since=1.0, why="no room")
    key = federation.keys.instances("east")
    federation.redis.hset(key, lease, record.model_dump_json())
    code, out, _ = spotfed("instance", lease)
    assert code == 0
    assert out.startswith(f"{lease}: no instance yet, asked for ")
    assert "why: no room" in out
    told = {"own_id": "i-1", "state": "running", "why": None, "addresses": ("192.0.2.1", "10.0.0.1")}
    federation.redis.hset(key, lease, record.model_copy(update=told).model_dump_json())
    assert "addresses: 192.0.2.1, 10.0.0.1" in spotfed("instance", lease)[1]
    assert '"own_id": "i-1"' in spotfed("instance", lease, "--json")[1]


def test_own_users_of_a_real_cloud_call_it_themselves(federation: Federation, api: httpx.Client) -> None:
    federation.join("east").tell(instances="ec2")
    for body in ({"cores": 1}, {"requests": [{"id": "a", "cores": 1}], "all_or_nothing": True}):
        refused = api.post("/v1/clouds/east/on-demand", json=body)
        told = problem(refused, "invalid")
        assert "its users call it themselves" in told["errors"][0]["message"]
    assert api.get("/v1/clouds/east").json()["info"]["instances"] == "ec2"
