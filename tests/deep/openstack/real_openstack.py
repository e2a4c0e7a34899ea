"""A real OpenStack on loopback, made by ``../shared/openstack/openstack.sh``: Keystone, Nova, its RabbitMQ.

Its hosts run Nova's fake hypervisor: ten cores and 8192 MB each, so that one flavor ``large`` fills a host.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import pytest
import requests
from amqp.exceptions import NotFound
from kombu import Connection

from tests.conftest import PROJECT_ROOT
from tests.support.wait import wait_until

_SHARED = Path(os.environ.get("SPOTFED_DATA") or PROJECT_ROOT.parent / "shared" / "data").parent
SCRIPT = _SHARED / "openstack" / "openstack.sh"
#: The state directory of one that runs already; tests then leave it running.
RUNNING = "SPOTFED_TEST_OPENSTACK"
PASSWORD = "ostack-secret"
#: Cores of instances, and the flavors that take as large a share of a host's memory.
SIZES = {1: "tiny", 2: "small", 4: "medium", 8: "large"}
#: Seconds between two looks of a test at Nova, which has one process for its API.
LOOK_S = 0.25
#: Of each host.
MEMORY_MB = 8192
_PORTS = 9

Result = TypeVar("Result")


class RealOpenStack:
    """An OpenStack that runs. ``base``: the first of its ports; ``state``: its state directory."""

    def __init__(self, base: int, state: Path):
        self._base, self._state = base, state
        self.keystone = f"http://127.0.0.1:{base}/v3"
        self.notifications = f"amqp://openstack:{PASSWORD}@127.0.0.1:{base + 6}//"
        self._compute = f"http://127.0.0.1:{base + 1}/v2.1"
        self._tokens = {user: self._token(user) for user in ("admin", "demo")}
        images = self.get(f"http://127.0.0.1:{base + 3}/v2/images")["images"]
        self.image = str(images[0]["id"])
        self.project = self.get(f"{self.keystone}/projects?name=admin")["projects"][0]["id"]
        services = self.get("/os-services?binary=nova-compute")["services"]
        self.hosts = {str(service["host"]) for service in services}
        providers = self.get(f"http://127.0.0.1:{base + 2}/resource_providers")["resource_providers"]
        self.providers = {str(provider["name"]): str(provider["uuid"]) for provider in providers}

    def _token(self, user: str) -> str:
        domain = {"name": "Default"}
        identity = {"name": user, "domain": domain, "password": PASSWORD}
        body: Any = {
            "auth": {
                "identity": {"methods": ["password"], "password": {"user": identity}},
                "scope": {"project": {"name": user, "domain": domain}},
            }
        }
        answer = requests.post(f"{self.keystone}/auth/tokens", json=body, timeout=60)
        answer.raise_for_status()
        return answer.headers["X-Subject-Token"]

    def get(self, address: str) -> Any:
        """What the administrator gets from a path of Nova, or from an address."""
        return self.call("GET", address).json()

    def call(self, method: str, address: str, body: Any = None, user: str = "admin") -> requests.Response:
        """The answer to a call of a user."""
        address = address if address.startswith("http") else self._compute + address
        headers = {"X-Auth-Token": self._tokens[user], "OpenStack-API-Version": "compute 2.47"}
        return requests.request(method, address, json=body, headers=headers, timeout=60)

    def servers(self) -> list[dict[str, Any]]:
        """All servers of all projects."""
        found: list[dict[str, Any]] = self.get("/servers/detail?all_tenants=1")["servers"]
        return found

    def server(self, server_id: str) -> dict[str, Any]:
        """One server."""
        found: dict[str, Any] = self.get(f"/servers/{server_id}")["server"]
        return found

    def create(self, flavor: str, user: str = "demo", **more: Any) -> dict[str, Any]:
        """A user starts a server; what it became, once that is known. more: of the request."""
        flavors = {one["name"]: one["id"] for one in self.get("/flavors")["flavors"]}
        asked = {
            "name": "own",
            "imageRef": self.image,
            "flavorRef": flavors[flavor],
            "networks": "none",
            **more,
        }
        answer = self.call("POST", "/servers", {"server": asked}, user)
        answer.raise_for_status()
        server_id = answer.json()["server"]["id"]

        def decided() -> dict[str, Any] | None:
            server = self.server(server_id)
            return server if server["status"] in ("ACTIVE", "ERROR") else None

        return wait_for_nova(decided, f"{server_id} runs or fails")

    def delete(self, server_id: str) -> None:
        """The administrator deletes a server."""
        self.call("DELETE", f"/servers/{server_id}")

    @contextmanager
    def scheduler_with(self, configuration: str, python_path: Path) -> Iterator[None]:
        """Its scheduler runs with more configuration and modules; hosts are sold twice as often."""
        more = self._state / "scheduler-more.conf"
        more.write_text(configuration)
        etc, program = self._state / "etc" / "nova", self._state / "pkg" / "usr" / "bin" / "nova-scheduler"
        files = [f"--config-file={path}" for path in (etc / "nova.conf", etc / "db.conf", more)]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self._state / "home"), "LC_ALL": "C.UTF-8"}
        environment["PYTHONPATH"] = str(python_path)
        script = {**os.environ, "OSTACK_PORT_BASE": str(self._base), "OSTACK_SKIP_APT": "1"}
        command = [str(SCRIPT), str(self._state)]
        subprocess.run([*command, "stop", "nova-scheduler"], env=script, check=True, capture_output=True)
        self._sell(2.0)
        log = (self._state / "log" / "nova-scheduler-more.log").open("w")
        scheduler = subprocess.Popen(
            ["/usr/bin/python3", str(program), *files], env=environment, stdout=log, stderr=log
        )
        try:
            wait_for_nova(self._hears_scheduler, "the scheduler listens")
            yield
        finally:
            scheduler.terminate()
            scheduler.wait(60)
            log.close()
            self._sell(1.0)
            subprocess.run([*command, "up"], env=script, check=True, capture_output=True)
            wait_for_nova(self._hears_scheduler, "the scheduler listens again")

    def _hears_scheduler(self) -> bool:
        """Whether computes can tell the scheduler of their servers: else the end of a server fails."""
        with Connection(self.notifications) as connection, suppress(NotFound):
            connection.default_channel.exchange_declare("scheduler_fanout", "fanout", passive=True)
            return True
        return False

    def _sell(self, ratio: float) -> None:
        """Placement sells cores and memory of each host that many times."""
        placement = f"http://127.0.0.1:{self._base + 2}/resource_providers"
        for provider in self.get(placement)["resource_providers"]:
            for resource in ("VCPU", "MEMORY_MB"):
                address = f"{placement}/{provider['uuid']}/inventories/{resource}"
                inventory = self.get(address) | {"allocation_ratio": ratio}
                self.call("PUT", address, inventory).raise_for_status()

    def clear(self) -> None:
        """No server is left."""

        def is_clear() -> bool:
            servers = self.servers()
            for server in servers:
                if server["OS-EXT-STS:task_state"] != "deleting":
                    self.delete(server["id"])
            return not servers

        wait_for_nova(is_clear, "all servers are deleted")

    def empty_host(self) -> str | None:
        """A host on which nothing runs, None if there is none."""
        return self.host_with(MEMORY_MB)

    def host_with(self, memory_mb: int) -> str | None:
        """A host on which Placement has that much memory to give away, None if there is none."""
        for name, provider in sorted(self.providers.items()):
            usages = self.get(f"http://127.0.0.1:{self._base + 2}/resource_providers/{provider}/usages")
            if MEMORY_MB - usages["usages"]["MEMORY_MB"] >= memory_mb:
                return name
        return None

    def keys(self) -> dict[str, str]:
        """The administrator's key pairs, who holds the instances of leases, by name."""
        pairs = self.get("/os-keypairs")["keypairs"]
        return {pair["keypair"]["name"]: pair["keypair"]["public_key"] for pair in pairs}

    def description(self, server_id: str) -> str:
        """The description of a server, where its user reads what became of a failed request."""
        return str(self.server(server_id).get("description") or "")

    def make_image(self, name: str) -> str:
        """There is a further image; its id."""
        glance = f"http://127.0.0.1:{self._base + 3}/v2/images"
        told = {"name": name, "disk_format": "raw", "container_format": "bare", "visibility": "public"}
        answer = self.call("POST", glance, told)
        answer.raise_for_status()
        image = str(answer.json()["id"])
        headers = {"X-Auth-Token": self._tokens["admin"], "Content-Type": "application/octet-stream"}
        requests.put(f"{glance}/{image}/file", b"\0" * 4096, headers=headers, timeout=60).raise_for_status()
        return image

    def make_flavor(self, name: str, cores: int, memory_mb: int) -> None:
        """There is such a flavor, with a disk of 1 GB."""
        flavor = {"id": name, "name": name, "vcpus": cores, "ram": memory_mb, "disk": 1}
        answer = self.call("POST", "/flavors", {"flavor": flavor})
        assert answer.ok or answer.status_code == HTTPStatus.CONFLICT, answer.text

    def logged_at(self, service: str, *words: str) -> float:
        """When a service last logged a line with all these words, in seconds since 1970."""
        lines = (self._state / "log" / f"{service}.log").read_text(errors="replace").splitlines()
        line = next((line for line in reversed(lines) if all(word in line for word in words)), None)
        assert line is not None, f"{service} did not log {words}"
        return datetime.fromisoformat(line[: len("2026-01-01 00:00:00.000")]).timestamp()


