"""The job manager against real owners, a real API and a real Redis; node agents are scripted."""

from collections.abc import Iterator

import pytest

from broker.jobs.events import CancelRequested, JobFinished
from broker.jobs.models import JobState, Outcome
from broker.jobs.store import LostRaceError
from tests.contract.harness import Federation, serving
from tests.integration.job_world import JobWorld, job_world
from tests.support.wait import wait_until

PROFILE = {"work_s": 2.0, "memory_gb": 0.01}


@pytest.fixture
def world(redis_url: str) -> Iterator[JobWorld]:
    with serving(Federation(redis_url)) as federation, job_world(federation) as world:
        yield world


def test_a_job_without_a_profile_runs_at_home_and_is_measured(world: JobWorld) -> None:
    world.join("home", (4,), spot=0.2)
    world.manage()
    world.submit("first", command=("run", "0.5"), name="loop")
    job = world.ended("first")
    assert job.state is JobState.FINISHED, job.said
    (attempt,) = job.attempts
    assert (attempt.role, attempt.cloud, attempt.spot, attempt.outcome) == (
        "profile",
        "home",
        False,
        Outcome.WON,
    )
    assert job.profile is not None
    assert 0.4 < job.profile.work_s < 30
    wait_until(world.nothing_left)
    world.submit("second", command=("run", "0.5"), name="loop")
    again = world.ended("second")
    assert again.attempts[0].role == "on-demand"
    assert again.profile is not None


def test_a_job_runs_where_it_is_cheapest(world: JobWorld) -> None:
    world.join("home", (4,), spot=0.5)
    world.join("forge", (4,), spot=0.1)
    world.join("meadow", (4,), spot=0.3)
    world.manage()
    world.submit("job", command=("run", "2"), profile=PROFILE, checkpoint={})
    job = world.ended("job")
    assert job.state is JobState.FINISHED, job.said
    (attempt,) = job.attempts
    assert (attempt.cloud, attempt.mechanism, attempt.spot) == ("forge", "checkpoint", True)
    wait_until(world.nothing_left)


def test_an_evicted_job_goes_on_from_its_last_checkpoint(world: JobWorld) -> None:
    world.join("home", (4,), spot=0.9)
    forge = world.join("forge", (4,), spot=0.1)
    world.join("meadow", (4,), spot=0.3)
    world.manage()
    world.submit(
        "job",
        command=("run", "9"),
        profile=PROFILE | {"work_s": 9.0},
        checkpoint={},
        clouds=("forge", "meadow"),
    )
    wait_until(
        lambda: [one for one in world.view("job").attempts if one.cloud == "forge" and one.checkpoints]
    )
    client = world.client()
    client.clouds.drain("forge")
    job = world.ended("job")
    assert job.state is JobState.FINISHED, job.said
    first, second = job.attempts
    assert (first.cloud, first.outcome) == ("forge", Outcome.EVICTED)
    assert (second.cloud, second.outcome) == ("meadow", Outcome.WON)
    assert second.restored_from, "from the first checkpoint, or a later one before the drain"
    assert first.lost_s is not None
    assert first.lost_s < 9
    assert "from checkpoint" in (first.ended or "")
    assert job.evictions == 1
    wait_until(world.nothing_left)
    assert not forge.running()


def test_a_way_back_leads_from_on_demand_to_spot_that_comes_later(world: JobWorld) -> None:
    world.join("home", (4,), spot=0.9)
    world.manage()
    world.submit(
        "job",
        command=("run", "30"),
        profile=PROFILE | {"work_s": 30.0},
        checkpoint={},
        clouds=("forge",),  # which is not there yet
        policy="way-back",
        deadline_s=600,
    )
    wait_until(lambda: [one for one in world.view("job").attempts if one.started_at])
    world.join("forge", (4,), spot=0.1)
    job = world.ended("job")
    assert job.state is JobState.FINISHED, job.said
    first, second = job.attempts
    assert (first.role, first.cloud, first.outcome) == ("on-demand", "home", Outcome.SAVED)
    assert (second.cloud, second.spot, second.outcome) == ("forge", True, Outcome.WON)
    assert second.restored_from == 1
    assert "way-back" in second.began
    wait_until(world.nothing_left)


def test_the_first_replica_to_finish_wins(world: JobWorld) -> None:
    world.join("home", (4,), spot=0.9)
    world.join("forge", (4,), spot=0.35)
    world.join("meadow", (4,), spot=0.36)
    world.manage()
    world.submit("job", command=("run", "2"), profile=PROFILE)
    job = world.ended("job")
    assert job.state is JobState.FINISHED, job.said
    assert sorted(one.outcome for one in job.attempts if one.outcome) == [Outcome.STOPPED, Outcome.WON], (
        job.said
    )
    assert {one.role for one in job.attempts} == {"replica"}
    assert sum(isinstance(one, JobFinished) for one in world.store.read_entries("job")) == 1
    wait_until(world.nothing_left)


