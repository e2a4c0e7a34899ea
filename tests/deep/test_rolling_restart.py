"""Two APIs behind deploy/haproxy, and everything restarted in turn under 50 requests a second.

That is each process of spotfed, those that run jobs and instances of a real cloud among them, the balancer,
each Sentinel, and both servers of the queue, of which the second becomes the primary meanwhile.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import cast

import httpx
import pytest

from broker.identity.store import let_in_operator
from broker.storage.connections import connect
from tests.integration.agents import end_shim
from tests.integration.checker import check
from tests.integration.sentinel_servers import NAME, SentinelServers, Server, sentinel_servers
from tests.integration.worker_processes import Processes
from tests.support.balancer import Balancer
from tests.support.ports import free_port
from tests.support.wait import wait_until
from tests.unit.workers.cloud_agent.ec2_server import IMAGE, REGION, Ec2Scene, ec2_scene

pytestmark = [pytest.mark.redis, pytest.mark.slow, pytest.mark.xdist_group("worker-processes")]

HEADERS = {"Authorization": "Bearer k"}
EVERY_S = 0.02
CLOUDS = ("A", "B", "real")
#: How long a request is asked again; the client of spotfed has more.
PATIENCE_S = 30.0
#: How long load goes on after a process is back, before the next one is stopped.
CALM_S = 2.0

FEDERATION = """
[[cloud]]
id = "A"
nodes = "600x16"
driver = "process"
trace = {{ synthetic = "table-1", hours = 1 }}

[[cloud]]
id = "B"
nodes = "600x16"
trace = {{ synthetic = "table-1", hours = 1 }}

[[cloud]]
id = "real"
nodes = "2x4"

[cloud.instances]
driver = "ec2"
endpoint = "{url}"
region = "{region}"
image = "{image}"
sizes = {{ 1 = "t2.micro", 4 = "m5.xlarge" }}
poll = "0.5s"
"""


@dataclass
class Load:
    """Requests to a port at a steady rate, each asked again after a second, as long as ``PATIENCE_S``.

    ``outcomes`` has them by what was restarted when they were asked: how often each was asked again, or what
    was said last to one that was given up. ``reasons`` has all that was said to those that were asked again.
    """

    port: int
    during: str = "nothing"
    outcomes: defaultdict[str, Counter[int | str]] = field(default_factory=lambda: defaultdict(Counter))
    reasons: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    leases: dict[str, str] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Send until ``stopped``."""
        with ThreadPoolExecutor(200) as pool:
            began_s = time.monotonic()
            number = 0
            while not self.stopped.wait(max(0.0, began_s + number * EVERY_S - time.monotonic())):
                pool.submit(self._ask, f"r{number}")
                number += 1

    def _ask(self, request: str) -> None:
        during, began_s, retries = self.during, time.monotonic(), 0
        while (said := self._say(request)) and time.monotonic() < began_s + PATIENCE_S:
            retries += 1
            with self._lock:
                self.reasons[during][said] += 1
            time.sleep(1.0)
        with self._lock:
            self.outcomes[during][said or retries] += 1

    def _say(self, request: str) -> str | None:
        """Ask once; return what went wrong, or None."""
        body = json.dumps(
            {"id": request, "origin": "user", "cores": 1, "lifetime_s": 3e6, "targets": ["A", "B"]}
        )
        headers = HEADERS | {"Idempotency-Key": request, "Content-Type": "application/json"}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            try:
                connection.request("POST", "/v1/requests", body, headers)
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, HTTPException) as error:
                return type(error).__name__
        if answer.headers.get("Content-Type") == "text/html":
            return f"{answer.status} of the balancer"
        told = json.loads(text)
        if answer.status != 201:
            return f"{answer.status} {told.get('type')}"
        with self._lock:
            self.leases[request] = told["lease"]["id"]
        return None


class Follower:
    """Follows the events through the balancer, from where it was when a stream ends."""

    def __init__(self, port: int):
        self._url = f"http://127.0.0.1:{port}"
        self.ids: list[str] = []
        self.streams = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        """Follow until ``stopped``."""
        while not self.stopped.is_set():
            headers = HEADERS | {"Last-Event-ID": self.ids[-1] if self.ids else "0-0"}
            try:
                with httpx.stream("GET", f"{self._url}/v1/events", headers=headers, timeout=30) as stream:
                    self.streams += stream.status_code == 200
                    for line in stream.iter_lines():
                        if line.startswith("id:"):
                            self.ids.append(line.removeprefix("id:").strip())
                        if self.stopped.is_set():
                            return
            except httpx.TransportError:
                time.sleep(0.1)


