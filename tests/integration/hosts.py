"""Hosts on one machine: each has its own network, processes and name, and a wire joins them.

They are namespaces of the kernel, so this needs root, util-linux and iproute2. A host can die: its processes
are killed at once, and what is sent to it vanishes.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.integration.worker_processes import ROOT
from tests.support.wait import wait_until

LIMIT_S = 120.0
#: The address of the machine of users, which only those have who `Wire.join` it.
USERS = "192.0.2.254"
_TOOLS = ("bash", "ip", "nsenter", "unshare")
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET of sched.h; os.setns comes with Python 3.12
#: The first process of a host: bash, since it also reaps the processes whose parents are gone.
_HOST = 'hostname "$1"; ip link set lo up; touch "$2"; sleep infinity & wait'
#: A unit is started again when it ends.
_UNIT = 'while :; do "$@" || true; sleep 1; done'


class Wire:
    """A switch with the machine of users, and a port for each host."""

    def __init__(self, directory: Path):
        up = directory / "wire.up"
        script = f"ip link set lo up; ip link add wire type bridge; ip addr add {USERS}/24 dev wire; "
        script += f"ip link set wire up; touch {up}; exec sleep infinity"
        self.keeper = _Keeper(["--net", "bash", "-ec", script], up, directory / "wire.log")

    def ip(self, *arguments: str, check: bool = True) -> None:
        """Carry out a command of iproute2 where the switch is."""
        inside = ["nsenter", "--target", str(self.keeper.pid), "--net", "ip", *arguments]
        subprocess.run(inside, check=check, capture_output=True)

    def plug(self, host: Host) -> None:
        """Connect a host that has just started; its network card is the one that it had before."""
        self.ip("link", "del", host.port, check=False)
        far_end = ["peer", "name", "eth0", "address", host.card, "netns", str(host.pid)]
        self.ip("link", "add", host.port, "type", "veth", *far_end)
        self.ip("link", "set", host.port, "master", "wire", "up")
        host.run(f"ip addr add {host.address}/24 dev eth0; ip link set eth0 up").check_returncode()

    def cut(self, host: Host) -> None:
        """Let everything vanish that a host sends or is sent."""
        self.ip("link", "set", host.port, "down")

    def join(self) -> None:
        """Move this thread, and those that it starts from now on, to the machine of users."""
        with Path(f"/proc/{self.keeper.pid}/ns/net").open() as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _NEW_NETWORK) != 0:
                raise OSError(ctypes.get_errno(), "setns")


class Host:
    """One of them. ``directory``: what its own directories are made of, and its logs."""

    def __init__(self, wire: Wire, directory: Path, name: str, number: int):
        for part in ("bin", "logs", "root"):
            (directory / part).mkdir(parents=True)
        self.name, self.directory, self.address = name, directory, f"192.0.2.{number}"
        self.port, self.card = f"port{number}", f"02:00:00:00:00:{number:02x}"
        self._wire, self._units = wire, dict[str, subprocess.Popen[bytes]]()
        self._keeper: _Keeper | None = None

    @property
    def pid(self) -> int:
        """Id of the process that all others of the host end with."""
        assert self._keeper is not None, f"{self.name} is dead"
        return self._keeper.inside

    def boot(self) -> None:
        """Start it, with no process but the first."""
        assert self._keeper is None
        up = self.directory / "up"
        up.unlink(missing_ok=True)
        apart = ["--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]
        command = [*apart, "bash", "-ec", _HOST, "host", self.name, str(up)]
        self._keeper = _Keeper(command, up, self.directory / "logs" / "boot.log")
        self._wire.plug(self)

    def die(self) -> None:
        """Kill all its processes at once, which tell nobody."""
        assert self._keeper is not None
        self._wire.cut(self)
        self._keeper.kill()
        for unit in self._units.values():
            unit.wait()
        self._units.clear()
        self._keeper = None

    def stop(self) -> None:
        """Die, unless it is dead."""
        if self._keeper is not None:
            self.die()

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """What bash says to a script, which root carries out in the project's directory."""
        return subprocess.run(
            self._inside("bash", "-euo", "pipefail", "-c", script),
            env=self._environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip

    def start(self, unit: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Keep a command running until the host dies."""
        with self.log_file(unit).open("ab") as log:
            process = subprocess.Popen(
                self._inside("bash", "-c", _UNIT, unit, *command),
                env={**self._environment, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self._units[unit] = process

    def end(self, unit: str) -> None:
        """Kill a unit's processes for good, if it runs."""
        keeper = self._units.pop(unit, None)
        if keeper is None:
            return
        (shell,) = psutil.Process(keeper.pid).children()
        commands = shell.children(recursive=True)
        shell.kill()
        for command in commands:
            with suppress(psutil.NoSuchProcess):
                command.kill()
        keeper.wait()
        psutil.wait_procs(commands)

    def log_file(self, unit: str) -> Path:
        """Where a unit's process prints."""
        return self.directory / "logs" / f"{unit}.service.log"

    def log(self, unit: str) -> str:
        """What a unit's process has printed."""
        path = self.log_file(unit)
        return path.read_text(errors="replace") if path.exists() else ""

    def _inside(self, *command: str) -> list[str]:
        namespaces = ["--net", "--mount", "--pid", "--uts"]
        return ["nsenter", "--target", str(self.pid), *namespaces, f"--wd={ROOT}", *command]

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.directory}/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
        }


class _Keeper:
    """A process that keeps namespaces, and kills all that is in them when it is killed."""

    def __init__(self, command: Sequence[str], up: Path, said: Path):
        with said.open("ab") as log:
            self._process = subprocess.Popen(["unshare", *command], stdout=log, stderr=log)
        wait_until(lambda: up.exists() or self._process.poll() is not None, "namespaces")
        if self._process.poll() is not None:
            pytest.skip(f"this machine makes no namespaces: {said.read_text().strip()}")
        self.pid = self._process.pid

    @property
    def inside(self) -> int:
        """Id of the first process of a namespace of processes."""
        (first,) = psutil.Process(self.pid).children()
        return first.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def hosts(
    directory: Path, names: Sequence[str], tools: Sequence[str] = ()
) -> Iterator[tuple[Wire, dict[str, Host]]]:
    """The wire, and by name the hosts, which have started. The test is skipped where they cannot be made.

    ``tools``: further programs that it needs.
    """
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    if missing := [tool for tool in (*_TOOLS, *tools) if shutil.which(tool) is None]:
        pytest.skip(f"not installed here: {', '.join(missing)} (see CONTRIBUTING.md)")
    with ExitStack() as stack:
        wire = Wire(directory)
        stack.callback(wire.keeper.kill)
        made = {name: Host(wire, directory / name, name, number) for number, name in enumerate(names, 1)}
        for host in made.values():
            stack.callback(host.stop)
            host.boot()
        yield wire, made
