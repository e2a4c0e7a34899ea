"""How long nobody is admitted after a kill -9, with 100,000 entries in the journal.

    python -m tests.bench.bench_kills [--entries 100000] [--times 3]

A federation as ``spotfed up`` runs it, one cloud, supervised, on its embedded Redis. Killed are the API,
Redis and the owner, in turn; timed is from the kill to the first request that is admitted.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from tests.bench.targets import line
from tests.support.ports import free_port

TARGET_S = 3.0
KEYS, CLOUD = RedisKeys(), "c0"
#: What the cloud's own users leave in the journal an hour of replayed history, about.
_ENTRIES_AN_HOUR = 130
_LIMIT_S = 120.0
_LULL_S = 11.0  # a process that ran for so long is started again at once


def first_admission(url: str, key: str, stamp: str) -> None:
    """Returns when a request was admitted."""
    deadline_s, number = time.monotonic() + _LIMIT_S, 0
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=5) as api:
        while time.monotonic() < deadline_s:
            number += 1
            wish = {"id": f"{stamp}-{number}", "origin": "bench", "cores": 1, "lifetime_s": 1.0}
            try:
                if api.post("/v1/requests", json=wish).status_code == 201:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.02)
    raise TimeoutError(f"no request was admitted in {_LIMIT_S:.0f} s")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=3)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spotfed-bench-") as name:
        directory, hours = Path(name), told.entries // _ENTRIES_AN_HOUR
        file = directory / "federation.toml"
        trace = f'{{ synthetic = "table-1", hours = {hours + 100}, seed = 1 }}'
        file.write_text(f'[[cloud]]\nid = "{CLOUD}"\nnodes = "20x4"\ntrace = {trace}\n')
        options = f"--time wall --speed 1 --history {hours}h --samples 500 --seed 1".split()
        layout = ProcessList(file, (CLOUD,), tuple(options), port=free_port())
        with LocalFederation(layout, directory / "state") as local:
            assert local.redis_url is not None
            with connect(local.redis_url) as queue:
                entries = queue.xlen(KEYS.journal(CLOUD))
            redis_record = directory / "state" / "redis" / "server.json"
            victims: dict[str, Callable[[], int]] = {
                "API": lambda: local.pids["api"],
                "Redis": lambda: int(json.loads(redis_record.read_text())["pid"]),
                "owner": lambda: local.pids[f"cloud-{CLOUD}"],
            }
            first_admission(layout.url, local.api_key, "first")
            for victim, pid in victims.items():
                took_s = []
                for number in range(told.times):
                    time.sleep(_LULL_S)
                    began_s = time.monotonic()
                    os.kill(pid(), signal.SIGKILL)
                    first_admission(layout.url, local.api_key, f"{victim}-{number}")
                    took_s.append(time.monotonic() - began_s)
                what = f"{victim} killed, {entries:,} entries: median of {told.times} to an admission"
                print(line(what, statistics.median(took_s), "s", TARGET_S))


if __name__ == "__main__":
    main()
