"""Batch jobs on leases of a real Slurm cluster: each lease is a job of Slurm, which starts a node agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.jobs.models import JobState, JobWish, Outcome
from tests.integration.instance_jobs import COUNT, bucket, federation, install_script, scratch
from tests.integration.slurm.cluster import cluster
from tests.integration.test_local import free_port
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("slurm")

FEDERATION = """
[[cloud]]
id = "hpc"
nodes = "2x4"

[cloud.instances]
driver = "slurm"
partition = "spot"
script = "start.sh"
config = "{config}"
poll = "0.5s"
output = "{directory}/agent-%j.out"

[cloud.instances.jobs]
url = "{url}"
install = "install.sh"
python = "{python}"
boot = "10s"
"""


def test_a_job_runs_on_a_lease_and_its_files_come_back(redis_url: str) -> None:
    import sys

    port = free_port()
    with bucket() as told, cluster() as slurm, scratch() as directory:
        (directory / "start.sh").write_text("#!/bin/sh\nexec sleep 1000\n")
        (directory / "install.sh").write_text(install_script(told))
        text = FEDERATION.format(
            config=slurm.config, directory=slurm.directory, url=f"http://127.0.0.1:{port}", python=sys.executable
        )
        with federation(directory, redis_url, text, ("hpc",), port, told) as world:
            wish = JobWish.model_validate(
                {
                    "id": "count", "home": "hpc", "origin": "guest", "profile": {"work_s": 5.0, "memory_gb": 0.001},
                    "command": ("/bin/sh", "-c", COUNT.format(count=30)), "checkpoint": {},
                }
            )
            world.client.jobs.submit(wish)
            try:
                job = world.ended("count", 90)
            except AssertionError:
                print(world.view("count").model_dump_json(indent=1))
                for log in [*slurm.directory.glob("agent-*.out"), *(directory / "state" / "logs").iterdir()]:
                    print("---", log, log.read_text()[-3000:])
                raise
            print(job.model_dump_json(indent=1))
            for log in [*slurm.directory.glob("agent-*.out")]:
                    print("---", log, log.read_text()[-3000:])
            assert job.state is JobState.FINISHED, job.said
            files = world.files("count")
            print(files)
            assert files["n"] == "30\n"
            wait_until(lambda: not slurm.states(), "no job of Slurm is left")
