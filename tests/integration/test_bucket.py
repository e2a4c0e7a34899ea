"""States of jobs in a bucket at moto's server, which machines that share no file system write and read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.jobs import state_archive
from broker.jobs.bucket import Bucket, BucketError
from broker.jobs.models import StateRequest, Work, WorkState
from broker.settings import Settings
from tests.integration.agents import Agents
from tests.integration.instance_jobs import BUCKET, bucket, store
from tests.integration.test_agent import COUNT
from workers.node_agent.process.bucket_checkpoints import BucketCheckpoints
from workers.node_agent.process.driver_protocol import DriverError

WORK = Work.model_validate(
    {
        "id": "j.1.0", "job": "j", "attempt": 1, "cloud": "A", "instance": "j.1.0.1", "spot": True, "node": 0,
        "command": ("true",), "cores": 1,
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def told() -> Iterator[Mapping[str, str]]:
    with bucket() as told:
        yield told


@pytest.fixture
def states(told: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """The federation's own hand, with its credentials. The bucket is empty."""
    for name, value in told.items():
        if name.startswith("AWS"):
            monkeypatch.setenv(name, value)
    client = store(told)
    for entry in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        client.delete_object(Bucket=BUCKET, Key=entry["Key"])
    settings = Settings(
        jobs_bucket=told["SPOTFED_JOBS_BUCKET"], jobs_bucket_url=told["SPOTFED_JOBS_BUCKET_URL"]
    )
    made = Bucket.from_settings(settings)
    assert made is not None
    return made


class Machine:
    """A machine's own directory of states, and a job's directory there."""

    def __init__(self, directory: Path, bucket: Bucket, sign: Any = None):
        self.job = directory / "job"
        self.states = BucketCheckpoints(directory / "states", sign or bucket.sign)

    def save(self, work: Work = WORK) -> int:
        draft, size = self.states.make_draft(work, self.job, None, lambda: False)
        return self.states.commit(draft, 1.0, size, lambda: False, last=False).number


def test_another_machine_begins_with_what_one_saved(
    states: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_archive, "PART_BYTES", 100_000)
    monkeypatch.setattr(state_archive.pack, "__defaults__", (100_000,))
    one, other = Machine(tmp_path / "one", states), Machine(tmp_path / "other", states)
    one.job.mkdir(parents=True)
    content = os.urandom(250_000)
    (one.job / "data").write_bytes(content)
    (one.job / "link").symlink_to("data")
    assert one.save() == 1
    assert states.list_states("j", "j.1.0") == {1: ["part-00000", "part-00001", "part-00002"]}
    other.states.restore("j", "j.1.0", 1, other.job, None)
    assert (other.job / "data").read_bytes() == content
    assert (other.job / "link").readlink() == Path("data")
    other.states._fetch("j", "j.1.0", 1, other.states.directory_of("j", "j.1.0") / "1")  # at the same time
    assert [path.name for path in other.states.directory_of("j", "j.1.0").iterdir()] == ["1"]


def test_the_last_states_stay(states: Bucket, tmp_path: Path) -> None:
    machine = Machine(tmp_path, states)
    machine.job.mkdir()

    def sign(job: str, wanted: StateRequest) -> Sequence[str]:
        states.drop_before(job, wanted.work, wanted.checkpoint)  # as the API does
        return states.sign(job, wanted)

    machine.states._sign = sign
    for number in range(1, 6):
        (machine.job / "n").write_text(str(number))
        assert machine.save() == number
    assert list(states.list_states("j", "j.1.0")) == [3, 4, 5]
    assert sorted(path.name for path in (tmp_path / "states/j/j.1.0").iterdir()) == ["4", "5"]


def test_a_state_that_was_not_written_whole_does_not_count(states: Bucket, tmp_path: Path) -> None:
    machine = Machine(tmp_path, states)
    machine.job.mkdir()
    assert machine.save() == 1

    def refuse(job: str, wanted: StateRequest) -> Sequence[str]:
        if wanted.files == ("kept.json",):
            raise BucketError("no more")
        return states.sign(job, wanted)

    machine.states._sign = refuse
    with pytest.raises(DriverError, match=r"did not write state 2 of j\.1\.0: no more"):
        machine.save()
    assert machine.states.newest("j", "j.1.0").number == 1  # type: ignore[union-attr]
    assert list(states.list_states("j", "j.1.0")) == [1]
    other = Machine(tmp_path / "other", states)
    with pytest.raises(DriverError, match=r"did not read state 2 of j\.1\.0: its store answered 404"):
        other.states.restore("j", "j.1.0", 2, other.job, None)


def test_a_store_that_is_away_for_a_moment_is_asked_again(
    states: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.node_agent.process.bucket_checkpoints._PAUSE_S", 0.01)
    calls: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(request.method)
        request.read()
        if len(calls) == 1:
            raise httpx.ConnectError("away")
        return httpx.Response(503 if len(calls) == 2 else 200)

    machine = Machine(tmp_path, states)
    machine.job.mkdir()
    machine.states._http = httpx.Client(transport=httpx.MockTransport(answer))
    assert machine.save() == 1
    assert calls == ["PUT"] * 4
    machine.states._http = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(503)))
    with pytest.raises(DriverError, match="its store answered 503") as raised:
        machine.save()
    assert "http" not in str(raised.value)


def test_states_of_jobs_that_ended_long_ago_are_removed(states: Bucket, tmp_path: Path) -> None:
    machine = Machine(tmp_path, states)
    machine.job.mkdir()
    for job in ("j", "k"):
        machine.save(WORK.model_copy(update={"id": f"{job}.1.0", "job": job}))
    now = datetime.now(UTC)
    assert states.drop_old({"k"}, now - timedelta(hours=1)) == []
    assert states.drop_old({"k"}, now + timedelta(hours=1)) == ["j"]
    assert (states.list_states("j", "j.1.0"), list(states.list_states("k", "k.1.0"))) == ({}, [1])


def test_a_store_that_does_not_do_it_says_why(told: Mapping[str, str], states: Bucket) -> None:
    elsewhere = Bucket("nowhere", "", told["SPOTFED_JOBS_BUCKET_URL"])
    with pytest.raises(BucketError, match="NoSuchBucket"):
        elsewhere.list_states("j", "j.1.0")


def test_agents_of_clouds_that_share_no_directory_share_the_bucket(
    redis_url: str, told: Mapping[str, str]
) -> None:
    with Agents(redis_url) as agents:
        for cloud in ("A", "B"):
            agents.agent(cloud, **told, SPOTFED_JOBS_DIR=str(agents.directory / f"jobs-{cloud}"))
        work = agents.work(COUNT % 1_000_000)
        agents.says("at 3")
        agents.want(work, "save")
        agents.until(WorkState.SAVED)
        reached = int((agents.directory / "jobs-A/j/j.1.0/1/files/n").read_text())
        agents.work(COUNT % (reached + 2), "j.2.0", "B", restore=(work.id, 1))
        report = agents.until(WorkState.EXITED, "j.2.0", "B")
        assert (report.exit_code, report.restored) == (0, True)
        assert agents.log("j.2.0", "B").splitlines()[0] == f"from {reached}"
