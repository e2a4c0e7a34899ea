"""Checks of what a federation keeps in Redis: clouds, contract, batch jobs and instances of real clouds."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import fakeredis
import pytest

from broker.contract import VERSION, Advert, CloudInfo
from broker.contract.instances import STUCK, InstanceCatalogue, InstanceRecord
from broker.doctor import Check, CheckResult, Installation, State, clouds
from broker.doctor.contract import check_contract
from broker.doctor.instances import check_instances
from broker.doctor.jobs import check_bucket, check_job_managers, check_node_agents
from broker.doctor.redis import RedisServer
from broker.settings import Settings
from broker.storage.negotiation import ALIVE_TTL_S


def advert_ago(age_s: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=age_s)).isoformat()


class Federation:
    """What the processes of a federation write to Redis."""

    def __init__(self) -> None:
        self.redis = fakeredis.FakeRedis()
        self.installation = Installation(Settings(), redis_url="redis://queue")
        self.installation.redis_server = RedisServer(self.redis, "redis://queue")
        self.keys = self.installation.keys

    def join(self, cloud: str = "A", **changes: Any) -> None:
        fields = {"id": cloud, "order": 0, "nodes": "1x4", "cores": 4, "largest_node": 4, "time": "wall"}
        info = CloudInfo.model_validate(fields | changes)
        self.redis.hset(self.keys.clouds, cloud, info.model_dump_json())

    def own(self, cloud: str = "A", epoch: int = 3, lease_ms: int = 60_000) -> None:
        self.redis.set(self.keys.owner(cloud), "token", px=lease_ms)
        self.redis.set(self.keys.epoch(cloud), epoch)
        self.redis.set(self.keys.owner_version(cloud), f"{VERSION} {epoch} token")
        self.redis.set(self.keys.contract, VERSION)

    def advertise(self, cloud: str = "A", **changes: Any) -> None:
        fields = {
            "cloud": cloud,
            "at": advert_ago(1.0),
            "at_s": 86_400.0,
            "epoch": 3,
            "free_cores": 4,
            "on_demand_cores": 0,
            "spot_cores": 0,
            "spot_leases": 0,
            "free_slots": {1: 4},
            "table_version": "A-3",
            "table_made_at_s": 82_800.0,
            "evicted": 0,
            "admitted": 0,
        }
        advert = Advert.model_validate(fields | changes)
        self.redis.set(self.keys.advert(cloud), advert.model_dump_json())

    def check(self, check: Check) -> list[CheckResult]:
        assert clouds.check_clouds(self.installation) == []
        return check(self.installation)


@pytest.fixture
def federation() -> Federation:
    return Federation()


@pytest.fixture
def sound(federation: Federation) -> Federation:
    federation.join()
    federation.own()
    federation.advertise()
    return federation


# -- clouds --------------------------------------------------------------------------------------------------


def test_a_sound_federation(sound: Federation) -> None:
    sound.redis.set(sound.keys.sampler("m"), "1")
    checks = (
        check_contract, clouds.check_owners, clouds.check_tables, clouds.check_dead_letters,
        clouds.check_monte_carlo, check_node_agents, check_job_managers, check_instances,
    )  # fmt: skip
    results = [result for check in checks for result in sound.check(check)]
    assert {result.state for result in results} == {State.OK}
    assert [result.name for result in results] == ["contract", "owner A", "table A", "monte-carlo workers"]


def test_a_federation_of_nobody_is_not_looked_at_further(federation: Federation) -> None:
    (empty,) = clouds.check_clouds(federation.installation)
    assert (empty.name, empty.state) == ("clouds", State.WARNING)
    assert "'spotfed:'" in empty.found
    assert clouds.check_monte_carlo.run(federation.installation) == []
    assert check_contract.run(federation.installation) == []


def test_missing_monte_carlo_workers_are_warned_of(sound: Federation) -> None:
    (result,) = sound.check(clouds.check_monte_carlo)
    assert (result.name, result.state) == ("monte-carlo workers", State.WARNING)


@pytest.mark.parametrize(
    ("advert", "epoch", "cloud_time", "state", "says"),
    [
        (None, 3, "wall", State.WARNING, "cannot be read"),
        ({"at": "yesterday"}, 3, "wall", State.WARNING, "cannot be read"),
        ({}, 4, "wall", State.WARNING, "its advert is of epoch 3"),
        ({"age_s": 8}, 3, "wall", State.OK, "8."),
        ({"age_s": 11}, 3, "wall", State.FAILURE, "unreachable"),
        ({"age_s": -3600}, 3, "wall", State.WARNING, "in the future"),
        ({"age_s": 3600}, 3, "trace", State.OK, "old"),
    ],
)
def test_heartbeats(
    federation: Federation, advert: dict | None, epoch: int, cloud_time: str, state: State, says: str
) -> None:
    federation.join(time=cloud_time)
    federation.own(epoch=epoch)
    if advert is not None:
        age_s = advert.pop("age_s", None) if "age_s" in advert else None
        federation.advertise(**(advert if age_s is None else {"at": advert_ago(age_s)}))
    (result,) = federation.check(clouds.check_owners)
    assert result.state is state
    assert says in result.found


def test_a_cloud_without_an_owner_is_a_failure(sound: Federation) -> None:
    sound.redis.delete(sound.keys.owner("A"))
    (result,) = sound.check(clouds.check_owners)
    assert result.state is State.FAILURE
    assert result.found == "nobody owns A; its last epoch is 3"


@pytest.mark.parametrize(
    ("made_at_s", "state"), [(86_400.0 - 12 * 3600, State.OK), (86_399.0 - 12 * 3600, State.WARNING)]
)
def test_the_age_of_a_table_is_in_the_clouds_time(sound: Federation, made_at_s: float, state: State) -> None:
    sound.advertise(table_made_at_s=made_at_s)
    (result,) = sound.check(clouds.check_tables)
    assert result.state is state
    assert "12.0 h old" in result.found


def test_a_cloud_without_a_table_promises_nothing(sound: Federation) -> None:
    sound.advertise(table_version=None, table_made_at_s=None)
    (result,) = sound.check(clouds.check_tables)
    assert result.state is State.WARNING
    sound.redis.set(sound.keys.advert("A"), "garbage")
    assert sound.check(clouds.check_tables) == []


def test_dead_letters_are_told_with_where_to_look(sound: Federation) -> None:
    for _ in range(3):
        sound.redis.xadd(sound.keys.dead_letters("A"), {"c": "garbage"})
    (result,) = sound.check(clouds.check_dead_letters)
    assert (result.name, result.state) == ("dead letters A", State.WARNING)
    assert result.found.startswith("3 dead letters at cloud A")
    assert "spotfed dlq list --cloud A" in result.advice


# -- the contract --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (None, State.OK),  # an empty journal says nothing
        ("garbage", State.OK),
        (f'{{"version": {VERSION}}}', State.OK),
        (f'{{"version": {VERSION + 1}}}', State.FAILURE),
    ],
)
def test_a_journal_of_a_later_version_cannot_be_read(
    sound: Federation, event: str | None, state: State
) -> None:
    if event is not None:
        sound.redis.xadd(sound.keys.journal("A"), {"e": event})
    (result,) = sound.check(check_contract)
    assert result.state is state


def test_a_cloud_that_cannot_be_read_is_named(sound: Federation) -> None:
    sound.redis.hset(sound.keys.clouds, "B", "{}")
    (result,) = sound.check(check_contract)
    assert result.state is State.FAILURE
    assert result.found.endswith(": B")


def test_who_holds_the_contract_back_is_named(sound: Federation) -> None:
    sound.redis.set(sound.keys.contract, VERSION - 1)
    assert [result.state for result in sound.check(check_contract)] == [State.OK]
    sound.redis.set(sound.keys.process_version("old"), VERSION - 1, ex=ALIVE_TTL_S)
    (held_back,) = sound.check(check_contract)
    assert held_back.state is State.WARNING
    assert held_back.found.endswith("API process old")
    sound.redis.set(sound.keys.contract, VERSION + 1)
    assert [result.state for result in sound.check(check_contract)] == [State.FAILURE]


# -- batch jobs ----------------------------------------------------------------------------------------------


def test_a_missing_node_agent_is_named_with_how_to_start_it(federation: Federation) -> None:
    for cloud, runs_commands in (("a", True), ("b", True), ("c", False)):
        federation.join(cloud, runs_commands=runs_commands)
    federation.redis.set(federation.keys.agent("a"), "token")
    first, second = federation.check(check_node_agents)
    assert (first.name, first.state) == ("node agent a", State.OK)
    assert (second.name, second.state) == ("node agent b", State.FAILURE)
    assert "--cloud b" in second.advice


def test_what_a_node_agent_cannot_give_jobs_is_told(federation: Federation) -> None:
    federation.join("a", runs_commands=True)
    federation.redis.set(federation.keys.agent("a"), "token")
    (result,) = federation.check(check_node_agents)
    assert result.state is State.OK
    federation.redis.set(federation.keys.isolation("a"), "a network of their own\nlocks")
    (result,) = federation.check(check_node_agents)
    assert result.state is State.WARNING
    assert result.found.endswith("does not give them a network of their own; locks")
    assert "SECURITY.md" in result.advice
    federation.redis.set(federation.keys.isolation("a"), "")
    (result,) = federation.check(check_node_agents)
    assert result.state is State.OK


def test_jobs_on_real_clouds_need_a_bucket(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    federation.join("glade", runs_commands=True, instances="ec2")
    (result,) = federation.check(check_bucket)
    assert (result.state, "jobs on glade save no state" in result.found) == (State.FAILURE, True)
    assert federation.check(check_node_agents) == []
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "s3cret")
    away = {"jobs_bucket": "s3://states", "jobs_bucket_url": "http://127.0.0.1:9"}
    federation.installation.settings = Settings.model_validate(away)
    monkeypatch.setattr("broker.jobs.bucket._RETRIES", 0)
    (result,) = federation.check(check_bucket)
    assert (result.state, "127.0.0.1:9" in result.found) == (State.FAILURE, True)
    assert "s3cret" not in f"{result}"


def test_jobs_that_nobody_looks_after_are_counted(federation: Federation) -> None:
    federation.join("a", runs_commands=True)
    due = {f"job-{number}": time.time() - (60 if number < 2 else 0) for number in range(7)}
    federation.redis.zadd(federation.keys.open_jobs, due)
    (result,) = federation.check(check_job_managers)
    assert result.state is State.FAILURE
    assert "of 7 open jobs nobody looks after 2" in result.found
    assert "workers.job_manager" in result.advice
    federation.redis.zrem(federation.keys.open_jobs, "job-0", "job-1")
    (result,) = federation.check(check_job_managers)
    assert (result.state, result.found) == (State.OK, "none of 5 open jobs waits for one")


# -- instances of real clouds --------------------------------------------------------------------------------


def instances(federation: Federation, *records: dict[str, Any]) -> CheckResult:
    federation.join("a", instances="ec2")
    federation.redis.set(federation.keys.agent("a"), "token")
    for number, fields in enumerate(records):
        record = InstanceRecord.model_validate({"lease": None, "since": 1.0} | fields)
        federation.redis.hset(federation.keys.instances("a"), str(number), record.model_dump_json())
    (result,) = federation.check(check_instances)
    return result


def test_a_missing_instance_agent_is_named_with_how_to_start_it(federation: Federation) -> None:
    federation.join("b", instances="ec2")
    (result,) = federation.check(check_instances)
    assert (result.name, result.state) == ("instances of b", State.FAILURE)
    assert "--cloud b" in result.advice


def test_instances_are_counted_by_state(federation: Federation) -> None:
    assert instances(federation).found == "of leases: none; started by the cloud's own users: 0"
    result = instances(
        federation,
        {"lease": "a.1", "state": "running"},
        {"lease": "b.1", "state": "running"},
        {"lease": "c.1", "state": "starting"},
        {"own_id": "i-1", "state": "running", "counted": True},
    )
    assert result.state is State.OK
    assert result.found == "of leases: 2 running, 1 starting; started by the cloud's own users: 1"


def test_foreign_instances_without_room_are_warned_of(federation: Federation) -> None:
    result = instances(federation, {"own_id": "i-1", "state": "running", "tries": 2})
    assert (result.state, "1 have no room" in result.found) == (State.WARNING, True)


def test_requests_that_are_offered_to_other_clouds_hold_nothing_here(federation: Federation) -> None:
    offered = {"own_id": "i-1", "on_demand": "a/freed-i-1.offered", "state": "ended", "why": "runs on b"}
    result = instances(federation, offered)
    assert result.state is State.OK
    assert result.found.endswith("started by the cloud's own users: 0; of theirs, offered to other clouds: 1")


def test_leases_that_wait_for_an_instance_are_warned_of(federation: Federation) -> None:
    result = instances(federation, {"lease": "a.1", "why": "InsufficientInstanceCapacity"})
    assert result.state is State.WARNING
    assert "a.1 waits: InsufficientInstanceCapacity" in result.found


def test_what_the_agent_finds_wrong_with_its_cloud_is_warned_of(federation: Federation) -> None:
    federation.join("a", instances="ec2")
    catalogue = InstanceCatalogue(cloud="a", flavours=(), faults=("image: debian-12 is killed",))
    federation.redis.hset(federation.keys.catalogue("a"), "c", catalogue.model_dump_json())
    _, result = federation.check(check_instances)
    assert (result.name, result.state) == ("leases of a", State.WARNING)
    assert result.found == "image: debian-12 is killed"
    assert "spotfed cloud check" in result.advice


def test_a_real_cloud_that_does_not_answer_is_a_failure(federation: Federation) -> None:
    federation.redis.set(federation.keys.silent_cloud("a"), "since 2026-01-01T00:00:00Z (no route to host)")
    result = instances(federation)
    assert result.state == State.FAILURE
    assert "has not answered since 2026-01-01T00:00:00Z (no route to host)" in result.found


def test_instances_that_cannot_be_ended_are_a_failure(federation: Federation) -> None:
    why = f"{STUCK}its lease b.1 has ended"
    result = instances(federation, {"own_id": "i-7", "state": "running", "counted": True, "why": why})
    assert result.state == State.FAILURE
    assert "i-7" in result.found
