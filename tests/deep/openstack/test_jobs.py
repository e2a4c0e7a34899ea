"""A batch job on a lease of a real OpenStack.

Nova's fake hypervisor runs nothing: the test runs what an instance would, the user data that Nova has for it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from broker.jobs.events import JobFinished
from broker.jobs.models import Checkpoints, JobState, JobWish, Outcome, Profile
from tests.deep.openstack.real_openstack import PASSWORD, SIZES, RealOpenStack, real_openstack
from tests.integration.instance_jobs import (
    COUNT,
    Hypervisor,
    bucket,
    federation,
    install_script,
    running,
    scratch,
    token_of,
)
from tests.support.ports import free_port
from tests.support.wait import wait_until

pytestmark = [pytest.mark.xdist_group("openstack"), pytest.mark.timeout(1800)]

FEDERATION = """
[[cloud]]
id = "real"
nodes = [
    {{ count = 1, cores = 8, labels = {{ host = "fake-1" }} }},
    {{ count = 1, cores = 8, labels = {{ host = "fake-2" }} }},
]

[cloud.instances]
driver = "openstack"
endpoint = "{keystone}"
project = "admin"
image = "{image}"
sizes = {{ {sizes} }}
all_users = true
poll = "2s"
jobs = {{ url = "{url}", install = "install.sh", python = "{python}", boot = "10s" }}
"""
LAST = 100


class NovaMachines(Hypervisor):
    """Runs the servers of leases, which are those of the project admin."""

    def __init__(self, nova: RealOpenStack, directory: Path):
        super().__init__(directory)
        self._nova = nova

    def instances(self) -> set[str]:
        found = self._nova.servers()
        return {
            one["id"]
            for one in found
            if (one["tenant_id"], one["status"]) == (self._nova.project, "ACTIVE")
            and one["OS-EXT-STS:task_state"] != "deleting"
        }

    def read_user_data(self, name: str) -> str:
        return str(self._nova.server(name)["OS-EXT-SRV-ATTR:user_data"])


def test_a_job_runs_on_a_server_and_its_files_come_back(redis_url: str) -> None:
    port = free_port()
    with (
        real_openstack() as nova,
        bucket() as told,
        scratch() as directory,
        running(NovaMachines(nova, directory)) as machines,
    ):
        (directory / "install.sh").write_text(install_script(told))
        sizes = ", ".join(f'{cores} = "{name}"' for cores, name in SIZES.items())
        text = FEDERATION.format(
            keystone=nova.keystone, image=nova.image, sizes=sizes, url=f"http://127.0.0.1:{port}",
            python=sys.executable,
        )  # fmt: skip
        login = {
            "SPOTFED_CLOUD_USER": "admin",
            "SPOTFED_CLOUD_SECRET": PASSWORD,
            "SPOTFED_CLOUD_NOTIFICATIONS": nova.notifications,
        }
        with federation(directory, redis_url, text, ("real",), port, told | login) as world:
            world.client.jobs.submit(
                JobWish(
                    id="count",
                    origin="guest",
                    home="real",
                    command=("/bin/sh", "-c", COUNT.format(count=LAST)),
                    profile=Profile(work_s=15.0, memory_gb=0.001),
                    checkpoint=Checkpoints(),
                    slack=0.5,
                )
            )
            job = world.ended("count", 600)
            assert job.state is JobState.FINISHED, job.said
            assert [one.outcome for one in job.attempts] == [Outcome.WON], job.attempts
            numbers = "".join(f"{n}\n" for n in range(1, LAST + 1))
            files = {"deep": "", "deep/numbers": numbers, "link": "deep/numbers"}
            assert world.files("count") == files
            ends = [entry for entry in world.entries("count") if isinstance(entry, JobFinished)]
            assert len(ends) == 1
            wait_until(lambda: not machines.instances(), "no server of a lease is left")
            tokens = {token_of(data) for data in machines.user_data}
            assert len(tokens) == 1
            world.tells_nobody(tokens)
        nova.clear()
