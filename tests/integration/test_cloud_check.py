"""``spotfed cloud check`` against a server that stands for a cloud, without a queue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.unit.workers.cloud_agent.faults import Broken, served
from tests.unit.workers.cloud_agent.nova_server import IMAGE, PROJECT, SECRET, USER, NovaServer

FEDERATION = """
[[cloud]]
id = "glade"
nodes = "2x8"

[cloud.instances]
driver = "openstack"
endpoint = "{url}/identity/v3"
region = "here"
interface = "internal"
project = "{project}"
image = "{image}"
sizes = {{ 1 = "m1.small", 4 = "m1.large" }}
all_users = true
"""


def run(directory: Path, *arguments: str, secret: str = SECRET) -> tuple[int, str]:
    environment = {
        **os.environ, "SPOTFED_CLOUD_USER": USER, "SPOTFED_CLOUD_SECRET": secret,
        "SPOTFED_STATE_DIR": str(directory / "state"),
    }  # fmt: skip
    command = [
        str(Path(sys.executable).parent / "spotfed"),
        "cloud",
        "check",
        str(directory / "federation.toml"),
    ]
    done = subprocess.run(
        [*command, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert SECRET not in done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr


def test_yes_or_what_is_missing(tmp_path: Path) -> None:
    nova = NovaServer()
    with served(Broken(nova)) as (url, _):
        file = tmp_path / "federation.toml"
        file.write_text(FEDERATION.format(url=url, project=PROJECT, image=IMAGE))
        code, text = run(tmp_path, "--cloud", "glade")
        assert (code, "glade is ready" in text) == (0, True), text
        code, text = run(tmp_path, "--cloud", "glade", "--json", secret="wrong")
        report = json.loads(text)
        assert (code, report["ready"], report["checks"][0]["name"]) == (1, False, "access")
        nova.image_status = "KILLED"
        code, text = run(tmp_path, "--cloud", "glade")
        assert (code, "is killed" in text, "glade is not ready" in text) == (1, True, True)
        code, text = run(tmp_path, "--cloud", "none")
        assert (code, "no cloud is called 'none'" in text) == (2, True)
