"""A primary, replicas and three Sentinels on loopback, of which each can be killed and started again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import redis

from broker.storage.connections import connect
from broker.storage.embedded_server import find_server
from tests.support.ports import free_port
from tests.support.wait import wait_until

NAME = "spotfed"
#: A server that is silent for this long counts as dead.
DOWN_AFTER_MS = 1_000


class Server:
    """One process of a server or a Sentinel, with its files in a directory of its own."""

    def __init__(self, directory: Path, *options: str):
        self.directory, self.port = directory, free_port()
        directory.mkdir()
        self.options = list(options)
        self.login = ""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://{self.login}127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = [str(find_server()), *self.options, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self.directory)]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def answers(self) -> bool:
        try:
            with connect(self.url) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def info(self, section: str = "replication") -> dict[str, object]:
        with connect(self.url) as client:
            return dict(client.info(section))

    def follows(self) -> bool:
        """Whether it is a replica that has everything."""
        try:
            return self.info().get("master_link_status") == "up"
        except redis.RedisError:
            return False

    def stop(self) -> None:
        """Let the process end by itself, as a restart does."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(60) == 0
        self.process = None

    def kill(self) -> None:
        """Kill the process with SIGKILL, and wait for its end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class SentinelServers:
    """``servers[0]`` is the primary at first, the others its replicas."""

    def __init__(self, directory: Path, replicas: int = 1, **config: str):
        options = [*("--save", ""), *("--appendonly", "yes")]
        options += [*("--maxmemory-policy", "noeviction"), *("--repl-diskless-sync-delay", "0")]
        for name, value in ({"appendfsync": "no"} | config).items():
            options += [f"--{name.replace('_', '-')}", value]
        self.servers = [Server(directory / f"server{n}", *options) for n in range(replicas + 1)]
        self.sentinels = []
        for n in range(3):
            sentinel = Server(directory / f"sentinel{n}", str(directory / f"sentinel{n}" / "sentinel.conf"))
            (sentinel.directory / "sentinel.conf").write_text(
                f"sentinel monitor {NAME} 127.0.0.1 {self.servers[0].port} 2\n"
                f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\n"
                f"sentinel failover-timeout {NAME} 5000\n"
            )
            sentinel.options.append("--sentinel")
            self.sentinels.append(sentinel)

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{NAME}/0"

    def start(self) -> None:
        """Start all, and return once each Sentinel knows the others and the replicas."""
        for server in self.servers:
            server.start()
            wait_until(server.answers, "a server")
        for server in self.servers[1:]:
            with connect(server.url) as client:
                client.replicaof("127.0.0.1", self.servers[0].port)
            wait_until(server.follows, "the link")
        for sentinel in self.sentinels:
            sentinel.start()
        for sentinel in self.sentinels:
            wait_until(sentinel.answers, "a Sentinel")
            wait_until(partial(self._knows_all, sentinel), "what a Sentinel knows")

    def _knows_all(self, sentinel: Server) -> bool:
        state = self.ask(sentinel)
        return (state["num-other-sentinels"], state["num-slaves"]) == (2, len(self.servers) - 1)

    def ask(self, sentinel: Server) -> dict[str, object]:
        """What a Sentinel says of the primary."""
        with connect(sentinel.url) as client:
            return dict(client.sentinel_master(NAME))

    @property
    def primary(self) -> Server:
        """The server that a Sentinel names."""
        port = self.ask(self.sentinels[0])["port"]
        return next(server for server in self.servers if server.port == port)

    def await_replica(self, server: Server) -> None:
        """Return once a server follows the primary and the primary counts it."""
        wait_until(server.follows, "a replica", 60)

    def stop(self) -> None:
        for server in (*self.sentinels, *self.servers):
            server.kill()


@contextmanager
def sentinel_servers(directory: Path, replicas: int = 1, **config: str) -> Iterator[SentinelServers]:
    """Start them, and kill them at the end. ``config``: of the servers, with underscores."""
    directory.mkdir(exist_ok=True)
    servers = SentinelServers(directory, replicas, **config)
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()
