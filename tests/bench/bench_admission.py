"""Live admission, side by side with a bare Celery round trip in the same run on the same server.

    python -m tests.bench.bench_admission [--requests 400] [--clouds 1,4,16,50] [--api-processes 1,2]
        [--signed] [--json]

Prints, first, one POST /v1/requests against the bare round trip (interleaved, p50 and p99 in ms, and their
ratio), and then admissions a second in lists for every number of clouds and API processes. The queue is
SPOTFED_REDIS_URL if set, else an embedded server with `appendfsync always`, as the product runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import redis

from broker.identity.store import let_in_operator
from broker.signing.key_files import local_key_files
from broker.signing.parties import BROKER, cloud_party
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.keys import RedisKeys
from tests.bench import bare_celery

ROOT = Path(__file__).resolve().parents[2]
# Its own load leaves nearly all of it free, and the table knows of such times only: it takes some 10,000
# one-core instances at this SLA. It is the path that is measured, not the refusals.
NODES = "400x128"
LIFETIME_S = 600.0
SLA = 0.05
START_DEADLINE_S = 180.0


def federation_text(clouds: int) -> str:
    """Clouds with a little load of their own and enough history for a table."""
    return "".join(
        f'[[cloud]]\nid = "c{number}"\nnodes = "{NODES}"\n'
        f'trace = {{ synthetic = "table-1", hours = 72, seed = {number} }}\n\n'
        for number in range(clouds)
    )


class Processes:
    """Child processes, ended by pid."""

    def __init__(self, directory: Path, redis_url: str, *, signed: bool):
        self.directory = directory
        self._keys = local_key_files(directory) if signed else None
        self.environment = {
            **os.environ,
            "SPOTFED_REDIS_URL": redis_url,
            "SPOTFED_STATE_DIR": str(directory),
            "SPOTFED_LOG_LEVEL": "ERROR",
            "SPOTFED_CALLS_PER_S": "0",
            "PYTHONPATH": str(ROOT),
        }
        self.children: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str, party: str | None = None) -> None:
        environment = dict(self.environment)
        if self._keys is not None and party is not None:
            self._keys.ensure([party])
            environment |= self._keys.environment(party)
        log = (self.directory / f"{len(self.children)}.log").open("wb")
        self.children.append(
            subprocess.Popen([sys.executable, *command], env=environment, stdout=log, stderr=log)
        )

    def stop(self) -> None:
        for child in self.children:
            child.send_signal(signal.SIGTERM)
        for child in self.children:
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


@contextmanager
def federation(
    redis_url: str, clouds: int, api_processes: int, *, signed: bool
) -> Iterator[list[httpx.Client]]:
    """A running federation; yields one client for each API process."""
    client = connect(redis_url)
    client.flushall()
    key = "bench"
    with tempfile.TemporaryDirectory(prefix="spotfed-bench-") as name:
        directory = Path(name)
        file = directory / "federation.toml"
        file.write_text(federation_text(clouds))
        processes = Processes(directory, redis_url, signed=signed)
        let_in_operator(client, RedisKeys(), key, "bench")
        try:
            for number in range(clouds):
                processes.start(
                    "-m", "workers.owner", "--cloud", f"c{number}", "--federation", str(file),
                    "--time", "wall", "--speed", "1", "--history", "48h", "--samples", "1000",
                    party=cloud_party(f"c{number}"),
                )  # fmt: skip
            processes.start("-m", "workers.montecarlo", "--name", "bench")
            ports = [8700 + number for number in range(api_processes)]
            for port in ports:
                processes.start("-m", "broker.api", "--port", str(port), party=BROKER)
            clients = [
                httpx.Client(
                    base_url=f"http://127.0.0.1:{port}",
                    headers={"Authorization": f"Bearer {key}"},
                    timeout=60,
                )
                for port in ports
            ]
            _wait_for_tables(client, clouds)
            for one in clients:
                _wait_for(lambda one=one: one.get("/readyz").status_code == 200, "the API")
            yield clients
            for one in clients:
                one.close()
        finally:
            processes.stop()


def _wait_for(ready: Any, what: str) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < deadline:
        try:
            if ready():
                return
        except (httpx.HTTPError, redis.RedisError):
            pass
        time.sleep(0.2)
    raise TimeoutError(f"{what} did not come up in {START_DEADLINE_S:.0f} s")


def _wait_for_tables(client: redis.Redis, clouds: int) -> None:
    def ready() -> bool:
        adverts = [client.get(f"spotfed:advert:c{number}") for number in range(clouds)]
        return all(advert is not None and json.loads(advert)["table_version"] for advert in adverts)

    _wait_for(ready, "the clouds' tables")


def body(number: int, stamp: str) -> dict[str, Any]:
    """One request."""
    return {"id": f"{stamp}-{number}", "origin": "bench", "cores": 1, "lifetime_s": LIFETIME_S, "sla": SLA}


def single(redis_url: str, api: httpx.Client, requests: int) -> dict[str, float]:
    """One POST against one bare round trip, interleaved."""
    queue = connect(redis_url)
    app = bare_celery.make_app(redis_url)
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.bare_celery"],
        env={**os.environ, "SPOTFED_REDIS_URL": redis_url, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        bare: list[float] = []
        ours: list[float] = []
        for number in range(-50, requests):  # the first fifty warm both up
            start = time.perf_counter()
            app.send_task("bench.echo", args=[str(number)], queue=bare_celery.QUEUE, ignore_result=True)
            queue.blpop([bare_celery.REPLIES], 30)
            middle = time.perf_counter()
            answer = api.post("/v1/requests", json=body(number + 50, "single"))
            end = time.perf_counter()
            assert answer.status_code == 201, answer.text
            if number >= 0:
                bare.append((middle - start) * 1000)
                ours.append((end - middle) * 1000)
    finally:
        worker.terminate()
        worker.wait()
    return {
        "bare_p50_ms": statistics.median(bare),
        "bare_p99_ms": statistics.quantiles(bare, n=100)[98],
        "post_p50_ms": statistics.median(ours),
        "post_p99_ms": statistics.quantiles(ours, n=100)[98],
        "ratio_p50": statistics.median(ours) / statistics.median(bare),
    }


def lists(clients: list[httpx.Client], total: int, size: int, stamp: str) -> float:
    """Admissions a second when every API process gets lists of ``size``, one caller each."""
    admitted = [0] * len(clients)

    def call(worker: int) -> None:
        for start in range(worker * size, total, size * len(clients)):
            items = [body(number, stamp) for number in range(start, min(start + size, total))]
            answer = clients[worker].post("/v1/requests", json=items)
            assert answer.status_code == 200, answer.text
            admitted[worker] += sum(result["lease"] is not None for result in answer.json()["results"])

    threads = [threading.Thread(target=call, args=(worker,)) for worker in range(len(clients))]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    assert sum(admitted) == total, f"{total - sum(admitted)} of {total} requests were refused"
    return total / seconds


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=400, help="single requests that are timed")
    parser.add_argument("--list-total", type=int, default=4000, help="requests sent in lists")
    parser.add_argument("--list-size", type=int, default=500, help="requests in one list")
    parser.add_argument("--clouds", default="1,4,16,50")
    parser.add_argument("--api-processes", default="1,2")
    parser.add_argument("--signed", action="store_true", help="sign all messages, as `spotfed up` does")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"lists": []}
    with ExitStack() as stack:
        redis_url = os.environ.get("SPOTFED_REDIS_URL")
        if redis_url is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="spotfed-bench-"))
            redis_url = stack.enter_context(EmbeddedRedis(Path(directory))).url
        for clouds in map(int, arguments.clouds.split(",")):
            for api_processes in map(int, arguments.api_processes.split(",")):
                with federation(redis_url, clouds, api_processes, signed=arguments.signed) as clients:
                    if "single" not in results:
                        results["single"] = single(redis_url, clients[0], arguments.requests)
                    for client in clients:  # warm up
                        lists([client], 50, 50, f"warm-{id(client)}")
                    rate = lists(clients, arguments.list_total, arguments.list_size, "list")
                results["lists"].append(
                    {"clouds": clouds, "api_processes": api_processes, "admissions_per_s": rate}
                )
                if not arguments.json:
                    print(
                        f"clouds {clouds:3d}  API processes {api_processes}  {rate:8.0f} admissions/s",
                        flush=True,
                    )
    if arguments.json:
        print(json.dumps(results))
        return
    one = results["single"]
    print(
        f"one POST /v1/requests: p50 {one['post_p50_ms']:.2f} ms, p99 {one['post_p99_ms']:.2f} ms; "
        f"bare Celery round trip: p50 {one['bare_p50_ms']:.2f} ms, p99 {one['bare_p99_ms']:.2f} ms; "
        f"ratio of p50 {one['ratio_p50']:.2f}"
    )


if __name__ == "__main__":
    main()
