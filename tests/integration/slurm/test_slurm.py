"""The Slurm driver against a real cluster, and what it reads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from broker.contract.launch import Launch
from cloudsim.model.errors import SpecError
from tests.integration.slurm.cluster import Cluster, cluster
from tests.support.wait import wait_until
from workers.cloud_agent.drivers import make_driver, read_options
from workers.cloud_agent.drivers.base import (
    CloudInstance,
    DesiredInstance,
    InstanceError,
    InstanceState,
    NoRoomError,
    RefusedError,
)
from workers.cloud_agent.drivers.slurm import SlurmDriver, SlurmOptions
from workers.cloud_agent.drivers.slurm_output import expand_node_list, parse_comments, parse_jobs, parse_nodes

on_a_cluster = pytest.mark.xdist_group("slurm")
ONE = DesiredInstance("jobs/7.1", 2, "north")


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@pytest.fixture
def slurm(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.clear()


def of(driver: SlurmDriver, lease: str | None) -> list[CloudInstance]:
    return [
        one for one in driver.list_instances() if one.lease == lease and one.state is not InstanceState.ENDED
    ]


def running(slurm: Cluster, driver: SlurmDriver, lease: str = ONE.lease) -> CloudInstance:
    """The lease's instance once its script is ready."""

    def ready() -> CloudInstance | None:
        found = of(driver, lease)
        return found[0] if found and "ready" in slurm.told(found[0].id) else None

    found = wait_until(ready, f"{lease} runs")
    assert found is not None
    return next(one for one in of(driver, lease) if one.id == found.id)


def ended(driver: SlurmDriver, instance: CloudInstance) -> CloudInstance:
    def over() -> CloudInstance | None:
        found = (one for one in driver.list_instances() if one.id == instance.id)
        return next((one for one in found if one.state is InstanceState.ENDED), None)

    found = wait_until(over, f"{instance.id} has ended")
    assert found is not None
    return found


# -- a cluster -----------------------------------------------------------------------------------------------


@on_a_cluster
def test_a_lease_becomes_a_job_and_ends(slurm: Cluster) -> None:
    driver = slurm.driver(allow={"user_data": True})
    driver.start(replace(ONE, launch=Launch(user_data=SecretStr('a, "b"\n$(c)'))))
    found = running(slurm, driver)
    assert (found.state, found.cores, found.ends_at, found.why) == (InstanceState.RUNNING, 2, None, None)
    assert found.addresses in {("n1",), ("n2",)}
    told = slurm.told(found.id)
    assert {"SPOTFED_LEASE=jobs/7.1", "SPOTFED_CLOUD=hpc", "SPOTFED_ORIGIN=north"} <= set(told.splitlines())
    assert "SPOTFED_CORES=2" in told
    assert slurm.told(f"{found.id}.data") == 'a, "b"\n$(c)'
    assert driver.free_cores() == 6
    driver.end(ONE.lease)
    driver.end(ONE.lease)
    assert ended(driver, found).lease == ONE.lease


@on_a_cluster
def test_started_again_it_is_the_same_job_even_when_it_has_ended(slurm: Cluster) -> None:
    one = replace(ONE, lease="again.1")
    slurm.driver().start(one)
    slurm.driver().start(one)
    first = running(slurm, slurm.driver(), one.lease)
    assert len(slurm.states()) == 1
    slurm.driver().end(one.lease)
    ended(slurm.driver(), first)
    slurm.driver().start(one)
    assert slurm.states() == {}


@on_a_cluster
def test_what_is_sold_on_demand_runs_in_a_partition_that_nothing_preempts(slurm: Cluster) -> None:
    driver = slurm.driver(on_demand_partition="regular")
    driver.start(replace(ONE, lease="B:vm-1", is_preemptible=False))
    sold = running(slurm, driver, "B:vm-1")
    assert slurm.run("squeue", "--noheader", f"--jobs={sold.id}", "--format=%P").strip() == "regular"
    driver.end("B:vm-1")
    ended(driver, sold)


@on_a_cluster
def test_drivers_that_start_it_at_once_leave_one_job(slurm: Cluster) -> None:
    one = replace(ONE, lease="at-once.1", cores=1)
    together = threading.Barrier(4)

    def start() -> None:
        driver = slurm.driver()
        together.wait()
        driver.start(one)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    running(slurm, slurm.driver(), one.lease)
    assert list(slurm.states().values()) == ["RUNNING"]