def wait_for_nova(condition: Callable[[], Result | None], what: str, limit_s: float = 180.0) -> Result:
    """Wait for what a call of the API tells: it costs Nova too much for a hundred calls a second."""
    result: Result | None = None
    looked_s = float("-inf")

    def look() -> Result | None:
        nonlocal result, looked_s
        if time.monotonic() - looked_s >= LOOK_S:
            result, looked_s = condition(), time.monotonic()
        return result

    return wait_until(look, what, limit_s)


@contextmanager
def real_openstack() -> Iterator[RealOpenStack]:
    """Bring one up, or take the one that runs; skips where there is none."""
    if not SCRIPT.is_file():
        pytest.skip(f"no OpenStack to try: there is no {SCRIPT}")
    if os.environ.get(RUNNING):
        state = Path(os.environ[RUNNING])
        text = (state / "admin.openrc").read_text()
        address = next(word for word in shlex.split(text) if word.startswith("OS_AUTH_URL="))
        yield RealOpenStack(int(address.rpartition(":")[2].partition("/")[0]), state)
        return
    if not Path("/usr/lib/python3/dist-packages/nova").is_dir():
        pytest.skip("OpenStack's packages are not installed: openstack.sh DIRECTORY install")
    base = _free_ports()
    environment = os.environ | {"OSTACK_PORT_BASE": str(base), "OSTACK_SKIP_APT": "1", "OSTACK_NICE": "0"}
    with tempfile.TemporaryDirectory(prefix="spotfed-ostack-", dir="/tmp") as directory:  # a short path
        command = [str(SCRIPT), directory]
        log = Path(directory) / "up.log"
        try:
            with log.open("w") as output:
                up = subprocess.run(
                    [*command, "up"], env=environment, stdout=output, stderr=output, check=False, timeout=900
                )
            assert up.returncode == 0, log.read_text()[-3000:]
            yield RealOpenStack(base, Path(directory))
        finally:
            with suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [*command, "down"], env=environment, capture_output=True, check=False, timeout=120
                )


def _free_ports() -> int:
    """The first of nine neighbouring ports that nobody uses and no client is given."""
    for base in range(17000, 30000, 10):
        with suppress(OSError):
            for port in range(base, base + _PORTS):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return base
    raise AssertionError("no nine neighbouring ports are free")
