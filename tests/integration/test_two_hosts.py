"""deploy/README.md, carried out: two organisations on two hosts, with TLS, users of Redis and signatures."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.integration.cloud_of_beta import CloudOfBeta
from tests.integration.hosts import Host
from tests.integration.two_hosts import two_hosts
from tests.integration.worker_processes import ROOT
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("worker-processes")

ALPHA, BETA = "alpha.example", "beta.example"
_BLOCK = re.compile(r"^<!-- on: ([a-z ]+) -->\n```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPERATOR = "set -a; . /root/redis-users/spotfed-operator.env; set +a; "


def blocks() -> list[tuple[str, str, str]]:
    """The heading, the host and the commands of each block that is to be carried out, in their order."""
    found = []
    for part in re.split(r"^### ", (ROOT / "deploy/README.md").read_text(), flags=re.MULTILINE)[1:]:
        heading = part.partition("\n")[0]
        for on, commands in _BLOCK.findall(part):
            found += [(heading, f"{name}.example", commands) for name in on.split()]
    return found


def test_every_step_is_carried_out_on_some_host() -> None:
    steps = [heading.partition(".")[0] for heading, _, _ in blocks()]
    assert sorted(set(steps)) == [str(number) for number in range(1, 10)]
    assert steps == sorted(steps)


@pytest.mark.timeout(600)
def test_two_hosts_from_nothing_to_an_eviction(tmp_path: Path) -> None:
    with two_hosts(tmp_path, (ALPHA, BETA)) as hosts:
        alpha, beta = hosts[ALPHA], hosts[BETA]
        said: dict[str, str] = {}
        cloud: CloudOfBeta | None = None
        try:
            for heading, name, commands in blocks():
                if heading.startswith("7"):
                    _await_federation(alpha, beta)
                if heading.startswith("9") and cloud is None:
                    cloud = CloudOfBeta(alpha, beta)
                done = hosts[name].run(commands)
                assert done.returncode == 0, f"{heading} on {name}:\n{done.stdout}\n{done.stderr}"
                said[heading[0]] = said.get(heading[0], "") + done.stdout
            _check(alpha, beta, said)
            assert cloud is not None
            _check_real_cloud(alpha, cloud)
        except BaseException:
            for path in sorted(tmp_path.glob("*/logs/*.log")):
                print(f"--- {path}\n{path.read_text(errors='replace')[-3000:]}", file=sys.stderr)  # noqa: T201
            raise


def _check(alpha: Host, beta: Host, said: dict[str, str]) -> None:
    assert {"harbour", "meadow"} <= set(re.findall(r"\w+", said["7"]))
    assert "admitted lease rehearsal.1 on meadow" in said["8"]
    told = said["8"].partition("admitted rehearsal.1")[2]
    assert "evicted rehearsal.1" in told
    # Beta's owner did it, over the wire, and its password opens nothing of harbour.
    assert "harbour" not in beta.log("spotfed-cloud@meadow")
    look = "import os, redis\nfrom broker.storage.connections import connect\n"
    look += "connect(os.environ['SPOTFED_REDIS_URL']).xlen('spotfed:inbox:harbour')"
    as_beta = "set -a; . /etc/spotfed/spotfed.env; . /etc/spotfed/cloud-meadow.env; set +a; "
    denied = beta.run(f'{as_beta} /opt/spotfed/bin/python -c "{look}"')
    assert "NoPermissionError" in denied.stderr
    # A member's user on beta's host, with nothing but the key that alpha's operator made.
    (beta.directory / "root/beta.key").write_text((alpha.directory / "root/beta.key").read_text())
    member = f"export SPOTFED_URL=https://{ALPHA}:8000 SPOTFED_CA=/etc/spotfed/ca.pem; "
    member += "export SPOTFED_API_KEY=$(cat /root/beta.key); "
    answer = beta.run(member + "spotfed submit --cores 1 --lifetime 10m --sla none --origin meadow --json")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["lease"]["origin"] == "meadow"
    dead = alpha.run(_OPERATOR + "spotfed dlq list --json")
    assert json.loads(dead.stdout)["dead_letters"] == [], dead.stdout


def _check_real_cloud(alpha: Host, cloud: CloudOfBeta) -> None:
    """The lease has an instance. It is evicted when the cloud's own users need the room, whose instances are
    never touched."""
    (spot,) = wait_until(cloud.states, "an instance of the lease")
    wait_until(
        lambda: spot in alpha.run(_OPERATOR + "spotfed instance real.1").stdout, "the lease's instance"
    )
    direct = cloud.start(7)
    wait_until(lambda: cloud.states()[spot] in {"shutting-down", "terminated"}, "its eviction")
    told = alpha.run(_OPERATOR + "spotfed events --cloud glade").stdout
    assert "evicted real.1" in told.partition("admitted real.1")[2]
    assert cloud.states() == {spot: cloud.states()[spot], **dict.fromkeys(direct, "running")}


def _await_federation(alpha: Host, beta: Host) -> None:
    """Both owners are there, and the API."""
    for host, unit in ((alpha, "spotfed-cloud@harbour"), (beta, "spotfed-cloud@meadow")):
        wait_until(partial(_opened, host, unit), unit)
    look = "import ssl, urllib.request as u; u.urlopen('https://alpha.example:8000/readyz', "
    look += "context=ssl.create_default_context(cafile='/etc/spotfed/ca.pem'))"
    wait_until(lambda: alpha.run(f'/opt/spotfed/bin/python -c "{look}"').returncode == 0, "the API")


def _opened(host: Host, unit: str) -> bool:
    return '"event": "open"' in host.log(unit)
