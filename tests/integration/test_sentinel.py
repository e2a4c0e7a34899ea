"""A primary with a replica and three Sentinels: the primary dies under load, and the replica takes over."""

from __future__ import annotations

import itertools
import os
import shlex
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from broker.identity.store import let_in_operator
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.replication import count_replicas
from tests.integration.checker import check
from tests.integration.redis_servers import ADMIN
from tests.integration.sentinel_servers import SentinelServers, Server, sentinel_servers
from tests.integration.worker_processes import Processes
from tests.support.ports import free_port
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("worker-processes")

KILLS = 3
WISH = {"cores": 1, "lifetime_s": 1e6}


class Load:
    """Threads that submit one request after the other, and repeat each until it is answered."""

    def __init__(self, url: str, threads: int = 4):
        self._url = url
        self._numbers = itertools.count()
        self._over = threading.Event()
        self.leases: dict[str, str] = {}  # of each request that was admitted
        self.answered: list[tuple[float, float]] = []  # when each was asked for last, and answered
        self._threads = [threading.Thread(target=self._submit, daemon=True) for _ in range(threads)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    def next_admission_s(self, after_s: float) -> float:
        """Wait for the first admission that was asked for after a time, and return how much later it came."""

        def look() -> float | None:
            return min((end_s for asked_s, end_s in self.answered if asked_s > after_s), default=None)

        return wait_until(look, "an admission") - after_s

    def _submit(self) -> None:
        headers = {"Authorization": "Bearer k"}
        with httpx.Client(base_url=self._url, headers=headers, timeout=30) as api:
            for number in self._numbers:
                name = f"r{number}"
                while not self._over.wait(0.01):
                    asked_s = time.monotonic()
                    try:
                        answer = api.post("/v1/requests", json=WISH | {"id": name})
                    except httpx.TransportError:
                        continue
                    if answer.status_code in {200, 201}:
                        self.leases[name] = lease = answer.json()["lease"]["id"]
                        api_end(api, lease)
                        self.answered.append((asked_s, time.monotonic()))
                        break
                    if answer.status_code == 409 and "Retry-After" not in answer.headers:
                        break  # refused for good, as long as no cloud was known
                if self._over.is_set():
                    return


def api_end(api: httpx.Client, lease: str) -> None:
    """Release a lease, so that there is always room; a call that fails leaves it running."""
    with suppress(httpx.TransportError):
        api.delete(f"/v1/leases/{lease}")


def has_replica(server: Server) -> bool:
    """Whether a replica has all that was written to a primary until now."""
    with connect(server.url) as client:
        client.set("mark", "")
        return client.wait(1, 1_000) == 1 and count_replicas(server.info()) == 1


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[SentinelServers]:
    with sentinel_servers(tmp_path / "servers") as servers:
        yield servers


def test_the_next_primary_goes_on_with_everything_that_was_answered(
    servers: SentinelServers, tmp_path: Path
) -> None:
    directory = tmp_path / "state"
    directory.mkdir()
    url = f"http://127.0.0.1:{free_port()}"
    with Processes(servers.url, directory) as processes:
        let_in_operator(processes.client, processes.keys, "k")
        processes.montecarlo()
        api = processes.start("broker.api", "--port", url.rpartition(":")[2], SPOTFED_CALLS_PER_S="0")
        owner = Restarted(processes)
        load = Load(url)
        with owner:
            load.start()
            load.next_admission_s(0.0)
            gaps_s = []
            for _ in range(KILLS):
                dead = servers.primary
                killed_s = time.monotonic()
                dead.kill()
                gaps_s.append(load.next_admission_s(killed_s))
                dead.start()
                servers.await_replica(dead)
                # What was answered without a replica is on both servers once the new one has caught up.
                wait_until(partial(has_replica, servers.primary), "a replica that has caught up")
            load.stop()
            text = ", ".join(f"{gap_s:.1f}" for gap_s in gaps_s)
            sys.stderr.write(f"from the death of a primary to the next admission: {text} s\n")
            with httpx.Client(base_url=url, headers={"Authorization": "Bearer k"}, timeout=30) as caller:
                for name, lease in load.leases.items():

                    def ask_again(name: str = name) -> httpx.Response | None:
                        answer = caller.post("/v1/requests", json=WISH | {"id": name})
                        return answer if answer.status_code < 500 else None

                    again = wait_until(ask_again, "the same answer")
                    assert again.json()["lease"]["id"] == lease, (name, again.text)
        with connect(servers.url) as client:
            findings = check(client, processes.settings.key_prefix)
        assert findings.breaches == []
        assert set(load.leases.values()) <= set(findings.admitted)
        assert statistics.median(gaps_s) <= 20, "far above what it takes on a quiet machine"
        assert api.poll() is None


def test_what_becomes_unsafe_is_told(tmp_path: Path) -> None:
    """The server's settings are changed under a federation: not ready, in the metrics, and safe again."""
    directory = tmp_path / "state"
    directory.mkdir()
    url = f"http://127.0.0.1:{free_port()}"
    with (
        EmbeddedRedis(tmp_path / "redis") as server,
        Processes(server.url, directory) as processes,
        httpx.Client(base_url=url, headers={"Authorization": "Bearer k"}, timeout=30) as api,
    ):
        let_in_operator(processes.client, processes.keys, "k")
        processes.start("broker.api", "--port", url.rpartition(":")[2])

        def not_ready(text: str) -> bool:
            try:
                return text in api.get("/readyz").json().get("detail", "")
            except httpx.TransportError:
                return False

        wait_until(lambda: not_ready("no cloud has joined"), "the API")
        for name, value, danger, text in (
            ("maxmemory-policy", "allkeys-lru", "policy", "would lose writes: maxmemory-policy"),
            ("appendonly", "no", "persistence", "appendonly was switched off"),
        ):
            before = str(processes.client.config_get(name)[name])
            processes.client.config_set(name, value)
            wait_until(partial(not_ready, text), danger)
            assert f'spotfed_redis_unsafe{{danger="{danger}"}} 1.0' in api.get("/metrics").text
            processes.client.config_set(name, before)
            wait_until(lambda: not_ready("no cloud has joined"), "what is safe again")


def test_all_find_the_next_primary_under_the_generated_users(tmp_path: Path) -> None:
    """Servers with an ACL file, Sentinels with a password; replicas and Sentinels have users of their own."""
    (tmp_path / "servers").mkdir()
    directory = tmp_path / "state"
    directory.mkdir()
    servers = SentinelServers(tmp_path / "servers")
    url = f"{servers.url}?sentinel_password=guard"
    with Processes(url.replace("://", "://admin:pw@"), directory) as processes:
        acl, users = tmp_path / "users.acl", tmp_path / "users"
        prefix = processes.settings.key_prefix
        command = ["acl", "generate", str(processes.file), "--out", str(acl), "--users-out", str(users)]
        subprocess.run(
            [Path(sys.executable).with_name("spotfed"), *command, "--redis", url],
            env={**os.environ, "SPOTFED_KEY_PREFIX": prefix},
            check=True,
        )
        acl.write_text(acl.read_text() + ADMIN + "\n")
        replica, sentinel = (
            (users / f"{prefix[:-1]}-{party}.conf").read_text() for party in ("replica", "sentinel")
        )
        for server in servers.servers:
            server.login = "admin:pw@"
            server.options += ["--aclfile", str(acl)]
            for line in replica.splitlines():
                name, value = line.split()
                server.options += [f"--{name}", value]
        for server in servers.sentinels:
            server.login = ":guard@"
            file = server.directory / "sentinel.conf"
            file.write_text(f"{file.read_text()}{sentinel}requirepass guard\nsentinel sentinel-pass guard\n")

        def user(name: str) -> dict[str, str]:
            line = (users / f"{prefix[:-1]}-{name}.env").read_text()
            return {"SPOTFED_REDIS_URL": shlex.split(line)[0].partition("=")[2]}

        try:
            servers.start()
            let_in_operator(processes.client, processes.keys, "k")
            address = f"http://127.0.0.1:{free_port()}"
            started = [
                processes.start("broker.api", "--port", address.rpartition(":")[2], **user("broker")),
                processes.owner("--history", "1h", **user("cloud-A")),
                processes.start("workers.montecarlo", "--name", "m", **user("montecarlo")),
            ]
            load = Load(address, threads=1)
            load.start()
            load.next_admission_s(0.0)
            killed_s = time.monotonic()
            next_one = servers.servers[1]
            servers.primary.kill()
            load.next_admission_s(killed_s)
            load.stop()
            assert [process.poll() for process in started] == [None] * 3
            with connect(next_one.url) as client:
                denied = {entry["object"] for entry in client.acl_log(128)}
            assert denied <= {"script|load", "client|setinfo", "config|get"}
        finally:
            servers.stop()


class Restarted:
    """Starts an owner again whenever it ends, as a supervisor does."""

    def __init__(self, processes: Processes):
        self._processes = processes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _run(self) -> None:
        process = self._processes.owner("--history", "1h")
        while not self._over.wait(0.05):
            if process.poll() is not None:
                process = self._processes.owner("--history", "1h")
