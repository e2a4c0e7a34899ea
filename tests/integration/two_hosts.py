"""Two hosts on one machine: each has its own network, processes and directories, and they share a wire.

They are namespaces of the kernel, so this needs root, util-linux and iproute2. What is written in ``/etc``,
``/opt``, ``/root``, ``/usr/local`` and ``/var`` is seen on its own host alone. Python, its packages and the
project are below ``/opt``, where other users than root may read them too.
"""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.integration.worker_processes import ROOT
from tests.support.wait import wait_until

LIMIT_S = 120.0
_TOOLS = ("bash", "ip", "nsenter", "openssl", "redis-server", "runuser", "unshare", "useradd")

_KEEPER = """
mount --make-rprivate /
for place in /etc /var /usr/local; do
  mkdir -p "$1/layers$place" "$1/work$place"
  mount -t overlay overlay -o "lowerdir=$place,upperdir=$1/layers$place,workdir=$1/work$place" "$place"
done
mkdir -p "$1/opt/python" "$1/opt/packages" "$1/opt/source"
mount --bind "$3" "$1/opt/python"
mount --bind "$4" "$1/opt/packages"
mount --bind "$5" "$1/opt/source"
mount --rbind "$1/opt" /opt
mount --bind "$1/root" /root
mount -t tmpfs tmpfs /run
hostname "$2"
ip link set lo up
touch "$1/up"
exec sleep infinity
"""


@dataclass(frozen=True)
class Host:
    """One of them. ``directory``: what its own directories are made of, and its logs."""

    name: str
    address: str
    directory: Path
    pid: int

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """What bash says to a script, which root carries out in the project's directory."""
        environment = {
            "PATH": f"{self.directory}/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
        }
        inside = ["nsenter", "--target", str(self.pid), "--net", "--mount", "--pid", "--uts"]
        return subprocess.run(
            [*inside, f"--wd={ROOT}", "bash", "-euo", "pipefail", "-c", script],
            env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip

    def log(self, unit: str) -> str:
        """What a unit's process has printed."""
        path = self.directory / "logs" / f"{unit}.service.log"
        return path.read_text(errors="replace") if path.exists() else ""


@contextmanager
def two_hosts(directory: Path, names: tuple[str, str]) -> Iterator[dict[str, Host]]:
    """By name. The test is skipped where they cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"not installed here: {', '.join(missing)} (Debian: redis-server, iproute2, util-linux)")
    with ExitStack() as stack:
        hosts = {
            name: stack.enter_context(_host(directory / name, name, f"192.0.2.{number}"))
            for number, name in enumerate(names, 1)
        }
        _wire(hosts)
        for host in hosts.values():
            _tools(host, hosts)
        yield hosts


@contextmanager
def _host(directory: Path, name: str, address: str) -> Iterator[Host]:
    for part in ("bin", "logs", "root"):
        (directory / part).mkdir(parents=True)
    apart = ["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]
    said = directory / "keeper.log"
    told = [str(directory), name, sys.base_prefix, *site.getsitepackages()[:1], str(ROOT)]
    with said.open("wb") as log:
        keeper = subprocess.Popen([*apart, "bash", "-ec", _KEEPER, "keeper", *told], stdout=log, stderr=log)
    try:
        wait_until(lambda: (directory / "up").exists() or keeper.poll() is not None, f"the host {name}")
        if keeper.poll() is not None:
            pytest.skip(f"this machine makes no namespaces: {said.read_text().strip()}")
        (inside,) = psutil.Process(keeper.pid).children()
        yield Host(name, address, directory, inside.pid)
    finally:
        keeper.kill()  # the kernel kills all processes of its namespace
        keeper.wait()


def _wire(hosts: dict[str, Host]) -> None:
    (near, far), ends = hosts.values(), (f"sf{os.getpid()}a", f"sf{os.getpid()}b")
    made = subprocess.run(
        ["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip(f"this machine makes no pairs of virtual Ethernet devices: {made.stderr.strip()}")
    for host, end in zip((near, far), ends, strict=True):
        subprocess.run(["ip", "link", "set", end, "netns", str(host.pid)], check=True)
        lines = [f"{one.address} {one.name}" for one in hosts.values()]
        host.run(f"ip addr add {host.address}/24 dev {end}; ip link set {end} up").check_returncode()
        host.run(
            "cat >> /etc/hosts <<END\n127.0.0.1 localhost\n" + "\n".join(lines) + "\nEND"
        ).check_returncode()


def _tools(host: Host, hosts: dict[str, Host]) -> None:
    """What a host has that this machine has not: an installed spotfed, systemd, and a way to copy files."""
    (host.directory / "opt/spotfed/bin").mkdir(parents=True)
    here = f"/opt/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    paths = "LD_LIBRARY_PATH=/opt/python/lib PYTHONPATH=/opt/source:/opt/packages PYTHONDONTWRITEBYTECODE=1"
    python = f'{paths} exec {here} "$@"'
    main = "import sys; from broker.cli import main; sys.exit(main())"
    _script(host.directory / "opt/spotfed/bin/python", python)
    _script(host.directory / "opt/spotfed/bin/spotfed", python.replace('"$@"', f"-c '{main}' \"$@\""))
    _script(
        host.directory / "bin/systemctl",
        f'{paths} exec {here} /opt/source/tests/integration/unit_starter.py {host.directory}/logs "$@"',
    )
    cases = " ".join(f'{one.name}:/root/) to="{one.directory}/root" ;;' for one in hosts.values())
    last = '"${@: -1}"'
    _script(host.directory / "bin/scp", f'case {last} in {cases} *) exit 1 ;; esac; cp "${{@:1:$#-1}}" "$to"')


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
