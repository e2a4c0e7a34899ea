"""Single admissions beside a bare FastAPI + Celery application, in turns, in one run.

    python -m tests.bench.bench_api [--seconds 5] [--rounds 3] [--connections 1 16 64] [--api-processes 1]

Runs ``spotfed up`` (messages signed, ``appendfsync always``) with two clouds of 400x64, and beside it
``tests.bench.bare_api`` with a Redis of its own that writes nothing to disk. Prints rates and latencies of
``POST /v1/requests`` for one core, 60 s, no SLA, the CPU time of an admission by process, lists, and the
table of bars. Figures of a round are taken right after each other: what else the machine does meets both.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import httpx
import redis

from broker.storage.connections import connect
from broker.storage.embedded_server import find_server
from tests.bench import bare_celery, cpu, load
from tests.bench.targets import line, percentile
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
BODY = {"cores": 1, "lifetime_s": 60.0, "sla": None}
_CALL = json.dumps(BODY).encode()
_START_LIMIT_S = 120.0
_FEDERATION = "".join(
    f'[[cloud]]\nid = "c{number}"\nnodes = "400x64"\n'
    f'trace = {{ synthetic = "table-1", hours = 72, seed = {number} }}\n\n'
    for number in range(2)
)


class Place(NamedTuple):
    """Where an application listens, and with which key."""

    port: int
    key: str = ""


@dataclass
class Side:
    """What one application did with a number of connections, over all rounds."""

    rates: list[float] = field(default_factory=list)
    took_ms: list[float] = field(default_factory=list)

    def add(self, run: load.Load) -> None:
        """Add a round."""
        assert set(run.statuses) == {201}, run.statuses
        self.rates.append(run.rate)
        self.took_ms += [1000 * seconds for seconds in run.took_s]

    @property
    def rate(self) -> float:
        """Answers a second, the median of the rounds."""
        return statistics.median(self.rates)


@contextmanager
def _process(*command: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A child process, ended by pid."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    )
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _await(port: int, path: str) -> None:
    limit_s = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < limit_s:
        try:
            httpx.get(f"http://{HOST}:{port}{path}", timeout=5)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"port {port} does not answer")


@contextmanager
def product(directory: Path, api_processes: int) -> Iterator[Place]:
    """``spotfed up``, as anybody starts it, but for the limit of calls a second."""
    federation = directory / "federation.toml"
    federation.write_text(_FEDERATION, encoding="utf-8")
    port = free_port()
    command = [
        str(Path(sys.executable).with_name("spotfed")),
        "up",
        "--json",
        "--federation",
        str(federation),
    ]
    command += ["--port", str(port), "--speed", "1"]
    variables = {
        "SPOTFED_STATE_DIR": str(directory / "state"),
        "SPOTFED_CALLS_PER_S": "0",
        "SPOTFED_API_PROCESSES": str(api_processes),
    }
    with _process(*command, **variables) as child:
        assert child.stdout is not None
        started = json.loads(child.stdout.readline())
        yield Place(port, Path(started["api_key_file"]).read_text(encoding="utf-8").strip())


@contextmanager
def bare(directory: Path) -> Iterator[tuple[Place, str]]:
    """The bare application and its worker, with a Redis of their own; yields its URL too."""
    directory.mkdir()
    path = directory / "bare.sock"
    options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no"]
    url, port = f"unix://{path}?db=0", free_port()
    with ExitStack() as stack:
        stack.enter_context(_process(str(find_server()), *options))
        client = stack.enter_context(connect(url))
        limit_s = time.monotonic() + _START_LIMIT_S
        while time.monotonic() < limit_s:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.05)
        uvicorn = ("-m", "uvicorn", "tests.bench.bare_api:app", "--port", str(port), "--log-level", "error")
        for command in (("-m", "tests.bench.bare_api"), uvicorn, ("-m", "tests.bench.bare_celery")):
            stack.enter_context(_process(sys.executable, *command, SPOTFED_REDIS_URL=url))
        _await(port, "/docs")
        yield Place(port), url


def lone_posts(ours: Place, redis_url: str, count: int) -> tuple[list[float], list[float]]:
    """Latencies in ms of lone POSTs and of bare Celery round trips, in turns."""
    app, queue = bare_celery.make_app(redis_url), connect(redis_url)
    headers = {"Authorization": f"Bearer {ours.key}"}
    posts: list[float] = []
    trips: list[float] = []
    connection = socket.create_connection((HOST, ours.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    head = f"POST /v1/requests HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    call = f"{head}Content-Length: {len(_CALL)}\r\n\r\n".encode() + _CALL
    with connection:
        for number in range(-50, count):  # the first fifty warm both up
            start = time.perf_counter()
            app.send_task("bench.echo", args=[str(number)], queue=bare_celery.QUEUE, ignore_result=True)
            queue.blpop([bare_celery.REPLIES], 30)
            middle = time.perf_counter()
            connection.sendall(call)
            answer = connection.recv(65536)
            while b"\r\n\r\n{" not in answer:  # the body comes in a packet of its own
                answer += connection.recv(65536)
            end = time.perf_counter()
            assert answer.startswith(b"HTTP/1.1 201"), answer
            if number >= 0:
                trips.append((middle - start) * 1000)
                posts.append((end - middle) * 1000)
    return posts, trips


def lists(ours: Place, callers: int, total: int, size: int) -> float:
    """Admissions a second in lists."""
    headers = {"Authorization": f"Bearer {ours.key}"}
    client = httpx.Client(base_url=f"http://{HOST}:{ours.port}", headers=headers, timeout=60)

    def send(_: int) -> None:
        answer = client.post("/v1/requests", json=[BODY] * size)
        assert all(result["lease"] for result in answer.json()["results"]), answer.text

    with client, ThreadPoolExecutor(callers) as pool:
        began_s = time.perf_counter()
        for _ in pool.map(send, range(total // size)):
            pass
        return total / (time.perf_counter() - began_s)


def _spent_each(before: Mapping[str, float], after: Mapping[str, float], count: int) -> dict[str, float]:
    each = cpu.each_us(before, after, count)
    owners = sum(us for role, us in each.items() if role.startswith("owner"))
    others = {role: us for role, us in each.items() if not role.startswith("owner")}
    return {**others, "owners": owners}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--lone", type=int, default=400, help="lone POSTs to time")
    parser.add_argument("--list-total", type=int, default=5000)
    parser.add_argument("--api-processes", type=int, default=1)
    options = parser.parse_args()
    sides: defaultdict[tuple[str, int], Side] = defaultdict(Side)
    spent: defaultdict[int, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="spotfed-bench-") as name, ExitStack() as stack:
        directory = Path(name)
        ours = stack.enter_context(product(directory, options.api_processes))
        theirs, redis_url = stack.enter_context(bare(directory / "bare"))
        for place in (ours, theirs):
            load.post(HOST, place.port, _CALL, 8, 1.0, place.key)
        for _ in range(options.rounds):
            for connections in options.connections:
                before = cpu.spent_s()
                run = load.post(HOST, ours.port, _CALL, connections, options.seconds, ours.key)
                spent[connections].append(_spent_each(before, cpu.spent_s(), len(run.took_s)))
                sides["ours", connections].add(run)
                run = load.post(HOST, theirs.port, _CALL, connections, options.seconds)
                sides["bare", connections].add(run)
        posts, trips = lone_posts(ours, redis_url, options.lone)
        lists(ours, 2, 1000, 500)
        listed = lists(ours, 2, options.list_total, 500)

    for (who, connections), side in sorted(sides.items(), key=lambda item: item[0][1]):
        p50, p99 = percentile(side.took_ms, 50), percentile(side.took_ms, 99)
        print(
            f"{who}: {connections:3d} connections {side.rate:8.0f} /s, p50 {p50:7.2f} ms, p99 {p99:7.2f} ms"
        )
    for connections, rounds in spent.items():
        parts = {role: statistics.median(each[role] for each in rounds) for role in rounds[0]}
        shown = ", ".join(f"{role} {us:,.0f}" for role, us in parts.items() if us >= 1)
        print(f"CPU of an admission, us, {connections} connections: {shown}")
    print()
    many, few = max(options.connections), min(options.connections)
    for connections, least in ((many, 1.7), (few, 0.6)):
        ratio = sides["ours", connections].rate / sides["bare", connections].rate
        print(
            line(
                f"single POSTs, {connections} connections, against the bare one",
                ratio,
                "x",
                least,
                at_most=False,
            )
        )
    p99_ms = [percentile(sides[who, many].took_ms, 99) for who in ("ours", "bare")]
    print(line(f"their p99, {many} connections", p99_ms[0], "ms", round(p99_ms[1], 2)))
    ratio = statistics.median(posts) / statistics.median(trips)
    shown = f"{statistics.median(posts):.2f} against {statistics.median(trips):.2f} ms"
    print(line(f"lone POST against a Celery round trip, p50: {shown}", ratio, "x", 2.2))
    each_ms = statistics.median(each["API"] + each["owners"] for each in spent[many]) / 1000
    print(line(f"CPU of an admission, API + owners, {many} connections", each_ms, "ms", 1.2))
    print(line("lists of 500, 2 callers", listed, "/s", 2500, at_most=False))


if __name__ == "__main__":
    main()