def test_jobs_share_a_backup_server(world: JobWorld) -> None:
    home = world.join("home", (4,), spot=0.9)
    world.join("forge", (8,), spot=0.2)
    world.manage()
    for name in ("one", "two"):
        world.submit(name, command=("run", "2"), profile=PROFILE)
    jobs = [world.ended(name) for name in ("one", "two")]
    for job in jobs:
        assert job.state is JobState.FINISHED, job.said
        assert [one.role for one in job.attempts] == ["main", "backup"]
    servers = {job.attempts[1].lease for job in jobs}
    assert len(servers) == 1
    wait_until(world.nothing_left)
    assert not home.running()


def test_the_backup_goes_on_when_the_spot_instance_is_gone(world: JobWorld) -> None:
    world.join("home", (4,), spot=0.9)
    world.join("forge", (8,), spot=0.2)
    world.manage()
    world.submit("job", command=("run", "3"), profile=PROFILE | {"work_s": 3.0})
    wait_until(
        lambda: all(one.started_at for one in world.view("job").attempts) and world.view("job").attempts
    )
    world.client().clouds.drain("forge")
    job = world.ended("job")
    assert job.state is JobState.FINISHED, job.said
    assert [one.outcome for one in job.attempts] == [Outcome.EVICTED, Outcome.WON]
    wait_until(world.nothing_left)


def test_a_job_that_fails_is_run_again_as_often_as_it_may(world: JobWorld) -> None:
    world.join("home", (4,), spot=0.9)
    world.manage()
    world.submit("job", command=("fail", "0.1"), profile=PROFILE, retries=1)
    job = world.ended("job")
    assert (job.state, job.exit_code) == (JobState.FAILED, 3)
    assert [one.outcome for one in job.attempts] == [Outcome.FAILED, Outcome.FAILED]
    assert "status 3" in job.said
    wait_until(world.nothing_left)


def test_a_cancelled_job_leaves_nothing(world: JobWorld) -> None:
    world.join("home", (4,), spot=0.9)
    world.join("forge", (4,), spot=0.1)
    manager = world.manage()
    world.submit("job", command=("run", "60"), profile=PROFILE | {"work_s": 60.0}, checkpoint={})
    wait_until(lambda: world.view("job").state is JobState.RUNNING)
    while True:
        entries = world.store.read_entries("job")
        try:
            world.store.append("job", len(entries), [CancelRequested(at=0.0, by="tester")], next_at=0.0)
            break
        except LostRaceError:
            continue
    manager.ring("job")
    job = world.ended("job")
    assert job.state is JobState.CANCELLED
    wait_until(world.nothing_left)


def test_several_instances_run_together(world: JobWorld) -> None:
    world.join("home", (8,), spot=0.9)
    world.join("forge", (8,), spot=0.4)
    world.join("meadow", (8,), spot=0.4)
    world.manage()
    world.submit("job", command=("run", "1.5"), profile=PROFILE, instances=2)
    job = world.ended("job")
    assert job.state is JobState.FINISHED, job.said
    won = next(one for one in job.attempts if one.outcome is Outcome.WON)
    ranks = sorted(
        (work.rank, work.size) for work in world.agents[won.cloud].begun if work.attempt == won.number
    )
    assert ranks == [(0, 2), (1, 2)]
    wait_until(world.nothing_left)


def test_two_managers_do_not_do_a_job_twice(world: JobWorld) -> None:
    world.join("home", (8,), spot=0.9)
    world.join("forge", (8,), spot=0.1)
    for _ in range(2):
        world.manage()
    names = [f"job-{number}" for number in range(6)]
    for name in names:
        world.submit(name, command=("run", "0.5"), profile=PROFILE, checkpoint={})
    for name in names:
        job = world.ended(name)
        assert job.state is JobState.FINISHED, job.said
        assert sum(isinstance(one, JobFinished) for one in world.store.read_entries(name)) == 1
    begun = [work.id for agent in world.agents.values() for work in agent.begun]
    assert len(begun) == len(set(begun))
    wait_until(world.nothing_left)


def test_a_manager_that_is_killed_is_made_up_for_by_the_next(world: JobWorld) -> None:
    """What it had written and not done is done by who comes after it."""
    world.join("home", (4,), spot=0.9)
    world.join("forge", (4,), spot=0.1)
    world.agents["forge"].held.set()
    first = world.manage()
    world.submit("job", command=("run", "0.5"), profile=PROFILE, checkpoint={})
    wait_until(lambda: [one for one in world.view("job").attempts if one.lease])
    first.stop()
    world.agents["forge"].held.clear()
    world.manage()
    job = world.ended("job")
    assert job.state is JobState.FINISHED, job.said
    assert len(job.attempts) == 1
    wait_until(world.nothing_left)
