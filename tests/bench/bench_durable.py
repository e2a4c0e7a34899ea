"""Admissions that survive a power failure: Redis with ``appendfsync always``, as the product runs it.

    python -m tests.bench.bench_durable [--rate 50] [--seconds 20] [--clouds 4] [--api-processes 1]

Prints the latency of POST /v1/requests, one request each, sent at a fixed rate whatever the answers take
(each is timed from the moment at which it was due), the admissions a second in lists, and the CPU time that
an admission costs each process: on a machine that does other things too, that says more than the rate.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import httpx

from broker.storage.embedded_server import EmbeddedRedis
from tests.bench import cpu
from tests.bench.bench_admission import body, federation, lists
from tests.bench.targets import line, percentile

P50_MS, P99_MS, PER_S = 15.0, 60.0, 2000.0
_WARM_UP = 100


async def open_loop(client: httpx.Client, rate: float, seconds: float) -> list[float]:
    """Latencies in ms, the first ones left out."""
    took_ms: list[float] = []
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
    async with httpx.AsyncClient(
        base_url=client.base_url, headers=client.headers, limits=limits, timeout=30
    ) as api:

        async def one(number: int, due_s: float) -> None:
            answer = await api.post("/v1/requests", json=body(number, "open"))
            assert answer.status_code == 201, answer.text
            if number >= _WARM_UP:
                took_ms.append((time.perf_counter() - due_s) * 1000)

        began_s = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(round(rate * seconds) + _WARM_UP):
                due_s = began_s + number / rate
                await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
                group.create_task(one(number, due_s))
    return took_ms


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=50.0, help="single requests a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--clouds", type=int, default=4)
    parser.add_argument("--api-processes", type=int, default=1)
    parser.add_argument("--list-total", type=int, default=8000)
    parser.add_argument("--list-size", type=int, default=500)
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 2], help="at the same time")
    told = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="spotfed-bench-") as directory,
        EmbeddedRedis(Path(directory), appendfsync="always") as server,
        federation(server.url, told.clouds, told.api_processes, signed=True) as clients,
    ):
        before = cpu.spent_s()
        took_ms = asyncio.run(open_loop(clients[0], told.rate, told.seconds))
        singles = cpu.each_us(before, cpu.spent_s(), len(took_ms) + _WARM_UP)
        name = f"one POST /v1/requests, {told.rate:g} a second, {len(took_ms)} timed"
        print(line(f"{name}: p50", percentile(took_ms, 50), "ms", P50_MS))
        print(line(f"{name}: p99", percentile(took_ms, 99), "ms", P99_MS))
        lists(clients, 200, 50, "warm")
        for callers in told.callers:
            before = cpu.spent_s()
            rate = lists(clients * callers, told.list_total, told.list_size, f"list-{callers}")
            listed = cpu.each_us(before, cpu.spent_s(), told.list_total)
            name = f"lists of {told.list_size}, {told.clouds} clouds, callers of each API process: {callers}"
            print(line(name, rate, "/s", PER_S, at_most=False))
    for name, spent in (("one by one", singles), ("in lists", listed)):
        parts = ", ".join(f"{role} {us:,.0f}" for role, us in spent.items())
        print(f"CPU of an admission {name}, us: {parts}; in all {sum(spent.values()):,.0f}")


if __name__ == "__main__":
    main()
