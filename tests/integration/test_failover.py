"""Case 18: two Redis servers behind one address: the second is promoted, the first made its replica."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from broker.doctor.check import State
from broker.doctor.installation import Installation
from broker.doctor.redis import RedisServer, check_redis_mode
from broker.identity.store import let_in_operator
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from tests.cases.socket_proxy import Proxy, proxy_to
from tests.integration.redis_servers import ADMIN, server_with_acl
from tests.integration.worker_processes import Processes
from tests.support.ports import free_port
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("worker-processes")

WISH = {"cores": 1, "lifetime_s": 1e6}


@dataclass
class Pair:
    """Two servers, of which each can be the other's replica, and the address that leads to one of them."""

    first: EmbeddedRedis
    second: EmbeddedRedis
    ports: tuple[int, int]
    proxy: Proxy

    def follow(self, server: EmbeddedRedis, port: int) -> None:
        """Make a server a replica, and return once it has everything."""
        with connect(server.url) as client:
            client.execute_command("REPLICAOF", "127.0.0.1", port)
            wait_until(lambda: client.info("replication")["master_link_status"] == "up", "the link")

    def promote(self, server: EmbeddedRedis) -> None:
        with connect(server.url) as client:
            client.execute_command("REPLICAOF", "NO", "ONE")
        self.proxy.lead_to(server.url)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with (
        EmbeddedRedis(tmp_path / "1", appendfsync="no") as first,
        EmbeddedRedis(tmp_path / "2", appendfsync="no") as second,
        proxy_to(first.url, tmp_path / "proxy.sock") as proxy,
    ):
        ports = free_port(), free_port()
        for server, port in zip((first, second), ports, strict=True):
            with connect(server.url) as client:
                client.config_set("repl-diskless-sync-delay", 0)
                client.config_set("port", port)
        yield Pair(first, second, ports, proxy)


def test_all_processes_find_the_server_that_was_promoted(pair: Pair, tmp_path: Path) -> None:
    directory = tmp_path / "state"
    directory.mkdir()
    url = f"http://127.0.0.1:{free_port()}"
    with Processes(pair.proxy.url, directory) as processes:
        let_in_operator(processes.client, processes.keys, "k")
        started = [
            processes.owner("--history", "1h"),
            processes.montecarlo(),
            processes.start("broker.api", "--port", url.rpartition(":")[2]),
        ]
        with httpx.Client(base_url=url, headers={"Authorization": "Bearer k"}, timeout=60) as api:

            def status(path: str) -> int:
                try:
                    return api.get(path).status_code
                except httpx.TransportError:
                    return 0

            def admit(name: str, limit_s: float) -> None:
                wait_until(
                    lambda: api.post("/v1/requests", json=WISH | {"id": name}).status_code == 201,
                    f"admission of {name}",
                    limit_s,
                )

            wait_until(lambda: status("/readyz") == 200, "the API")
            admit("before", 20)
            # Some connections of the API's pool are idle when it happens.
            with ThreadPoolExecutor(8) as threads:
                list(threads.map(lambda _: api.get("/v1/leases"), range(64)))

            # The first one is demoted, and no other is promoted yet.
            pair.follow(pair.second, pair.ports[0])
            with connect(pair.first.url) as client:
                client.execute_command("REPLICAOF", "127.0.0.1", 1)
            wait_until(lambda: status("/readyz") == 503, "readiness follows writes", 5)
            answer = api.post("/v1/requests", json=WISH | {"id": "between"})
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:spotfed:problem:queue-read-only")
            installation = Installation()
            with connect(pair.proxy.url) as client:
                installation.redis_server = RedisServer(client, pair.proxy.url)
                (mode,) = check_redis_mode(installation)
            assert mode.state is State.FAILURE
            assert "is a replica and takes no writes" in mode.found

            pair.promote(pair.second)
            pair.follow(pair.first, pair.ports[1])
            admit("between", 10)
            wait_until(lambda: status("/readyz") == 200, "readiness", 5)
            with ThreadPoolExecutor(8) as threads:
                answers = list(
                    threads.map(
                        lambda n: api.post("/v1/requests", json=WISH | {"id": f"after{n}"}).status_code,
                        range(16),
                    )
                )
            assert answers == [201] * 16
            assert api.get("/v1/leases/before.1").json()["state"] == "running"
            assert [process.poll() for process in started] == [None] * 3


def test_they_find_it_under_the_generated_users(tmp_path: Path) -> None:
    """Neither server has replicated the other's scripts, and owners may load none."""
    directories = [tmp_path / name for name in ("1", "2", "state")]
    for directory in directories:
        directory.mkdir()
    ports = free_port(), free_port()
    with (
        server_with_acl(directories[0]) as (first, first_acl),
        server_with_acl(directories[1]) as (second, second_acl),
        proxy_to(first, tmp_path / "proxy.sock") as proxy,
        Processes(f"{proxy.url}&username=admin&password=pw", directories[2]) as processes,
    ):
        made, users = tmp_path / "made.acl", tmp_path / "users"
        prefix = processes.settings.key_prefix
        command = ["acl", "generate", str(processes.file), "--out", str(made), "--users-out", str(users)]
        subprocess.run(
            [Path(sys.executable).with_name("spotfed"), *command, "--redis", proxy.url],
            env={**os.environ, "SPOTFED_KEY_PREFIX": prefix},
            check=True,
        )
        servers = [connect(address, username="admin", password="pw") for address in (first, second)]
        for server, acl, port in zip(servers, (first_acl, second_acl), ports, strict=True):
            acl.write_text(made.read_text() + ADMIN + "\n")
            server.execute_command("ACL", "LOAD")
            login = {"masteruser": "admin", "masterauth": "pw"}
            for name, value in {"port": str(port), "repl-diskless-sync-delay": "0", **login}.items():
                server.config_set(name, value)
        servers[1].replicaof("127.0.0.1", ports[0])
        wait_until(lambda: servers[1].info("replication")["master_link_status"] == "up", "the link")

        def user(name: str) -> dict[str, str]:
            line = (users / f"{prefix.strip(':')}-{name}.env").read_text()
            return {"SPOTFED_REDIS_URL": shlex.split(line)[0].partition("=")[2]}

        let_in_operator(processes.client, processes.keys, "k")
        url = f"http://127.0.0.1:{free_port()}"
        started = [
            processes.owner("--history", "1h", **user("cloud-A")),
            processes.start("workers.montecarlo", "--name", "m", **user("montecarlo")),
            processes.start("broker.api", "--port", url.rpartition(":")[2], **user("broker")),
        ]
        with httpx.Client(base_url=url, headers={"Authorization": "Bearer k"}, timeout=60) as api:

            def admit(name: str) -> None:
                def admitted() -> bool:
                    try:
                        answer = api.post("/v1/requests", json=WISH | {"id": name})
                    except httpx.TransportError:
                        return False
                    return answer.status_code == 201

                wait_until(admitted, f"admission of {name}", 180)

            def ready() -> bool:
                try:
                    return api.get("/readyz").is_success
                except httpx.TransportError:
                    return False

            wait_until(ready, "readiness", 180)  # a request that comes before is refused for good
            admit("before")
            servers[0].replicaof("127.0.0.1", 1)
            servers[1].execute_command("REPLICAOF", "NO", "ONE")
            proxy.lead_to(second)
            admit("after")
            assert api.get("/v1/leases/before.1").json()["state"] == "running"
            assert [process.poll() for process in started] == [None] * 3
            denied = {entry["object"] for entry in servers[1].acl_log(128)}
            assert denied <= {"script|load", "client|setinfo"}, (
                "an owner looks whether the API has loaded them"
            )
