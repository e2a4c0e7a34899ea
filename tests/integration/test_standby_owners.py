"""Owners of one cloud on two hosts: two processes with state directories of their own, and one Redis."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from broker.contract import EventKind, LeaseGranted
from broker.journal.archive import Archive, archive_directory
from broker.journal.journal import Journal
from broker.journal.verify import verify_journal
from broker.local.state_files import record_file
from broker.observability.standbys import list_standbys
from broker.storage.embedded_server import EmbeddedRedis
from tests.integration.worker_processes import Processes
from tests.support.wait import wait_until
from tests.unit.workers.owners import check_journal, confirm, reserve

pytestmark = pytest.mark.xdist_group("worker-processes")

#: All of it fits, and runs for ever. The lease outlasts a pause of a machine under load.
NODES = '[[cloud]]\nid = "{}"\nnodes = "{}"\ntrace = "quiet.csv"\n'
OPTIONS = ("--time", "wall", "--history", "0")
TTL = {"SPOTFED_OWNER_LEASE_TTL_S": "3"}
FOREVER_S = 1e6


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path_factory.mktemp("redis")) as started:
        yield started


class Hosts:
    """Two machines: what an owner keeps on one of them is out of reach of the other."""

    def __init__(self, processes: Processes):
        self.processes = processes
        (processes.directory / "quiet.csv").write_text(
            "instance,start_s,stop_s,cores\nvm,7000000,7000060,1\n"
        )
        self.write_file("100x8")

    def write_file(self, *nodes: str) -> None:
        text = "".join(NODES.format(cloud, size) for cloud, size in zip("AB", nodes, strict=False))
        self.processes.file.write_text('until = "90d"\n' + text)

    def owner(self, host: str, *clouds: str, **environ: str) -> Popen[bytes]:
        state = self.processes.directory / host
        state.mkdir(exist_ok=True)
        which = [word for cloud in clouds for word in ("--cloud", cloud)] or ["--cloud", "A"]
        command = ("workers.owner", *which, "--federation", str(self.processes.file), *OPTIONS)
        return self.processes.start(*command, SPOTFED_STATE_DIR=str(state), **{**TTL, **environ})

    def archive(self, host: str, cloud: str = "A") -> Archive:
        settings = self.processes.settings
        return Archive(archive_directory(self.processes.directory / host, settings.key_prefix, cloud))

    def log(self, process: Popen[bytes]) -> str:
        number = self.processes.running.index(process)
        return (self.processes.directory / f"{number}.log").read_text()

    def waits(self, process: Popen[bytes], cloud: str = "A") -> None:
        """Wait until a process is a standby, as operators see it."""

        def look() -> bool:
            standbys = list_standbys(self.processes.client, self.processes.keys, cloud)
            return (socket.gethostname(), process.pid) in [(view.host, view.pid) for view in standbys]

        wait_until(look, f"process {process.pid} is a standby")

    def hears(self, name: str, *queues: str) -> None:
        """Wait until the one worker of this name answers, and takes the messages of these queues only."""

        def look() -> bool:
            workers = self.processes.app.control.inspect(timeout=1.0).active_queues() or {}
            found = [heard for worker, heard in workers.items() if worker.startswith(f"{name}-")]
            return [sorted(queue["name"] for queue in heard) for heard in found] == [[*queues]]

        wait_until(look, f"{name} listens to {' and '.join(queues)}")

    def has_all(self, host: str) -> None:
        """Wait until the archive of a host has the newest entry of the journal."""

        def look() -> bool:
            head, last = self.processes.journal.entries.head(), self.archive(host).newest()
            return head is not None and last is not None and head == last

        wait_until(look, f"the archive of {host} has all entries")

    def spotfed(self, host: str, command: str) -> Any:
        """What a command answers on a host, in JSON."""
        settings = self.processes.settings
        environ = {
            "SPOTFED_REDIS_URL": str(settings.redis_url),
            "SPOTFED_KEY_PREFIX": settings.key_prefix,
            "SPOTFED_STATE_DIR": str(self.processes.directory / host),
        }
        done = subprocess.run(
            [Path(sys.executable).with_name("spotfed"), command, "--json"],
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
        )
        return json.loads(done.stdout)

    def record_up(self, host: str, process: Popen[bytes]) -> None:
        """Let a process be one of ``spotfed up``, whose supervisor is the test."""
        owner = {"name": "cloud-A", "pid": process.pid, "restarts": 0, "log": "-", "clouds": ["A"]}
        record = {"url": "-", "federation": "-", "supervisor": os.getpid(), "processes": [owner]}
        record_file(self.processes.directory / host).write_text(json.dumps(record))

    def admit(self, *names: str, cloud: str = "A") -> None:
        for name in names:
            self.processes.send(reserve(name, 1, FOREVER_S), decision := confirm(name), cloud=cloud)
            assert isinstance(self.processes.answer(decision.id), LeaseGranted)

    def admitted(self) -> list[str]:
        """Check the journal; return the names of the leases that were admitted, none of which ended."""
        events = self.processes.events()
        check_journal(events)
        assert not [event for event in events if event.kind.ends_lease]
        return sorted(event.lease.id for event in events if event.kind is EventKind.ADMITTED and event.lease)

    def is_sound(self, host: str) -> bool:
        found = verify_journal("A", self.processes.journal.entries, self.archive(host))
        return found.bad is None


@pytest.fixture
def hosts(server: EmbeddedRedis, tmp_path: Path) -> Iterator[Hosts]:
    with Processes(server.url, tmp_path) as started:
        yield Hosts(started)


class Load:
    """Users who ask for leases, one after the other, until they are told to stop. Each is answered."""

    def __init__(self, hosts: Hosts):
        self._hosts, self._over = hosts, threading.Event()
        self.names: list[str] = []
        self.errors: list[Exception] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                name = f"load-{len(self.names)}.1"
                self._hosts.admit(name)
                self.names.append(name)
        except Exception as error:  # noqa: BLE001  (told by the test)
            self.errors.append(error)

    def more(self) -> None:
        """Wait for some more answers."""
        count = len(self.names)
        wait_until(lambda: self.errors or len(self.names) >= count + 5, "users are answered")

    def end(self) -> list[str]:
        self._over.set()
        self._thread.join()
        assert self.errors == []
        return sorted(self.names)


def begin(hosts: Hosts) -> tuple[Popen[bytes], Popen[bytes], Load]:
    """Starts an owner and its standby, under load."""
    first = hosts.owner("one")
    hosts.processes.opened(1)
    second = hosts.owner("two")
    hosts.waits(second)
    load = Load(hosts)
    load.more()
    return first, second, load


def test_a_standby_takes_over_from_a_host_that_dies_with_all_it_had(hosts: Hosts) -> None:
    processes = hosts.processes
    first, second, load = begin(hosts)
    first.kill()
    first.wait()
    processes.opened(2)
    load.more()
    names = load.end()
    assert hosts.admitted() == names
    assert hosts.is_sound("two")

    # The first host comes back as the standby, and has what it missed. The other one dies, and Redis with it.
    first = hosts.owner("one")
    hosts.waits(first)
    hosts.admit("later.1")
    hosts.has_all("one")
    assert hosts.is_sound("one")
    second.kill()
    second.wait()
    for key in processes.client.scan_iter(f"{processes.keys.prefix}*"):
        processes.client.delete(key)
    processes.opened(3)
    hosts.admit("last.1")
    assert hosts.admitted() == sorted([*names, "later.1", "last.1"])
    assert processes.client.scard(processes.keys.running("A")) == len(names) + 2
    assert list_standbys(processes.client, processes.keys, "A") == []
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0


def test_an_owner_whose_host_stood_still_is_fenced_and_comes_back_as_the_standby(hosts: Hosts) -> None:
    processes = hosts.processes
    first, second, load = begin(hosts)
    first.send_signal(signal.SIGSTOP)
    processes.opened(2)
    load.more()
    first.send_signal(signal.SIGCONT)
    assert first.wait(60) == 75
    assert "fenced: stopping" in hosts.log(first)
    again = hosts.owner("one")
    hosts.waits(again)
    load.more()
    names = load.end()
    checks = {check["name"]: check for check in hosts.spotfed("one", "doctor")["checks"]}
    assert checks["owner A"]["state"] == "ok"
    assert f"with a standby on {socket.gethostname()}" in str(checks["owner A"])
    hosts.record_up("one", again)
    (process,) = hosts.spotfed("one", "ps")["processes"]
    assert process["standby_for"] == ["A"]
    assert hosts.admitted() == names
    hosts.has_all("one")
    assert hosts.is_sound("one")
    assert hosts.is_sound("two")
    # Told to stop, an owner lets its standby in at once.
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    processes.opened(3)
    hosts.admit("last.1")


def test_a_standby_of_several_clouds_leaves_doorbells_alone_and_takes_the_file_as_it_is_then(
    hosts: Hosts,
) -> None:
    processes = hosts.processes
    hosts.write_file("100x8", "10x8")
    seldom = {"SPOTFED_INBOX_POLL_S": "600"}  # only a doorbell wakes it
    first, other = hosts.owner("one", "A", **seldom), hosts.owner("one", "B", **seldom)
    processes.opened(1)
    both = hosts.owner("two", "A", "B", **seldom)
    hosts.waits(both)
    hosts.waits(both, "B")
    first.kill()
    first.wait()
    processes.opened(2)
    hosts.hears("cloud.A", "cloud.A")
    hosts.waits(both, "B")
    hosts.admit("a.1")
    hosts.admit("b.1", cloud="B")

    hosts.write_file("100x8", "10x8,1x16")
    other.kill()
    other.wait()
    wait_until(lambda: (advert := processes.advert("B")) is not None and advert.epoch == 2, "B opens again")
    hosts.hears("cloud.A", "cloud.A", "cloud.B")
    processes.send(reserve("wide.1", 16, FOREVER_S), decision := confirm("wide.1"), cloud="B")
    assert isinstance(processes.answer(decision.id), LeaseGranted)
    for cloud in ("A", "B"):
        check_journal([event for _, event in Journal(processes.client, processes.keys, cloud).read()])
    assert both.poll() is None


def test_a_standby_that_shares_the_state_directory_leaves_the_archive_to_the_owner(hosts: Hosts) -> None:
    first = hosts.owner("one")
    hosts.processes.opened(1)
    second = hosts.owner("one")
    hosts.waits(second)
    hosts.admit("a.1")
    hosts.waits(second)
    hosts.has_all("one")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    hosts.processes.opened(2)
    hosts.admit("b.1")
    hosts.has_all("one")
    assert [path.name[:20].lstrip("0") for path in hosts.archive("one").segments()] == ["1", "2"]
    assert hosts.admitted() == ["a.1", "b.1"]
    assert hosts.is_sound("one")
