"""Two APIs behind deploy/haproxy, and all processes restarted in turn under 50 requests a second."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import cast

import httpx
import pytest

from broker.identity.store import let_in_operator
from tests.integration.worker_processes import Processes
from tests.support.balancer import balancer
from tests.support.ports import free_port
from tests.support.wait import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.slow, pytest.mark.xdist_group("worker-processes")]

HEADERS = {"Authorization": "Bearer k"}
EVERY_S = 0.02
#: How long load goes on after a process is back, before the next one is stopped.
CALM_S = 2.0

FEDERATION = """
[[cloud]]
id = "A"
nodes = "200x16"
trace = { synthetic = "table-1", hours = 1 }

[[cloud]]
id = "B"
nodes = "200x16"
trace = { synthetic = "table-1", hours = 1 }
"""


@dataclass
class Load:
    """Requests to a port at a steady rate, each asked again at most once."""

    port: int
    outcomes: Counter[str] = field(default_factory=Counter)
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
        said = []
        for _ in range(2):
            said.append(self._say(request))
            if said[-1] == "answered":
                break
            time.sleep(1.0)
        with self._lock:
            self.outcomes["answered" if said == ["answered"] else " then ".join(said)] += 1

    def _say(self, request: str) -> str:
        body = json.dumps({"id": request, "origin": "user", "cores": 1, "lifetime_s": 3e6})
        headers = HEADERS | {"Idempotency-Key": request, "Content-Type": "application/json"}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            try:
                connection.request("POST", "/v1/requests", body, headers)
                answer = connection.getresponse()
                told = json.loads(answer.read())
            except (OSError, HTTPException) as error:
                return type(error).__name__
        if answer.status != 201:
            return f"{answer.status} {told.get('type')}"
        with self._lock:
            self.leases[request] = told["lease"]["id"]
        return "answered"


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


@pytest.fixture
def balanced(redis_url: str, tmp_path: Path) -> Iterator[tuple[Processes, list[int], int]]:
    """Processes, the ports of two APIs, and the port of the balancer before them."""
    ports, port = [free_port(), free_port()], free_port()
    alpha, beta, listens = (f"127.0.0.1:{number}" for number in (*ports, port))
    with Processes(redis_url, tmp_path) as processes:
        processes.file.write_text(FEDERATION)
        let_in_operator(processes.client, processes.keys, "k")
        with balancer(tmp_path, listens, alpha, beta):
            yield processes, ports, port


def test_a_rolling_restart_under_load_costs_at_most_one_retry(
    balanced: tuple[Processes, list[int], int],
) -> None:
    processes, ports, port = balanced
    owner = ("workers.owner", "--federation", str(processes.file), "--history", "1h", "--samples", "200")
    commands = {
        "api alpha": ("broker.api", "--port", str(ports[0])),
        "api beta": ("broker.api", "--port", str(ports[1])),
        "owner A": (*owner, "--cloud", "A"),
        "owner B": (*owner, "--cloud", "B"),
        "montecarlo": ("workers.montecarlo", "--name", "m"),
    }
    running = {name: processes.start(*command) for name, command in commands.items()}
    epochs = dict.fromkeys("AB", 1)

    def is_back(name: str) -> bool:
        if name.startswith("api"):
            return is_ready(ports[0 if name.endswith("alpha") else 1])
        if name.startswith("owner"):
            advert = processes.advert(name[-1])
            return advert is not None and advert.epoch == epochs[name[-1]]
        return running[name].poll() is None

    for name in commands:
        wait_until(partial(is_back, name), name)
    wait_until(partial(is_ready, port), "the balancer sees the APIs")

    load, follower = Load(port), Follower(port)
    threads = [threading.Thread(target=load.run), threading.Thread(target=follower.run)]
    for thread in threads:
        thread.start()
    told: dict[str, float] = {}
    try:
        for name, command in commands.items():
            time.sleep(CALM_S)
            began_s = time.monotonic()
            running[name].send_signal(signal.SIGTERM)
            assert running[name].wait(60) == 0, name
            if name.startswith("owner"):
                epochs[name[-1]] += 1
            running[name] = processes.start(*command)
            wait_until(partial(is_back, name), name)
            told[name] = round(time.monotonic() - began_s, 1)
        time.sleep(CALM_S)
    finally:
        load.stopped.set()
        threads[0].join(120)

    def has_all() -> bool:
        stored = cast("list[tuple[bytes, object]]", processes.client.xrange(processes.keys.all_events))
        return follower.ids == [entry.decode() for entry, _ in stored]

    wait_until(has_all, "the follower has each event once")
    follower.stopped.set()
    threads[1].join(60)
    print(json.dumps({"requests": load.outcomes, "away_s": told, "streams": follower.streams}))  # noqa: T201
    failed = {what: count for what, count in load.outcomes.items() if not what.endswith("answered")}
    assert not failed, load.outcomes
    assert sum(load.outcomes.values()) > 500
    assert follower.streams >= 2, "the stream went on at the other API"
    assert len(set(load.leases.values())) == len(load.leases)


def is_ready(port: int) -> bool:
    """Whether an API, or the balancer, says that it takes requests."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False
