"""A RabbitMQ of a test's own, where one is installed: on loopback, with its data in a directory."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.worker_processes import wait_for

#: Not the one on the PATH: Debian's goes over to another user.
_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class RabbitMQ:
    """A running one. ``address``: of its host ``/``, for a user who may do everything."""

    place: str
    environment: dict[str, str]

    @property
    def address(self) -> str:
        return self.of("guest", "guest", "/")

    def of(self, user: str, password: str, host: str) -> str:
        """The address of a virtual host for a user."""
        return f"amqp://{user}:{password}@{self.place}/{host}"

    def control(self, *arguments: str) -> None:
        """What ``rabbitmqctl`` does."""
        command = [str(_SERVER.with_name("rabbitmqctl")), *arguments]
        subprocess.run(command, env=self.environment, capture_output=True, check=True)


@contextmanager
def rabbitmq(directory: Path) -> Iterator[RabbitMQ]:
    """A server; the test is skipped where none is installed."""
    names = shutil.which("epmd")
    if not _SERVER.exists() or names is None:
        pytest.skip("no RabbitMQ here (Debian: apt-get install rabbitmq-server)")
    port, names_port = free_port(), free_port()
    config, plugins = directory / "rabbitmq.conf", directory / "enabled_plugins"
    config.write_text("disk_free_limit.absolute = 1MB\n")
    plugins.write_text("[].\n")
    environment = {
        **os.environ,
        "HOME": str(directory),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(names_port),
        "RABBITMQ_NODENAME": f"spotfed{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_CONFIG_FILE": str(config),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
    }
    with (directory / "rabbitmq.out").open("wb") as output:
        registry = subprocess.Popen([names], env=environment, stdout=output, stderr=output)
        server = subprocess.Popen(
            [str(_SERVER)], env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(lambda: _greets(port), "RabbitMQ")
        yield RabbitMQ(f"127.0.0.1:{port}", environment)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        registry.kill()
        registry.wait()


def _greets(port: int) -> bool:
    """Whether it speaks AMQP: it answers a version that it does not know with one that it does."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
            probe.sendall(b"AMQP\x00\x00\x00\x00")
            return probe.recv(4) == b"AMQP"
    except OSError:
        return False