@on_a_cluster
def test_of_two_jobs_of_a_lease_one_runs_and_both_end(slurm: Cluster) -> None:
    driver = slurm.driver()
    one = replace(ONE, lease="twice.1")
    driver.start(one)
    first = running(slurm, driver, one.lease)
    driver._submit(one)  # as another driver does that had looked before, and then died
    waiting = {job: word for job, word in slurm.states().items() if job != first.id}
    assert list(waiting.values()) == ["PENDING"]
    assert [instance.id for instance in of(driver, one.lease)] == [first.id]
    driver.end(one.lease)
    wait_until(lambda: not slurm.states(), "neither is left")


@on_a_cluster
def test_notice_reaches_the_script(slurm: Cluster) -> None:
    driver = slurm.driver()
    driver.start(replace(ONE, lease="noticed.1"))
    found = running(slurm, driver, "noticed.1")
    assert driver.give_notice("noticed.1", leaves_at=0.0)
    wait_until(lambda: "noticed" in slurm.told(found.id), "the notice")
    assert of(driver, "noticed.1")[0].state is InstanceState.RUNNING
    assert not driver.give_notice("nobody.1", leaves_at=0.0)


@on_a_cluster
def test_jobs_of_others_are_foreign_and_left_alone(slurm: Cluster) -> None:
    driver = slurm.driver()
    small = slurm.submit("--cpus-per-task=3", "--job-name=spotfed:spotfed:hpc:x.1")
    wide = slurm.submit("--partition=spot", "--nodes=2", "--ntasks=2", "--comment=spotfed:elsewhere:hpc:x.1")
    wait_until(lambda: list(slurm.states().values()) == ["RUNNING"] * 2, "both run")
    found = {one.id: (one.lease, one.cores) for one in of(driver, None)}
    assert found == {small: (None, 3), f"{wide}:n1": (None, 1), f"{wide}:n2": (None, 1)}
    driver.end("x.1")
    driver.give_notice("x.1", leaves_at=0.0)
    assert slurm.states() == {small: "RUNNING", wide: "RUNNING"}


@on_a_cluster
@pytest.mark.skipif(os.geteuid() != 0, reason="only root submits jobs of other users")
def test_what_another_user_writes_makes_no_instance_of_a_lease(slurm: Cluster) -> None:
    driver = slurm.driver()
    driver.start(replace(ONE, lease="mine.1", cores=1))
    mine = running(slurm, driver, "mine.1")
    comment = f"--comment=spotfed:spotfed:hpc:fake.1\n{mine.id}|spotfed:spotfed:hpc:fake.2|"
    theirs = slurm.submit("--uid=nobody", comment, "--job-name=spotfed:spotfed:hpc:mine.1")
    wait_until(lambda: slurm.states()[theirs] == "RUNNING", "it runs")
    assert {one.id: one.lease for one in driver.list_instances() if one.id in {mine.id, theirs}} == {
        mine.id: "mine.1",
        theirs: None,
    }
    driver.end("fake.1")
    assert slurm.states()[theirs] == "RUNNING"


@on_a_cluster
def test_the_clusters_own_jobs_preempt_after_a_notice(slurm: Cluster) -> None:
    driver = slurm.driver()
    driver.start(replace(ONE, lease="taken.1"))
    found = running(slurm, driver, "taken.1")
    own = slurm.submit("--nodes=2", "--exclusive")
    leaving = wait_until(
        lambda: next((one for one in driver.list_instances() if one.id == found.id and one.ends_at), None),
        "a notice",
    )
    assert leaving is not None
    assert leaving.why == "preempted by a job of the cluster's users"
    assert ended(driver, found).why == "preempted"
    assert "noticed" in slurm.told(found.id)
    wait_until(lambda: slurm.states() == {own: "RUNNING"}, "the cluster's job runs")
    assert sorted((one.id, one.cores) for one in of(driver, None)) == [(f"{own}:n1", 4), (f"{own}:n2", 4)]
    assert driver.free_cores() == 0
    with pytest.raises(NoRoomError, match="no node of spot has 2 idle CPUs"):
        driver.start(replace(ONE, lease="later.1"))