class World:
    """All of it: ``restarts`` has what is restarted, by name, in turn."""

    def __init__(self, processes: Processes, servers: SentinelServers, ec2: Ec2Scene):
        self.processes, self.servers, self._ec2 = processes, servers, ec2
        self.ports = [free_port(), free_port()]
        self.port = free_port()
        listens, *apis = (f"127.0.0.1:{number}" for number in (self.port, *self.ports))
        self.balancer = Balancer(processes.directory, listens, *apis)
        url = f"http://127.0.0.1:{self.port}"
        self.http = httpx.Client(base_url=url, headers=HEADERS, timeout=60)
        file = ("--federation", str(processes.file))
        owner = ("workers.owner", *file, "--history", "1h", "--samples", "200", "--cloud")
        real = {"SPOTFED_CLOUD_USER": ec2.user, "SPOTFED_CLOUD_SECRET": ec2.secret}
        manager = {"SPOTFED_URL": url, "SPOTFED_API_KEY": "k"}
        self._start: dict[str, Callable[[], subprocess.Popen[bytes]]] = {
            "api alpha": partial(processes.start, "broker.api", "--port", str(self.ports[0])),
            "api beta": partial(processes.start, "broker.api", "--port", str(self.ports[1])),
            **{f"owner {cloud}": partial(processes.start, *owner, cloud) for cloud in CLOUDS},
            "montecarlo": partial(processes.start, "workers.montecarlo", "--name", "m"),
            "job manager": partial(processes.start, "workers.job_manager", "--name", "j", **manager),
            "node agent": partial(processes.start, "workers.node_agent", "--cloud", "A", *file),
            "cloud agent": partial(processes.start, "workers.cloud_agent", "--cloud", "real", *file, **real),
        }
        self._running = {name: start() for name, start in self._start.items()}
        self._epochs = dict.fromkeys(CLOUDS, 1)
        self._asked = itertools.count()
        self.restarts: dict[str, Callable[[], None]] = {
            **{name: partial(self._restart, name) for name in self._start},
            "balancer": partial(self.balancer.restart, lambda: is_ready(self.port)),
            **{f"Sentinel {n}": partial(self._restart_sentinel, n) for n in range(len(servers.sentinels))},
            "replica": lambda: self._restart_server(servers.servers[1]),
            "primary changes": self._fail_over,
            "primary of before": lambda: self._restart_server(servers.servers[0]),
        }

    def await_all(self) -> None:
        for name in self._start:
            self._await(name)
        wait_until(lambda: is_ready(self.port), "the balancer sees the APIs")

    def _restart(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGTERM)
        assert self._running[name].wait(60) == 0, name
        if name.startswith("owner"):
            self._epochs[name.split()[1]] += 1
        self._running[name] = self._start[name]()
        self._await(name)

    def _await(self, name: str) -> None:
        """Return once a process does what it is for."""
        kind, _, which = name.partition(" ")
        if kind == "api":
            wait_until(lambda: is_ready(self.ports[which == "beta"]), name)
        elif kind == "owner":
            wait_until(lambda: self._epoch(which) == self._epochs[which], name)
        elif name == "montecarlo":
            wait_until(lambda: "spotfed_montecarlo_workers 1.0" in self._get("/metrics").text, name)
        elif name == "cloud agent":
            lease = self.ask({"origin": "user", "cores": 1, "lifetime_s": 3600, "targets": ["real"]})
            wait_until(lambda: self.state(f"leases/{lease}/instance") == "running", "an instance")
            assert self.http.delete(f"/v1/leases/{lease}").status_code == 200
        else:  # a job takes both, the manager and the agent
            job = {"id": f"job-{next(self._asked)}", "command": ["true"], "home": "A"}
            wait_until(lambda: self.http.post("/v1/jobs", json=job).status_code in {200, 201}, "a job")
            wait_until(lambda: self.state(f"jobs/{job['id']}") == "finished", name, 180)

    def ask(self, request: dict[str, object]) -> str:
        """Return the lease of a request."""
        named = request | {"id": f"own-{next(self._asked)}"}

        def granted() -> httpx.Response | None:
            answer = self.http.post("/v1/requests", json=named)
            return answer if answer.status_code == 201 else None

        return str(wait_until(granted, "a lease").json()["lease"]["id"])

    def _get(self, path: str) -> httpx.Response:
        return self.http.get(path)

    def state(self, path: str) -> str | None:
        """Return the state of a job, a lease or its instance; None while there is none."""
        answer = self._get(f"/v1/{path}")
        return answer.json()["state"] if answer.status_code == 200 else None

    def _epoch(self, cloud: str) -> int | None:
        advert = self.processes.advert(cloud)
        return None if advert is None else advert.epoch

    def _restart_sentinel(self, number: int) -> None:
        sentinel = self.servers.sentinels[number]
        sentinel.stop()
        sentinel.start()
        wait_until(sentinel.answers, "a Sentinel")
        wait_until(lambda: self.servers.ask(sentinel)["num-slaves"] == 1, "what it knows")

    def _restart_server(self, server: Server) -> None:
        primary = self.servers.primary
        assert primary is not server
        server.stop()
        # As Redis itself would have written it into its configuration.
        server.options += ["--replicaof", "127.0.0.1", str(primary.port)]
        server.start()
        self.servers.await_replica(server)
        wait_until(lambda: has_replica(primary), "the primary counts it")

    def _fail_over(self) -> None:
        before = self.servers.primary
        with connect(self.servers.sentinels[0].url) as client:
            client.sentinel_failover(NAME)
        wait_until(lambda: self.servers.primary is not before, "another primary")
        self.servers.await_replica(before)

    def stop(self) -> None:
        self.http.close()
        self.balancer.stop()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    (directory := tmp_path / "state").mkdir()
    (cloud := tmp_path / "cloud").mkdir()
    with ExitStack() as stack:
        servers = stack.enter_context(sentinel_servers(tmp_path / "servers"))
        ec2 = stack.enter_context(ec2_scene(cloud, monkeypatch))
        stack.callback(_end_jobs, directory)  # which outlive their agent
        processes = stack.enter_context(Processes(servers.url, directory))
        processes.file.write_text(FEDERATION.format(url=ec2.url, region=REGION, image=IMAGE))
        let_in_operator(processes.client, processes.keys, "k")
        world = World(processes, servers, ec2)
        stack.callback(world.stop)
        yield world


