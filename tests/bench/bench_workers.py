"""Two Monte-Carlo workers against one: real processes on the embedded server make the same tables.

    python -m tests.bench.bench_workers [--data ../shared/data] [--repeats 3] [--json]

Each table is made from scratch, that is from the whole history by workers without checkpoints, through the
owner's own ``Refresher``. ``one_s`` and ``two_s`` are the medians of the repeats, taken in turn; the goal is
a ratio of 1.8, or 1.7 where a table takes a second and its results have 28 MB. Wants two idle cores.

Where they are not idle, ``ratio_cpu`` says what the division of the work allows: the CPU seconds of one
worker by those of the busier of two, the medians of the repeats. ``both_cpu_s`` are those of the two
together, and ``redis_cpu_s`` those of the queue. The rest is waiting for the disk: the server syncs each
result before it answers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from broker.contract import Batch
from broker.journal.journal import Journal
from broker.queue.send import send_batch
from broker.storage.embedded_server import EmbeddedRedis
from cloudsim.history.event_log import EventLog
from tests.bench import bench_prediction, bench_scale
from tests.integration.worker_processes import Processes
from tests.support.wait import wait_until
from workers.owner.table_refresh import Refresher, Sampling

NAMES = ("one", "two")


class Cloud:
    """What a table is made of."""

    goal = 1.8

    def __init__(self, what: str, node_cores: tuple[int, ...], log: EventLog, until_s: float, births: int):
        self.what, self.node_cores, self.log = what, node_cores, log
        self.until_s, self.births = until_s, births
        self.sizes = np.unique(log.cores).tolist()


def wide() -> Cloud:
    """200 nodes of 64 cores, 6 sizes."""
    case = bench_scale.Case(nodes=200, instances=60_000, births=1000)
    log = bench_scale.admitted(case)
    return Cloud(
        "200 x 64", (bench_scale.CORES,) * case.nodes, log, bench_scale.DAYS * bench_scale.DAY_S, case.births
    )


def recorded(data: Path) -> Cloud:
    """DS5 with DS6 as spot on 31 x 32, ten times the usual births: the usual ones take half a second."""
    on_demand = bench_prediction.recorded(data / "eucalyptus" / "DS5-trace.txt")
    spot = bench_prediction.recorded(data / "eucalyptus" / "DS6-trace.txt", bench_prediction.DAY_S)
    until_s = max(stop for _, stop, _ in on_demand if stop < np.inf) + 1.0
    nodes = (32,) * 31
    cloud = Cloud(
        "DS5 and spot DS6, 31 x 32",
        nodes,
        bench_prediction.admitted(nodes, on_demand, spot, until_s),
        until_s,
        100_000,
    )
    cloud.goal = 1.7
    return cloud


def cpu_s(process: psutil.Process) -> float:
    """CPU seconds of a process and its children so far."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def table_s(processes: Processes, cloud: Cloud, epoch: int) -> tuple[float, str, int]:
    """Seconds until the table is there, its version, and the batches it took."""
    sent = 0

    def send(queue: str, batch: Batch) -> None:
        nonlocal sent
        sent += 1
        send_batch(processes.app, queue, batch.model_dump(mode="json"))

    journal = Journal(processes.client, processes.keys, "A")
    sampling = Sampling("A", epoch, cloud.node_cores, seed=1, births=cloud.births)
    refresher = Refresher(sampling, journal, send, time.monotonic)
    began = time.perf_counter()
    refresher.begin(cloud.until_s, cloud.sizes, cloud.log)
    table = wait_until(refresher.step, "a table", limit_s=600.0)
    took_s = time.perf_counter() - began
    processes.client.delete(processes.keys.history("A", epoch))
    return took_s, table.version, sent


def measure(
    server: EmbeddedRedis, directory: Path, clouds: list[Cloud], repeats: int
) -> list[dict[str, Any]]:
    """All clouds, with one worker and with two in turn."""
    took: dict[tuple[str, int], list[float]] = {}
    busiest: dict[tuple[str, int], list[float]] = {}
    together: dict[tuple[str, int], list[float]] = {}
    queue_s: dict[tuple[str, int], list[float]] = {}
    queue = psutil.Process(server.pid)
    versions: dict[str, set[str]] = {}
    batches = {}
    for repeat in range(repeats):
        for workers in (1, 2):
            below = directory / f"{repeat}-{workers}"
            below.mkdir()
            with Processes(server.url, below) as processes:
                for name in NAMES[:workers]:
                    processes.montecarlo(name)
                listed = partial(processes.client.zcard, processes.keys.samplers)
                wait_until(lambda: listed() == workers, f"{workers} workers")  # noqa: B023
                for number, cloud in enumerate(clouds):
                    # The first table also makes connections and loads what numba compiled.
                    programs = [queue, *(psutil.Process(each.pid) for each in processes.running)]
                    before_s: list[float] = []
                    for epoch in (2 * number + 1, 2 * number + 2):
                        before_s = list(map(cpu_s, programs))
                        seconds, version, batches[cloud.what] = table_s(processes, cloud, epoch)
                    spent_s = [
                        cpu_s(program) - before for program, before in zip(programs, before_s, strict=True)
                    ]
                    took.setdefault((cloud.what, workers), []).append(seconds)
                    queue_s.setdefault((cloud.what, workers), []).append(spent_s[0])
                    busiest.setdefault((cloud.what, workers), []).append(max(spent_s[1:]))
                    together.setdefault((cloud.what, workers), []).append(sum(spent_s[1:]))
                    versions.setdefault(cloud.what, set()).add(version)
    lines = []
    for cloud in clouds:
        assert len(versions[cloud.what]) == 1, "tables depend on the workers"
        one_s, two_s = (statistics.median(took[cloud.what, workers]) for workers in (1, 2))
        one_cpu_s, two_cpu_s = (statistics.median(busiest[cloud.what, workers]) for workers in (1, 2))
        lines.append(
            {
                "cloud": cloud.what,
                "events": len(cloud.log),
                "sizes": len(cloud.sizes),
                "births": cloud.births,
                "batches": batches[cloud.what],
                "one_s": round(one_s, 2),
                "two_s": round(two_s, 2),
                "ratio": round(one_s / two_s, 2),
                "one_cpu_s": round(one_cpu_s, 2),
                "two_cpu_s": round(two_cpu_s, 2),
                "both_cpu_s": round(statistics.median(together[cloud.what, 2]), 2),
                "ratio_cpu": round(one_cpu_s / two_cpu_s, 2),
                "redis_cpu_s": round(statistics.median(queue_s[cloud.what, 2]), 2),
                "goal": cloud.goal,
            }
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "data")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    clouds = [wide(), recorded(arguments.data)]
    with tempfile.TemporaryDirectory() as directory, EmbeddedRedis(Path(directory) / "redis") as server:
        lines = measure(server, Path(directory), clouds, arguments.repeats)
    for line in lines:
        if arguments.json:
            sys.stdout.write(json.dumps(line) + "\n")
        else:
            sys.stdout.write("  ".join(f"{name} {value}" for name, value in line.items()) + "\n")


if __name__ == "__main__":
    main()
