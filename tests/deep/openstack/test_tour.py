"""A tour of what a real OpenStack in a federation is for, from nothing, by the commands that people type."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deep.openstack.real_openstack import RealOpenStack, wait_for_nova
from tests.deep.openstack.world import CREDENTIALS, federation, run_command, write_file
from tests.unit.workers.cloud_agent.ec2_server import IMAGE, REGION, Front
from tests.unit.workers.cloud_agent.faults import Broken, served

pytestmark = [pytest.mark.xdist_group("openstack"), pytest.mark.timeout(1200)]

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICQAbztw9xIJhw10YoeUOXfkrU8/v/kPbE3vidVyzpCe me"
SCRIPT = "#!/bin/sh\necho secret-4711\n"
ALLOW = """
[cloud.instances.allow]
images = {{ "debian-12" = "{image}" }}
keys = true
user_data = true
"""
#: The partner is a cloud that speaks EC2's API.
OVERFLOW = """
[cloud.instances.overflow]
images = {{ "{own_image}" = "debian-12" }}
lifetime = "6h"
resources = ["memory_mb"]

[[cloud]]
id = "partner"
nodes = [{{ count = 1, cores = 8, memory_mb = 32768 }}]

[cloud.instances]
driver = "ec2"
endpoint = "{url}"
region = "{region}"
image = "{image}"
sizes = {{ 8 = "m5.2xlarge" }}

[cloud.instances.allow]
images = {{ "debian-12" = "{image}" }}
keys = true
user_data = true
"""


@pytest.fixture
def partner() -> Iterator[str]:
    """The address of the partner's cloud."""
    with served(Broken(Front())) as (url, _):
        yield url


def test_the_tour(nova: RealOpenStack, tmp_path: Path, redis_url: str, partner: str) -> None:
    nova.clear()
    image = nova.make_image("debian-12")
    allow = ALLOW.format(image=image) + OVERFLOW.format(
        own_image=nova.image, url=partner, region=REGION, image=IMAGE
    )
    (tmp_path / "id.pub").write_text(KEY)
    (tmp_path / "run.sh").write_text(SCRIPT)

    # 1. Before anything is promised: what is wrong with the file, and then that the cloud is ready.
    wrong = write_file(nova, tmp_path, nodes='[{ count = 1, cores = 10, labels = { host = "fake-3" } }]')
    checked = run_command("cloud", "check", wrong, "--cloud", "real", environment=CREDENTIALS)
    assert (checked.returncode, "real is not ready" in checked.stdout) == (1, True), checked.stdout
    assert "no host that takes servers is called fake-3" in checked.stdout
    assert "memory_mb=8192" in checked.stdout, "it says what the hosts have"
    file = write_file(nova, tmp_path, more=allow)
    checked = run_command("cloud", "check", file, "--cloud", "real", "--start", environment=CREDENTIALS)
    assert (checked.returncode, "real is ready" in checked.stdout) == (0, True), checked.stdout
    assert "hosts have what the file says of nodes" in checked.stdout
    wait_for_nova(lambda: not nova.servers(), "the test instance is gone")

    # 2. It joins: its owner and its agent run, and the federation sees it.
    with federation(
        nova, tmp_path, redis_url, "5s", notified=True, more=allow, partners=("partner",)
    ) as world:
        clouds = run_command("clouds", environment=world.environment)
        assert (clouds.returncode, "real" in clouds.stdout) == (0, True), clouds.stdout

        # 3. The first lease runs its holder's image, key and script; the secret is nowhere but at the cloud.
        launch = ("--image", "debian-12", "--key", tmp_path / "id.pub", "--user-data", tmp_path / "run.sh")
        asked = (
            "submit",
            "--cloud",
            "real",
            "--cores",
            "4",
            "--lifetime",
            "1h",
            "--sla",
            "none",
            *launch,
            "--json",
        )
        answer = run_command(*asked, environment=world.environment)
        lease = json.loads(answer.stdout)["lease"]["id"]
        wait_for_nova(lambda: lease in world.hosts(), "the instance runs")
        shown = run_command("instance", lease, "--json", environment=world.environment)
        (server,) = nova.servers()
        assert json.loads(shown.stdout)["own_id"] == server["id"]
        assert server["image"]["id"] == image
        assert nova.keys()[server["key_name"]].split()[1] == KEY.split()[1]
        assert base64.b64decode(server["OS-EXT-SRV-ATTR:user_data"]).decode() == SCRIPT
        assert "secret-4711" not in answer.stdout + shown.stdout

        # 4. Spot fills the cloud; an own user is refused, room is freed, and the next try runs.
        leases = [lease, *(world.lease(cores) for cores in (4, 4, 2))]
        wait_for_nova(lambda: set(world.hosts()) == set(leases), "the cloud is full of spot")
        failed = nova.create("large")
        assert failed["status"] == "ERROR"
        wait_for_nova(nova.empty_host, "there is room on a host")
        assert nova.create("large")["status"] == "ACTIVE"

        # 5. Own users fill the cloud. One more is offered to the federation, and runs at the partner.
        assert nova.create("large")["status"] == "ERROR", "the other host is full of spot"
        wait_for_nova(nova.empty_host, "there is room on the other host")
        assert nova.create("large")["status"] == "ACTIVE"
        failed = nova.create("large")
        assert failed["status"] == "ERROR"
        wait_for_nova(lambda: "runs on partner" in nova.description(failed["id"]), "it runs elsewhere")
        elsewhere = nova.description(failed["id"]).partition("as lease ")[2].rstrip(".")
        shown = run_command("instance", elsewhere, "--json", environment=world.environment)
        assert json.loads(shown.stdout)["size"] == "m5.2xlarge"

        # 6. The holder gives the lease back, and its instance and its key are gone.
        for left in [*world.hosts(), elsewhere]:
            run_command("release", left, environment=world.environment)
        wait_for_nova(lambda: not world.hosts(), "no instance of a lease is left")
        wait_for_nova(lambda: not nova.keys(), "nor a key")
