"""What ``spotfed doctor`` says of real clouds."""

from __future__ import annotations

from broker.contract import CloudInfo
from broker.finding import State
from broker.instance_health import instance_findings
from broker.instances import InstanceRecord


def cloud(name: str, driver: str | None = "ec2") -> CloudInfo:
    return CloudInfo(id=name, order=0, nodes="8", cores=8, largest_node=8, time="wall", instances=driver)


def record(lease: str | None = None, **more: object) -> InstanceRecord:
    return InstanceRecord.model_validate({"lease": lease, "since": 1.0, **more})


def test_nothing_is_said_of_simulated_clouds() -> None:
    assert instance_findings([cloud("a", None)], [], {}) == []


def test_a_missing_agent_is_named_with_how_to_start_it() -> None:
    first, second = instance_findings([cloud("a"), cloud("b")], {"a"}, {})
    assert (first.state, first.found) == (State.OK, "of leases: none; started by the cloud's own users: 0")
    assert (second.name, second.state) == ("instances of b", State.FAILURE)
    assert "--cloud b" in second.advice


def test_instances_are_counted_by_state() -> None:
    known = [
        record("a.1", state="running"),
        record("b.1", state="running"),
        record("c.1", state="starting"),
        record(own_id="i-1", state="running", counted=True),
    ]
    (found,) = instance_findings([cloud("a")], {"a"}, {"a": known})
    assert found.state == State.OK
    assert found.found == "of leases: 2 running, 1 starting; started by the cloud's own users: 1"


def test_foreign_ones_without_room_and_leases_that_wait_are_warned_of() -> None:
    homeless = record(own_id="i-1", state="running", tries=2)
    (found,) = instance_findings([cloud("a")], {"a"}, {"a": [homeless]})
    assert (found.state, "1 have no room" in found.found) == (State.WARNING, True)
    waiting = record("a.1", why="InsufficientInstanceCapacity")
    (found,) = instance_findings([cloud("a")], {"a"}, {"a": [waiting]})
    assert found.state == State.WARNING
    assert "a.1 waits: InsufficientInstanceCapacity" in found.found