def _end_jobs(directory: Path) -> None:
    for state in directory.glob("agents/*/*/state"):
        end_shim(state)


def test_a_rolling_restart_under_load_fails_no_request(world: World) -> None:
    world.await_all()
    instance = world.ask({"origin": "user", "cores": 4, "lifetime_s": 3e6, "targets": ["real"]})
    endless = {"id": "endless", "command": ["sleep", "3600"], "home": "A"}
    assert world.http.post("/v1/jobs", json=endless).status_code == 201
    wait_until(lambda: world.state("jobs/endless") == "running", "a job that runs")
    wait_until(lambda: world.state(f"leases/{instance}/instance") == "running", "an instance")

    load, follower = Load(world.port), Follower(world.port)
    threads = [threading.Thread(target=load.run), threading.Thread(target=follower.run)]
    for thread in threads:
        thread.start()
    told: dict[str, float] = {}
    try:
        for name, restart in world.restarts.items():
            time.sleep(CALM_S)
            load.during, began_s = name, time.monotonic()
            restart()
            told[name] = round(time.monotonic() - began_s, 1)
        time.sleep(CALM_S)
    finally:
        load.stopped.set()
        threads[0].join(120)
        print(json.dumps({"requests": load.outcomes, "said": load.reasons, "away_s": told}))  # noqa: T201

    def has_all() -> bool:
        client = world.processes.client
        stored = cast("list[tuple[bytes, object]]", client.xrange(world.processes.keys.all_events))
        return follower.ids == [entry.decode() for entry, _ in stored]

    wait_until(has_all, "the follower has each event once")
    follower.stopped.set()
    threads[1].join(60)
    total = sum(load.outcomes.values(), Counter())
    failed = sum(count for what, count in total.items() if isinstance(what, str))
    answered = {"at once": total[0], "retried": total.total() - total[0] - failed, "failed": failed}
    print(json.dumps(answered))  # noqa: T201
    assert failed == 0
    assert total.total() > 500
    assert follower.streams >= 2, "the stream went on at the other API"
    assert len(set(load.leases.values())) == len(load.leases)
    with connect(world.servers.url) as client:
        findings = check(client, world.processes.settings.key_prefix)
    assert findings.breaches == []
    assert set(load.leases.values()) <= set(findings.admitted)
    assert world.state("jobs/endless") == "running"
    assert world.state(f"leases/{instance}") == "running"


def has_replica(server: Server) -> bool:
    """Whether a replica has acknowledged all that a primary has."""
    with connect(server.url) as client:
        return bool(client.wait(1, 100) == 1)


def is_ready(port: int) -> bool:
    """Whether an API, or the balancer, says that it takes requests."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False
