"""The cost of waiting for a replica: two federations on the same servers, of which one waits.

    python -m tests.bench.bench_replication [--requests 300] [--lists 20] [--json]

A primary and a replica, both with ``appendfsync always``, and three Sentinels run on this machine. One POST
/v1/requests after the other goes to each federation in turn, then lists of 256. Prints p50 and p99 in ms,
admissions a second, and the ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from broker.identity.store import let_in_operator
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from tests.bench.bench_admission import Processes, body, federation_text
from tests.integration.sentinel_servers import sentinel_servers
from tests.support.ports import free_port
from tests.support.wait import wait_until

LIST = 256
#: SPOTFED_REDIS_REPLICAS of each federation; its name is its key prefix too.
REPLICAS = {"alone": "0", "waits": "1"}


@contextmanager
def federation(url: str, directory: Path, name: str) -> Iterator[httpx.Client]:
    """A cloud and an API, once they admit."""
    directory.mkdir()
    file = directory / "federation.toml"
    file.write_text(federation_text(1))
    processes = Processes(directory, url, signed=False)
    processes.environment |= {"SPOTFED_REDIS_REPLICAS": REPLICAS[name], "SPOTFED_KEY_PREFIX": f"{name}:"}
    keys = RedisKeys(f"{name}:")
    with connect(url) as client:
        let_in_operator(client, keys, "bench", "bench")
        port = free_port()
        try:
            processes.start(
                "-m", "workers.owner", "--cloud", "c0", "--federation", str(file),
                "--time", "wall", "--speed", "1", "--history", "48h", "--samples", "1000",
            )  # fmt: skip
            processes.start("-m", "workers.montecarlo", "--name", name)
            processes.start("-m", "broker.api", "--port", str(port))

            def has_table() -> bool:
                advert = client.get(keys.advert("c0"))
                return advert is not None and bool(json.loads(advert)["table_version"])

            wait_until(has_table, "the table", 180)
            address = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=address, headers={"Authorization": "Bearer bench"}, timeout=60) as api:
                wait_until(lambda: api.get("/readyz").status_code == 200, "the API", 180)
                yield api
        finally:
            processes.stop()


def measure(requests: int, lists: int) -> dict[str, dict[str, float]]:
    """Run both, by name."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spotfed-bench-")))
        servers = stack.enter_context(sentinel_servers(directory / "servers", appendfsync="always"))
        clients = {
            name: stack.enter_context(federation(servers.url, directory / name, name)) for name in REPLICAS
        }
        singles: dict[str, list[float]] = {name: [] for name in REPLICAS}
        seconds = dict.fromkeys(REPLICAS, 0.0)
        for number in range(-50, requests):  # the first fifty warm both up
            for name, api in clients.items():
                began_s = time.perf_counter()
                answer = api.post("/v1/requests", json=body(number + 50, "single"))
                assert answer.status_code == 201, answer.text
                singles[name] += [1000 * (time.perf_counter() - began_s)] if number >= 0 else []
        for number in range(lists):
            batch = [body(item, f"list{number}") for item in range(LIST)]
            for name, api in clients.items():
                began_s = time.perf_counter()
                answer = api.post("/v1/requests", json=batch)
                seconds[name] += time.perf_counter() - began_s
                assert all(result["lease"] is not None for result in answer.json()["results"]), answer.text
    return {
        name: {
            "p50_ms": statistics.median(singles[name]),
            "p99_ms": statistics.quantiles(singles[name], n=100)[98],
            "admissions_per_s": lists * LIST / seconds[name],
        }
        for name in REPLICAS
    }


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--lists", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found: dict[str, Any] = dict(measure(arguments.requests, arguments.lists))
    found["ratio"] = {key: found["waits"][key] / value for key, value in found["alone"].items()}
    if arguments.json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return 0
    for name, figures in found.items():
        text = ", ".join(f"{key} {value:,.2f}" for key, value in figures.items())
        sys.stdout.write(f"{name:>6}: {text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