@on_a_cluster
def test_what_others_wait_for_is_not_free(slurm: Cluster) -> None:
    driver = slurm.driver()
    for _ in range(2):
        slurm.submit("--cpus-per-task=3")
    wait_until(lambda: list(slurm.states().values()) == ["RUNNING"] * 2, "both run")
    assert driver.free_cores() == 2
    slurm.submit("--cpus-per-task=2")
    assert driver.free_cores() == 0
    slurm.submit("--cpus-per-task=2", "--hold")
    assert len(of(driver, None)) == 2


@on_a_cluster
def test_who_waits_too_long_counts_as_ended(slurm: Cluster) -> None:
    driver = slurm.driver(patience="1s")
    driver._check_room = lambda desired: None  # type: ignore[method-assign]  # as if others had been quicker
    for _ in range(2):
        slurm.submit("--cpus-per-task=3")
    driver.start(replace(ONE, lease="late.1"))
    assert [one.state for one in slurm.driver().list_instances() if one.lease == "late.1"] == [
        InstanceState.STARTING
    ]
    waiting = next(one for one in driver.list_instances() if one.lease == "late.1")
    assert "no room for it in" in (ended(driver, waiting).why or "")
    driver.end("late.1")
    wait_until(lambda: waiting.id not in slurm.states(), "it waits no more")


@on_a_cluster
def test_what_the_cluster_will_never_do(slurm: Cluster) -> None:
    refused = {
        "the cluster has no partition night with nodes": (slurm.driver(partition="night"), ONE),
        "no instance of 5 cores here, but of up to 4": (slurm.driver(), replace(ONE, cores=5)),
        "Invalid feature specification": (slurm.driver(constraint="ib"), ONE),
        "n1 lacks gpus=3": (slurm.driver(), replace(ONE, amounts={"gpus": 3})),
        "lacks v100=1": (slurm.driver(gres={"v100": "gpu:v100"}), replace(ONE, amounts={"v100": 1})),
        "lacks memory_mb=10000000": (slurm.driver(), replace(ONE, amounts={"memory_mb": 10_000_000})),
        "arguments and environment go with user data that is a script": (
            slurm.driver(allow={"user_data": True}),
            replace(ONE, launch=Launch.model_validate({"user_data": "x", "arguments": ["y"]})),
        ),
    }
    for number, (message, (driver, wanted)) in enumerate(refused.items()):
        with pytest.raises(RefusedError, match=message):
            driver.start(replace(wanted, lease=f"never-{number}.1"))
    assert slurm.states() == {}


@on_a_cluster
def test_leases_of_every_name(slurm: Cluster) -> None:
    driver = slurm.driver()
    names = ["A.b_c:d@e/f-g.1", "x" * 250]
    for name in names:
        driver.start(replace(ONE, lease=name, cores=1))
    for name in names:
        assert running(slurm, driver, name).lease == name
    driver.end(names[1])
    wait_until(lambda: not of(driver, names[1]), "one has ended")
    assert of(driver, names[0])


@on_a_cluster
def test_names_of_nodes_are_read_as_slurm_means_them(slurm: Cluster) -> None:
    for written in ("n1", "n[1-3,07-09],m", "r[1-2]n[08-10,3],r7", "a-b[001-002]"):
        assert expand_node_list(written) == tuple(slurm.run("scontrol", "show", "hostnames", written).split())


# -- without one ---------------------------------------------------------------------------------------------


def pretended(directory: Path, script: str) -> SlurmDriver:
    """A driver of programs that all do this."""
    for program in ("sbatch", "squeue", "sinfo", "scancel"):
        path = directory / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    told = {"driver": "slurm", "partition": "spot", "script": "sbatch", "timeout": 0.2}
    options = SlurmOptions.model_validate({**told, "programs": str(directory)}, context={"beside": directory})
    return SlurmDriver(options, "hpc")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("sleep 1000", r"did not end within 0\.2 s"),
        ("echo hello", "sinfo printed something else than nodes: 'hello'"),
        ("echo 'Unable to contact slurm controller' >&2; exit 1", "Unable to contact slurm controller"),
        ("exit 3", "exit code 3"),
    ],
)
def test_a_cluster_that_is_away_or_broken_may_be_asked_again(
    tmp_path: Path, script: str, message: str
) -> None:
    driver = pretended(tmp_path, script)
    for call in (driver.list_instances, driver.free_cores):
        with pytest.raises(InstanceError, match=message) as failed:
            call()
        assert not isinstance(failed.value, RefusedError)


