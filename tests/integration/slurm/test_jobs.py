"""Batch jobs on leases of real clouds, which take their instances back while the jobs run.

Each lease of the cluster is a job of Slurm, which starts a node agent. Leases of the other two clouds, one of
moto's that speaks EC2 and one that speaks Nova's API, are instances that run nothing: the test runs what they
would, the user data that their cloud has.
"""

from __future__ import annotations

import sys

import pytest

from broker.client import Client, UnauthorizedError
from broker.jobs.events import JobFinished
from broker.jobs.models import Checkpoints, JobState, JobWish, Outcome, Profile
from tests.integration.instance_jobs import (
    COUNT,
    Ec2Machines,
    NovaMachines,
    bucket,
    federation,
    install_script,
    running,
    scratch,
    token_of,
)
from tests.integration.slurm.cluster import cluster
from tests.support.ports import free_port
from tests.support.wait import wait_until
from tests.unit.workers.cloud_agent import nova_server
from tests.unit.workers.cloud_agent.ec2_server import IMAGE, REGION, ec2_scene
from tests.unit.workers.cloud_agent.faults import Broken, served
from tests.unit.workers.cloud_agent.nova_server import NovaServer

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.timeout(600)]

FEDERATION = """
[[cloud]]
id = "hpc"
nodes = "2x4"
spot_usd_per_core_hour = 0.01
on_demand_usd_per_core_hour = 0.1

[cloud.instances]
driver = "slurm"
partition = "spot"
script = "start.sh"
config = "{config}"
poll = "0.5s"
output = "{directory}/agent-%j.out"
jobs = {jobs}
"""
EC2 = """
[[cloud]]
id = "east"
nodes = "2x4"
spot_usd_per_core_hour = 0.02
on_demand_usd_per_core_hour = 0.1

[cloud.instances]
driver = "ec2"
endpoint = "{url}"
region = "{region}"
image = "{image}"
sizes = {{ 1 = "t2.micro", 4 = "m5.xlarge" }}
poll = "0.5s"
jobs = {jobs}
"""
OPENSTACK = """
[[cloud]]
id = "west"
nodes = "2x4"
spot_usd_per_core_hour = 0.03
on_demand_usd_per_core_hour = 0.1

[cloud.instances]
driver = "openstack"
endpoint = "{url}/identity/v3"
region = "here"
interface = "internal"
project = "{project}"
image = "{image}"
sizes = {{ 1 = "m1.small", 4 = "m1.large" }}
poll = "0.5s"
jobs = {jobs}
"""
#: What is counted to, and the files that a job then returns.
LAST = 150
FILES = {"deep": "", "deep/numbers": "".join(f"{n}\n" for n in range(1, LAST + 1)), "link": "deep/numbers"}


def test_a_job_is_taken_back_twice_and_ends_once_with_its_files(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, nova = free_port(), NovaServer()
    with (
        bucket() as told,
        cluster() as slurm,
        scratch() as directory,
        ec2_scene(directory, monkeypatch) as ec2,
        running(Ec2Machines(ec2, REGION, directory)) as east,
        served(Broken(nova)) as (nova_url, _),
        running(NovaMachines(nova, directory)) as west,
    ):
        (directory / "start.sh").write_text("#!/bin/sh\nexec sleep 1000\n")
        (directory / "install.sh").write_text(install_script(told))
        jobs = (
            f'{{ url = "http://127.0.0.1:{port}", install = "install.sh", python = "{sys.executable}", '
            'boot = "10s" }'
        )
        text = FEDERATION.format(config=slurm.config, directory=slurm.directory, jobs=jobs)
        text += EC2.format(region=REGION, url=ec2.url, image=IMAGE, jobs=jobs)
        text += OPENSTACK.format(
            url=nova_url, project=nova_server.PROJECT, image=nova_server.IMAGE, jobs=jobs
        )
        # Processes on one machine have the same login at all clouds.
        monkeypatch.setattr(nova_server, "USER", ec2.user)
        monkeypatch.setattr(nova_server, "SECRET", ec2.secret)
        login = {"SPOTFED_CLOUD_USER": ec2.user, "SPOTFED_CLOUD_SECRET": ec2.secret}
        with federation(directory, redis_url, text, ("hpc", "east", "west"), port, told | login) as world:
            world.client.jobs.submit(
                JobWish(
                    id="count",
                    origin="guest",
                    home="hpc",
                    command=("/bin/sh", "-c", COUNT.format(count=LAST)),
                    profile=Profile(work_s=20.0, memory_gb=0.001),
                    checkpoint=Checkpoints(),
                    slack=0.5,
                )
            )
            world.kept("count", "hpc")
            slurm.submit("--nodes=2", "--exclusive")
            world.kept("count", "east")
            east.take_back()
            job = world.ended("count", 240)
            assert job.state is JobState.FINISHED, job.said
            assert [(one.cloud, one.outcome) for one in job.attempts] == [
                ("hpc", Outcome.EVICTED),
                ("east", Outcome.EVICTED),
                ("west", Outcome.WON),
            ]
            noticed, taken, won = job.attempts
            assert (taken.restored_from, won.restored_from) == (1, 2)
            assert noticed.lost_s == 0.0, noticed  # its notice was time enough
            assert world.files("count") == FILES
            ends = [entry.kind for entry in world.entries("count") if isinstance(entry, JobFinished)]
            assert ends == ["finished"]
            wait_until(lambda: not (east.instances() | west.instances()), "no instance is left")
            tokens = {token_of(text) for text in [*east.user_data, *west.user_data]}
            assert len(tokens) == 2
            world.tells_nobody(tokens)
            assert "from 0" in world.client.jobs.read_log("count", attempt=1).text
            assert world.client.jobs.read_log("count").text.endswith("done\n")
            for token in tokens:
                with Client(world.client_url, token) as client, pytest.raises(UnauthorizedError):
                    client.instance.get_work()