def test_programs_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "s").touch()
    options = SlurmOptions.model_validate(
        {"driver": "slurm", "partition": "spot", "script": "s"}, context={"beside": tmp_path}
    )
    with pytest.raises(RefusedError, match="sinfo is not installed here: set the option programs"):
        SlurmDriver(options, "hpc").list_instances()


def test_what_squeue_and_sinfo_print_is_read() -> None:
    (job,) = parse_jobs("7|PENDING|2|1|spot,day||N/A|N/A|1795901976|Resources|\n")
    assert job.partitions == {"spot", "day"}
    assert (job.nodes, job.submitted_at) == ((), 1795901976.0)
    assert job.waits_for_room
    assert not replace(job, reason="Dependency").waits_for_room
    assert replace(job, word="SOMETHING_NEW").state is InstanceState.ENDED
    nodes = parse_nodes(
        "n1|spot|1/3/0/4|64000|2048|gpu:a100:2(S:0-1),gpu:v100:1,shard:8K|zone=north,ssd\n"
        "n1|day|1/3/0/4|64000|2048|gpu:a100:2(S:0-1),gpu:v100:1,shard:8K|zone=north,ssd\n"
        "n2|day|0/0/4/4|1|0|(null)|(null)\n"
    )
    assert nodes["n1"].partitions == {"spot", "day"}
    assert nodes["n1"].gres == {"gpu": 3, "gpu:a100": 2, "gpu:v100": 1, "shard": 8192}
    assert (nodes["n1"].memory_mb, nodes["n1"].disk_mb) == (64000, 2048)
    assert (nodes["n1"].features, nodes["n2"].features) == (frozenset(("zone=north", "ssd")), frozenset())
    assert (nodes["n1"].idle, nodes["n2"].idle, nodes["n2"].total) == (3, 0, 4)
    assert list(parse_comments("JOBID|COMMENT|\n7|spotfed:p:a|b|\nand|more|\n8|(null)|\n")) == [
        ("7", "spotfed:p:a|b"),
        ("8", "(null)"),
    ]
    with pytest.raises(InstanceError, match="squeue printed something else than comments: 'hello'"):
        list(parse_comments("hello\n"))
    with pytest.raises(InstanceError, match="squeue printed something else than jobs"):
        parse_jobs("7|PENDING|two|1|spot||N/A|N/A|0|None|")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("partition", "--wrap=x"),
        ("qos", "a b"),
        ("time_limit", "soon"),
        ("sizes", {1: "small"}),
        ("script", "nowhere.sh"),
        ("programs", "/nowhere"),
        ("output", "relative"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, field: str, value: object) -> None:
    (tmp_path / "s").touch()
    told = {"driver": "slurm", "partition": "spot", "script": "s", field: value}
    with pytest.raises(ValidationError) as failed:
        SlurmOptions.model_validate(told, context={"beside": tmp_path})
    assert failed.value.errors()[0]["loc"] == (field,)


def test_a_federation_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "start.sh").touch()
    told = {"driver": "slurm", "partition": "spot", "script": "start.sh", "patience": "2m"}
    options = read_options(told, "cloud[0].instances", tmp_path)
    assert isinstance(options, SlurmOptions)
    assert (options.script, options.patience_s) == (tmp_path / "start.sh", 120.0)
    assert isinstance(make_driver(options, "hpc", None, None), SlurmDriver)
    with pytest.raises(SpecError, match="there is no file") as failed:
        read_options({**told, "script": "no.sh"}, "cloud[0].instances", tmp_path)
    assert failed.value.field == "cloud[0].instances.script"


@on_a_cluster
def test_the_script_of_a_holder_has_its_arguments_and_environment(slurm: Cluster) -> None:
    """Nothing of them is seen by the agent's own programs, whatever characters they have."""
    out = slurm.directory / "of-its-holder"
    launch = Launch.model_validate(
        {
            "user_data": f"#!/usr/bin/env -S python3 -S\nimport os, sys\nopen({str(out)!r}, 'w').write("
            "repr((sys.argv[1:], os.environ['WORD'], os.environ['SPOTFED_LEASE'])))\n",
            "arguments": ["a b", "$HOME", "it's"],
            "environment": {"WORD": "x\n'y' \"z\" `id`"},
        }
    )
    slurm.driver(allow={"user_data": True}).start(replace(ONE, lease="script.1", launch=launch))
    told = wait_until(lambda: out.exists() and out.read_text(), "the script has run")
    assert told == repr((["a b", "$HOME", "it's"], "x\n'y' \"z\" `id`", "script.1"))
